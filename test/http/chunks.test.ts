import { expect, it } from 'vitest';
import { type BodyStream, Chunks, type NextChunk } from '../../src/http/message.ts';

const letters = ['a', 'b', 'c'].map((letter) => Buffer.from(letter));

/** A body of three chunks. `atOnce` says which of them `take` returns at once. */
function createBody(atOnce: readonly boolean[] | undefined): BodyStream {
  let index = 0;
  const next = () => letters[index++];
  const take = (): NextChunk => (atOnce?.[index] === true ? (next() ?? 'end') : 'later');
  return {
    ...(atOnce === undefined ? {} : { take }),
    close: () => {},
    async *[Symbol.asyncIterator]() {
      for (let chunk = next(); chunk !== undefined; chunk = next()) yield chunk;
    },
  };
}

const all = [true, true, true, true];

it.each<[name: string, atOnce: readonly boolean[] | undefined, promises: number]>([
  ['without `take`', undefined, 4],
  ['with all chunks at once', all, 0],
  ['with the first chunk at once', [true], 3],
  ['with the last chunk and the end at once', [false, false, true, true], 2],
  ['with all but the second at once', [true, false, true, true], 1],
])('a body %s returns each chunk once, with as few promises as possible', async (_name, atOnce, promises) => {
  const chunks = new Chunks(createBody(atOnce));
  const got: string[] = [];
  let waits = 0;
  for (;;) {
    const coming = chunks.next();
    if (coming instanceof Promise) waits += 1;
    const chunk = await coming;
    if (chunk === undefined) break;
    got.push(Buffer.from(chunk).toString());
  }
  expect([got.join(''), waits]).toEqual(['abc', promises]);
});

it('reads at most 8 KiB of a body that was just moved, and then as much as there is', () => {
  const wanted: (number | undefined)[] = [];
  const body: BodyStream = {
    take: (wantedBytes) => {
      wanted.push(wantedBytes);
      return letters[0] ?? 'end';
    },
    close: () => {},
    async *[Symbol.asyncIterator]() {},
  };
  const chunks = new Chunks(body);
  const rooms = [5, 6, 0, 0, 7, 0];
  const outlet = { move: () => rooms.shift() ?? 0 };
  const moves = Array.from({ length: 6 }, () => {
    const moved = chunks.move(outlet);
    if (moved === undefined) chunks.next();
    return moved;
  });
  expect(moves).toEqual([5, 6, undefined, undefined, 7, undefined]);
  expect(wanted).toEqual([8 * 1024, undefined, 8 * 1024]);
});

it('fails with the error of its body', async () => {
  const body: BodyStream = {
    take: () => 'later',
    close: () => {},
    // biome-ignore lint/correctness/useYield: it fails before its first chunk
    async *[Symbol.asyncIterator]() {
      throw new Error('broken');
    },
  };
  await expect(new Chunks(body).next()).rejects.toThrow('broken');
});
