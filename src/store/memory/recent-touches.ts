/** How often things were wanted lately: roughly, in little room, and without a name for any of them. */

/** A power of two; things that fall together are counted together. */
const counterCount = 2 ** 14;
const maxCount = 255;

/** Counts touches. What was long ago counts less and less: after so many touches as a window has, all counts are halved. */
export class RecentTouches {
  readonly #counts = new Uint8Array(counterCount);
  #inWindow = 0;

  /** Counts a touch of the thing that this number stands for; tells how many it has had lately. */
  touch(number: number, windowSize: number): number {
    this.#inWindow += 1;
    if (this.#inWindow > windowSize) this.#age();
    // The multiplication spreads neighbours over the table (Knuth's multiplicative hashing).
    const at = (Math.imul(number, 0x9e3779b1) >>> 0) & (counterCount - 1);
    const count = Math.min((this.#counts[at] ?? 0) + 1, maxCount);
    this.#counts[at] = count;
    return count;
  }

  #age(): void {
    this.#inWindow = 0;
    for (let at = 0; at < counterCount; at += 1) this.#counts[at] = (this.#counts[at] ?? 0) >> 1;
  }
}
