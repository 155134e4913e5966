/** The precedents of a listener: what a head like this one was answered with before. */

import type { Precedent } from '../http/message.ts';

/** So many are remembered; the one that came first goes first. */
const maxPrecedents = 4096;

/** Heads that are longer, in characters, are not remembered: the table is to stay small. */
const maxHeadLength = 4096;

/**
 * Precedents by heads, or what a protocol makes of them. A head is a text that says all of a request but the value of its Range
 * field.
 */
export class Precedents<Remembered = Precedent> {
  readonly #byHead = new Map<string, Remembered>();

  /** What is remembered of a head. */
  find(head: string): Remembered | undefined {
    return this.#byHead.get(head);
  }

  /** Remembers it, in place of an earlier one of the same head. */
  put(head: string, remembered: Remembered): void {
    if (head.length > maxHeadLength) return;
    if (this.#byHead.size >= maxPrecedents && !this.#byHead.has(head)) this.#dropFirst();
    this.#byHead.set(head, remembered);
  }

  /** Forgets what does not hold any more. */
  forget(head: string): void {
    this.#byHead.delete(head);
  }

  /** Forgets them all, so that nothing is kept for the sake of precedents that do not hold any more. */
  clear(): void {
    this.#byHead.clear();
  }

  #dropFirst(): void {
    const [first] = this.#byHead.keys();
    if (first !== undefined) this.#byHead.delete(first);
  }
}
