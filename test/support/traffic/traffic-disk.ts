/** A store on a real disk under random traffic: files are damaged, the disk fails, and the store is closed and opened again. */

import { readSync } from 'node:fs';
import { rm, stat, truncate } from 'node:fs/promises';
import { expect } from 'vitest';
import { fieldValue } from '../../../src/http/fields.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { readFileInto } from '../../../src/setup/store.ts';
import { systemCode } from '../../../src/store/disk/bodies/file-system.ts';
import type { QuickReadOptions } from '../../../src/store/disk/bodies/synchronous-io.ts';
import { openDiskStore } from '../../../src/store/disk/disk-store.ts';
import type { Store, StoredEntry } from '../../../src/store/store.ts';
import { createMemoryTier } from '../../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../../src/store/tiered/tiered-store.ts';
import { sequentialIds } from '../clocks/sequential-ids.ts';
import { turn } from '../clocks/turn.ts';
import { CountedFileSystem } from '../stores/counted-file-system.ts';
import { flipBit } from '../stores/damage.ts';
import { bodyFiles } from '../stores/disk-store.ts';
import { FailingFileSystem } from '../stores/failing-file-system.ts';
import { copyToSocket } from '../stores/moves.ts';
import { createSteeredStore, type SteeredStore } from '../stores/steered-store.ts';
import { orphanedFiles } from '../stores/store-directory.ts';
import { noteMoved } from '../wire/wire-quiet.ts';
import { possibleVersions } from './traffic-check.ts';
import { contentOf } from './traffic-content.ts';
import type { GroundStep, TrafficGround } from './traffic-ground.ts';
import type { Plan } from './traffic-plan.ts';
import { type DiskStep, targets } from './traffic-steps.ts';

/** The keys of the requested targets. */
const keys = targets.map((target) => `http://origin.example/ http://files.example${target}`);
/** Upper limit on the turns that `rest` waits, for work that never ends. */
const maxSteps = 500;

type FileDamage = Extract<DiskStep, { kind: 'file-damage' }>;

/**
 * Creates options for synchronous reads and for moves into sockets. The clock advances by more than a minute per tick, so that
 * verified pieces never count as sound after a damage. Unused files are closed a turn later.
 */
function movingReads(): QuickReadOptions {
  let now = 0;
  let isSameTick = false;
  const elapsed = () => {
    if (!isSameTick) {
      now += 61_000;
      isSameTick = true;
      queueMicrotask(() => {
        isSameTick = false;
      });
    }
    return now;
  };
  const after: QuickReadOptions['after'] = (_delayMs, callback) => {
    const waiting = setImmediate(callback);
    return () => clearImmediate(waiting);
  };
  return { elapsed, readSync, readFileInto, after, move: copyToSocket(noteMoved) };
}

/** A store in a directory, with memory in front of it. */
export class DiskGround implements TrafficGround {
  readonly #plan: Plan;
  readonly #dir: string;
  readonly #quickReads: QuickReadOptions | undefined;
  readonly #failing = new FailingFileSystem();
  readonly #files = new CountedFileSystem(this.#failing.fileSystem);
  readonly #randomId = sequentialIds();
  #now: () => number = () => 0;
  #disk: Store | undefined;
  /** The entries when the store was last idle. */
  #kept: readonly StoredEntry[] = [];

  /** With `moves`, bytes are moved to sockets where there is a wire. */
  constructor(plan: Plan, dir: string, moves: boolean) {
    this.#plan = plan;
    this.#dir = dir;
    this.#quickReads = moves ? movingReads() : undefined;
  }

