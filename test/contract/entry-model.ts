/** The simplest model of what a store keeps: lists of entries in a map, some of them pinned. */

import type { StoredResponse } from '../../src/http/stored-response.ts';
import { maxPins } from '../../src/store/entry-rules.ts';
import { type Sample, sampleMetadata, taggedMetadata } from '../support/stores/stored-sample.ts';

/** All tags that entries of the model have. */
export const modelTags = ['red', 'green', 'blue'] as const;

/** The metadata of a mark; some have no tag, some have several. */
export function markedMetadata(mark: number | string): StoredResponse {
  const tags = tagsOf(mark);
  return tags.length === 0 ? sampleMetadata(mark) : taggedMetadata(mark, tags);
}

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

  /** Removes what has the tag; tells under which keys it was found. */
  removeTagged(tag: string): string[] {
    const hasTag = ({ mark }: ModelEntry) => tagsOf(mark).includes(tag);
    const keys = [...this.#entries.keys()].filter((key) => this.under(key).some(hasTag));
    for (const [key, entries] of this.#entries) {
      const left = entries.filter((entry) => !hasTag(entry));
      this.#entries.set(key, left);
    }
    return keys.sort();
  }

  #kept(key: string): readonly ModelEntry[] {
    return this.#entries.get(key) ?? [];
  }
}

/** Each bit of the last character stands for one of the tags. */
function tagsOf(mark: number | string): string[] {
  const last = String(mark).charCodeAt(String(mark).length - 1);
  return modelTags.filter((_, at) => ((last >> at) & 1) === 1);
}
