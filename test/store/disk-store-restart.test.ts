/** What a disk store keeps over a restart, and when its directory can be opened. */

import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, it } from 'vitest';
import { bodyFiles, openTestStore, temporaryDirectory } from '../support/stores/disk-store.ts';
import {
  findFirst,
  openSampleWriter,
  readKey,
  sampleMetadata,
  storeSample,
  writeSample,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const block = 16 * 1024;

describe('a restart', () => {
  const sizes = [0, 1, block, 2 * block, 2 * block + 1, 5 * block + 3];
  it.each(sizes)('keeps an entry of %i bytes', async (sizeBytes) => {
    const first = await openTestStore();
    const entry = await storeSample(first.store, { key: 'k', variant: 'v', sizeBytes, seed: 3 });
    await first.store.close();
    const { store, events } = await openTestStore({ dir: first.dir });
    expect(await findFirst(store, 'k')).toMatchObject({
      key: 'k',
      variant: 'v',
      generation: entry.generation,
      sizeBytes,
      metadata: sampleMetadata(3),
    });
    expect(await readKey(store, 'k')).toEqual(Buffer.from(patternBytes(0, sizeBytes, 3)));
    await store.close();
    expect(events).toEqual([]);
  });

  it('keeps replaced metadata, the order of variants and removals', async () => {
    const first = await openTestStore();
    const older = await storeSample(first.store, { key: 'k', variant: 'older', sizeBytes: 1 });
    await storeSample(first.store, { key: 'k', variant: 'newer', sizeBytes: 3 * block });
    await storeSample(first.store, { key: 'gone', sizeBytes: 3 * block });
    await first.store.replaceMetadata(older, sampleMetadata('fresh'));
    await first.store.removeKey('gone');
    await first.store.close();
    const { store } = await openTestStore({ dir: first.dir });
    expect((await store.find('k')).map((entry) => entry.variant)).toEqual(['newer', 'older']);
    expect((await store.find('k'))[1]?.metadata).toEqual(sampleMetadata('fresh'));
    expect(await store.find('gone')).toEqual([]);
    expect(await bodyFiles(first.dir)).toHaveLength(2);
  });

  it('with another block size keeps inline bodies, and forgets the others', async () => {
    const first = await openTestStore();
    await storeSample(first.store, { key: 'inline', sizeBytes: 2 * block, seed: 1 });
    await storeSample(first.store, { key: 'in files', sizeBytes: 3 * block, seed: 2 });
    await first.store.close();
    for (const blockSizeBytes of [block / 2, block / 2, block]) {
      const { store } = await openTestStore({ dir: first.dir, blockSizeBytes });
      expect(await readKey(store, 'inline')).toEqual(Buffer.from(patternBytes(0, 2 * block, 1)));
      expect(await store.find('in files')).toEqual([]);
      await expect.poll(() => bodyFiles(first.dir)).toEqual([]);
      await store.close();
    }
  });

  it('keeps the order of use', async () => {
    const maxSizeBytes = 1024 * 1024;
    const first = await openTestStore({ maxSizeBytes });
    for (const key of ['used', 'idle']) await storeSample(first.store, { key, sizeBytes: 20 * block });
    (await findFirst(first.store, 'used'))?.peekBlock(0);
    await first.store.close();
    const { store, clock } = await openTestStore({ dir: first.dir, maxSizeBytes });
    clock.advance(60_000);
    await storeSample(store, { key: 'third', sizeBytes: 20 * block });
    await storeSample(store, { key: 'fourth', sizeBytes: 10 * block });
    expect(await store.find('idle')).toEqual([]);
    expect(await store.find('used')).toHaveLength(1);
  });

  it('evicts when the size of the store was reduced', async () => {
    const first = await openTestStore();
    for (let at = 0; at < 20; at += 1) await storeSample(first.store, { key: `k${at}`, sizeBytes: 4 * block });
    await first.store.close();
    const { store, dir } = await openTestStore({ dir: first.dir, maxSizeBytes: 20 * block });
    await expect.poll(async () => (await bodyFiles(dir)).length).toBeLessThanOrEqual(2 * 4);
    expect(await store.find('k0')).toEqual([]);
    expect(await store.find('k19')).toHaveLength(1);
  });

  it('sweeps files of uncommitted bodies, and none that is being written', async () => {
    const { dir, store: first } = await openTestStore();
    await storeSample(first, { key: 'kept', sizeBytes: 3 * block });
    await first.close();
    const shard = join(dir, 'blocks', 'de');
    await mkdir(shard);
    for (const name of ['dead-beef.body', 'dead-beef.sums', 'dead-0001.body', 'NOTES.txt', 'other.body']) {
      await writeFile(join(shard, name), 'x');
    }
    const { store, events } = await openTestStore({ dir });
    await using writer = await openSampleWriter(store, { key: 'new', sizeBytes: 4 * block });
    await writeSample(writer, block, { key: 'new', sizeBytes: 4 * block });
    await expect.poll(() => events.length).toBeGreaterThan(0);
    expect(events).toMatchObject([{ level: 'info', detail: '2 bodies' }]);
    const left = (await bodyFiles(dir)).map((path) => path.slice(shard.length + 1));
    expect(left.filter((name) => name.startsWith('dead'))).toEqual([]);
    expect(left).toContain('NOTES.txt');
    expect(left).toContain('other.body');
    await writer.commit({ metadata: sampleMetadata(), sizeBytes: 4 * block });
    expect(await readKey(store, 'new')).toEqual(Buffer.from(patternBytes(0, 4 * block)));
    expect(await readKey(store, 'kept')).toEqual(Buffer.from(patternBytes(0, 3 * block)));
  });
});

it('a store stays within its size when large bodies replace small ones', async () => {
  const maxSizeBytes = 24 * 1024 * 1024;
  const { store, dir } = await openTestStore({ maxSizeBytes });
  for (let at = 0; at < 1200; at += 1) await storeSample(store, { key: `small${at}`, sizeBytes: 30_000 });
  for (let at = 0; at < 120; at += 1) await storeSample(store, { key: `large${at}`, sizeBytes: 20 * block });
  await store.close();
  const sizes = await Promise.all(
    [join(dir, 'index.sqlite'), ...(await bodyFiles(dir))].map(async (path) => (await stat(path)).size),
  );
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(1.3 * maxSizeBytes);
});

describe('closing', () => {
  it('abandons writers, leaves none of their files, and lets them be disposed', async () => {
    const { store, dir } = await openTestStore();
    const writer = await openSampleWriter(store, { key: 'k', sizeBytes: 4 * block });
    await writer.writeBlock(0, patternBytes(0, block));
    await writer.writeBlock(1, patternBytes(block, 2 * block));
    await writer.writeBlock(2, patternBytes(2 * block, 3 * block));
    expect(await bodyFiles(dir)).toHaveLength(2);
    await store.close();
    expect(await bodyFiles(dir)).toEqual([]);
    await expect(writer.writeBlock(3, patternBytes(3 * block, 4 * block))).rejects.toMatchObject({ reason: 'io' });
    await writer[Symbol.asyncDispose]();
    await expect(openSampleWriter(store, { key: 'k', sizeBytes: 1 })).rejects.toMatchObject({ reason: 'io' });
  });

  it('leaves one index file, and no log beside it', async () => {
    const { store, dir } = await openTestStore();
    await storeSample(store, { key: 'k', sizeBytes: 1 });
    await store.close();
    await expect(stat(join(dir, 'index.sqlite-wal'))).rejects.toMatchObject({ code: 'ENOENT' });
  });
});

describe('the directory', () => {
  it('and its files are created for their user alone', async () => {
    const dir = join(await temporaryDirectory(), 'a', 'b');
    const { store } = await openTestStore({ dir });
    await storeSample(store, { key: 'k', sizeBytes: 3 * block });
    const paths = [dir, join(dir, 'index.sqlite'), join(dir, 'index.sqlite-wal'), ...(await bodyFiles(dir))];
    const modes = await Promise.all(paths.map(async (path) => ((await stat(path)).mode & 0o777).toString(8)));
    expect(modes).toEqual(['700', '600', '600', '600', '600']);
  });

  it('is refused to a second store while the first one has it open', async () => {
    const first = await openTestStore();
    await expect(openTestStore({ dir: first.dir })).rejects.toMatchObject({
      name: 'StoreFault',
      reason: 'in_use',
      message: `The directory ${first.dir} is in use by another process. Choose another one with --dir.`,
    });
    await storeSample(first.store, { key: 'k', sizeBytes: 1 });
    await first.store.close();
    expect(await (await openTestStore({ dir: first.dir })).store.find('k')).toHaveLength(1);
  });

  it('is refused when it cannot be created', async () => {
    const file = join(await temporaryDirectory(), 'file');
    await writeFile(file, '');
    await expect(openTestStore({ dir: join(file, 'store') })).rejects.toMatchObject({
      name: 'StoreFault',
      reason: 'io',
      message: expect.stringContaining('cannot be created'),
    });
  });

  it('is refused when its index cannot be opened', async () => {
    const dir = await temporaryDirectory();
    // A directory in its place fails for root too, for whom no file mode does.
    await mkdir(join(dir, 'index.sqlite'));
    await expect(openTestStore({ dir })).rejects.toMatchObject({
      name: 'StoreFault',
      message: expect.stringContaining('cannot be opened'),
    });
  });

  it('is refused when its format is newer', async () => {
    const { store, dir } = await openTestStore();
    await storeSample(store, { key: 'k', sizeBytes: 1 });
    await store.close();
    const database = new DatabaseSync(join(dir, 'index.sqlite'));
    database.exec('PRAGMA user_version = 7');
    database.close();
    await expect(openTestStore({ dir })).rejects.toMatchObject({
      name: 'StoreFault',
      message: expect.stringMatching(/format 7; this version knows formats up to 5\. Choose another directory/),
    });
  });
});
