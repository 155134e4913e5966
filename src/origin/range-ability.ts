/**
 * Learns whether an origin supports range requests, so whether parts may be requested from it. An odd answer counts for its URL
 * first: any client can ask for a range that an origin answers badly. It counts for the whole origin once several paths gave one.
 */

import { ExpiringMap } from '../http/collections.ts';

/** The operator's statement about an origin's ranges: find out, never request them, or always supported. */
export type RangeMode = 'auto' | 'never' | 'always';

/**
 * Why no parts of a URL are requested: the origin sent other bytes than it was asked for (`lie`), an answer that is none to a range
 * (`odd`), parts that cannot be combined (`uncombinable`), parts with the status of the whole (`disguised`), or parts whose validator
 * changes from one to the next (`unjoinable`).
 */
export type RangeFault = 'lie' | 'odd' | 'uncombinable' | 'disguised' | 'unjoinable';

/**
 * What else is remembered of a URL: it has refused a further part (`askedOnce`), it has given a part but not the whole (`partsOnly`),
 * it has given the whole in place of a part (`givesWhole`), or it has refused a part and the whole (`refusesAll`).
 */
type Mark = 'askedOnce' | 'givesWhole' | 'partsOnly' | 'refusesAll';

/** A fault, and what was seen, for people: a sentence about the origin ("it ..."). */
export interface RangeRefusal {
  readonly fault: RangeFault;
  readonly reason: string;
}

/** What is known about an origin's ranges. */
export interface RangeAbility {
  /** The knowledge in one word, for people; `no` also while no parts are requested, or no further ones. */
  readonly known: 'unknown' | 'yes' | 'no';
  /** Returns what is known about one URL, and takes the observations about it. `key` is its cache key. */
  of(key: string): RangeSupport;
}

/** What is known about the ranges of one URL, and the observations that change it. */
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
  /** Whether a 200 to a range may hold a part: not where the URL or its origin has been seen to send the whole in place of one. */
  readonly mayDisguiseParts: boolean;
  /** Whether the origin is known to send parts, so that bytes that are not fetched now can be fetched alone later. */
  readonly isKnown: boolean;
  /**
   * Whether an open-ended range may be fetched by several requests: parts of the origin have been joined, and none of this URL was
   * refused after another one. Otherwise one request brings all of it: it may be the only one that the URL answers.
   */
  readonly mayJoinParts: boolean;
  /** Whether the URL has refused a further part, or the origin has refused further parts at several paths. */
  readonly isAskedOnce: boolean;
  /** Whether a wrong part was sent less than `forgetAfterMs` ago: the bytes of earlier parts must be compared. */
  readonly isDistrusted: boolean;
  /** Why no parts of this URL, or of any URL of the origin, are requested for a while; undefined where they may be. */
  readonly refusal: RangeRefusal | undefined;
  /** Notes a part that matched its request. */
  noteParts(): void;
  /** Notes a further part, of the version of an earlier one. */
  noteJoined(): void;
  /** Notes that a further part was refused, although an earlier one of the URL was sent. */
  noteAskedOnce(): void;
  /**
   * Notes a further part, or the whole in its place, with another validator than the earlier one had. A validator may belong to the
   * part, or servers in turn may have different ones. `isPart`: a part came although If-Range did not hold.
   */
  noteUnjoinable(isPart: boolean): void;
  /** Whether the URL has given a part, but not the whole: ranges of clients are passed on as they are. */
  readonly givesPartsOnly: boolean;
  notePartsOnly(): void;
  /** Whether the URL has refused the whole, too, after it had refused a part a few seconds ago: it need not be asked twice again. */
  readonly refusesAll: boolean;
  noteRefusesAll(): void;
  /** Notes the whole in place of a requested part. One such resource says nothing about an origin that sends parts of others. */
  noteWhole(): void;
  /** Notes a part that cannot be combined with others. As `noteWhole`, but such a part is of no use at all. */
  noteUncombinable(): void;
  /**
   * Notes a response that did not match its request: a `lie` where bytes arrived that were not asked for. An `odd` answer counts
   * for this URL alone: "nothing there" proves no lie. The reason is logged, but not again and again.
   */
  distrust(reason: string, fault?: 'lie' | 'odd'): void;
  /** Notes that parts of this URL are of no use, which says nothing about the others of its origin. The reason is not logged. */
  refuse(reason: string, fault: 'odd' | 'disguised'): void;
}

/** The options of a range ability. */
export interface RangeAbilityOptions {
  readonly mode: RangeMode;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** How long no parts are requested of a URL or an origin that gave none, in milliseconds. */
  readonly forgetAfterMs: number;
  /** Called when a URL or the whole origin becomes distrusted: for each of the two at most once in `forgetAfterMs`. */
  readonly onDistrust: (reason: string, scope: 'url' | 'origin') => void;
}

/** A fault counts for the whole origin once it was found at this many paths. */
const pathsPerOrigin = 3;

/** An origin has no parts that can be joined once the validators of this many paths have changed from part to part. */
const unjoinablePaths = 2;

