/** Reading ahead: which blocks are asked for before their turn, what they take from the budget, and when they fail. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteBudget, ReadAhead } from '../../src/cache/read/read-ahead.ts';
import { HeldBlocks } from '../support/stores/held-blocks.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 100;
const sizeBytes = 10 * block + 30;
const blockOf = (index: number) => patternBytes(index * block, Math.min((index + 1) * block, sizeBytes));
const bytesOf = (start: number, end: number) => patternBytes(start, end);

function createReader({ budgetBytes = 1_000_000, inMemory = [] as readonly number[] } = {}) {
  const source = new HeldBlocks(blockOf, inMemory);
  const budget = new ByteBudget(budgetBytes);
  return { source, budget, reader: new ReadAhead(source, sizeBytes, { blockSizeBytes: block, budget }) };
}

/** Reads the block at `offset`; the source gives it at once. */
async function readGiven(reader: ReadAhead, source: HeldBlocks, offset: number, end = sizeBytes): Promise<Uint8Array> {
  const reading = reader.read(offset, end);
  await source.give(Math.floor(offset / block));
  return await reading;
}

describe('the next block', () => {
  it('is asked for together with the first one, and is there without waiting when its turn comes', async () => {
    const { source, reader } = createReader();
    const first = reader.read(20, sizeBytes);
    expect(source.asked).toEqual([0, 1]);
    await source.give(1);
    await source.give(0);
    expect(await first).toEqual(bytesOf(20, 100));
    expect(reader.peek(100, sizeBytes)).toEqual(bytesOf(100, 200));
    expect(source.asked).toEqual([0, 1, 2]);
  });

  it('is asked for while a block from memory is sent', () => {
    const { source, reader } = createReader({ inMemory: [0] });
    expect(reader.peek(0, sizeBytes)).toEqual(bytesOf(0, 100));
    expect(source.asked).toEqual([1]);
  });

  it('is not read when it is in memory', async () => {
    const { source, budget, reader } = createReader({ inMemory: [1, 2, 3] });
    await readGiven(reader, source, 0);
    for (const start of [100, 200]) expect(reader.peek(start, sizeBytes)).toEqual(bytesOf(start, start + 100));
    expect([source.asked, budget.takenBytes]).toEqual([[0], 0]);
    expect(reader.peek(300, sizeBytes)).toEqual(bytesOf(300, 400));
    expect([source.asked, budget.takenBytes]).toEqual([[0, 4], block]);
  });

  it('is asked for once only, even if its reader comes before it has arrived', async () => {
    const { source, reader } = createReader();
    await readGiven(reader, source, 0);
    expect(reader.peek(100, sizeBytes)).toBeUndefined();
    const second = reader.read(100, sizeBytes);
    await source.give(1);
    expect(await second).toEqual(bytesOf(100, 200));
    expect(source.asked.filter((index) => index === 1)).toEqual([1]);
  });

  it('is held once it is the current block, and not asked for again for its parts', async () => {
    const { source, reader } = createReader();
    await readGiven(reader, source, 0, 50);
    for (const start of [50, 10, 99]) expect(reader.peek(start, start + 1)).toEqual(bytesOf(start, start + 1));
    expect(source.asked).toEqual([0]);
  });
});

