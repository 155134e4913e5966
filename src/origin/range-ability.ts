/**
 * Learns whether an origin supports range requests, so whether parts may be requested from it: of all its resources, and of single
 * ones that turned out to have no parts of use.
 */

import { ExpiringMap } from '../http/collections.ts';

/** The operator's statement about an origin's ranges: find out, never request them, or always supported. */
export type RangeMode = 'auto' | 'never' | 'always';

/** What is known about the ranges of an origin, or of one of its resources, and the observations that change it. */
export interface RangeSupport {
  /** Whether a part may be requested while there are no bytes yet: if the whole arrives instead, it is of use. */
  readonly mayRequestPart: boolean;
  /** Whether a part may be requested where the whole would be of no use, because it is being transferred or stored already. */
  readonly mayRequestFurtherPart: boolean;
  /**
   * Whether the client's suffix range is passed on as it is: parts may arrive, and it is not known whether they can be combined
   * with others.
   */
  readonly mayRequestTail: boolean;
  /** Whether the origin is known to send parts, so that bytes that are not fetched now can be fetched alone later. */
  readonly isKnown: boolean;
  /** Whether the origin sent a wrong part less than `forgetAfterMs` ago: the bytes of its earlier parts must be compared. */
  readonly isDistrusted: boolean;
  /** The knowledge in one word, for people; `no` also while no parts are requested, or no further ones. */
  readonly known: 'unknown' | 'yes' | 'no';
  /** Notes a part that matched its request. */
  noteParts(): void;
  /** Notes the whole in place of a requested part. One such resource says nothing about an origin that sends parts of others. */
  noteWhole(): void;
  /** Notes a part that cannot be combined with others. As `noteWhole`, but such a part is of no use at all. */
  noteUncombinable(): void;
  /** Notes a response that did not match its request. The reason is logged once. */
  distrust(reason: string): void;
}

/** What is known about the ranges of one resource. */
export interface ResourceRanges extends RangeSupport {
  /** Why the resource is not asked for parts, though its origin may be; undefined where it is like the others. */
  readonly refusal: string | undefined;
  /** Notes that parts of this resource are of no use, which says nothing about the others of its origin. The reason is for people. */
  refuse(reason: string): void;
}

/** What is known about an origin's ranges. */
export interface RangeAbility extends RangeSupport {
  /** Returns what is known of one resource, by its cache key. */
  of(key: string): ResourceRanges;
}

/** Resources that are remembered for an origin. A stranger can make them up, so there is a bound; the first are forgotten first. */
const MAX_RESOURCES = 10_000;

/** The options of a range ability. */
export interface RangeAbilityOptions {
  readonly mode: RangeMode;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** How long no parts are requested from an origin that sent none, in milliseconds. */
  readonly forgetAfterMs: number;
  /** Called when the origin becomes distrusted: again only if it was trusted in between. */
  readonly onDistrust: (reason: string) => void;
}

/** Creates an ability that learns from responses. An origin without ranges may support them later, so it is tried again. */
export function createRangeAbility({ mode, now, forgetAfterMs, onDistrust }: RangeAbilityOptions): RangeAbility {
  const refusals = new ExpiringMap<string>(MAX_RESOURCES);
  let notBeforeAt = Number.NEGATIVE_INFINITY;
  let notMoreBeforeAt = Number.NEGATIVE_INFINITY;
  let isKnown = mode === 'always';
  let isDistrusted = false;
  let isUnnamed = false;
  const mayAsk = () => (mode === 'auto' ? now() >= notBeforeAt : mode === 'always');
  const refrain = () => {
    notBeforeAt = now() + forgetAfterMs;
    isKnown = mode === 'always';
  };
  const ability: RangeAbility = {
    of: (key) => ofResource(ability, key, refusals, { now, forgetAfterMs }),
    get mayRequestPart() {
      return mayAsk();
    },
    get mayRequestFurtherPart() {
      return mayAsk() && (mode === 'always' || now() >= notMoreBeforeAt);
    },
    get mayRequestTail() {
      return mode === 'auto' && !isKnown && (isUnnamed || mayAsk());
    },
    get isKnown() {
      return isKnown;
    },
    get isDistrusted() {
      return mode === 'auto' && isDistrusted && now() < notBeforeAt;
    },
    get known() {
      if (!mayAsk()) return 'no';
      if (isKnown) return 'yes';
      return now() < notMoreBeforeAt ? 'no' : 'unknown';
    },
    noteParts() {
      // A response to a request from before the distrust does not restore trust.
      if (now() < notBeforeAt) return;
      isKnown = mode !== 'never';
      isDistrusted = false;
      notMoreBeforeAt = Number.NEGATIVE_INFINITY;
    },
    noteWhole() {
      if (!isKnown) notMoreBeforeAt = now() + forgetAfterMs;
    },
    noteUncombinable() {
      if (isKnown) return;
      refrain();
      isUnnamed = true;
    },
    distrust(reason) {
      refrain();
      isUnnamed = false;
      if (!isDistrusted) onDistrust(reason);
      isDistrusted = true;
    },
  };
  return ability;
}

function ofResource(
  origin: RangeSupport,
  key: string,
  refusals: ExpiringMap<string>,
  { now, forgetAfterMs }: Pick<RangeAbilityOptions, 'now' | 'forgetAfterMs'>,
): ResourceRanges {
  const isRefused = () => refusals.get(key, now()) !== undefined;
  return {
    get refusal() {
      return refusals.get(key, now());
    },
    get mayRequestPart() {
      return !isRefused() && origin.mayRequestPart;
    },
    get mayRequestFurtherPart() {
      return !isRefused() && origin.mayRequestFurtherPart;
    },
    get mayRequestTail() {
      return !isRefused() && origin.mayRequestTail;
    },
    get isKnown() {
      return !isRefused() && origin.isKnown;
    },
    get isDistrusted() {
      return isRefused() || origin.isDistrusted;
    },
    get known() {
      return isRefused() ? 'no' : origin.known;
    },
    noteParts: () => origin.noteParts(),
    noteWhole: () => origin.noteWhole(),
    noteUncombinable: () => origin.noteUncombinable(),
    distrust: (reason) => origin.distrust(reason),
    refuse: (reason) => refusals.set(key, reason, now() + forgetAfterMs),
  };
}
