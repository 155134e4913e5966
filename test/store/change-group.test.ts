/** Changes of the index that share a transaction: their order, and what a failed change does to the others. */

import { expect, it, onTestFinished } from 'vitest';
import { DiskIndex } from '../../src/store/disk/index/disk-index.ts';
import { IndexConnection } from '../../src/store/disk/index/index-connection.ts';
import { encodeMetadata, type PutEntry } from '../../src/store/disk/index/index-rows.ts';
import { StoreFault } from '../../src/store/store.ts';
import { openTestStore, temporaryDirectory } from '../support/stores/disk-store.ts';
import { findFirst, openSampleWriter, readKey, sampleMetadata, storeSample } from '../support/stores/stored-sample.ts';

/** Opens an index; `calls` records its callbacks. */
async function openIndex(dir?: string) {
  const connection = new IndexConnection({
    dir: dir ?? (await temporaryDirectory()),
    blockSizeBytes: 1024,
    emit: () => {},
  });
  onTestFinished(() => connection.close());
  const calls: string[] = [];
  const index = new DiskIndex({
    connection,
    now: () => 1,
    emit: () => {},
    onRemoved: (generation) => void calls.push(`removed ${generation}`),
    onFilesUnneeded: (generation) => void calls.push(`unneeded ${generation}`),
  });
  return { connection, index, calls };
}

function toPut(name: string, key = name): PutEntry {
  const metadata = sampleMetadata(name);
  const place = { key, variant: '', generation: name, sizeBytes: 0, isInline: true, isComplete: true };
  return { entry: { ...place, metadata }, metadata: encodeMetadata(metadata), allocatedBytes: 100 };
}

it('entries put in one turn share a transaction, and are found once they are settled', async () => {
  const { connection, index } = await openIndex();
  const settled: string[] = [];
  const names = [...'abcdefgh'];
  const puts = names.map((name) =>
    index.putSoon(toPut(name), () => {
      settled.push(name);
    }),
  );
  expect(index.find('a')).toEqual([]);
  const inOne = connection.changeSoon(
    ({ room }) => room.get()?.entry_count,
    (count) => count,
  );
  await Promise.all(puts);
  expect(settled).toEqual(names);
  expect(await inOne).toBe(8);
  for (const name of names) expect(index.find(name)).toMatchObject([{ generation: name }]);
  expect([index.entryCount, index.allocatedBytes]).toEqual([8, 800]);
});

it('a change that fails does not affect the others, and all are made in order', async () => {
  const { index } = await openIndex();
  index.put(toPut('gone'));
  index.remove(['gone']);
  const put = (name: string, key = name) => index.putSoon(toPut(name, key), () => {});
  const outcomes = await Promise.allSettled([put('a1', 'a'), put('gone'), put('a2', 'a'), put('b')]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  expect(outcomes[1]).toMatchObject({ reason: { reason: 'removed' } });
  expect(index.find('a')).toMatchObject([{ generation: 'a2' }]);
  expect(index.find('b')).toHaveLength(1);
  expect(index.find('gone')).toEqual([]);
  expect(index.entryCount).toBe(2);
});

it('a change that does not wait is made after those that wait', async () => {
  const { index, calls } = await openIndex();
  const put = index.putSoon(toPut('a'), () => void calls.push('put a'));
  expect(index.removeKey('a')).toBe(0);
  index.put(toPut('c'));
  expect(calls).toEqual(['put a']);
  expect(index.removeKey('a')).toBe(1);
  await put;
  expect(calls).toEqual(['put a', 'removed a']);
  expect(index.find('a')).toEqual([]);
});

it('closing the index makes the waiting changes first', async () => {
  const dir = await temporaryDirectory();
  const { connection, index } = await openIndex(dir);
  const put = index.putSoon(toPut('a'), () => {});
  connection.close();
  await put;
  const { index: second } = await openIndex(dir);
  expect(second.find('a')).toHaveLength(1);
});

it('each failed change is rejected with its own error, and the changes after them succeed', async () => {
  const { connection, index } = await openIndex();
  const failing = [1, 2, 3].map((at) =>
    connection.changeSoon(
      () => {
        throw new StoreFault('no_room', `as the test wants it: ${at}`);
      },
      () => {},
    ),
  );
  const put = index.putSoon(toPut('a'), () => {});
  const outcomes = await Promise.allSettled(failing);
  expect(outcomes.map((outcome) => outcome.status === 'rejected' && String(outcome.reason.message))).toEqual([
    'as the test wants it: 1',
    'as the test wants it: 2',
    'as the test wants it: 3',
  ]);
  await put;
  await index.putSoon(toPut('b'), () => {});
  expect(index.entryCount).toBe(2);
});

it('an error thrown while a change is settled rejects only that change', async () => {
  const { index } = await openIndex();
  const mistaken = index.putSoon(toPut('a'), () => {
    throw new Error('a mistake');
  });
  const sound = index.putSoon(toPut('b'), () => {});
  await expect(mistaken).rejects.toThrow('a mistake');
  await sound;
  expect(index.entryCount).toBe(2);
});

it.each([700, 40_000])(
  'a removal that begins during a commit of %i bytes leaves the whole entry or none',
  async (sizeBytes) => {
    const { store } = await openTestStore({ blockSizeBytes: 64 * 1024 });
    const writer = await openSampleWriter(store, { key: 'k', sizeBytes });
    await writer.writeBlock(0, new Uint8Array(sizeBytes));
    const commit = writer.commit({ metadata: sampleMetadata(), sizeBytes });
    await store.removeKey('k');
    await commit;
    const isFound = (await store.find('k')).length > 0;
    expect(await readKey(store, 'k')).toEqual(isFound ? Buffer.alloc(sizeBytes) : undefined);
    await writer[Symbol.asyncDispose]();
    await storeSample(store, { key: 'k', sizeBytes });
    expect(await findFirst(store, 'k')).toBeDefined();
  },
);