/** How long a URL that has refused a part and the whole is not asked for both again, in milliseconds. */
const refusesAllMs = 10_000;

/** An origin that has refused further parts at this many paths is asked once for each. */
const askedOncePaths = 2;

/** The most URLs of an origin whose faults are remembered; those noted first are forgotten first. */
const maxUrls = 2_000;

/** Creates an ability that learns from responses. An origin without ranges may support them later, so it is tried again. */
export function createRangeAbility(options: RangeAbilityOptions): RangeAbility {
  return new LearntAbility(options);
}

class LearntAbility implements RangeAbility {
  readonly #options: RangeAbilityOptions;
  readonly #refusals = new ExpiringMap<RangeRefusal>(maxUrls);
  readonly #marks: Readonly<Record<Mark, ExpiringMap<true>>> = {
    askedOnce: new ExpiringMap(maxUrls),
    givesWhole: new ExpiringMap(maxUrls),
    partsOnly: new ExpiringMap(maxUrls),
    refusesAll: new ExpiringMap(maxUrls),
  };
  /** For each observation, the paths at which it was made, and until when each counts, in epoch milliseconds. */
  readonly #pathsOf = new Map<RangeFault | 'askedOnce', Map<string, number>>();
  #hasJoined: boolean;
  #askedOnceUntil = Number.NEGATIVE_INFINITY;
  /** The last refusal of the whole origin. */
  #refusal: RangeRefusal | undefined;
  #notBeforeAt = Number.NEGATIVE_INFINITY;
  #notMoreBeforeAt = Number.NEGATIVE_INFINITY;
  #isKnown: boolean;
  /** When a distrust of the origin, and of a URL, may be reported again. */
  readonly #reportAgainAt = { url: Number.NEGATIVE_INFINITY, origin: Number.NEGATIVE_INFINITY };

  constructor(options: RangeAbilityOptions) {
    this.#options = options;
    this.#isKnown = options.mode === 'always';
    this.#hasJoined = this.#isKnown;
  }

  get known(): RangeAbility['known'] {
    if (!this.mayAsk) return 'no';
    if (this.#isKnown) return 'yes';
    return this.mayAskMore ? 'unknown' : 'no';
  }

  get mode(): RangeMode {
    return this.#options.mode;
  }

  get mayAsk(): boolean {
    return this.mode === 'auto' ? this.#now >= this.#notBeforeAt : this.mode === 'always';
  }

  get mayAskMore(): boolean {
    return this.mayAsk && (this.mode === 'always' || this.#now >= this.#notMoreBeforeAt);
  }

  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Why no parts of any URL are requested now. */
  get refusal(): RangeRefusal | undefined {
    return this.mode === 'auto' && this.#now < this.#notBeforeAt ? this.#refusal : undefined;
  }

  /** Whether the last fault of the whole origin was that its parts cannot be combined, however long ago. */
  get isUncombinable(): boolean {
    return this.#refusal?.fault === 'uncombinable';
  }

  get hasJoined(): boolean {
    return this.#hasJoined;
  }

  has(mark: Mark, key: string): boolean {
    return this.#marks[mark].get(key, this.#now) === true;
  }

  note(mark: Mark, key: string, forMs = this.#options.forgetAfterMs): void {
    this.#marks[mark].set(key, true, this.#now + forMs);
  }

  /** Whether the origin has refused further parts, or sent other versions, at several paths. */
  get isAskedOnce(): boolean {
    return this.#now < this.#askedOnceUntil;
  }

  of(key: string): RangeSupport {
    return new UrlRanges(this, key);
  }

  refusalOf(key: string): RangeRefusal | undefined {
    return this.#refusals.get(key, this.#now);
  }

  noteParts(): void {
    // A response to a request from before the distrust does not restore trust.
    if (this.#now < this.#notBeforeAt) return;
    this.#isKnown = this.mode !== 'never';
    this.#refusal = undefined;
    this.#notMoreBeforeAt = Number.NEGATIVE_INFINITY;
  }

  noteJoined(): void {
    this.#hasJoined = true;
  }

  noteAskedOnce(key: string): void {
    this.note('askedOnce', key);
    if (this.#countPaths(key, 'askedOnce') < askedOncePaths) return;
    this.#askedOnceUntil = this.#now + this.#options.forgetAfterMs;
  }

  noteWhole(): void {
    if (!this.#isKnown) this.#notMoreBeforeAt = this.#now + this.#options.forgetAfterMs;
  }

  /** `isOfUrl`: it says nothing about other URLs, however many have it. */
  refuse(key: string, refusal: RangeRefusal, isOfUrl = false): void {
    const { fault } = refusal;
    this.#refusals.set(key, refusal, this.#now + this.#options.forgetAfterMs);
    // Parts that cannot be combined say nothing about an origin that sends parts of others.
    const isProof = fault === 'lie' || fault === 'unjoinable' || (fault === 'uncombinable' && !this.#isKnown);
    const most = fault === 'unjoinable' ? unjoinablePaths : pathsPerOrigin;
    if (!isProof || isOfUrl || this.#countPaths(key, fault) < most) return;
    this.#pathsOf.delete(fault);
    this.#notBeforeAt = this.#now + this.#options.forgetAfterMs;
    this.#isKnown = this.mode === 'always';
    this.#refusal = refusal;
  }

  report(reason: string, scope: 'url' | 'origin'): void {
    if (this.#now < this.#reportAgainAt[scope]) return;
    this.#reportAgainAt[scope] = this.#now + this.#options.forgetAfterMs;
    this.#options.onDistrust(reason, scope);
  }

  /** Returns at how many paths the same was observed of late, with that of `key`. A client can make any number of queries. */
  #countPaths(key: string, fault: RangeFault | 'askedOnce'): number {
    const paths = this.#pathsOf.get(fault) ?? new Map<string, number>();
    this.#pathsOf.set(fault, paths);
    for (const [path, until] of paths) if (until <= this.#now) paths.delete(path);
    paths.set(key.split('?', 1)[0] ?? key, this.#now + this.#options.forgetAfterMs);
    return paths.size;
  }

  get #now(): number {
    return this.#options.now();
  }
}

class UrlRanges implements RangeSupport {
  readonly #origin: LearntAbility;
  readonly #key: string;

  constructor(origin: LearntAbility, key: string) {
    this.#origin = origin;
    this.#key = key;
  }

  get mayRequestPart(): boolean {
    return this.#origin.mayAsk && this.#own === undefined;
  }

  get mayRequestFurtherPart(): boolean {
    return this.#origin.mayAskMore && this.#own === undefined;
  }

  get mayRequestTail(): boolean {
    if (this.#origin.mode !== 'auto') return false;
    if (this.#own !== undefined) return this.#own.fault === 'uncombinable';
    return !this.#origin.isKnown && (this.#origin.isUncombinable || this.#origin.mayAsk);
  }

  get mayDisguiseParts(): boolean {
    if (this.#own?.fault === 'odd') return true;
    return this.mayRequestFurtherPart && !this.#origin.has('givesWhole', this.#key);
  }

  get isKnown(): boolean {
    return this.#origin.isKnown && this.#own === undefined;
  }

  get mayJoinParts(): boolean {
    return this.isKnown && this.#origin.hasJoined && !this.isAskedOnce;
  }

  get isAskedOnce(): boolean {
    return this.#origin.isAskedOnce || this.#origin.has('askedOnce', this.#key);
  }

  get isDistrusted(): boolean {
    const { refusal } = this;
    return refusal !== undefined && refusal.fault !== 'uncombinable' && refusal.fault !== 'unjoinable';
  }

  get refusal(): RangeRefusal | undefined {
    return this.#own ?? this.#origin.refusal;
  }

  noteParts(): void {
    // A response to a request from before the distrust does not restore trust.
    if (this.#own === undefined) this.#origin.noteParts();
  }

  noteJoined(): void {
    if (this.#own === undefined) this.#origin.noteJoined();
  }

  noteAskedOnce(): void {
    this.#origin.noteAskedOnce(this.#key);
  }

  noteUnjoinable(isPart: boolean): void {
    const refusal = { fault: 'unjoinable', reason: 'it sent a further part with another validator' } as const;
    this.#origin.refuse(this.#key, refusal, !isPart);
    this.#origin.noteAskedOnce(this.#key);
  }

  get givesPartsOnly(): boolean {
    return this.#origin.has('partsOnly', this.#key);
  }

  notePartsOnly(): void {
    this.#origin.note('partsOnly', this.#key);
  }

  get refusesAll(): boolean {
    return this.#origin.has('refusesAll', this.#key);
  }

  noteRefusesAll(): void {
    this.#origin.note('refusesAll', this.#key, refusesAllMs);
  }

  noteWhole(): void {
    this.#origin.note('givesWhole', this.#key);
    this.#origin.noteWhole();
  }

  noteUncombinable(): void {
    this.#origin.refuse(this.#key, {
      fault: 'uncombinable',
      reason: 'it sent a part that cannot be combined with others',
    });
  }

  distrust(reason: string, fault: 'lie' | 'odd' = 'odd'): void {
    this.#origin.refuse(this.#key, { fault, reason });
    this.#origin.report(reason, this.#origin.refusal?.fault === 'lie' ? 'origin' : 'url');
  }

  refuse(reason: string, fault: 'odd' | 'disguised'): void {
    this.#origin.refuse(this.#key, { fault, reason });
  }

  get #own(): RangeRefusal | undefined {
    return this.#origin.refusalOf(this.#key);
  }
}

/** Statuses with which origins answer a Range that they do not want, though they send the whole without it. */
export const rangeRefusals: ReadonlySet<number> = new Set([400, 403, 405, 406, 409, 415, 422, 500, 501]);

/** Checks whether a status refuses the whole where a part was sent: it asks for a Range, or is itself a part. */
export function refusesWhole(status: number): boolean {
  return status === 206 || status === 416 || (status < 500 && rangeRefusals.has(status));
}
