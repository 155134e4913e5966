/** A worker that is killed costs clients of other workers nothing, even with reloads, purges and evictions going on. */

import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { type AskAdmin, adminConfig, adminEnvironment, findAdmin } from '../support/clients/admin-client.ts';
import { askVerified, type Verified } from '../support/clients/versioned-client.ts';
import { until } from '../support/clocks/until.ts';
import { openVersionedOrigin, pathOf, type VersionedOrigin } from '../support/origins/versioned-origin.ts';
import { faultRounds, faultSeed } from '../support/processes/fault-rounds.ts';
import { childrenOf, isRunning } from '../support/processes/fleet-process.ts';
import { descriptorsOf, expectNothingKept, expectPromptEnd } from '../support/processes/process-remains.ts';
import { itOnLinux, openDescriptors } from '../support/processes/process-status.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { ownerOf } from '../support/processes/socket-owners.ts';
import { storeLines } from '../support/stores/store-complaints.ts';
import { storeRemains } from '../support/stores/store-remains.ts';
import { seededRandom } from '../support/stores/traces.ts';

/** Number of fleets, one after the other, on the store. Each has few kills, because a worker that dies often is replaced late. */
const lives = Math.ceil(faultRounds / 50);
/** Number of faults in the life of each fleet, one after the other. */
const faultsPerLife = 20;
const workerCount = 3;
/** How often each worker may be killed in one life. Up to this its replacement starts within half a second. */
const deathsPerWorker = 2;

const clientCount = 24;
/** Longest pause of the origin in the middle of a file. It makes many clients read a fill when its worker is killed. */
const pauseMs = 1000;
/** Maximum number of answers between two faults. */
const answersBetween = 16;

/** Bodies in files of many blocks, in a row of the index, in a file of one block. The most requested files are large. */
const sizes = [900_001, 300_001, 1024, 30_000, 40_000];
const fileCount = 120;
/** Number of files that are requested at the end. */
const fileCountAtEnd = 30;
/** About half of all files, so that entries are evicted all the time. The fills fit. */
const storeBytes = 16 * 1024 * 1024;
/** Number of descriptors that a worker may have more than a new one: connections to the origin and to other workers. */
const keptDescriptors = 2 * workerCount;

interface Worker {
  readonly id: number;
  readonly pid: number;
  readonly state: string;
}

interface Fill {
  readonly worker: number;
  readonly readers: number;
}

/** A fleet, its clients, and the faults that it suffers. */
class FaultyFleet {
  readonly #origin: VersionedOrigin;
  readonly #fleet: RangewayProcess & { readonly url: string };
  readonly #ask: AskAdmin;
  readonly #dir: string;
  readonly #random: () => number;
  /** The oldest version that each path may still have: the version at its last purge. */
  readonly #oldest = new Map<string, number>();
  readonly #killed: number[] = [];
  readonly #deaths = new Map<number, number>();
  #answers = 0;
  #isOver = false;
  purges = 0;
  hits = 0;

  constructor(
    { origin, dir, random }: { readonly origin: VersionedOrigin; readonly dir: string; readonly random: () => number },
    fleet: RangewayProcess & { readonly url: string },
    ask: AskAdmin,
  ) {
    this.#origin = origin;
    this.#fleet = fleet;
    this.#ask = ask;
    this.#dir = dir;
    this.#random = random;
  }

  get kills(): number {
    return this.#killed.length;
  }

