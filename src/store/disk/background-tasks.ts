/** Work that nobody waits for, except whoever closes the store. */

/** Knows what is going on in the background. */
export class BackgroundTasks {
  readonly #running = new Set<Promise<void>>();

  /** Lets a task go on. Its failure is nobody's: what must be told of it, it tells itself. */
  add(task: Promise<unknown>): void {
    const running: Promise<void> = task
      .then(
        () => {},
        () => {},
      )
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Resolves when nothing goes on any more, what began meanwhile included. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