  async open(now: () => number): Promise<SteeredStore> {
    const { blockSizeBytes, tierBytes } = this.#plan;
    this.#now = now;
    this.#disk = await this.#openDisk();
    const tier = createMemoryTier({ maxSizeBytes: tierBytes });
    return createSteeredStore({ blockSizeBytes, below: createTieredStore(tier, this.#disk, now) });
  }

  async take(step: GroundStep): Promise<void> {
    switch (step.kind) {
      case 'file-damage':
        return await this.#damage(step);
      case 'file-fault':
        this.#failing[`${step.on}Fault`] = step.code;
        return;
      case 'disk-full':
        this.#failing.freeBytes = 0;
        return;
      case 'file-heal':
        return await this.heal();
      default:
        throw new Error(`a disk has no ${step.kind}`);
    }
  }

  async heal(): Promise<void> {
    Object.assign(this.#failing, { writeFault: undefined, openFault: undefined, readFault: undefined });
    this.#failing.freeBytes = undefined;
  }

  turn(): Promise<void> {
    return turn();
  }

  async rest(): Promise<void> {
    await turn();
    for (let passed = 0; this.#files.isBusy && passed < maxSteps; passed += 1) {
      await this.#files.done();
      await turn();
    }
  }

  async expectIdle(): Promise<void> {
    expect(this.#files.open).toEqual([]);
    this.#kept = await entriesOf(this.#disk);
  }

  async expectClosed(): Promise<void> {
    expect(this.#files.open).toEqual([]);
    expect(await orphanedFiles(this.#dir)).toEqual([]);
  }

  async expectRightKept(latestVersion: number): Promise<void> {
    await this.heal();
    const disk = await this.#openDisk();
    for (const entry of await entriesOf(disk)) await this.#expectRight(entry, latestVersion);
    await disk.close();
    await this.expectClosed();
  }

  /** Opens the store, and checks that it has the entries of the last idle state. */
  async #openDisk(): Promise<Store> {
    const { blockSizeBytes, maxSizeBytes } = this.#plan;
    const disk = await openDiskStore({
      dir: this.#dir,
      maxSizeBytes,
      blockSizeBytes,
      now: () => this.#now(),
      randomId: this.#randomId,
      emit: () => {},
      fileSystem: this.#files.fileSystem,
      quickReads: this.#quickReads,
    });
    const entries = await entriesOf(disk);
    expect(entries.map(describe)).toEqual(this.#kept.map(describe));
    return disk;
  }

  /** Damages a file as a failing disk does. */
  async #damage({ manner, who, at }: FileDamage): Promise<void> {
    const files = await bodyFiles(this.#dir);
    const path = files[who % Math.max(1, files.length)];
    if (path === undefined) return;
    try {
      const { size } = await stat(path);
      if (manner === 'delete') await rm(path);
      else if (manner === 'truncate') await truncate(path, at % (size + 1));
      else if (size > 0) await flipBit(path, at % size, at % 8);
    } catch (error) {
      // The store may have removed the file meanwhile.
      if (systemCode(error) !== 'ENOENT') throw error;
    }
  }

  /** Fails where an entry has bytes of another version, or lacks a block without damage. */
  async #expectRight(entry: StoredEntry, latestVersion: number): Promise<void> {
    const isWhole =
      entry.isComplete && !this.#plan.steps.some(({ kind }) => kind === 'file-damage' || kind === 'file-fault');
    const blocks = await this.#blocksOf(entry);
    if (isWhole) expect(blocks).not.toContain(undefined);
    const { blockSizeBytes } = this.#plan;
    const version = Number(fieldValue(entry.metadata.fields, 'x-version'));
    const isRight = possibleVersions(this.#plan, version, latestVersion).some((each) => {
      // A fragment begins at an offset of the content.
      const content = contentOf(this.#plan, each).subarray(entry.metadata.fragment?.start ?? 0);
      return blocks.every((block, index) => {
        const start = index * blockSizeBytes;
        return block === undefined || Buffer.compare(block, content.subarray(start, start + blockSizeBytes)) === 0;
      });
    });
    if (!isRight) expect.fail(`a stored entry has other bytes than those of version ${version}`);
  }

  /** Reads the blocks of an entry; undefined for an absent block. */
  async #blocksOf(entry: StoredEntry): Promise<(Uint8Array | undefined)[]> {
    const count = Math.ceil(entry.sizeBytes / this.#plan.blockSizeBytes);
    const blocks = Array.from<Uint8Array | undefined>({ length: count });
    const reader = await entry.open().catch(undefinedWhenGone);
    for (let index = 0; index < count; index += 1) {
      blocks[index] = await reader?.readBlock(index).catch(undefinedWhenGone);
    }
    reader?.close();
    return blocks;
  }
}

async function entriesOf(store: Store | undefined): Promise<StoredEntry[]> {
  const found = await Promise.all(keys.map((key) => store?.find(key)));
  return found.flatMap((entries) => entries ?? []);
}

/** Returns everything of an entry but its bytes. */
function describe({ key, variant, generation, metadata, sizeBytes, isComplete, pinnedUntil }: StoredEntry) {
  return { key, variant, generation, metadata, sizeBytes, isComplete, pinnedUntil };
}

function undefinedWhenGone(error: unknown): undefined {
  if (!(error instanceof ProxyError && error.code === 'bytes_gone')) throw error;
}
