/** A store that takes every block and can read none of them again. */

import { expect, it } from 'vitest';
import { ProxyError, toProxyError } from '../../src/http/proxy-error.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import type { EntryWriter, Store } from '../../src/store/store.ts';
import { createRangeOrigin } from '../support/origins/range-origin.ts';
import { createWholeProxy } from '../support/proxies/whole-proxy.ts';
import { createReadingStore } from '../support/stores/reading-store.ts';

const blockSizeBytes = 1024;

/** Blocks of the file of the origin, and how often each may be lost before it counts as gone. */
const blocks = 10;
const lossesPerBlock = 3;

/** Creates a store that claims to have each block, and fails to read it. */
function createUnreadableStore(): Store {
  const memory = createMemoryStore({ maxSizeBytes: 1_000_000, blockSizeBytes, now: () => 0, randomId: () => 'one' });
  const below = createReadingStore(memory);
  const lose = async (): Promise<never> => {
    throw new ProxyError('bytes_gone', { detail: 'it cannot be read' });
  };
  const unreadable = { peekBlock: () => undefined, readBlock: lose };
  const wrap = (writer: EntryWriter): EntryWriter => ({
    ...unreadable,
    generation: writer.generation,
    hasBlock: (index) => writer.hasBlock(index),
    writeBlock: (index, bytes) => writer.writeBlock(index, bytes),
    publish: (metadata, pinPreviousUntil) => writer.publish(metadata, pinPreviousUntil),
    async commit(final) {
      const entry = await writer.commit(final);
      const open = async () => ({ ...unreadable, close: (await entry.open()).close });
      return { ...entry, peekBlock: unreadable.peekBlock, open };
    },
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  });
  return { ...below, openWriter: async (entry) => wrap(await below.openWriter(entry)) };
}

it.each([true, false])(
  'an unreadable store costs the origin a few transfers per reader, and not one after the other without end (ranges: %s)',
  async (hasRanges) => {
    const proxy = createWholeProxy({ createStore: createUnreadableStore, blockSizeBytes, originRanges: 'auto' });
    createRangeOrigin(proxy.origin, { hasRanges }).serve();
    const got = proxy.send().bytes();
    // The order of microtasks decides whether the reader gets all bytes before they are in the store.
    expect(
      await got.then(
        () => 'whole',
        (thrown) => toProxyError(thrown).code,
      ),
    ).toMatch(/^(whole|bytes_gone)$/);
    expect(proxy.origin.requests).toBeLessThanOrEqual(lossesPerBlock * blocks);
    await proxy.close();
  },
);
