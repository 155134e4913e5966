/** A server that is killed under load, again and again, loses only unfinished transfers. No byte is ever wrong, and the store survives. */

import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { askVerified, type Verified } from '../support/clients/versioned-client.ts';
import { until } from '../support/clocks/until.ts';
import { openVersionedOrigin, pathOf, type VersionedOrigin } from '../support/origins/versioned-origin.ts';
import { faultRounds, faultSeed } from '../support/processes/fault-rounds.ts';
import { descriptorsOf, expectNothingKept, expectPromptEnd } from '../support/processes/process-remains.ts';
import { startProxy } from '../support/processes/rangeway-process.ts';
import { storeLines } from '../support/stores/store-complaints.ts';
import { orphanedFiles } from '../support/stores/store-directory.ts';
import { seededRandom } from '../support/stores/traces.ts';

type Proxy = Awaited<ReturnType<typeof startProxy>>;

/** Bodies in a row of the index, in a file of one block, and in files of many blocks. */
const sizes = [1024, 30_000, 40_000, 300_001, 1_300_001, 3 * 1024 * 1024];

/** Number of requests in a round. Some have ended when the server is killed. */
const requestsAtOnce = 16;
/** The server is killed after at most this many chunks have arrived. By then most requests have ended. */
const maxChunks = 120;
/** Entries that were complete for this long, in milliseconds, must survive. */
const settledMs = 1000;
/** Number of entries that survived before and are requested again in each round. */
const askedAgain = 6;

/** A store and its servers through all rounds. */
class KilledServer {
  readonly #origin: VersionedOrigin;
  readonly #dir: string;
  readonly #random: () => number;
  /** Paths of files that never change, the latest last. */
  readonly #lasting: string[] = [];
  readonly #changing: readonly string[];
  /** When each path was first served whole from the store. */
  readonly #completeAt = new Map<string, number>();
  #killedAt = Number.NEGATIVE_INFINITY;

