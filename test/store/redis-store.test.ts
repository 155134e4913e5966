/** The store in an engine where the engine fails: full, read-only, paused, killed, flushed, evicting, damaged; and two stores in one engine. */

import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/http/clock.ts';
import type { RedisClient } from '../../src/store/redis/redis-client.ts';
import { createRedisKeys } from '../../src/store/redis/redis-keys.ts';
import { encodeBlock } from '../../src/store/redis/redis-records.ts';
import { createSeal } from '../../src/store/redis/seal.ts';
import type { EntryRank, StoreChange, StoredEntry } from '../../src/store/store.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { Patience } from '../support/engines/patience.ts';
import { describeWithEachEngine, type RedisServer, startRedisServer } from '../support/engines/redis-server.ts';
import { openTestRedisStore, type TestStoreOptions } from '../support/engines/redis-store.ts';
import { openTestClient } from '../support/engines/test-client.ts';
import {
  findFirst,
  openSampleWriter,
  readEntry,
  readKey,
  sampleMetadata,
  storeSample,
  storeTagged,
  writeBlocks,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const key = 'https://example.org/film.mp4';
const block = 1024;
const sample = { key, sizeBytes: 3 * block + 1, seed: 1 };
const bytes = Buffer.from(patternBytes(0, sample.sizeBytes, 1));

describeWithEachEngine('a store in an engine that fails', (program) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedisServer([], program);
  });
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(async () => {
    await server.command('FLUSHALL');
  });
  const open = (options: TestStoreOptions = {}) => openTestRedisStore({ kind: 'server', address: server }, options);

  it('refuses what does not fit into a full engine, and goes on when there is room', async () => {
    const { store } = await open();
    await storeSample(store, { ...sample, key: 'before' });
    await server.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      await expect(storeSample(store, sample)).rejects.toMatchObject({ name: 'StoreFault', reason: 'no_room' });
      expect(await store.find(key)).toEqual([]);
      expect(await readKey(store, 'before')).toEqual(bytes);
      expect(await store.removeKey('before')).toBe(1);
    } finally {
      await server.command('CONFIG', 'SET', 'maxmemory', '0');
    }
    await expect.poll(() => storeSample(store, sample).then(() => 'stored', String)).toBe('stored');
    expect(await readKey(store, key)).toEqual(bytes);
  });

  it('removes what expires while a full engine cannot store that it has', async () => {
    const { store } = await open();
    const entry = await storeSample(store, sample);
    await server.command('CONFIG', 'SET', 'maxmemory', '1');
    try {
      expect(await store.replaceMetadata(entry, sampleMetadata('fresh'))).toBeDefined();
      expect(await store.find(key)).toHaveLength(1);
      expect(await store.replaceMetadata(entry, { ...entry.metadata, expiredAt: 3000 })).toBeUndefined();
      expect(await store.find(key)).toEqual([]);
    } finally {
      await server.command('CONFIG', 'SET', 'maxmemory', '0');
    }
    expect(await store.find(key)).toEqual([]);
  });

  it('reads from an engine that takes no writes, and removes when it takes them again', async () => {
    const { store } = await open();
    await storeSample(store, sample);
    await storeTagged(store, { ...sample, key: 'tagged' }, ['t']);
    await server.command('REPLICAOF', '127.0.0.1', '1');
    try {
      await server.command('CONFIG', 'SET', 'replica-serve-stale-data', 'yes');
      expect(await readKey(store, key)).toEqual(bytes);
      await expect(storeSample(store, { ...sample, key: 'new' })).rejects.toMatchObject({ reason: 'io' });
      await expect(store.removeTagged('t')).rejects.toMatchObject({ name: 'StoreFault', reason: 'io' });
      // What was to be removed is not found, although it is still there.
      expect(await store.find('tagged')).toEqual([]);
    } finally {
      await server.command('REPLICAOF', 'NO', 'ONE');
    }
    await expect.poll(async () => (await store.find(key)).length).toBe(1);
    expect(await store.find('tagged')).toEqual([]);
  });

  it('finds nothing while the engine is paused, and answers from memory without waiting', async () => {
    const patience = new Patience();
    const { store } = await open(patience);
    const tiered = createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), store, Date.now);
    await storeSample(tiered, sample);
    await storeSample(tiered, { ...sample, key: 'cold' });
    await findFirst(tiered, key);
    await patience.whilePaused(server, async () => {
      const [entry] = tiered.peek(key) as readonly StoredEntry[];
      expect(entry?.peekBlock(0)).toEqual(patternBytes(0, block, 1));
      expect(await tiered.find('cold')).toEqual([]);
      await expect(storeSample(tiered, { ...sample, key: 'new' })).rejects.toMatchObject({ reason: 'io' });
      await expect.poll(() => store.readUsage().isWritable).toBe(false);
      expect(tiered.peek(key)?.[0]?.peekBlock(0)).toEqual(patternBytes(0, block, 1));
    });
    await expect.poll(() => readKey(tiered, 'cold')).toEqual(bytes);
  });

  it('removes after its return what was to be removed while the engine was away', async () => {
    const patience = new Patience();
    const { store } = await open(patience);
    for (const each of ['a', 'b/1', 'b/2', 'c', 'd']) await storeTagged(store, { ...sample, key: each }, [`t${each}`]);
    const gone = (await findFirst(store, 'd')) as StoredEntry;
    await patience.whilePaused(server, async () => {
      const failed = { name: 'StoreFault', reason: 'io' };
      await expect(store.removeKey('a')).rejects.toMatchObject(failed);
      await expect(store.removePrefixed('b/')).rejects.toMatchObject(failed);
      await expect(store.removeTagged('tc')).rejects.toMatchObject(failed);
      await store.removeEntry(gone);
    });
    await storeWhenBack(() => storeSample(store, { ...sample, key: 'new' }));
    await expect.poll(async () => (await store.find('new')).length).toBe(1);
    for (const each of ['a', 'b/1', 'b/2', 'c', 'd']) expect([each, await store.find(each)]).toEqual([each, []]);
  });

  it('is empty after the engine was killed and started again, and works', async () => {
    const patience = new Patience();
    const { store } = await open(patience);
    await storeSample(store, sample);
    const reader = await (await findFirst(store, key))?.open();
    await patience.end(async () => {
      await server.kill();
      await expect(reader?.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
      expect(await store.find(key)).toEqual([]);
      await server.restart();
    });
    await storeWhenBack(() => storeSample(store, { ...sample, key: 'new' }));
    expect(await readKey(store, 'new')).toEqual(bytes);
    expect(await store.find(key)).toEqual([]);
    await expect(reader?.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(await store.removePrefixed('')).toEqual(['new']);
  });

  it('never returns a wrong byte of what was flushed in the middle of a transfer', async () => {
    const { store } = await open();
    const writer = await openSampleWriter(store, sample);
    await writeBlocks(writer, block, sample, [0, 1]);
    await writer.publish(sampleMetadata(1));
    await server.command('FLUSHALL');
    await writeBlocks(writer, block, sample, [2, 3]);
    await expect(writer.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(writer.hasBlock(0)).toBe(false);
    await writeBlocks(writer, block, sample, [0, 1]);
    await expect(writer.commit({ metadata: sampleMetadata(1), sizeBytes: sample.sizeBytes })).rejects.toMatchObject({
      reason: 'removed',
    });
    await writer[Symbol.asyncDispose]();
    expect(await store.find(key)).toEqual([]);
    await storeSample(store, sample);
    expect(await readKey(store, key)).toEqual(bytes);
  });

  const faults: readonly [string, (name: string) => Promise<unknown>][] = [
    ['was evicted', (name) => server.command('DEL', name)],
    ['has another byte', (name) => server.command('SETRANGE', name, '7', 'x')],
    ['is too short', (name) => server.command('SET', name, 'short')],
    ['is empty', (name) => server.command('SET', name, '')],
    ['is that of another place', (name) => server.command('COPY', name.replace(/1$/, '0'), name, 'REPLACE')],
  ];
  it.each(faults)('takes a block for absent that %s, and can be completed again', async (_, fault) => {
    const { store } = await open({ prefix: 'p:' });
    const entry = await storeSample(store, sample);
    const names = createRedisKeys('p:').of(key);
    await fault(names.block(entry.generation, 1));
    const reader = await (await findFirst(store, key))?.open();
    await expect(reader?.readBlock(1)).rejects.toMatchObject({ code: 'bytes_gone' });
    expect(Buffer.from((await reader?.readBlock(2)) ?? [])).toEqual(bytes.subarray(2 * block, 3 * block));
    reader?.close();
    await expect.poll(async () => (await findFirst(store, key))?.isComplete).toBe(false);
    const found = (await findFirst(store, key)) as StoredEntry;
    await expect.poll(async () => (await found.readPresence()).has(1)).toBe(false);
    await using writer = await store.resume(found);
    await writer?.writeBlock(1, patternBytes(block, 2 * block, 1));
    await writer?.commit({ metadata: sampleMetadata(1), sizeBytes: sample.sizeBytes });
    expect(await readKey(store, key)).toEqual(bytes);
  });

  it('does not use a damaged record, reports it, and removes it', async () => {
    const { store, events } = await open({ prefix: 'p:' });
    const { generation } = await storeSample(store, sample);
    const { entry } = createRedisKeys('p:').of(key);
    const record = String(await server.command('HGET', entry, `r:${generation}`));
    await server.command('HSET', entry, `r:${generation}`, record.replace('"status":200', '"status":201'));
    expect(await store.find(key)).toEqual([]);
    expect(events).toMatchObject([{ level: 'warn', count: { damagedBlocks: 1 } }]);
    await expect.poll(() => server.command('EXISTS', entry)).toBe(0);
  });

  const encode = (generation: string, parts: readonly unknown[]) => {
    const text = JSON.stringify(parts);
    return `${crc32(`${key}\n${generation}\n${text}`)} ${text}`;
  };
  const fine = { status: 200, fields: [['a', 'b']], nominated: [], requestAt: 1, responseAt: 2 };
  const malformed: readonly (readonly [string, readonly unknown[]])[] = [
    ['a size that no body here has', ['', 1e11, fine, block]],
    ['a size that is no number', ['', '1', fine, block]],
    ['blocks of one byte', ['', 30_000, fine, 1]],
    ['blocks of no byte', ['', 30_000, fine, 0]],
    ['no metadata', ['', 1, null, block]],
    ['no fields', ['', 1, { ...fine, fields: undefined }, block]],
    ['fields that are no list', ['', 1, { ...fine, fields: { length: 1e9 } }, block]],
    ['a field that begins another line', ['', 1, { ...fine, fields: [['a', 'b\r\nset-cookie: c']] }, block]],
    ['a name that is no token', ['', 1, { ...fine, fields: [['a b', 'c']] }, block]],
    ['a status that is none', ['', 1, { ...fine, status: 1e9 }, block]],
    ['a time that is none', ['', 1, { ...fine, responseAt: 'now' }, block]],
    ['tags that are no list', ['', 1, { ...fine, tags: 't' }, block]],
  ];
  for (const [name, parts] of malformed) {
    it(`finds no entry with ${name} that another program has written with a right checksum`, async () => {
      const { store } = await open({ prefix: 'p:' });
      const { generation } = await storeSample(store, sample);
      const other = { ...sample, key: 'other' };
      await storeSample(store, other);
      const { entry } = createRedisKeys('p:').of(key);
      await server.command('HSET', entry, `r:${generation}`, encode(generation, parts));
      const { entries } = await store.list({ kind: 'prefix', prefix: '' }, 10);
      expect(entries.map((each) => each.key)).toEqual(['other']);
      expect(await store.find(key)).toEqual([]);
    });
  }

  it('finds nothing that was written without the secret of the fleet, or with another one', async () => {
    const openSealed = (secrets?: readonly string[]) =>
      open({
        prefix: 'p:',
        sharing: {
          announce: async () => undefined,
          fenceOf: () => undefined,
          current: () => undefined,
          seal: secrets && createSeal(secrets),
        },
      });
    const own = await openSealed(['first']);
    await storeSample(own.store, sample);
    expect(await readKey(own.store, key)).toEqual(bytes);
    expect(await readKey((await openSealed(['second', 'first'])).store, key)).toEqual(bytes);
    const { entry } = createRedisKeys('p:').of(key);
    for (const secrets of [undefined, ['second']]) {
      const record = await server.command('HGETALL', entry);
      const other = await openSealed(secrets);
      expect(await other.store.find(key)).toEqual([]);
      expect(other.events).toMatchObject([{ level: 'warn', count: { damagedBlocks: 1 } }]);
      await expect.poll(() => server.command('EXISTS', entry)).toBe(0);
      await server.command('HSET', entry, ...(record as string[]));
    }
  });

  it('reads no block that another program has written with a right checksum', async () => {
    const seal = createSeal(['first']);
    const sharing = { announce: async () => undefined, fenceOf: () => undefined, current: () => undefined, seal };
    const { store, events } = await open({ prefix: 'p:', sharing });
    const { generation } = await storeSample(store, sample);
    const name = createRedisKeys('p:').of(key).block(generation, 0);
    const forged = encodeBlock(generation, 0, new Uint8Array(block));
    const client = await openTestClient({ kind: 'server', address: server });
    await client.send(name, ['SET', name, forged]);
    const [entry] = await store.find(key);
    const reader = await entry?.open();
    await expect(reader?.readBlock(0)).rejects.toMatchObject({ code: 'bytes_gone' });
    reader?.close();
    expect(events).toMatchObject([{ level: 'warn', count: { damagedBlocks: 1 } }]);
    client.close();
  });

  it('removes by prefix what a machine with a larger limit has stored, although it does not find it', async () => {
    const large = await open({ prefix: 'p:' });
    await storeSample(large.store, sample);
    const small = await open({ prefix: 'p:', maxEntryBytes: 1000 });
    expect(await small.store.find(key)).toEqual([]);
    await small.store.removePrefixed('https:');
    expect(await large.store.find(key)).toEqual([]);
  });

  it('lists the other entries where the key of one has a value that is no entry', async () => {
    const { store } = await open({ prefix: 'p:' });
    await storeSample(store, sample);
    await storeSample(store, { ...sample, key: 'other' });
    const { entry } = createRedisKeys('p:').of(key);
    await server.command('DEL', entry);
    await server.command('SET', entry, 'no entry');
    const { entries } = await store.list({ kind: 'prefix', prefix: '' }, 10);
    expect(entries.map((each) => each.key)).toEqual(['other']);
    expect(await store.find(key)).toEqual([]);
  });

  it('removes what a machine with another size of blocks has stored, and says why', async () => {
    const { store } = await open({ prefix: 'p:' });
    const other = await open({ prefix: 'p:', blockSizeBytes: 2048 });
    await storeSample(other.store, sample);
    expect(await store.find(key)).toEqual([]);
    await expect.poll(async () => (await other.store.find(key)).length).toBe(0);
    await storeSample(store, sample);
    expect(await readKey(store, key)).toEqual(bytes);
    expect(await other.store.find(key)).toEqual([]);
    expect(other.events).toMatchObject([{ level: 'warn', message: expect.stringContaining('store.blockSizeBytes') }]);
  });

  it('finds by tag and prefix what an evicted index had, and removes it', async () => {
    const { store } = await open({ prefix: 'p:' });
    const keys = createRedisKeys('p:');
    const names = ['k1', 'k2', 'k3', 'other'];
    for (const each of names) await storeTagged(store, { ...sample, key: each }, [each === 'k2' ? 'a' : 'b']);
    for (const each of names) await server.command('DEL', keys.of(each).index);
    expect((await store.list({ kind: 'prefix', prefix: 'k' }, 10)).entries.map((entry) => entry.key).sort()).toEqual([
      'k1',
      'k2',
      'k3',
    ]);
    for (const each of names) await server.command('DEL', keys.of(each).index);
    expect(await store.removeTagged('a')).toEqual(['k2']);
    expect(await store.find('k2')).toEqual([]);
    await server.command('DEL', keys.of('k1').index);
    expect([...(await store.removePrefixed('k'))].sort()).toEqual(['k1', 'k3']);
    expect(await store.find('other')).toHaveLength(1);
  });

  it('finds by tag with one command for all buckets, and asks again where a tag has many entries', async () => {
    const client = await openTestClient({ kind: 'server', address: server });
    let ranges = 0;
    const counting: RedisClient = {
      ...bound(client),
      run: (script, ...rest) => {
        if (script.includes('ZRANGEBYLEX')) ranges += 1;
        return client.run(script, ...rest);
      },
    };
    const { store } = await open({ client: counting });
    for (let at = 0; at < 600; at += 1) await storeTagged(store, { ...sample, key: `k${at}`, sizeBytes: 1 }, ['many']);
    await storeTagged(store, { ...sample, key: 'one' }, ['few']);
    ranges = 0;
    expect(await store.removeTagged('few')).toEqual(['one']);
    expect(ranges).toBe(1);
    expect(await store.removeTagged('many')).toHaveLength(600);
    expect(ranges).toBeGreaterThan(2);
  });

  it('cleans its index of entries that the engine has evicted', async () => {
    const { store } = await open({ prefix: 'p:' });
    await storeTagged(store, sample, ['t']);
    const { entry, index } = createRedisKeys('p:').of(key);
    await server.command('DEL', entry);
    expect(await store.list({ kind: 'tag', tag: 't' }, 10)).toEqual({ entries: [], next: undefined });
    await expect.poll(() => server.command('ZRANGE', index, '0', '-1')).toEqual(['m']);
  });

  it('lets everything end, and extends what is used', async () => {
    const clock = { now: 1_700_000_000_000 };
    const { store } = await open({ prefix: 'p:', keepMs: 100_000, now: () => clock.now });
    const { generation } = await storeSample(store, sample);
    const names = createRedisKeys('p:').of(key);
    const all = [names.entry, names.block(generation, 0), names.block(generation, 3)];
    for (const each of all) expect(await server.command('PTTL', each)).toBeGreaterThan(0);
    for (const each of all) await server.command('PEXPIRE', each, '5000');
    clock.now += 1000;
    (await findFirst(store, key))?.peekBlock(0);
    expect(await server.command('PTTL', names.entry)).toBeLessThanOrEqual(5000);
    clock.now += 50_000;
    (await findFirst(store, key))?.peekBlock(0);
    for (const each of all) await expect.poll(() => server.command('PTTL', each)).toBeGreaterThan(50_000);
  });

  it('leaves no index for ever whose making was broken off', async () => {
    const client = await openTestClient({ kind: 'server', address: server });
    const breaking: RedisClient = { ...bound(client), sendTo: () => Promise.reject(new Error('broken off')) };
    const { store } = await open({ prefix: 'p:', client: breaking });
    await expect(store.list({ kind: 'prefix', prefix: '' }, 1)).rejects.toMatchObject({ reason: 'io' });
    const { index } = createRedisKeys('p:').of(key);
    expect(await server.command('EXISTS', index)).toBe(1);
    expect(await server.command('PTTL', index)).toBeGreaterThan(0);
  });

  it('leaves no block behind of what was not committed, and soon none of what was removed', async () => {
    const { store } = await open({ prefix: 'p:' });
    const writer = await openSampleWriter(store, sample);
    await writeBlocks(writer, block, sample, [0, 1, 2]);
    await writer[Symbol.asyncDispose]();
    expect(await server.command('KEYS', 'p:*:b:*')).toEqual([]);
    const { generation } = await storeSample(store, sample);
    await store.removeKey(key);
    const name = createRedisKeys('p:').of(key).block(generation, 0);
    await expect.poll(() => server.command('PTTL', name)).toBeLessThanOrEqual(60_000);
  });

  it('refuses the writes of a holder that has lost its lease to another', async () => {
    const fences = { first: 10, second: 20 };
    const sharing = (name: keyof typeof fences) => ({
      announce: async () => {},
      fenceOf: () => fences[name],
      current: () => undefined,
    });
    const { store: first } = await open({ prefix: 'p:', sharing: sharing('first') });
    const { store: second } = await open({ prefix: 'p:', sharing: sharing('second') });
    const late = await openSampleWriter(first, sample);
    await writeBlocks(late, block, sample, [0, 1, 2, 3]);
    const current = await storeSample(second, { ...sample, seed: 2 });
    const final = { metadata: sampleMetadata(1), sizeBytes: sample.sizeBytes };
    await expect(late.commit(final)).rejects.toMatchObject({ reason: 'removed' });
    expect(await first.replaceMetadata(current, sampleMetadata('late'))).toBeUndefined();
    await late[Symbol.asyncDispose]();
    expect((await findFirst(second, key))?.generation).toBe(current.generation);
    await server.command('SET', createRedisKeys('p:').leaseKey(key), '30 other address');
    await expect(storeSample(second, { ...sample, seed: 3 })).rejects.toMatchObject({ reason: 'removed' });
  });

  it('has one sound entry after two processes have written at once, of which one had no lease in the engine', async () => {
    let ofFirst: number | undefined;
    const sharing = (fenceOf: () => number | undefined) => ({
      announce: async () => {},
      fenceOf,
      current: () => undefined,
    });
    const { store: first } = await open({ prefix: 'p:', sharing: sharing(() => ofFirst) });
    const { store: second } = await open({ prefix: 'p:', sharing: sharing(() => 20) });
    const final = { metadata: sampleMetadata(1), sizeBytes: sample.sizeBytes };
    const write = async (store: typeof first, seed: number, order: readonly number[]) => {
      const writer = await openSampleWriter(store, { ...sample, seed });
      await writeBlocks(writer, block, { ...sample, seed }, order);
      return writer;
    };
    // It finds out before its commit that the other one has the lease.
    const [late, current] = await Promise.all([write(first, 1, [3, 1, 0, 2]), write(second, 2, [0, 1, 2, 3])]);
    ofFirst = 0;
    await current.commit(final);
    await expect(late.commit(final)).rejects.toMatchObject({ reason: 'removed' });
    for (const each of [late, current]) await each[Symbol.asyncDispose]();
    for (const each of [first, second]) {
      expect(await readKey(each, key)).toEqual(Buffer.from(patternBytes(0, sample.sizeBytes, 2)));
    }
    // It finds out later: what was committed last is there, whole.
    ofFirst = undefined;
    const last = await write(first, 3, [0, 1, 2, 3]);
    await last.commit(final);
    await last[Symbol.asyncDispose]();
    for (const each of [first, second]) {
      expect(await readKey(each, key)).toEqual(Buffer.from(patternBytes(0, sample.sizeBytes, 3)));
    }
  });

  it('waits before and after a commit until the process knows of all that was announced', async () => {
    const entry = createRedisKeys('p:').of(key).entry;
    const found: unknown[] = [];
    const sharing = {
      announce: async () => {},
      fenceOf: () => undefined,
      current: async () => void found.push(await server.command('EXISTS', entry)),
    };
    const { store } = await open({ prefix: 'p:', sharing });
    await storeSample(store, sample);
    expect(found).toEqual([0, 1]);
  });

  it('lists by key in either direction with a number of commands that does not grow with the entries', async () => {
    const client = await openTestClient({ kind: 'server', address: server });
    let commands = 0;
    const counting: RedisClient = {
      ...bound(client),
      send: (...call) => {
        commands += 1;
        return client.send(...call);
      },
      run: (...call) => {
        commands += 1;
        return client.run(...call);
      },
    };
    // Without timers: the store counts its entries every ten seconds, by commands of its own.
    const clock: Clock = { now: Date.now, after: () => () => {} };
    const { store } = await open({ prefix: 'p:', client: counting, clock });
    const names = Array.from({ length: 3000 }, (_, at) => `https://example.org/${String(at).padStart(4, '0')}`);
    for (let from = 0; from < names.length; from += 200) {
      const slice = names.slice(from, from + 200);
      await Promise.all(slice.map((name, at) => storeTagged(store, { key: name, sizeBytes: 1 }, [`t${at % 2}`])));
    }
    // The index is whole from here on.
    await store.list({ kind: 'prefix', prefix: '' }, 1);
    const orders = [false, true].flatMap((isDescending) =>
      [
        { choice: { kind: 'prefix', prefix: '' } as const, wanted: names },
        {
          choice: { kind: 'prefix', prefix: 'https://example.org/1' } as const,
          wanted: names.filter((name) => name.includes('/1')),
        },
        { choice: { kind: 'tag', tag: 't1' } as const, wanted: names.filter((_, at) => at % 2 === 1) },
      ].map((each) => ({ ...each, isDescending })),
    );
    for (const { choice, wanted, isDescending } of orders) {
      const expected = isDescending ? wanted.toReversed() : wanted;
      let after: EntryRank | undefined;
      for (const start of [0, 50, 100]) {
        commands = 0;
        const page = await store.listRanked(choice, { by: 'key', isDescending }, 50, after);
        expect(page.entries.map(({ entry }) => entry.key)).toEqual(expected.slice(start, start + 50));
        // One page of each of the 256 buckets, and the entries.
        expect(commands).toBeLessThan(256 + 51 + 60);
        after = page.next;
      }
    }
    commands = 0;
    expect(
      (await store.listRanked({ kind: 'prefix', prefix: '' }, { by: 'size', isDescending: true }, 5)).entries,
    ).toHaveLength(5);
    expect(commands).toBeGreaterThan(3000);
  });

  describe('the block that is read first', () => {
    const getCalls = async () => {
      const stats = String(await server.command('INFO', 'commandstats'));
      return Number(/cmdstat_get:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    const slice = (index: number) => bytes.subarray(index * block, (index + 1) * block);

    const damageBlocks = async () => {
      for (const name of (await server.command('KEYS', '*:b:*')) as string[]) await server.command('APPEND', name, 'x');
    };

    it('is asked for once, by the opening; readers at the same time share the answer', async () => {
      const { store } = await open();
      await storeSample(store, sample);
      const entry = (await findFirst(store, key)) as StoredEntry;
      const before = await getCalls();
      const readers = await Promise.all([1, 2, 3].map(() => entry.open(1)));
      const read = await Promise.all(readers.map((reader) => reader.readBlock(1)));
      expect(read.map((each) => Buffer.from(each))).toEqual([slice(1), slice(1), slice(1)]);
      expect((await getCalls()) - before).toBe(1);
      // The second time, and another block, are asked for.
      expect(Buffer.from((await readers[0]?.readBlock(1)) ?? [])).toEqual(slice(1));
      expect(Buffer.from((await readers[0]?.readBlock(2)) ?? [])).toEqual(slice(2));
      expect((await getCalls()) - before).toBe(3);
      for (const reader of readers) reader.close();
    });

    it('may be another one, or none that the entry has', async () => {
      const { store } = await open();
      await storeSample(store, sample);
      const entry = (await findFirst(store, key)) as StoredEntry;
      const before = await getCalls();
      for (const first of [99, -1]) {
        const reader = await entry.open(first);
        expect(Buffer.from(await reader.readBlock(0))).toEqual(slice(0));
        reader.close();
      }
      expect((await getCalls()) - before).toBe(2);
    });

    it('is reported as damaged only when it is read, and never of a generation that was removed', async () => {
      const { store, events } = await open();
      await storeSample(store, sample);
      const entry = (await findFirst(store, key)) as StoredEntry;
      await store.removeKey(key);
      await damageBlocks();
      await expect(entry.open(1)).rejects.toMatchObject({ code: 'bytes_gone' });
      expect(events).toEqual([]);
      await storeSample(store, sample);
      const again = (await findFirst(store, key)) as StoredEntry;
      await damageBlocks();
      const reader = await again.open(1);
      expect(events).toEqual([]);
      await expect(reader.readBlock(1)).rejects.toMatchObject({ code: 'bytes_gone' });
      reader.close();
      expect(events).toHaveLength(1);
    });
  });

  describe('two stores in one engine', () => {
    it('have the same entries, and tell each other of changes', async () => {
      const changes: StoreChange[] = [];
      const sharing = {
        announce: async (change: StoreChange) => void changes.push(change),
        fenceOf: () => undefined,
        current: () => undefined,
      };
      const { store: first } = await open({ prefix: 'p:', sharing });
      const { store: second } = await open({ prefix: 'p:' });
      const tiered = createTieredStore(createMemoryTier({ maxSizeBytes: 1_000_000 }), second, Date.now);
      await storeTagged(first, sample, ['t']);
      expect(await readKey(tiered, key)).toEqual(bytes);
      await first.removeTagged('t');
      expect(tiered.peek(key)).toHaveLength(1);
      for (const change of changes) tiered.applyChange(change);
      expect(tiered.peek(key) ?? []).toEqual([]);
      expect(await tiered.find(key)).toEqual([]);
      expect(changes).toEqual([
        { kind: 'keys', keys: [key] },
        { kind: 'tag', tag: 't' },
      ]);
    });

    it('keep apart what has another prefix', async () => {
      const { store: first } = await open({ prefix: 'p:' });
      const { store: second } = await open({ prefix: 'q:' });
      await storeSample(first, sample);
      expect(await second.find(key)).toEqual([]);
      expect(await second.removePrefixed('')).toEqual([]);
      expect(await readKey(first, key)).toEqual(bytes);
    });
  });

  it('evicts by the policy of the engine, and never returns a wrong byte of what is left', async () => {
    await using small = await startRedisServer(['--maxmemory', '6mb', '--maxmemory-policy', 'allkeys-lru'], program);
    const { store } = await openTestRedisStore({ kind: 'server', address: small }, { blockSizeBytes: 16_384 });
    const size = 5 * 16_384 + 1;
    let whole = 0;
    for (let at = 0; at < 150; at += 1) {
      const name = `https://example.org/${at}`;
      await storeTagged(store, { key: name, sizeBytes: 16_385, seed: at }, [`t${at % 3}`]).catch(() => {});
      await storeSample(store, { key: name, variant: 'v', sizeBytes: Math.min(size, 32_000), seed: at }).catch(
        () => {},
      );
    }
    for (let at = 0; at < 150; at += 1) {
      for (const entry of await store.find(`https://example.org/${at}`)) {
        const body = await readEntry(store, entry);
        if (body === undefined) continue;
        whole += 1;
        expect(body).toEqual(Buffer.from(patternBytes(0, entry.sizeBytes, at)));
      }
    }
    expect(whole).toBeGreaterThan(0);
    expect(whole).toBeLessThan(300);
    await store.removeTagged('t1');
    for (let at = 1; at < 150; at += 3) {
      const left = await store.find(`https://example.org/${at}`);
      expect(left.filter(({ metadata }) => metadata.tags?.includes('t1'))).toEqual([]);
    }
    await store.close();
  });
});

/** Stores something as soon as the engine takes it. */
async function storeWhenBack(storing: () => Promise<unknown>): Promise<void> {
  await expect.poll(() => storing().then(() => 'stored', String)).toBe('stored');
}

/** Returns the members of a client as those of a plain object. */
function bound(client: RedisClient): RedisClient {
  return {
    get isAway() {
      return client.isAway;
    },
    started: client.started,
    send: (...call) => client.send(...call),
    run: (...call) => client.run(...call),
    nodes: () => client.nodes(),
    sendTo: (...call) => client.sendTo(...call),
    untilAppended: (...call) => client.untilAppended(...call),
    localAddress: () => client.localAddress(),
    close: () => client.close(),
  };
}
