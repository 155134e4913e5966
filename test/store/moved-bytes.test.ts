/** Bytes that the system moves from body files to sockets: only the right ones, checked within the last minute. */

import { copyFile, rename, truncate } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { flipBit } from '../support/stores/damage.ts';
import { openTestStore } from '../support/stores/disk-store.ts';
import { SteeredMoves } from '../support/stores/moves.ts';
import {
  block,
  found,
  move,
  piece,
  readBy,
  right,
  sample,
  sizeBytes,
  storeThatWasRead,
} from '../support/stores/moving-store.ts';
import { SteeredReads } from '../support/stores/quick-reads.ts';
import { sampleMetadata, storePart, storeSample, writeBlocks } from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

describe('bytes that are moved', () => {
  it('are the head and then the span, however little the socket takes at once', async () => {
    const { entry, moves, reads } = await storeThatWasRead();
    const reader = await entry.open();
    const places = fc.record({
      start: fc.nat(sizeBytes - 1),
      length: fc.integer({ min: 1, max: sizeBytes }),
      head: fc.uint8Array({ maxLength: 20 }),
      rooms: fc.array(fc.integer({ min: 1, max: block }), { minLength: 1, maxLength: 5 }),
      from: fc.constantFrom(entry, reader),
      passedMs: fc.nat(900),
    });
    fc.assert(
      fc.property(places, ({ start, length, head, rooms, from, passedMs }) => {
        reads.pass(passedMs);
        const end = Math.min(start + length, sizeBytes);
        const whole = Buffer.concat([head, right(start, end)]);
        let taken = 0;
        for (let at = 0; taken < whole.length; at += 1) {
          moves.roomBytes = rooms[at % rooms.length] ?? 1;
          const rest = Buffer.from(head).subarray(taken);
          const count = move(from, start + Math.max(0, taken - head.length), end, rest) ?? 0;
          expect(count).toBeGreaterThan(0);
          taken += count;
        }
        expect(moves.taken().equals(whole)).toBe(true);
      }),
    );
    reader.close();
  });

  it('are at most a MiB at once', async () => {
    const { store, moves } = await storeThatWasRead();
    const large = { key: 'large', sizeBytes: 1024 * 1024 + 3 * piece, seed: 2 };
    const entry = await storeSample(store, large);
    const reader = await entry.open();
    expect(move(reader, 5, large.sizeBytes)).toBe(1024 * 1024);
    expect(moves.taken().equals(patternBytes(5, 1024 * 1024 + 5, 2))).toBe(true);
    reader.close();
  });

  it('are none where the socket takes none', async () => {
    const { entry, moves } = await storeThatWasRead();
    moves.roomBytes = 0;
    expect(move(entry, 0, 10, Buffer.from('head'))).toBe(0);
    expect(entry.canMove?.(0, 10)).toBe(true);
  });

  it('end with the body, even if the span goes beyond', async () => {
    const { entry, moves } = await storeThatWasRead();
    const reader = await entry.open();
    expect(entry.canMove?.(sizeBytes - 10, sizeBytes + 1)).toBe(false);
    expect(move(reader, sizeBytes - 10, sizeBytes + 100)).toBe(10);
    expect(moves.taken()).toEqual(right(sizeBytes - 10, sizeBytes));
    expect(move(reader, sizeBytes, sizeBytes + 1)).toBe(0);
    expect(move(reader, sizeBytes - 3, Number.POSITIVE_INFINITY)).toBe(3);
    reader.close();
  });

  it('are none where the system has no such call', async () => {
    const { entry } = await storeThatWasRead(false);
    expect([entry.canMove?.(0, 10), move(entry, 0, 10)]).toEqual([false, 0]);
  });

  it('bypass a memory tier in front', async () => {
    const { store, moves } = await storeThatWasRead();
    const tiered = createTieredStore(createMemoryTier({ maxSizeBytes: 64 * block }), store, () => 0);
    const entry = await found(tiered);
    const reader = await entry.open();
    expect([entry.canMove?.(3, 30), move(entry, 3, 30), move(reader, 30, 50)]).toEqual([true, 27, 20]);
    expect(moves.taken()).toEqual(right(3, 50));
    reader.close();
    expect(move(reader, 30, 50)).toBe(0);
  });
});

