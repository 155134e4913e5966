import { describe, expect, it } from 'vitest';
import { createCountedDelivery } from '../../src/guard/counted-delivery.ts';
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

  it('has nothing to take from a body that has not, and no trailers', () => {
    const { take: _, ...body } = bodyOf([]);
    const counted = createCountedDelivery(body, () => {});
    expect([counted.take, counted.trailers]).toEqual([undefined, undefined]);
  });

  it('closes what it counts', () => {
    const body = bodyOf([1]);
    createCountedDelivery(body, () => {}).close();
    expect(body.isClosed).toBe(true);
  });
});