  constructor(origin: VersionedOrigin, dir: string, random: () => number) {
    this.#origin = origin;
    this.#dir = dir;
    this.#random = random;
    const kinds = ['ranged', 'whole'] as const;
    this.#changing = [40_000, 1_300_001].flatMap((sizeBytes, at) =>
      kinds.map((kind, which) => pathOf({ kind, freshSeconds: 1, sizeBytes, file: 900_000 + 2 * at + which })),
    );
  }

  /** Number of paths that must have survived. */
  get settledCount(): number {
    return this.#settled().length;
  }

  /** Starts the server, checks what survived, and kills it in the middle of requests. */
  async round(): Promise<void> {
    await using proxy = await this.#start();
    const settled = this.#settled();
    const asked = new Set([
      ...settled.slice(-askedAgain),
      ...Array.from({ length: askedAgain }, () => this.#pick(settled)),
    ]);
    for (const path of asked) if (path !== undefined) await this.#expectKept(proxy, path);
    for (const path of this.#lasting.slice(-2 * askedAgain)) await this.#ask(proxy, path);

    this.#addLasting();
    const changed = this.#pick(this.#changing);
    if (changed !== undefined) this.#origin.change(changed);
    await this.#killUnderLoad(proxy);
    expect(storeLines(proxy.output())).toEqual([]);
    expect(await readdir(this.#dir)).not.toContain('index.sqlite.damaged');
  }

  /** Starts the server once more, checks that leftovers are swept, and ends it regularly. */
  async finish(): Promise<void> {
    const orphans = await orphanedFiles(this.#dir);
    await using proxy = await this.#start();
    const before = descriptorsOf(proxy);
    const isSwept = async (): Promise<boolean> => proxy.output().includes('Files without an entry were removed');
    if (orphans.length > 0) await until('the orphans are swept', isSwept);
    for (const path of this.#settled()) await this.#expectKept(proxy, path);
    await Promise.all(this.#requests().map(({ path, range }) => this.#ask(proxy, path, range)));
    await expectNothingKept(proxy, before);
    expect(storeLines(proxy.output())).toEqual([]);
    await expectPromptEnd(proxy);
    expect(await orphanedFiles(this.#dir)).toEqual([]);
    expect(await readdir(this.#dir)).not.toContain('index.sqlite.damaged');
  }

  async #start(): Promise<Proxy> {
    return await startProxy(this.#origin.url, ['--dir', this.#dir, '--log-level', 'debug']);
  }

  /** Returns the paths that must have survived the last kill. */
  #settled(): string[] {
    return [...this.#completeAt].filter(([, at]) => at < this.#killedAt - settledMs).map(([path]) => path);
  }

  /** Adds three files. Some are stored whole, some in part, before the server is killed. */
  #addLasting(): void {
    for (let at = 0; at < 3; at += 1) {
      const kind = this.#random() < 0.5 ? 'ranged' : 'whole';
      const sizeBytes = this.#pick(sizes) ?? 0;
      this.#lasting.push(pathOf({ kind, freshSeconds: 36_000, sizeBytes, file: this.#lasting.length }));
    }
  }

  #requests(): { path: string; range: string | undefined }[] {
    const paths = [...this.#lasting.slice(-6), ...this.#changing];
    return Array.from({ length: requestsAtOnce }, () => {
      const path = this.#pick(paths) ?? '';
      return { path, range: this.#random() < 0.4 ? undefined : this.#range(Number(path.split('/')[3])) };
    });
  }

  #range(sizeBytes: number): string {
    const start = Math.floor(this.#random() * sizeBytes);
    const length = 1 + Math.floor(this.#random() ** 3 * sizeBytes);
    switch (Math.floor(this.#random() * 3)) {
      case 0:
        return `bytes=${start}-`;
      case 1:
        return `bytes=-${length}`;
      default:
        return `bytes=${start}-${start + length - 1}`;
    }
  }

  async #killUnderLoad(proxy: Proxy): Promise<void> {
    let chunksLeft = Math.floor(this.#random() * maxChunks);
    let isKilled = false;
    const { promise: killing, resolve: kill } = Promise.withResolvers<void>();
    const onChunk = (): void => {
      chunksLeft -= 1;
      if (chunksLeft <= 0) kill();
    };
    const requests = this.#requests().map(async ({ path, range }) => {
      const verified = await this.#read(proxy, path, range, onChunk);
      if (!isKilled) this.#expectWhole(verified, path, range);
    });
    if (chunksLeft === 0) kill();
    await Promise.race([killing, Promise.all(requests)]);
    isKilled = true;
    this.#killedAt = performance.now();
    await proxy.stop('SIGKILL');
    await Promise.all(requests);
  }

  async #ask(proxy: Proxy, path: string, range?: string): Promise<void> {
    this.#expectWhole(await this.#read(proxy, path, range), path, range);
  }

  /** Reads and verifies a response, and notes whether the whole file was served from the store. */
  async #read(proxy: Proxy, path: string, range?: string, onChunk = (): void => {}): Promise<Verified> {
    const verified = await askVerified({ base: proxy.url, path, range, onChunk });
    const { isHit, isComplete, status } = verified;
    const isLasting = !this.#changing.includes(path);
    if (isLasting && isHit && isComplete && status === 200 && !this.#completeAt.has(path)) {
      this.#completeAt.set(path, performance.now());
    }
    return verified;
  }

  async #expectKept(proxy: Proxy, path: string): Promise<void> {
    const before = this.#origin.requestsFor(path);
    const verified = await askVerified({ base: proxy.url, path });
    this.#expectWhole(verified, path, undefined);
    expect([verified.isHit, this.#origin.requestsFor(path)], `${path} was complete before`).toEqual([true, before]);
  }

  /** A fresh part whose content has changed at the origin is cut where its missing bytes begin. */
  #expectWhole({ status, isComplete, version }: Verified, path: string, range: string | undefined): void {
    const isOutdated = version !== undefined && version.version !== this.#origin.versionOf(path);
    const name = `${path} ${range ?? ''}`;
    expect(status, name).toBe(range === undefined ? 200 : 206);
    expect(isComplete || isOutdated, name).toBe(true);
  }

  #pick<T>(values: readonly T[]): T | undefined {
    return values[Math.floor(this.#random() * values.length)];
  }
}

describe('kill -9 under load', () => {
  it(
    `${faultRounds} times: every byte is right, and all complete entries survive (seed ${faultSeed})`,
    async () => {
      const random = seededRandom(faultSeed);
      const dir = await mkdtemp(join(tmpdir(), 'rangeway-kill-'));
      try {
        await using origin = await openVersionedOrigin(() => Math.floor(random() * 100));
        const server = new KilledServer(origin, dir, random);
        for (let round = 1; round <= faultRounds; round += 1) {
          await server.round().catch((error: unknown) => {
            throw new Error(`in round ${round} of seed ${faultSeed}`, { cause: error });
          });
        }
        expect(server.settledCount).toBeGreaterThanOrEqual(Math.floor(faultRounds / 2));
        await server.finish();
      } finally {
        await rm(dir, { recursive: true, force: true });
      }
    },
    60_000 + faultRounds * 4000,
  );
});