describe('pieces that need a check are checked before they are moved', () => {
  it('and no other pieces', async () => {
    const { entry, reads } = await storeThatWasRead();
    const rows: readonly [start: number, end: number, count: number, bytes: number][] = [
      [1, 2, 1, piece],
      [0, piece, 0, 0],
      [0, 3 * piece, 1, 2 * piece],
      [piece, 4 * piece, 1, piece],
      [0, block, 0, 0],
      [3 * piece, block + 1, 1, piece],
      [0, sizeBytes, 2, 3 * piece + piece + 100],
      [0, sizeBytes, 0, 0],
    ];
    for (const [start, end, count, bytes] of rows) {
      expect(readBy(reads, () => expect(move(entry, start, end)).toBe(end - start))).toEqual([count, bytes]);
    }
  });

  it('when `canMove` is called', async () => {
    const { entry, reads } = await storeThatWasRead();
    expect(readBy(reads, () => expect(entry.canMove?.(5, block)).toBe(true))).toEqual([1, block]);
    expect(readBy(reads, () => expect(move(entry, 5, block)).toBe(block - 5))).toEqual([0, 0]);
  });

  it('and once more within a minute, not within half of it', async () => {
    const { entry, reads } = await storeThatWasRead();
    const checkedBytes = () => readBy(reads, () => expect(move(entry, 0, block)).toBe(block))[1];
    expect(checkedBytes()).toBe(block);
    for (let at = 0; at < 33; at += 1) {
      reads.pass(900);
      // Now and then a piece that was sent is checked again.
      expect(checkedBytes()).toBeLessThanOrEqual(piece);
    }
    reads.pass(30_300);
    expect(checkedBytes()).toBe(block);
  });

  it('unless reads have been slow lately: nothing unchecked is moved then', async () => {
    const { entry, reads, moves } = await storeThatWasRead();
    expect(move(entry, 0, 10)).toBe(10);
    reads.readMs = 65;
    reads.diskReads = 1;
    expect(entry.canMove?.(block, block + 10)).toBe(true);
    expect(entry.canMove?.(2 * block, 2 * block + 10)).toBe(false);
    expect(move(entry, 2 * block, 2 * block + 10)).toBe(0);
    // Pieces that were checked before can still be moved.
    expect(move(entry, 0, 10)).toBe(10);
    expect(moves.count).toBe(2);
  });

  /** Leaves the file idle until it is closed, and has it opened again. */
  async function reopen(
    { entry, reads, files }: Awaited<ReturnType<typeof storeThatWasRead>>,
    meanwhile = async () => {},
  ) {
    reads.pass(10_000);
    reads.pass(10_000);
    await expect.poll(() => files.open).toEqual([]);
    await meanwhile();
    expect([entry.canMove?.(0, piece), move(entry, 0, piece)]).toEqual([false, 0]);
    await expect.poll(() => files.open).toHaveLength(1);
  }

  it('not again in a file that was closed and is unchanged when it is opened again', async () => {
    const opened = await storeThatWasRead();
    const { entry, reads } = opened;
    // The state of the file is not known from its writing, so the first reopening checks it again.
    await reopen(opened);
    await expect.poll(() => entry.canMove?.(0, piece)).toBe(true);
    expect(readBy(reads, () => expect(move(entry, 0, block)).toBe(block))).toEqual([1, 3 * piece]);
    await reopen(opened);
    await expect.poll(() => entry.move?.(99, Buffer.alloc(0), 0, piece)).toBe(piece);
    expect(readBy(reads, () => expect(move(entry, 0, block)).toBe(block))).toEqual([0, 0]);
  });

  it.each<[name: string, change: (body: string) => Promise<void>, isSound: boolean]>([
    ['that was damaged meanwhile', (body) => flipBit(body, piece), false],
    ['that was copied meanwhile', (body) => copyFile(body, `${body}~`).then(() => rename(`${body}~`, body)), true],
  ])('again in a file %s', async (_name, change, isSound) => {
    const opened = await storeThatWasRead();
    const { entry, reads, body } = opened;
    await reopen(opened);
    await expect.poll(() => entry.canMove?.(0, block)).toBe(true);
    await reopen(opened, () => change(body));
    await expect.poll(() => entry.canMove?.(0, piece)).toBe(true);
    const moved = isSound ? block : 0;
    expect(readBy(reads, () => expect(move(entry, 0, block)).toBe(moved))).toEqual([1, 3 * piece]);
  });
});

