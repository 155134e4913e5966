/** What entries and blocks weigh in memory: their bytes, and an honest guess of what the objects around them take. */

import { fillsItsMemory } from '../../bytes/own-memory.ts';
import type { StoredResponse } from '../../http/stored-response.ts';

/** The objects around one block: a view, its ArrayBuffer, a place in a list or map and its key. */
const blockOverheadBytes = 320;
/** The objects around one entry: the record itself, places in two maps, the list of its variants. */
const entryOverheadBytes = 1024;
/** The objects around one field: an array of two strings and their headers. */
const fieldOverheadBytes = 96;
/** The objects around one tag: a place in a list, one in the index of tags, and there a set of those that have it. */
const tagOverheadBytes = 320;

/** What a block takes in memory, in bytes. */
export function blockWeight(sizeBytes: number): number {
  return sizeBytes + blockOverheadBytes;
}

/** What an entry takes in memory without its blocks, in bytes. */
export function entryWeight(key: string, variant: string, metadata: StoredResponse): number {
  let bytes = entryOverheadBytes + 2 * (key.length + variant.length);
  for (const [name, value] of metadata.fields) bytes += fieldOverheadBytes + name.length + value.length;
  for (const [name, value] of [...metadata.nominated, ...(metadata.selected ?? [])]) {
    bytes += fieldOverheadBytes + name.length + (value?.length ?? 0);
  }
  for (const name of metadata.identity?.names ?? []) bytes += fieldOverheadBytes + name.length;
  for (const tag of metadata.tags ?? []) bytes += tagOverheadBytes + tag.length;
  return bytes;
}

/** The same bytes in memory that is theirs but for a little, so that keeping a small view does not keep a big pool alive. */
export function withOwnBuffer(bytes: Uint8Array): Uint8Array {
  return fillsItsMemory(bytes) ? bytes : new Uint8Array(bytes);
}
