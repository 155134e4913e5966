/** Follows the server's activity by server-sent events. The stream is closed while the page is hidden. */

import { endpoint } from './api.ts';
import type { Activity } from './api-types.ts';
import { History } from './model/history.ts';

/** `away`: the server does not answer, and the page tries again. `paused`: the page is hidden. */
export type LiveState = 'connecting' | 'open' | 'away' | 'paused';

/** Without an event for this long, the connection counts as broken. In milliseconds; the server sends an event each second. */
const silenceMs = 6000;

/** Pause before the next attempt where the browser makes none by itself, in milliseconds. */
const retryMs = 1500;

/** The stream. Listeners are called on each event, and on each change of the state. */
export class Live {
  readonly history = new History();
  readonly #listeners = new Set<() => void>();
  readonly #check: () => void;
  #activity: Activity | undefined;
  #state: LiveState = 'connecting';
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `check` is called when the server refuses the stream: the session may have ended. */
  constructor(check: () => void) {
    this.#check = check;
  }

  /** The newest reading; undefined before the first. */
  get activity(): Activity | undefined {
    return this.#activity;
  }

  get state(): LiveState {
    return this.#state;
  }

  start(): void {
    document.addEventListener('visibilitychange', this.#follow);
    this.#follow();
  }

  stop(): void {
    document.removeEventListener('visibilitychange', this.#follow);
    this.#close();
  }

  /** Returns a function that ends the subscription. */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  readonly #follow = (): void => {
    if (document.visibilityState === 'hidden') {
      this.#close();
      this.#become('paused');
    } else if (this.#source === undefined) {
      this.#open();
      this.#become('connecting');
    }
  };

  #open(): void {
    this.#close();
    const source = new EventSource(endpoint('activity/stream'));
    this.#source = source;
    source.addEventListener('activity', ({ data }: MessageEvent<string>) => this.#receive(data));
    source.addEventListener('error', () => this.#fail(source));
    this.#expectEvent();
  }

  #close(): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = undefined;
  }

  #receive(data: string): void {
    this.#expectEvent();
    this.#activity = JSON.parse(data) as Activity;
    this.history.add(this.#activity);
    this.#state = 'open';
    this.#tell();
  }

  #fail(source: EventSource): void {
    if (source !== this.#source) return;
    this.#become('away');
    // The browser connects again by itself, except where the server has answered with an error.
    if (source.readyState !== EventSource.CLOSED) return;
    this.#check();
    this.#openAfter(retryMs);
  }

  #expectEvent(): void {
    this.#openAfter(silenceMs, () => this.#become('away'));
  }

  #openAfter(ms: number, before?: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      before?.();
      this.#open();
    }, ms);
  }

  #become(state: LiveState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
