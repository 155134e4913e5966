import { describe, expect, it } from 'vitest';
import { createCountedDelivery } from '../../src/guard/limits/allowances.ts';
import type { BodyStream, Taken } from '../../src/http/message.ts';

/** A body of chunks of these sizes; those that are to be waited for are negative. */
function bodyOf(sizes: readonly number[]): BodyStream & { isClosed: boolean } {
  let at = 0;
  const body = {
    isClosed: false,
    take(): Taken {
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

describe('a delivery that is counted', () => {
  it('tells of a chunk when the next one is iterated to', async () => {
    const told: number[] = [];
    const seen: number[][] = [];
    for await (const _ of createCountedDelivery(bodyOf([3, 5, 7]), (bytes) => told.push(bytes))) seen.push([...told]);
    expect(seen).toEqual([[], [3], [3, 5]]);
    expect(told).toEqual([3, 5, 7]);
  });

  it('tells of a chunk when the next one is taken, or waited for', async () => {
    const told: number[] = [];
    const counted = createCountedDelivery(bodyOf([3, -5, 7]), (bytes) => told.push(bytes));
    const chunks = counted[Symbol.asyncIterator]();
    expect(counted.take?.()).toHaveLength(3);
    expect(told).toEqual([]);
    expect(counted.take?.()).toBe('later');
    expect(told).toEqual([3]);
    expect((await chunks.next()).value).toHaveLength(5);
    expect(counted.take?.()).toHaveLength(7);
    expect(told).toEqual([3, 5]);
    expect(counted.take?.()).toBe('end');
    expect(told).toEqual([3, 5, 7]);
  });

  it('has as much taken as is wanted', () => {
    const wanted: unknown[] = [];
    const take = (bytes?: number): Taken => {
      wanted.push(bytes);
      return 'end';
    };
    const counted = createCountedDelivery({ ...bodyOf([]), take }, () => {});
    counted.take?.();
    counted.take?.(5);
    expect(wanted).toEqual([undefined, 5]);
  });

  it('tells of what was moved at once, and of the chunk before it', () => {
    const told: number[] = [];
    const moves = [4, 0, 2, 9];
    const body = Object.assign(bodyOf([3, 5]), { moveTo: () => moves.shift() ?? 0 });
    const counted = createCountedDelivery(body, (bytes) => told.push(bytes));
    const head = new Uint8Array(2);
    expect(counted.take?.()).toHaveLength(3);
    expect(told).toEqual([]);
    expect(counted.moveTo?.(1, head)).toBe(4);
    expect(told).toEqual([3, 2]);
    expect(counted.take?.()).toHaveLength(5);
    expect([counted.moveTo?.(1, head), counted.moveTo?.(1, head)]).toEqual([0, 2]);
    expect(told).toEqual([3, 2, 5]);
    expect(counted.moveTo?.(1, new Uint8Array())).toBe(9);
    expect(counted.take?.()).toBe('end');
    expect(told).toEqual([3, 2, 5, 9]);
  });

  it('has nothing to take from a body that has not, nothing to move, and no trailers', () => {
    const { take: _, ...body } = bodyOf([]);
    const counted = createCountedDelivery(body, () => {});
    expect([counted.take, counted.moveTo, counted.trailers]).toEqual([undefined, undefined, undefined]);
  });

  it('closes what it counts', () => {
    const body = bodyOf([1]);
    createCountedDelivery(body, () => {}).close();
    expect(body.isClosed).toBe(true);
  });
});
