/** The simplest model of what a store keeps: lists of entries in a map, some of them pinned. */

import { maxPins } from '../../src/store/pins.ts';
import type { Sample } from '../support/stored-sample.ts';

/** The bytes of one generation, and which of its blocks are there. */
export interface ModelBody extends Required<Sample> {
  readonly present: Set<number>;
}

/** One generation as the model knows it. */
export interface ModelEntry {
  readonly generation: string;
  readonly body: ModelBody;
  isComplete: boolean;
  mark: number | string;
  pinnedUntil: number | undefined;
}

/** The entries of all keys. */
export class EntryModel {
  readonly #clock: { readonly now: number };
  /** The last put first; those whose pin has ended are left out when they are looked for. */
  readonly #entries = new Map<string, readonly ModelEntry[]>();

  constructor(clock: { readonly now: number }) {
    this.#clock = clock;
  }

  /** What is found: those that are current, then those that are pinned still. */
  under(key: string): ModelEntry[] {
    const kept = this.#kept(key);
    const pinned = kept.filter(({ pinnedUntil = 0 }) => pinnedUntil > this.#clock.now);
    return [...kept.filter(({ pinnedUntil }) => pinnedUntil === undefined), ...pinned];
  }

  /** A generation, if it is current. */
  current(key: string, generation: string): ModelEntry | undefined {
    return this.#kept(key).find((other) => other.generation === generation && other.pinnedUntil === undefined);
  }

  put(generation: string, body: ModelBody, isComplete: boolean, pinPreviousUntil = 0): void {
    let pinCount = 0;
    const others = this.#kept(body.key).filter((other) => {
      if (other.generation === generation) return false;
      if (other.body.variant !== body.variant) return true;
      if (other.pinnedUntil === undefined) other.pinnedUntil = other.isComplete ? pinPreviousUntil : 0;
      if (other.pinnedUntil <= this.#clock.now) return false;
      pinCount += 1;
      return pinCount <= maxPins;
    });
    const entry = { generation, body, isComplete, mark: body.seed, pinnedUntil: undefined };
    this.#entries.set(body.key, [entry, ...others]);
  }

  remove(key: string, generation: string): void {
    this.#entries.set(
      key,
      this.#kept(key).filter((other) => other.generation !== generation),
    );
  }

  removeKey(key: string): void {
    this.#entries.delete(key);
  }

  #kept(key: string): readonly ModelEntry[] {
    return this.#entries.get(key) ?? [];
  }
}
