/** What an origin is known to support: whether it can be asked for parts. */

/** What the operator says of an origin's ranges: to be found out, never to be asked for, or there for sure. */
export type RangeMode = 'auto' | 'never' | 'always';

/** What is known now, and what teaches it. */
export interface RangeAbility {
  /** Whether a part may be asked for. */
  readonly mayAsk: boolean;
  /** Whether parts are known to come, so that what is not fetched now can be had later by itself. */
  readonly isKnown: boolean;
  /** A part came as it was asked for. */
  noteParts(): void;
  /** The whole came where a part was asked for, or a part that cannot be combined with others. */
  noteWhole(): void;
  /** What came was neither; the reason is for the log, once. */
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
  let isKnown = mode === 'always';
  let isDistrusted = false;
  const refrain = () => {
    notBeforeAt = now() + forgetAfterMs;
    isKnown = mode === 'always';
  };
  return {
    get mayAsk() {
      return mode === 'auto' ? now() >= notBeforeAt : mode === 'always';
    },
    get isKnown() {
      return isKnown;
    },
    noteParts() {
      // The answer to a question that was asked before an origin was distrusted does not rehabilitate it.
      if (now() < notBeforeAt) return;
      isKnown = mode !== 'never';
      isDistrusted = false;
    },
    noteWhole() {
      refrain();
    },
    distrust(reason) {
      refrain();
      if (!isDistrusted) onDistrust(reason);
      isDistrusted = true;
    },
  };
}
