/** How far a representation that is arriving is in the store, where other processes find it. */

import { afterEach, describe, expect, it } from 'vitest';
import type { Answer, Representation } from '../../src/cache/answer.ts';
import { turn } from '../support/clocks/turn.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { createAsked } from '../support/proxies/peer-ground.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';

const blockSizeBytes = 1024;
const sizeBytes = 10_000;

let proxy: WholeProxy;
let origin: RangeOrigin;
let client: AbortController;
let representation: Representation;
afterEach(async () => {
  representation.close();
  await proxy.close();
});

/** Sends the head of a file, and returns the transfer. */
async function begin(file: Parameters<typeof createRangeOrigin>[1] = {}, isChunked = false) {
  proxy = createWholeProxy({ blockSizeBytes, originRanges: 'auto' });
  origin = createRangeOrigin(proxy.origin, { sizeBytes, ...file });
  client = new AbortController();
  const answering = proxy.cache.answer(createAsked(proxy.route, client.signal, { fields: [] }));
  const transfer = await origin.begin((honest) => ({ ...honest, isChunked }));
  const answer: Answer = await answering;
  if (answer.kind !== 'representation') throw new Error('no representation');
  representation = answer.representation;
  return transfer;
}

const storedTo = (offset: number, signal = client.signal) => representation.whenStored?.(offset, sizeBytes, signal);

describe('whenStored', () => {
  it('waits for the block, and tells how far the store has the bytes', async () => {
    const transfer = await begin();
    let told: number | undefined;
    const waiting = storedTo(0)?.then((to) => {
      told = to;
    });
    void transfer.sendTo(1000);
    await turn();
    expect(told).toBeUndefined();
    void transfer.sendTo(3 * blockSizeBytes + 100);
    await waiting;
    await turn();
    expect(told).toBeGreaterThanOrEqual(blockSizeBytes);
    expect(await storedTo(500)).toBe(3 * blockSizeBytes);
    const entries = await proxy.store.find(createAsked(proxy.route, client.signal, { fields: [] }).key);
    expect(entries.map(({ generation, isComplete }) => [generation, isComplete])).toEqual([
      [representation.generation, false],
    ]);
    const last = storedTo(9 * blockSizeBytes);
    transfer.finish();
    expect(await last).toBe(sizeBytes);
  });

  it('ends with its signal', async () => {
    await begin();
    const leaving = new AbortController();
    const waiting = storedTo(0, leaving.signal);
    leaving.abort(new Error('left'));
    await expect(waiting).rejects.toThrow('left');
  });

  it('ends where the bytes do not come any more', async () => {
    const transfer = await begin({ hasRanges: false, fields: { 'cache-control': 'max-age=60', etag: '"v1"' } });
    void transfer.sendTo(2 * blockSizeBytes);
    await turn();
    const waiting = storedTo(5 * blockSizeBytes);
    proxy.cache.stopFill(representation.generation ?? '');
    expect(await waiting).toBe(5 * blockSizeBytes);
  });

  const never: readonly (readonly [string, Parameters<typeof createRangeOrigin>[1], boolean])[] = [
    ['whose length is not known', {}, true],
    ['without a strong validator', { fields: { 'cache-control': 'max-age=60' } }, false],
  ];
  it.each(never)(
    'tells at once that no other process finds a body %s before it is whole',
    async (_, file, isChunked) => {
      const transfer = await begin(file, isChunked);
      void transfer.sendTo(3 * blockSizeBytes);
      await turn();
      expect(await storedTo(0)).toBe(0);
    },
  );
});
