/** Steps that are taken one after the other. */

/** A step that need not wait for another one begins in the call that asks for it: most writers have one at a time. */
export class StepQueue {
  /** The last step that was asked for and is not over; never rejects. */
  #last: Promise<void> | undefined;

  /** Takes a step when those before it are over, done or failed; gives what it gives. */
  take<T>(step: () => Promise<T>): Promise<T> {
    const taken = this.#last === undefined ? step() : this.#last.then(step);
    const end = () => {
      if (this.#last === ended) this.#last = undefined;
    };
    const ended = taken.then(end, end);
    this.#last = ended;
    return taken;
  }

  /** Resolves when all steps that were asked for are over. */
  async settled(): Promise<void> {
    await this.#last;
  }
}