describe('reading ahead', () => {
  const ends: readonly [string, number, number, number[]][] = [
    ['ends with the span, within a block', 0, 100, [0]],
    ['reaches into the block of the last byte', 0, 101, [0, 1]],
    ['ends with the body', 1000, Number.POSITIVE_INFINITY, [10]],
    ['begins where the span begins', 930, sizeBytes, [9, 10]],
  ];
  it.each(ends)('%s: from %i to %d', async (_, start, end, asked) => {
    const { source, reader } = createReader();
    await readGiven(reader, source, start, end);
    expect(source.asked).toEqual(asked);
  });

  it('grows by a block each time that the reader has to wait, up to four blocks', async () => {
    const { source, reader } = createReader();
    await readGiven(reader, source, 0);
    for (const [index, askedUntil] of [
      [1, 3],
      [2, 5],
      [3, 7],
      [4, 8],
      [5, 9],
    ] as const) {
      await readGiven(reader, source, index * block);
      expect(source.asked.at(-1)).toBe(askedUntil);
    }
  });

  it('is one block for a reader that never waits, and again after a seek', async () => {
    const { source, reader } = createReader();
    await readGiven(reader, source, 0);
    await source.give(1);
    for (let index = 1; index < 4; index += 1) {
      expect(reader.peek(index * block, sizeBytes)).toBeDefined();
      expect(source.asked.at(-1)).toBe(index + 1);
      await source.give(index + 1);
    }
    await readGiven(reader, source, 6 * block);
    await readGiven(reader, source, 7 * block);
    expect(source.asked.at(-1)).toBe(9);
    await readGiven(reader, source, 2 * block);
    expect(source.asked.at(-1)).toBe(3);
  });

  it('fails only when the reader asks for the block, which is then tried again', async () => {
    const { source, budget, reader } = createReader();
    await readGiven(reader, source, 0);
    await source.lose(1);
    expect(budget.takenBytes).toBe(0);
    expect(reader.peek(0, sizeBytes)).toEqual(bytesOf(0, 100));
    await source.lose(1);
    const second = reader.read(100, sizeBytes);
    const failure = expect(second).rejects.toMatchObject({ code: 'bytes_gone' });
    await source.lose(1);
    await failure;
    expect(await readGiven(reader, source, 100)).toEqual(bytesOf(100, 200));
  });

  it('fails for a reader that already waits for the block', async () => {
    const { source, reader } = createReader();
    await readGiven(reader, source, 0);
    const failure = expect(reader.read(100, sizeBytes)).rejects.toMatchObject({ code: 'bytes_gone' });
    await source.lose(1);
    await failure;
  });
});

describe('a source with absent blocks', () => {
  const length = 10 * block;

  /** Creates a reader over a source in which only the blocks of the set are there. */
  function createSparse(there: Set<number>, { inMemory = [] as readonly number[], total = length } = {}) {
    const source = new HeldBlocks((index) => bytesOf(index * block, (index + 1) * block), inMemory);
    const budget = new ByteBudget(1_000_000);
    const rules = { blockSizeBytes: block, budget };
    return { source, budget, reader: new ReadAhead(source, total, rules, (index) => there.has(index)) };
  }

  const rows: readonly [string, number[], number[], number, number[]][] = [
    ['is not asked for the next block when that is absent', [0, 2, 3], [], length, [0]],
    ['is asked for the next block when that is there', [0, 1], [], length, [0, 1]],
    ['of unknown length is asked for the next block when that is there', [0, 1], [], Number.POSITIVE_INFINITY, [0, 1]],
    ['of unknown length is not asked for a block that has not come', [0], [], Number.POSITIVE_INFINITY, [0]],
    ['is not asked for a block that is in memory', [0, 1], [1], length, [0]],
  ];
  it.each(rows)('%s', async (_, there, inMemory, total, asked) => {
    const { source, reader } = createSparse(new Set(there), { inMemory, total });
    await readGiven(reader, source, 0, Number.POSITIVE_INFINITY);
    expect(source.asked).toEqual(asked);
  });

  it('is not asked past an absent block by a reader that is several blocks ahead', async () => {
    const { source, reader } = createSparse(new Set([0, 1, 2, 4, 5]));
    for (const index of [0, 1]) await readGiven(reader, source, index * block);
    expect(reader.peek(150, length)).toEqual(bytesOf(150, 200));
    expect(source.asked).toEqual([0, 1, 2]);
  });

  it('is asked for a block that has come meanwhile', async () => {
    const there = new Set([0]);
    const { source, reader } = createSparse(there);
    await readGiven(reader, source, 0, length);
    there.add(1);
    expect(reader.peek(50, length)).toEqual(bytesOf(50, 100));
    expect(source.asked).toEqual([0, 1]);
  });

  it('is asked for the block after one that comes from elsewhere, and the blocks before that are released', async () => {
    const { source, budget, reader } = createSparse(new Set([0, 1, 3, 4]));
    await readGiven(reader, source, 0);
    await source.give(1);
    reader.pass(2 * block, length);
    expect([source.asked, budget.takenBytes]).toEqual([[0, 1, 3], block]);
    for (const index of [0, 1]) expect(reader.peek(index * block, (index + 1) * block)).toBeUndefined();
    reader.close();
    await source.give(3);
    expect(budget.takenBytes).toBe(0);
  });

  it('has its block released when the reader goes on to a block in memory', async () => {
    const { source, reader } = createSparse(new Set([0, 1, 2]), { inMemory: [1] });
    await readGiven(reader, source, 0, block);
    expect(reader.peek(block, 2 * block)).toEqual(bytesOf(100, 200));
    expect(reader.peek(0, block)).toBeUndefined();
  });
});

