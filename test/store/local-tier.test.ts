/**
 * A local disk between memory and a real engine: what is read from the engine once, what a purge reaches, and every fault of the disk and
 * of the engine.
 */

import { cp } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { DiskStoreOptions } from '../../src/store/disk/disk-store.ts';
import type { Store, StoreChange, StoredEntry } from '../../src/store/store.ts';
import { createLocalTier } from '../../src/store/tiered/local-tier.ts';
import { createMemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../src/store/tiered/tiered-store.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { Patience } from '../support/engines/patience.ts';
import { describeWithEngine, type RedisServer, startRedisServer } from '../support/engines/redis-server.ts';
import { openTestRedisStore, type TestStoreOptions } from '../support/engines/redis-store.ts';
import { flipBit } from '../support/stores/damage.ts';
import { bodyFiles, type DiskStoreInTest, openTestStore, temporaryDirectory } from '../support/stores/disk-store.ts';
import { FailingFileSystem } from '../support/stores/failing-file-system.ts';
import { createSharedDirectory } from '../support/stores/shared-directory.ts';
import {
  findFirst,
  openSampleWriter,
  readAll,
  readEntry,
  readKey,
  sampleMetadata,
  storeSample,
  storeTagged,
  writeBlocks,
} from '../support/stores/stored-sample.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const key = 'https://example.org https://example.org/film.mp4';
const blockSizeBytes = 16 * 1024;
const sample = { key, sizeBytes: 10 * blockSizeBytes - 7, seed: 1 };
const blockCount = 10;
const bytes = Buffer.from(patternBytes(0, sample.sizeBytes, 1));
const blockAt = (index: number) => bytes.subarray(index * blockSizeBytes, (index + 1) * blockSizeBytes);

/** A machine: its store as a server has it, and the parts of it. */
interface Machine {
  readonly store: Store;
  readonly local: Store;
  readonly disk: DiskStoreInTest;
}

describeWithEngine('a local disk before an engine', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedisServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(async () => {
    await server.command('FLUSHALL');
  });

  /** Opens a machine. Memory has room for entries and for hardly a block. */
  const open = async (
    diskOptions: Partial<DiskStoreOptions> = {},
    engineOptions: TestStoreOptions = {},
  ): Promise<Machine> => {
    const disk = await openTestStore({ blockSizeBytes, ...diskOptions });
    const engine = await openTestRedisStore(
      { kind: 'server', address: server },
      { prefix: 'p:', blockSizeBytes, maxEntryBytes: 4_000_000, ...engineOptions },
    );
    const local = createLocalTier({ disk: disk.store, engine: engine.store, clock: realClock, isFirst: true });
    const store = createTieredStore(createMemoryTier({ maxSizeBytes: 10_000 }), local, Date.now);
    onTestFinished(() => store.close());
    return { store, local, disk };
  };

  /** Returns how many blocks the engine has sent since the last call. */
  const countBlocks = async (): Promise<number> => {
    const stats = String(await server.command('INFO', 'commandstats'));
    await server.command('CONFIG', 'RESETSTAT');
    return Number(/^cmdstat_get:calls=(\d+)/m.exec(stats)?.[1] ?? 0);
  };

  /** Returns how much of the sample is on the disk: `all`, `part` or nothing. */
  const kept = async ({ disk }: Machine): Promise<readonly string[]> => {
    const { entries } = await disk.store.list({ kind: 'prefix', prefix: '' }, 1000);
    return entries.map(({ isComplete }) => (isComplete ? 'all' : 'part'));
  };

  /** Reads the sample into the disk of a machine. */
  const warm = async (machine: Machine): Promise<void> => {
    expect(await readKey(machine.store, key)).toEqual(bytes);
    await expect.poll(() => kept(machine)).toEqual(['all']);
    await countBlocks();
  };

  it('has each block sent by the engine once, and answers from the disk then', async () => {
    const writer = await open();
    await storeSample(writer.store, sample);
    await countBlocks();
    const machine = await open();
    expect(await readKey(machine.store, key)).toEqual(bytes);
    expect(await countBlocks()).toBe(blockCount);
    await expect.poll(() => kept(machine)).toEqual(['all']);
    for (let time = 0; time < 3; time += 1) expect(await readKey(machine.store, key)).toEqual(bytes);
    expect(await countBlocks()).toBe(0);
    const { local } = machine.store.readUsage();
    expect(local).toMatchObject({ hits: 3 * blockCount, hitBytes: 3 * bytes.length, misses: blockCount });
    expect(local?.usedBytes).toBeGreaterThan(bytes.length);
  });

  it('keeps the blocks that were read, and has the others sent when they are wanted', async () => {
    const machine = await open();
    await storeSample(machine.store, sample);
    const entry = (await findFirst(machine.store, key)) as StoredEntry;
    const reader = await entry.open();
    expect(await reader.readBlock(3)).toEqual(blockAt(3));
    reader.close();
    await expect.poll(() => kept(machine)).toEqual(['part']);
    await expect.poll(() => machine.store.readUsage().local?.usedBytes).toBeGreaterThan(blockSizeBytes);
    await countBlocks();
    expect(await readKey(machine.store, key)).toEqual(bytes);
    expect(await countBlocks()).toBe(blockCount - 1);
    await expect.poll(() => kept(machine)).toEqual(['all']);
  });

  it('keeps small bodies, which the index has, and bodies of one block', async () => {
    const machine = await open();
    const small = [1, 700, blockSizeBytes].map((sizeBytes) => ({ key: `k${sizeBytes}`, sizeBytes, seed: 2 }));
    for (const each of small) await storeSample(machine.store, each);
    for (const each of small) await readKey(machine.local, each.key);
    await expect.poll(() => kept(machine)).toEqual(['all', 'all', 'all']);
    await countBlocks();
    for (const each of small) {
      expect(await readKey(machine.local, each.key)).toEqual(Buffer.from(patternBytes(0, each.sizeBytes, 2)));
    }
    expect(await countBlocks()).toBe(0);
  });

  it('answers in the same tick from a file that is open', async () => {
    const { readSync, writeFileSync } = await import('node:fs');
    const { readFileInto } = await import('../../src/setup/store.ts');
    const elapsed = () => 0;
    const quickReads = { elapsed, readSync, readFileInto, after: realClock.after };
    const machine = await open({ quickReads, quickWrites: { elapsed, writeFileSync } });
    await storeSample(machine.store, sample);
    await warm(machine);
    const entry = (await findFirst(machine.store, key)) as StoredEntry;
    (await entry.open()).close();
    const start = 2 * blockSizeBytes + 5;
    expect(Buffer.from(entry.readNow?.(start, start + 100) ?? [])).toEqual(bytes.subarray(start, start + 100));
    expect(await countBlocks()).toBe(0);
  });

  it('has after a restart what it had before', async () => {
    const first = await open();
    await storeSample(first.store, sample);
    await warm(first);
    await first.store.close();
    const second = await open({ dir: first.disk.dir });
    expect(await readKey(second.store, key)).toEqual(bytes);
    expect(await countBlocks()).toBe(0);
  });

  it('has nothing that a disk store would take for an entry of its own', async () => {
    const machine = await open();
    await storeTagged(machine.store, sample, ['t']);
    await warm(machine);
    expect(await machine.disk.store.find(key)).toEqual([]);
    expect((await machine.disk.store.list({ kind: 'prefix', prefix: 'http' }, 10)).entries).toEqual([]);
  });

  it('returns right bytes after a crash in the middle of writing', async () => {
    const machine = await open();
    await storeSample(machine.store, sample);
    const reader = await ((await findFirst(machine.store, key)) as StoredEntry).open();
    for (const index of [0, 1, 2, 3]) await reader.readBlock(index);
    await expect.poll(() => kept(machine)).toEqual(['part']);
    // What a process that is killed now leaves behind.
    const dir = await temporaryDirectory();
    await cp(machine.disk.dir, dir, { recursive: true });
    reader.close();
    const after = await open({ dir });
    expect(await readKey(after.store, key)).toEqual(bytes);
    await expect.poll(() => kept(after)).toEqual(['all']);
  });

  describe('a removal', () => {
    const announcing = (changes: StoreChange[]): TestStoreOptions => ({
      sharing: {
        announce: async (change) => void changes.push(change),
        fenceOf: () => undefined,
        current: () => undefined,
      },
    });

    for (const [name, remove] of [
      ['by key', (store: Store) => store.removeKey(key)],
      ['by tag', (store: Store) => store.removeTagged('t')],
      ['by prefix', (store: Store) => store.removePrefixed(key.slice(0, -4))],
    ] as const) {
      it(`${name} by another machine reaches the disk, and so does one by itself`, async () => {
        const changes: StoreChange[] = [];
        const other = await open({}, announcing(changes));
        const machine = await open();
        await storeTagged(other.store, sample, ['t']);
        await warm(machine);
        await warm(other);
        changes.length = 0;
        await remove(other.store);
        expect(await kept(other)).toEqual([]);
        for (const change of changes) machine.store.applyChange(change);
        expect(await machine.store.find(key)).toEqual([]);
        await expect.poll(() => kept(machine)).toEqual([]);
      });
    }

    it('that is followed by new bytes gives these to all machines', async () => {
      const changes: StoreChange[] = [];
      const other = await open({}, announcing(changes));
      const machine = await open();
      await storeSample(other.store, sample);
      await warm(machine);
      await storeSample(other.store, { ...sample, seed: 2 });
      for (const change of changes) machine.store.applyChange(change);
      const fresh = Buffer.from(patternBytes(0, sample.sizeBytes, 2));
      expect(await readKey(machine.store, key)).toEqual(fresh);
      // The old generation leaves, and the new one is kept.
      await expect.poll(() => kept(machine)).toEqual(['all']);
      expect(await readKey(machine.store, key)).toEqual(fresh);
    });

    it('while the machine was down is found out at its start', async () => {
      const other = await open();
      const machine = await open();
      await storeSample(other.store, sample);
      await storeSample(other.store, { ...sample, key: 'stays' });
      await warm(machine);
      await readKey(machine.store, 'stays');
      await expect.poll(() => kept(machine)).toEqual(['all', 'all']);
      await machine.store.close();
      await other.store.removeKey(key);
      const again = await open({ dir: machine.disk.dir });
      expect(await again.store.find(key)).toEqual([]);
      await expect.poll(() => kept(again)).toEqual(['all']);
      expect(await readKey(again.store, 'stays')).toEqual(bytes);
    });

    it('that this machine learns of only by a gap in the messages reaches the disk', async () => {
      const other = await open();
      const machine = await open();
      await storeSample(other.store, sample);
      await warm(machine);
      await other.store.removeKey(key);
      machine.store.applyChange({ kind: 'fresh' });
      expect(await machine.store.find(key)).toEqual([]);
      await expect.poll(() => kept(machine)).toEqual([]);
    });

    it('lets those read on that have the entry open', async () => {
      const machine = await open();
      await storeSample(machine.store, sample);
      await warm(machine);
      const reader = await ((await findFirst(machine.store, key)) as StoredEntry).open();
      await machine.store.removeKey(key);
      expect(await readAll(reader, sample.sizeBytes, blockSizeBytes)).toEqual(bytes);
      reader.close();
    });

    it('leaves to them what the disk has not got, too, and nothing to those who come later', async () => {
      const machine = await open();
      await storeSample(machine.local, sample);
      const entry = (await findFirst(machine.local, key)) as StoredEntry;
      const first = await entry.open();
      await first.readBlock(0);
      await expect.poll(() => kept(machine)).toEqual(['part']);
      const second = await entry.open();
      await machine.local.removeKey(key);
      for (const reader of [first, second]) expect(await reader.readBlock(7)).toEqual(blockAt(7));
      await expect(entry.open()).rejects.toMatchObject({ code: 'bytes_gone' });
      first.close();
      second.close();
    });

    it('of a whole body leaves nothing to those who come later', async () => {
      const machine = await open();
      await storeSample(machine.local, sample);
      await readKey(machine.local, key);
      await expect.poll(() => kept(machine)).toEqual(['all']);
      const entry = (await findFirst(machine.local, key)) as StoredEntry;
      const reader = await entry.open();
      await machine.local.removeKey(key);
      await expect(entry.open()).rejects.toMatchObject({ code: 'bytes_gone' });
      expect(await readAll(reader, sample.sizeBytes, blockSizeBytes)).toEqual(bytes);
      reader.close();
    });

    it('by new metadata keeps the bytes', async () => {
      const changes: StoreChange[] = [];
      const other = await open({}, announcing(changes));
      const machine = await open();
      await storeSample(other.store, sample);
      await warm(machine);
      const entry = (await findFirst(other.store, key)) as StoredEntry;
      await other.store.replaceMetadata(entry, { ...sampleMetadata('freshened'), expiredAt: 5 });
      for (const change of changes) machine.store.applyChange(change);
      const found = (await findFirst(machine.store, key)) as StoredEntry;
      expect(found.metadata).toMatchObject({ expiredAt: 5 });
      await countBlocks();
      expect(await readEntry(machine.store, found)).toEqual(bytes);
      expect(await countBlocks()).toBe(0);
      expect(await kept(machine)).toEqual(['all']);
    });
  });

  describe('a fault of the disk', () => {
    it('that damages a block has this block sent by the engine again, and kept', async () => {
      const machine = await open();
      await storeSample(machine.store, sample);
      await warm(machine);
      const [body] = (await bodyFiles(machine.disk.dir)).filter((path) => path.endsWith('.body'));
      await flipBit(body as string, 4 * blockSizeBytes + 100);
      expect(await readKey(machine.store, key)).toEqual(bytes);
      expect(await countBlocks()).toBe(1);
      expect(machine.disk.counts.damagedBlocks).toBe(1);
      await expect.poll(() => kept(machine)).toEqual(['all']);
      expect(await readKey(machine.store, key)).toEqual(bytes);
      expect(await countBlocks()).toBe(0);
    });

    it('that damages a block which the engine has lost counts as absent bytes', async () => {
      const machine = await open();
      await storeSample(machine.store, sample);
      await warm(machine);
      const entry = (await findFirst(machine.store, key)) as StoredEntry;
      const [body] = (await bodyFiles(machine.disk.dir)).filter((path) => path.endsWith('.body'));
      await flipBit(body as string, 4 * blockSizeBytes + 100);
      await server.command('FLUSHALL');
      const reader = await entry.open();
      expect(await reader.readBlock(3)).toEqual(blockAt(3));
      await expect(reader.readBlock(4)).rejects.toMatchObject({ code: 'bytes_gone' });
      reader.close();
    });

    for (const writeFault of ['ENOSPC', 'EIO', 'EROFS']) {
      it(`that takes no bytes (${writeFault}) is the fault of no reader`, async () => {
        const failing = new FailingFileSystem();
        const machine = await open({ fileSystem: failing.fileSystem });
        await storeSample(machine.store, sample);
        failing.writeFault = writeFault;
        for (let time = 0; time < 3; time += 1) expect(await readKey(machine.store, key)).toEqual(bytes);
        await expect.poll(() => machine.store.readUsage().local?.isWritable).toBe(false);
        expect(machine.store.readUsage().isWritable).toBe(true);
        failing.writeFault = undefined;
        machine.disk.clock.advance(20_000);
        await expect.poll(() => readKey(machine.store, key).then(() => kept(machine))).toEqual(['all']);
      });
    }

    it('that fails to read has the engine send the bytes', async () => {
      const failing = new FailingFileSystem();
      const machine = await open({ fileSystem: failing.fileSystem });
      await storeSample(machine.store, sample);
      await warm(machine);
      failing.readFault = 'EIO';
      expect(await readKey(machine.store, key)).toEqual(bytes);
      expect(await countBlocks()).toBe(blockCount);
    });

    it('that is too small makes room, and never holds more than its bound', async () => {
      const maxSizeBytes = 500_000;
      const machine = await open({ maxSizeBytes });
      for (let at = 0; at < 8; at += 1) {
        await storeSample(machine.store, { ...sample, key: `k${at}` });
        expect(await readKey(machine.store, `k${at}`)).toEqual(bytes);
        await expect.poll(() => machine.store.readUsage().local?.usedBytes).toBeLessThanOrEqual(maxSizeBytes);
      }
      for (let at = 0; at < 8; at += 1) expect(await readKey(machine.store, `k${at}`)).toEqual(bytes);
      expect(machine.disk.counts.evictedEntries).toBeGreaterThan(0);
    });
  });

  describe('a fault of the engine', () => {
    /** The breaker opens after some commands without an answer. */
    const untilAway = async ({ local }: Machine): Promise<void> => {
      await expect.poll(() => local.find('other').then(() => local.readUsage().isWritable)).toBe(false);
    };

    it('leaves what is on the disk to those who know the entry', async () => {
      const patience = new Patience();
      const machine = await open({}, patience);
      await storeSample(machine.store, sample);
      await warm(machine);
      const entry = (await findFirst(machine.store, key)) as StoredEntry;
      await patience.whilePaused(server, async () => {
        expect(await readEntry(machine.store, entry)).toEqual(bytes);
      });
    });

    it('leaves the part of a body that is on the disk', async () => {
      const patience = new Patience();
      const machine = await open({}, patience);
      await storeSample(machine.local, sample);
      const entry = (await findFirst(machine.local, key)) as StoredEntry;
      const first = await entry.open();
      await first.readBlock(3);
      first.close();
      await expect.poll(() => machine.store.readUsage().local?.usedBytes).toBeGreaterThan(blockSizeBytes);
      await patience.whilePaused(server, async () => {
        await untilAway(machine);
        const reader = await entry.open();
        expect(await reader.readBlock(3)).toEqual(blockAt(3));
        await expect(reader.readBlock(4)).rejects.toMatchObject({ code: 'bytes_gone' });
        reader.close();
      });
      await expect.poll(() => readEntry(machine.local, entry)).toEqual(bytes);
    });

    it('that evicts blocks leaves those that the disk has', async () => {
      const machine = await open();
      await storeSample(machine.store, sample);
      await warm(machine);
      for (const name of (await server.command('KEYS', '*:b:*')) as string[]) await server.command('DEL', name);
      expect(await readKey(machine.store, key)).toEqual(bytes);
    });

    it('that is away does not empty the disk', async () => {
      const patience = new Patience();
      const machine = await open({}, patience);
      await storeSample(machine.store, sample);
      await warm(machine);
      await patience.whilePaused(server, async () => {
        await untilAway(machine);
        machine.store.applyChange({ kind: 'keys', keys: [key] });
        machine.store.applyChange({ kind: 'fresh' });
        expect(await machine.local.find(key)).toEqual([]);
      });
      await expect.poll(() => readKey(machine.local, key)).toEqual(bytes);
      expect(await kept(machine)).toEqual(['all']);
      expect(machine.store.readUsage().local?.hits).toBeGreaterThanOrEqual(blockCount);
    });

    it('in the middle of a fill leaves the bytes that are there', async () => {
      const machine = await open();
      await using writer = await openSampleWriter(machine.store, sample);
      await writer.publish(sampleMetadata(1));
      await writeBlocks(writer, blockSizeBytes, sample, [0, 1]);
      const reader = await ((await findFirst(machine.store, key)) as StoredEntry).open();
      await reader.readBlock(0);
      await expect.poll(() => kept(machine)).toEqual(['part']);
      await expect(reader.readBlock(5)).rejects.toMatchObject({ code: 'bytes_gone' });
      await writeBlocks(writer, blockSizeBytes, sample, [5]);
      expect(await reader.readBlock(5)).toEqual(blockAt(5));
      reader.close();
    });
  });

  it('is shared by the workers of a machine', async () => {
    const directory = await createSharedDirectory();
    const place = { kind: 'server', address: server } as const;
    const join = async () => {
      const { store: engine } = await openTestRedisStore(place, { prefix: 'p:', blockSizeBytes, maxEntryBytes: 4e6 });
      const wrap = (disk: Store) => createLocalTier({ disk, engine, clock: realClock, isFirst: false });
      const worker = await directory.open({ blockSizeBytes }, { wrap: (disk) => unwrapping(wrap(disk)) });
      return worker.front;
    };
    const [first, second] = [await join(), await join()];
    await storeSample(first, sample);
    expect(await readKey(first, key)).toEqual(bytes);
    const isWhole = async () => (await first.readUsage().local?.usedBytes) ?? 0;
    await expect.poll(isWhole).toBeGreaterThan(bytes.length);
    await expect
      .poll(async () => {
        await countBlocks();
        expect(await readKey(second, key)).toEqual(bytes);
        return await countBlocks();
      })
      .toBe(0);
    await second.removeKey(key);
    expect(await readKey(first, key)).toBeUndefined();
    expect(directory.told.some(({ change }) => change.kind === 'generations')).toBe(true);
  });
});

/** The messages of the disk stores reach the tiers as a server passes them on. */
function unwrapping(store: Store): Store {
  const apply = store.applyChange.bind(store);
  return Object.assign(store, { applyChange: (change: StoreChange) => apply({ kind: 'local', change }) });
}