it('a body of many blocks is moved from a file that was opened again', async () => {
  const quickReads = { ...new SteeredReads().options, move: new SteeredMoves().move };
  const opened = { blockSizeBytes: piece, quickReads };
  const { store, dir } = await openTestStore(opened);
  // The sidecar is read in pages of 512 blocks.
  const large = { key: 'k', sizeBytes: 1025 * piece, seed: 1 };
  await storeSample(store, large);
  await store.close();
  const { store: later } = await openTestStore({ ...opened, dir });
  const entry = await found(later);
  const reader = await entry.open();
  for (const at of [0, 511, 512, 1024]) {
    await expect.poll(() => entry.canMove?.(at * piece, (at + 1) * piece)).toBe(true);
    expect(move(reader, at * piece, (at + 1) * piece)).toBe(piece);
  }
  reader.close();
});

describe('unsound bytes are never moved:', () => {
  it.each<[name: string, at: number, start: number, end: number, moved: number]>([
    ['in the first piece', 5, 0, sizeBytes, 0],
    ['in a piece of the block', block - 1, 0, sizeBytes, 0],
    ['in a piece that is not wanted', block - 1, 0, 3 * piece, 3 * piece],
    ['in a later block', block + 5, 0, sizeBytes, block],
    ['in the last piece', sizeBytes - 1, block, sizeBytes, block],
  ])('damage %s', async (_name, at, start, end, moved) => {
    const { store, entry, body, moves, events } = await storeThatWasRead();
    await flipBit(body, at, 3);
    const reader = await entry.open();
    expect(entry.canMove?.(start, end)).toBe(moved === end - start);
    expect(move(reader, start, end)).toBe(moved);
    expect(moves.taken().equals(right(start, start + moved))).toBe(true);
    expect(events).toEqual([]);
    // A read of the block reports the damage.
    await expect(reader.readBlock(Math.floor(at / block))).rejects.toMatchObject({ code: 'bytes_gone' });
    reader.close();
    expect(await found(store)).toMatchObject({ isComplete: false });
    expect(entry.canMove?.(at, at + 1)).toBe(false);
  });

  it('damage to bytes that are sent over and over, after at most 200 times their size', async () => {
    const { entry, body } = await storeThatWasRead();
    expect(move(entry, 0, sizeBytes)).toBe(sizeBytes);
    await flipBit(body, piece + 7);
    let sentBytes = 0;
    // The clock stands still, so the check before the damage does not expire.
    while (entry.canMove?.(0, block) === true && sentBytes < 1000 * sizeBytes)
      sentBytes += move(entry, 0, sizeBytes) ?? 0;
    expect(entry.canMove?.(0, block)).toBe(false);
    expect(sentBytes).toBeLessThan(200 * sizeBytes);
  });

  it('damage after a check, a minute later', async () => {
    const { entry, reads, body } = await storeThatWasRead();
    expect(entry.canMove?.(0, sizeBytes)).toBe(true);
    await flipBit(body, block + piece);
    for (let at = 0; at < 66; at += 1) {
      reads.pass(910);
      entry.canMove?.(0, 1);
    }
    const reader = await entry.open();
    expect([entry.canMove?.(0, sizeBytes), move(reader, 0, sizeBytes)]).toEqual([false, block]);
    reader.close();
  });

  it('damage that a read has found, although the piece was checked before', async () => {
    const { entry, body } = await storeThatWasRead();
    expect(entry.canMove?.(0, sizeBytes)).toBe(true);
    await flipBit(body, piece);
    expect(entry.readNow?.(piece, piece + 1)).toBeUndefined();
    expect([entry.canMove?.(piece, piece + 1), entry.canMove?.(0, 1), entry.canMove?.(block, sizeBytes)]).toEqual([
      false,
      true,
      true,
    ]);
  });

  it('a truncated file: nothing beyond its end, before and after a read finds that', async () => {
    const { entry, body, moves } = await storeThatWasRead();
    expect(entry.canMove?.(0, sizeBytes)).toBe(true);
    await truncate(body, piece + 10);
    expect(move(entry, 0, block)).toBe(piece + 10);
    expect(moves.taken()).toEqual(right(0, piece + 10));
    expect(move(entry, piece + 10, block)).toBe(0);
    expect(entry.readNow?.(piece + 10, block)).toBeUndefined();
    expect([entry.canMove?.(0, block), move(entry, 0, block)]).toEqual([false, 0]);
    expect([entry.canMove?.(0, piece), move(entry, 0, piece)]).toEqual([true, piece]);
  });

  it('a block that is absent', async () => {
    const { store } = await storeThatWasRead();
    const part = await storePart(store, { ...sample, key: 'part' }, [1]);
    const reader = await part.open();
    expect([move(reader, 0, 10), move(reader, block - 1, block + 10)]).toEqual([0, 0]);
    expect(move(reader, block, sizeBytes)).toBe(block);
    await using writer = await store.resume(part);
    if (writer !== undefined) await writeBlocks(writer, block, sample, [0]);
    expect(move(reader, 0, sizeBytes)).toBe(2 * block);
    reader.close();
  });

  it('a block that was not read since the store was opened, before a check of the whole block', async () => {
    const { store, dir, quickReads, reads, body } = await storeThatWasRead();
    await store.close();
    await flipBit(body, block + 5);
    const { store: later } = await openTestStore({ dir, blockSizeBytes: block, quickReads });
    const reader = await (await found(later)).open();
    expect(readBy(reads, () => expect(move(reader, 0, 10)).toBe(10))).toEqual([1, block]);
    expect(readBy(reads, () => expect(move(reader, 0, 2 * piece)).toBe(2 * piece))).toEqual([1, piece]);
    expect(move(reader, block + piece, sizeBytes)).toBe(0);
    expect(move(reader, 0, sizeBytes)).toBe(block);
    reader.close();
  });

  it('a lost block that is written again, before another check', async () => {
    const { store, entry, body, reads } = await storeThatWasRead();
    expect(entry.canMove?.(0, sizeBytes)).toBe(true);
    await flipBit(body, 5);
    const reader = await entry.open();
    await expect(reader.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(move(reader, 0, 10)).toBe(0);
    await using writer = await store.resume(await found(store));
    await writer?.writeBlock(0, patternBytes(0, block, 1));
    await writer?.commit({ metadata: sampleMetadata(1), sizeBytes });
    expect(readBy(reads, () => expect(move(reader, 0, block)).toBe(block))).toEqual([1, block]);
    reader.close();
  });
});

describe('a file that is closed', () => {
  it('is not moved from by a closed reader', async () => {
    const { entry } = await storeThatWasRead();
    const reader = await entry.open();
    reader.close();
    expect(move(reader, 0, 10)).toBe(0);
  });

  it('is not moved from after the store is closed, and none is left open', async () => {
    const { store, entry, moves, files } = await storeThatWasRead();
    const reader = await entry.open();
    expect(move(reader, 0, 10)).toBe(10);
    await store.close();
    expect([move(reader, 0, 10), move(entry, 0, 10), entry.canMove?.(0, 10), moves.count]).toEqual([0, 0, false, 1]);
    await untilQuiet(() => files.openings);
    expect(files.open).toEqual([]);
  });

  it('is not opened again where the entry is gone', async () => {
    const { store, entry, files, events } = await storeThatWasRead();
    await store.removeEntry(entry);
    await expect.poll(() => files.open).toEqual([]);
    expect(entry.canMove?.(0, 10)).toBe(false);
    await files.done();
    expect({ open: files.open, events }).toEqual({ open: [], events: [] });
  });
});

it('a body in the index is not moved', async () => {
  const { store, moves } = await storeThatWasRead();
  const entry = await storeSample(store, { key: 'small', sizeBytes: 100, seed: 3 });
  const reader = await entry.open();
  expect([entry.canMove?.(0, 10), move(entry, 0, 10), reader.move, moves.count]).toEqual([false, 0, undefined, 0]);
  reader.close();
});