  /** Runs all faults of this fleet under load. */
  async live(): Promise<void> {
    const clients = Array.from({ length: clientCount }, () => this.#read());
    const faults = this.#sufferAll().finally(() => {
      this.#isOver = true;
    });
    await Promise.all([faults, ...clients]);
  }

  /** Checks that nothing is left over, and ends the fleet. The numbers of descriptors are those before the load. */
  async end([ofSupervisor, ofWorker]: readonly [number, number]): Promise<void> {
    await until('all serve', async () => (await this.#serving()).length === workerCount);
    await until('no fill runs', async () => (await this.#ask('GET', '/api/v1/fills')).json.fills.length === 0);
    // A lease that a dead worker still holds would make these requests wait.
    const asked = Array.from({ length: fileCountAtEnd }, (_, file) => this.#pathOf(file));
    for (const path of asked) this.#expectWhole(await askVerified({ base: this.#fleet.url, path }), path, undefined);
    const clean = { instances: workerCount, held: [], miscounted: [0, 0], orphans: [], bodiless: [] };
    await expect.poll(() => storeRemains(this.#dir)).toEqual(clean);
    await expectNothingKept(this.#fleet, ofSupervisor);
    const workers = await this.#serving();
    for (const { pid } of workers) await expectNothingKept({ ...this.#fleet, pid }, ofWorker + keptDescriptors);
    expect(storeLines(this.#fleet.output())).toEqual([]);
    await expectPromptEnd(this.#fleet);
    expect([...workers.map(({ pid }) => pid), ...this.#killed].filter(isRunning)).toEqual([]);
    expect(await storeRemains(this.#dir)).toEqual({ ...clean, instances: 0 });
    expect(await readdir(this.#dir)).not.toContain('index.sqlite.damaged');
  }

  /** Runs one client, which sends one request after the other. */
  async #read(): Promise<void> {
    while (!this.#isOver) {
      const path = this.#pathOf(Math.floor(this.#random() ** 4 * fileCount));
      await this.#askOne(path, this.#random() < 0.4 ? undefined : this.#rangeOf(path));
      this.#answers += 1;
    }
  }

  async #askOne(path: string, range: string | undefined): Promise<void> {
    const { url, pid } = this.#fleet;
    const [oldest, killsBefore] = [this.#oldest.get(path) ?? 0, this.kills];
    let worker: number | undefined;
    const onHead = (port: number): void => {
      worker = ownerOf(Number(new URL(url).port), port, childrenOf(pid));
    };
    const verified = await askVerified({ base: url, path, range, onHead });
    // If a worker is killed before its head arrives, it is not known which worker had the request.
    const isExcused = worker === undefined ? this.kills > killsBefore : this.#killed.includes(worker);
    if (!isExcused) this.#expectWhole(verified, path, range);
    if (verified.isHit) this.hits += 1;
    if (verified.version === undefined) return;
    expect(verified.version.version, `${path} was purged`).toBeGreaterThanOrEqual(oldest);
  }

  /** A fresh part whose content has changed at the origin is cut where its missing bytes begin. */
  #expectWhole({ status, isComplete, version }: Verified, path: string, range: string | undefined): void {
    const isOutdated = version !== undefined && version.version !== this.#origin.versionOf(path);
    const name = `${path} ${range ?? ''}`;
    expect(status, name).toBe(range === undefined ? 200 : 206);
    expect(isComplete || isOutdated, name).toBe(true);
  }

  async #sufferAll(): Promise<void> {
    for (let count = 0; count < faultsPerLife; count += 1) {
      const enough = this.#answers + 1 + Math.floor(this.#random() * answersBetween);
      await until('clients are answered', async () => this.#answers >= enough);
      const kind = this.#random();
      if (kind < 0.4) await this.#killOne();
      else if (kind < 0.5) process.kill(this.#fleet.pid, 'SIGHUP');
      else await this.#purgeOne();
    }
  }

  async #killOne(): Promise<void> {
    const mortal = (await this.#serving()).filter(({ id }) => (this.#deaths.get(id) ?? 0) < deathsPerWorker);
    // Prefers the worker whose fill has the most readers.
    const { fills } = (await this.#ask('GET', '/api/v1/fills')).json as { readonly fills: readonly Fill[] };
    const [sought] = fills.toSorted((one, other) => other.readers - one.readers);
    const filling = mortal.find(({ id }) => id === sought?.worker);
    const victim = filling ?? mortal[Math.floor(this.#random() * mortal.length)];
    if (victim === undefined) return;
    this.#deaths.set(victim.id, (this.#deaths.get(victim.id) ?? 0) + 1);
    this.#killed.push(victim.pid);
    process.kill(victim.pid, 'SIGKILL');
  }

  async #purgeOne(): Promise<void> {
    const path = this.#pathOf(Math.floor(this.#random() ** 4 * fileCount));
    if (this.#random() < 0.5) this.#origin.change(path);
    const version = this.#origin.versionOf(path);
    const { status, text } = await this.#ask('POST', '/api/v1/purge', { url: `http://files.example${path}` });
    // 503 while no worker serves.
    expect(status, text).toBeOneOf([200, 503]);
    if (status !== 200) return;
    this.purges += 1;
    this.#oldest.set(path, version);
  }

  async #serving(): Promise<readonly Worker[]> {
    const { workers } = (await this.#ask('GET', '/api/v1/status')).json as { readonly workers: readonly Worker[] };
    return workers.filter(({ state }) => state === 'serving');
  }

  #pathOf(file: number): string {
    const kind = file % 2 === 0 ? 'whole' : 'ranged';
    return pathOf({
      kind,
      freshSeconds: file % 3 === 0 ? 1 : 36_000,
      sizeBytes: sizes[file % sizes.length] ?? 0,
      file,
    });
  }

  #rangeOf(path: string): string {
    const sizeBytes = Number(path.split('/')[3]);
    const start = Math.floor(this.#random() * sizeBytes);
    const length = 1 + Math.floor(this.#random() ** 3 * sizeBytes);
    return this.#random() < 0.4 ? `bytes=${start}-` : `bytes=${start}-${start + length - 1}`;
  }
}

/** Starts a fleet; returns the numbers of descriptors of its processes too. */
async function startFleet(origin: VersionedOrigin, dir: string, random: () => number) {
  const config = {
    listen: '127.0.0.1:0',
    workers: workerCount,
    store: { dir: join(dir, 'store'), maxSizeBytes: storeBytes, memoryBytes: '3MB', blockSizeBytes: 65_536 },
    log: { format: 'json' },
    admin: adminConfig,
    routes: [{ origin: origin.url }],
  };
  const started = await startConfigured(dir, config, adminEnvironment);
  const ask = await findAdmin(started);
  const ofWorkers = childrenOf(started.pid).map((pid) => openDescriptors(pid));
  const descriptors = [descriptorsOf(started), Math.max(...ofWorkers)] as const;
  return { started, descriptors, fleet: new FaultyFleet({ origin, dir: join(dir, 'store'), random }, started, ask) };
}

describe('workers that are killed under load', () => {
  itOnLinux(
    `in ${lives} fleets: every byte is right, no client of another worker is cut, and nothing is left over (seed ${faultSeed})`,
    async () => {
      const random = seededRandom(faultSeed);
      const dir = await mkdtemp(join(tmpdir(), 'rangeway-workers-'));
      let [kills, purges, hits] = [0, 0, 0];
      try {
        await using origin = await openVersionedOrigin(() => Math.floor(random() * pauseMs));
        for (let life = 1; life <= lives; life += 1) {
          const { started, descriptors, fleet } = await startFleet(origin, dir, random);
          await using _started = started;
          const lived = fleet.live().then(() => fleet.end(descriptors));
          await lived.catch((error: unknown) => {
            throw new Error(`in life ${life} of seed ${faultSeed}`, { cause: error });
          });
          kills += fleet.kills;
          purges += fleet.purges;
          hits += fleet.hits;
        }
        expect(kills).toBeGreaterThanOrEqual(2 * lives);
        expect(purges).toBeGreaterThanOrEqual(2 * lives);
        expect(hits).toBeGreaterThanOrEqual(10 * lives);
      } finally {
        await rm(dir, { recursive: true, force: true });
      }
    },
    60_000 + lives * 120_000,
  );
});
