import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BodyHashes } from '../../src/cache/fill/blocks.ts';
import type { Digest } from '../../src/semantics/digest.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = (index: number) => patternBytes(index * 10, index * 10 + 10);
const hashOf = (algorithm: Digest['algorithm'], count: number) =>
  createHash(algorithm)
    .update(patternBytes(0, count * 10))
    .digest('hex');

describe('the hashes of a body', () => {
  it('are right in whatever order the blocks arrive, and read only the blocks that arrived out of order', async () => {
    const order = fc.integer({ min: 0, max: 12 }).chain((count) => {
      const indexes = Array.from({ length: count }, (_, index) => index);
      return fc.shuffledSubarray(indexes, { minLength: 0, maxLength: count }).map((arrivals) => ({ count, arrivals }));
    });
    await fc.assert(
      fc.asyncProperty(order, async ({ count, arrivals }) => {
        const hashes = new BodyHashes(['sha256', 'sha512']);
        let inOrder = 0;
        for (const index of arrivals) {
          hashes.add(index, block(index));
          if (index === inOrder) inOrder += 1;
        }
        expect(hashes.count).toBe(inOrder);
        const read: number[] = [];
        const result = await hashes.finish(count, async (index) => {
          read.push(index);
          return block(index);
        });
        expect(read).toEqual(Array.from({ length: count - inOrder }, (_, index) => inOrder + index));
        expect([...result]).toEqual([
          ['sha256', hashOf('sha256', count)],
          ['sha512', hashOf('sha512', count)],
        ]);
      }),
    );
  });

  it('do not count a block twice', async () => {
    const hashes = new BodyHashes(['sha256']);
    for (const index of [0, 0, 1, 0, 1]) hashes.add(index, block(index));
    const result = await hashes.finish(2, () => expect.fail('all have come'));
    expect(result.get('sha256')).toBe(hashOf('sha256', 2));
  });

  it('can be finished again after a block could not be read', async () => {
    const hashes = new BodyHashes(['sha256']);
    hashes.add(1, block(1));
    const refuse = async (index: number) => {
      if (index === 1) throw new Error('damaged');
      return block(index);
    };
    await expect(hashes.finish(3, refuse)).rejects.toThrow('damaged');
    expect(hashes.count).toBe(1);
    const result = await hashes.finish(3, async (index) => block(index));
    expect(result.get('sha256')).toBe(hashOf('sha256', 3));
  });

  it('read no blocks where no hash is wanted', async () => {
    const hashes = new BodyHashes([]);
    expect([...(await hashes.finish(3, () => expect.fail('nothing is wanted')))]).toEqual([]);
  });
});
