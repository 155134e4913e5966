/** The simplest model of the entries of a store: lists in a map, some of the entries pinned. */

import type { StoredResponse } from '../../src/http/stored-response.ts';
import { maxPins } from '../../src/store/entry-rules.ts';
import { type Sample, sampleMetadata, taggedMetadata } from '../support/stores/stored-sample.ts';

/** All tags that entries of the model have. */
export const modelTags = ['red', 'green', 'blue'] as const;

/** Returns the metadata of a mark, with no, one or several tags. */
export function markedMetadata(mark: number | string): StoredResponse {
  const tags = tagsOf(mark);
  return tags.length === 0 ? sampleMetadata(mark) : taggedMetadata(mark, tags);
}

/** The bytes of one generation, and which of its blocks are present. */
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
  /** The last put first. Generations whose pins have ended are skipped by `under`. */
  readonly #entries = new Map<string, readonly ModelEntry[]>();

  constructor(clock: { readonly now: number }) {
    this.#clock = clock;
  }

  /** Returns the entries that a look-up finds: the current ones, then the pinned ones. */
  under(key: string): ModelEntry[] {
    const kept = this.#kept(key);
    const pinned = kept.filter(({ pinnedUntil = 0 }) => pinnedUntil > this.#clock.now);
    return [...kept.filter(({ pinnedUntil }) => pinnedUntil === undefined), ...pinned];
  }

  /** Returns a generation if it is current. */
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

  /** Removes the entries with a tag; returns the keys under which any could be found, sorted. */
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

/** Returns the tags of a mark: each bit of its last character stands for one tag. */
function tagsOf(mark: number | string): string[] {
  const last = String(mark).charCodeAt(String(mark).length - 1);
  return modelTags.filter((_, at) => ((last >> at) & 1) === 1);
}
