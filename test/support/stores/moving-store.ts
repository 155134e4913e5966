/** A disk store with moves, and an entry of it that was read once. */

import { expect } from 'vitest';
import type { Store, StoredEntry } from '../../../src/store/store.ts';
import { patternBytes } from '../values/pattern-body.ts';
import { CountedFileSystem } from './counted-file-system.ts';
import { bodyFiles, openTestStore } from './disk-store.ts';
import { FailingFileSystem } from './failing-file-system.ts';
import { SteeredMoves } from './moves.ts';
import { SteeredReads } from './quick-reads.ts';
import { findFirst, readKey, storeSample } from './stored-sample.ts';

/** The size of a piece, the unit of checksums, in bytes. */
export const piece = 8 * 1024;
export const block = 4 * piece;
/** Size of the entry, in bytes: two blocks, a piece, and a part of a piece. */
export const sizeBytes = 2 * block + piece + 100;
/** The stored entry. */
export const sample = { key: 'k', sizeBytes, seed: 1 };
const socket = 99;
const noHead = new Uint8Array();

/** Opens a store with an entry that was read once, so that all of its pieces are verified. */
export async function storeThatWasRead(hasMoves = true) {
  const reads = new SteeredReads();
  const moves = new SteeredMoves();
  const files = new CountedFileSystem(new FailingFileSystem().fileSystem);
  const quickReads = { ...reads.options, ...(hasMoves && { move: moves.move }) };
  const opened = await openTestStore({ blockSizeBytes: block, quickReads, fileSystem: files.fileSystem });
  await storeSample(opened.store, sample);
  expect(await readKey(opened.store, 'k')).toEqual(right(0, sizeBytes));
  const [body = ''] = await bodyFiles(opened.dir);
  return { ...opened, quickReads, reads, moves, files, body, entry: await found(opened.store) };
}

/** Finds the entry in the store. */
export async function found(store: Store): Promise<StoredEntry> {
  const entry = await findFirst(store, 'k');
  if (entry === undefined) throw new Error('not stored');
  return entry;
}

/** Returns the right bytes of the entry. */
export const right = (start: number, end: number) => Buffer.from(patternBytes(start, end, 1));
/** Moves a span, and returns the bytes moved. A reader moves what it can; an entry, which has `canMove`, all or nothing. */
export const move = (from: Pick<StoredEntry, 'canMove' | 'move'>, start: number, end: number, head = noHead) =>
  from.canMove?.(start, end) === false ? 0 : from.move?.(socket, head, start, end);

/** Returns the number of reads during an action, and their bytes. */
export function readBy(reads: SteeredReads, action: () => void): readonly [count: number, bytes: number] {
  const { count, bytes } = reads;
  action();
  return [reads.count - count, reads.bytes - bytes];
}
