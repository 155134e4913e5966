/** Results that are remembered by the texts that led to them: those that were of use lately, and no more than so many. */

/** So many are remembered at least, and twice as many at most. */
const KEPT = 1024;

/** Longer texts, in characters, are not remembered: clients may write what they want. */
const MAX_TEXT_LENGTH = 1024;

/** Two tables that take turns: what is not asked for until both were filled anew is forgotten. */
export class Remembered<V extends object> {
  #recent = new Map<string, V>();
  #earlier = new Map<string, V>();

  /** What is remembered of a text. */
  find(text: string): V | undefined {
    const recent = this.#recent.get(text);
    if (recent !== undefined) return recent;
    const earlier = this.#earlier.get(text);
    if (earlier !== undefined) this.keep(text, earlier);
    return earlier;
  }

  /** Remembers it from now on. */
  keep(text: string, result: V): void {
    if (text.length > MAX_TEXT_LENGTH) return;
    if (this.#recent.size >= KEPT) {
      this.#earlier = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(text, result);
  }
}
