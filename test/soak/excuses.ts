/** What may break answers off: faults of origins and killed workers, with the time in which clients may notice them. Pure. */

import type { Kind } from './content.ts';

/** After a fault is over, transfers try again for 6.3 seconds by default, and then end. */
const aftermathMs = 20_000;

interface Excuse {
  /** Undefined: all origins. */
  readonly kind: Kind | undefined;
  readonly from: number;
  until: number;
}

/** The causes of cuts and errors so far. */
export class Excuses {
  readonly #all: Excuse[] = [];

  /** Notes that a fault begins, of one kind of origin or of all. Returns a function that notes its end. */
  begin(kind: Kind | undefined, now: number): (now: number) => void {
    const excuse: Excuse = { kind, from: now, until: Number.POSITIVE_INFINITY };
    this.#all.push(excuse);
    return (endedAt) => {
      excuse.until = endedAt + aftermathMs;
    };
  }

  /**
   * Returns whether something explains that a request between these times ended early or with an error. Without a kind, only a
   * fault of the server itself does.
   */
  explain(kind: Kind | undefined, from: number, until: number): boolean {
    return this.#all.some((excuse) => (excuse.kind ?? kind) === kind && excuse.from <= until && from <= excuse.until);
  }
}
