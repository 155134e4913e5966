/** A store on a real disk under random traffic: files are damaged, the disk fails, and the store is closed and opened again. */

import { readSync } from 'node:fs';
import { rm, stat, truncate } from 'node:fs/promises';
import { expect } from 'vitest';
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
import { createSteeredStore } from '../stores/steered-store.ts';
import { orphanedFiles } from '../stores/store-directory.ts';
import { noteMoved } from '../wire/wire-quiet.ts';
import type { GroundStep, StoreOf, TrafficGround } from './traffic-ground.ts';
import { describeEntry, expectRightEntries, keptEntries } from './traffic-kept.ts';
import type { Plan } from './traffic-plan.ts';
import type { DiskStep } from './traffic-steps.ts';

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
  readonly mayServeRemoved = false;
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

  async open(now: () => number): Promise<StoreOf> {
    const { blockSizeBytes, tierBytes } = this.#plan;
    this.#now = now;
    this.#disk = await this.#openDisk();
    const tier = createMemoryTier({ maxSizeBytes: tierBytes });
    const store = createSteeredStore({ blockSizeBytes, below: createTieredStore(tier, this.#disk, now) });
    return () => store;
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
    this.#kept = await keptEntries(this.#disk);
  }

  async expectClosed(): Promise<void> {
    expect(this.#files.open).toEqual([]);
    expect(await orphanedFiles(this.#dir)).toEqual([]);
  }

  async expectRightKept(latestVersion: number): Promise<void> {
    await this.heal();
    const disk = await this.#openDisk();
    const isDamaged = this.#plan.steps.some(({ kind }) => kind === 'file-damage' || kind === 'file-fault');
    await expectRightEntries(this.#plan, disk, { latestVersion, isDamaged });
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
    const entries = await keptEntries(disk);
    expect(entries.map(describeEntry)).toEqual(this.#kept.map(describeEntry));
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
}
