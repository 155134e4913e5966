/** What an origin is known to support: whether it can be asked for parts. */

/** What the operator says of an origin's ranges: to be found out, never to be asked for, or there for sure. */
export type RangeMode = 'auto' | 'never' | 'always';

/** What is known now, and what teaches it. */
export interface RangeAbility {
  /** Whether a part may be asked for where nothing has come yet: the whole, if that is what comes, is of use then. */
  readonly mayAsk: boolean;
  /** Whether a part may be asked for where the whole would be of no use, because it is coming or there already. */
  readonly mayAskMore: boolean;
  /**
   * Whether the end of a representation is asked for as the client did, and no more: parts may come, and it is not known
   * that they can be combined with others.
   */
  readonly mayAskTail: boolean;
  /** Whether parts are known to come, so that what is not fetched now can be had later by itself. */
  readonly isKnown: boolean;
  /** Whether it was found lying about ranges, less than `forgetAfterMs` ago: what its parts brought before is to be compared. */
  readonly isDistrusted: boolean;
  /** What is known of it, for people: `no` also where it is not asked for parts, or not for more of them. */
  readonly known: 'unknown' | 'yes' | 'no';
  /** A part came as it was asked for. */
  noteParts(): void;
  /** The whole came where a part was asked for. One such resource tells nothing of an origin that gives parts of others. */
  noteWhole(): void;
  /** A part came that cannot be combined with others. As `noteWhole`, but such a part is of no use at all. */
  noteUnnamed(): void;
  /** What came was no answer to what was asked; the reason is for the log, once. */
  distrust(reason: string): void;
}

/** What an ability is created with. */
export interface RangeAbilityOptions {
  readonly mode: RangeMode;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** How long an origin that gave no parts is not asked for any, in milliseconds. */
  readonly forgetAfterMs: number;
  /** Told the first time that the origin is distrusted, and again when it was trusted in between. */
  readonly onDistrust: (reason: string) => void;
}

/** Learns from what comes. An origin that has none now may get them later: it is asked again after a while. */
export function createRangeAbility({ mode, now, forgetAfterMs, onDistrust }: RangeAbilityOptions): RangeAbility {
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
  return {
    get mayAsk() {
      return mayAsk();
    },
    get mayAskMore() {
      return mayAsk() && (mode === 'always' || now() >= notMoreBeforeAt);
    },
    get mayAskTail() {
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
      // The answer to a question that was asked before an origin was distrusted does not rehabilitate it.
      if (now() < notBeforeAt) return;
      isKnown = mode !== 'never';
      isDistrusted = false;
      notMoreBeforeAt = Number.NEGATIVE_INFINITY;
    },
    noteWhole() {
      if (!isKnown) notMoreBeforeAt = now() + forgetAfterMs;
    },
    noteUnnamed() {
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
}