describe('the budget', () => {
  it('lets a reader that gets no share of it read block by block', async () => {
    const { source, budget, reader } = createReader({ budgetBytes: block - 1 });
    for (let index = 0; index < 3; index += 1) {
      expect(await readGiven(reader, source, index * block)).toEqual(bytesOf(index * block, (index + 1) * block));
    }
    expect([source.asked, budget.takenBytes]).toEqual([[0, 1, 2], 0]);
  });

  it('is shared by all readers, and counts a block until its turn has come', async () => {
    const one = createReader({ budgetBytes: 2 * block });
    const others = [1, 2].map(() => {
      const source = new HeldBlocks(blockOf);
      return { source, reader: new ReadAhead(source, sizeBytes, { blockSizeBytes: block, budget: one.budget }) };
    });
    for (const { reader, source } of [one, ...others]) await readGiven(reader, source, 0);
    expect([one, ...others].map(({ source }) => source.asked)).toEqual([[0, 1], [0, 1], [0]]);
    await one.source.give(1);
    expect(one.budget.takenBytes).toBe(2 * block);
    one.reader.close();
    expect(one.budget.takenBytes).toBe(block);
    others[1]?.reader.peek(0, sizeBytes);
    expect(others[1]?.source.asked).toEqual([0, 1]);
  });

  it('counts only the length of a short last block', async () => {
    const { source, budget, reader } = createReader();
    await readGiven(reader, source, 9 * block);
    expect(budget.takenBytes).toBe(30);
  });

  it('counts the blocks that a closed reader has asked for until they are read, and no more are asked for', async () => {
    for (const end of ['give', 'lose'] as const) {
      const { source, budget, reader } = createReader();
      await readGiven(reader, source, 0);
      reader.close();
      reader.close();
      expect(budget.takenBytes).toBe(block);
      await source[end](1);
      expect(budget.takenBytes).toBe(0);
      expect(source.asked).toEqual([0, 1]);
    }
  });

  it('is given back in full, whatever readers do and in whatever order blocks come', async () => {
    const ask = fc.record({ offset: fc.nat(sizeBytes - 1), length: fc.integer({ min: 1, max: 500 }) });
    const answer = fc.record({ how: fc.constantFrom('give' as const, 'lose' as const), at: fc.nat(8) });
    const steps = fc.array(fc.oneof(ask, answer), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(steps, fc.integer({ min: 0, max: 6 }), async (taken, blocks) => {
        const { source, budget, reader } = createReader({ budgetBytes: blocks * block });
        const pending: Promise<unknown>[] = [];
        for (const step of taken) {
          if ('offset' in step) pending.push(readChecked(reader, step.offset, step.offset + step.length));
          else await answerOne(source, step.how, step.at);
          expect(budget.takenBytes).toBeLessThanOrEqual(blocks * block);
        }
        reader.close();
        for (const index of source.waiting) await source.give(index);
        await Promise.all(pending);
        expect(budget.takenBytes).toBe(0);
      }),
    );
  });
});

/** Reads as delivery does, and checks the bytes. */
async function readChecked(reader: ReadAhead, offset: number, end: number): Promise<void> {
  const blockEnd = Math.min((Math.floor(offset / block) + 1) * block, end, sizeBytes);
  const bytes = reader.peek(offset, end) ?? (await reader.read(offset, end).catch(() => undefined));
  if (bytes !== undefined) expect(bytes).toEqual(bytesOf(offset, blockEnd));
}

async function answerOne(source: HeldBlocks, how: 'give' | 'lose', at: number): Promise<void> {
  const index = source.waiting[at % Math.max(1, source.waiting.length)];
  if (index !== undefined) await source[how](index);
}
