/** Steps that make something findable, for those who have to wait until the ones that were begun are over. */

/** The steps that are being taken. */
export class Steps {
  #taken: Set<Promise<void>> | undefined;

  /** Takes a step. */
  take<T>(step: () => Promise<T>): Promise<T> {
    const taken = step();
    const over = (): void => void this.#taken?.delete(ended);
    const ended: Promise<void> = taken.then(over, over);
    this.#taken ??= new Set();
    this.#taken.add(ended);
    return taken;
  }

  /** Waits for those that have been begun. Never rejects. */
  async settled(): Promise<void> {
    await Promise.all(this.#taken ?? []);
  }
}
