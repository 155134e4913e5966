import { describe, expect, it } from 'vitest';
import { createCountedDelivery } from '../../src/guard/limits/allowances.ts';
import type { BodyStream, NextChunk } from '../../src/http/message.ts';

/** Returns a body with chunks of these sizes. A chunk with a negative size is not available at once. */
function bodyOf(sizes: readonly number[]): BodyStream & { isClosed: boolean } {
  let at = 0;
  const body = {
    isClosed: false,
    take(): NextChunk {
      const size = sizes[at];
      if (size === undefined) return 'end';
      if (size < 0) return 'later';
      at += 1;
      return new Uint8Array(size);
    },
    async *[Symbol.asyncIterator]() {
      while (at < sizes.length) {
        at += 1;
        yield new Uint8Array(Math.abs(sizes[at - 1] ?? 0));
      }
    },
    close() {
      this.isClosed = true;
    },
  };
  return body;
}

describe('createCountedDelivery', () => {
  it('reports a chunk when the iteration reaches the next one', async () => {
    const reported: number[] = [];
    const seen: number[][] = [];
    for await (const _ of createCountedDelivery(bodyOf([3, 5, 7]), (bytes) => reported.push(bytes)))
      seen.push([...reported]);
    expect(seen).toEqual([[], [3], [3, 5]]);
    expect(reported).toEqual([3, 5, 7]);
  });

  it('reports a chunk when the next one is taken or awaited', async () => {
    const reported: number[] = [];
    const counted = createCountedDelivery(bodyOf([3, -5, 7]), (bytes) => reported.push(bytes));
    const chunks = counted[Symbol.asyncIterator]();
    expect(counted.take?.()).toHaveLength(3);
    expect(reported).toEqual([]);
    expect(counted.take?.()).toBe('later');
    expect(reported).toEqual([3]);
    expect((await chunks.next()).value).toHaveLength(5);
    expect(counted.take?.()).toHaveLength(7);
    expect(reported).toEqual([3, 5]);
    expect(counted.take?.()).toBe('end');
    expect(reported).toEqual([3, 5, 7]);
  });

  it('passes on how many bytes are wanted', () => {
    const wanted: unknown[] = [];
    const take = (bytes?: number): NextChunk => {
      wanted.push(bytes);
      return 'end';
    };
    const counted = createCountedDelivery({ ...bodyOf([]), take }, () => {});
    counted.take?.();
    counted.take?.(5);
    expect(wanted).toEqual([undefined, 5]);
  });

  it('reports moved bytes at once, and the chunk before them', () => {
    const reported: number[] = [];
    const moves = [4, 0, 2, 9];
    const body = Object.assign(bodyOf([3, 5]), { moveTo: () => moves.shift() ?? 0 });
    const counted = createCountedDelivery(body, (bytes) => reported.push(bytes));
    const head = new Uint8Array(2);
    expect(counted.take?.()).toHaveLength(3);
    expect(reported).toEqual([]);
    expect(counted.moveTo?.(1, head)).toBe(4);
    expect(reported).toEqual([3, 2]);
    expect(counted.take?.()).toHaveLength(5);
    expect([counted.moveTo?.(1, head), counted.moveTo?.(1, head)]).toEqual([0, 2]);
    expect(reported).toEqual([3, 2, 5]);
    expect(counted.moveTo?.(1, new Uint8Array())).toBe(9);
    expect(counted.take?.()).toBe('end');
    expect(reported).toEqual([3, 2, 5, 9]);
  });

  it('has no moveTo and trailers where the body has none, and gives nothing at once where it cannot', () => {
    const { take: _, ...body } = bodyOf([]);
    const counted = createCountedDelivery(body, () => {});
    expect([counted.take?.(), counted.moveTo, counted.trailers]).toEqual(['later', undefined, undefined]);
  });

  it('closes its body', () => {
    const body = bodyOf([1]);
    createCountedDelivery(body, () => {}).close();
    expect(body.isClosed).toBe(true);
  });
});
