/** Something that is only done while it is watched: it goes on for some seconds after the last look. */

/** The parts of a watch. */
interface WatchOptions {
  /** How long it goes on after the last look, in milliseconds. */
  readonly lastsMs: number;
  /** Calls back once after some milliseconds, unless the returned function is called before. Must not keep the process alive. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
  /** Called when the watch ends. */
  readonly onEnd: () => void;
}

/** A watch. It is off until the first look. */
export class Watch {
  readonly #options: WatchOptions;
  #cancel: (() => void) | undefined;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Whether it goes on. Cheap enough to be asked for each request. */
  get isOn(): boolean {
    return this.#cancel !== undefined;
  }

  /** Begins the watch, or prolongs it. */
  look(): void {
    const { lastsMs, after, onEnd } = this.#options;
    this.#cancel?.();
    this.#cancel = after(lastsMs, () => {
      this.#cancel = undefined;
      onEnd();
    });
  }
}
