/** Damage to the index, while the server runs and while it is stopped, costs another fetch and nothing else. */

import { cp, mkdtemp, readdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recoversWithinMs } from '../support/clocks/until.ts';
import { openVersionedOrigin, type VersionedOrigin } from '../support/origins/versioned-origin.ts';
import { faultSeed } from '../support/processes/fault-rounds.ts';
import { descriptorsOf, expectNothingKept, expectPromptEnd } from '../support/processes/process-remains.ts';
import { newPath, type Server, startSmall, untilHit } from '../support/processes/small-memory-server.ts';
import { flipBit, overwrite } from '../support/stores/damage.ts';
import { storeLines } from '../support/stores/store-complaints.ts';
import { seededRandom } from '../support/stores/traces.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const random = seededRandom(faultSeed);

let root: string;
let origin: VersionedOrigin;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'rangeway-damage-'));
  origin = await openVersionedOrigin();
});
afterAll(async () => {
  await origin[Symbol.asyncDispose]();
  await rm(root, { recursive: true, force: true });
});

const startOn = (dir: string): Promise<Server> => startSmall(origin.url, dir);

describe(`damage to the index (seed ${faultSeed})`, () => {
  const pageBytes = 4096;
  const noise = patternBytes(0, 64 * 1024);
  const trashPages = async (path: string, firstPage: number, share: number): Promise<void> => {
    const pages = Math.floor((await stat(path)).size / pageBytes);
    for (let page = firstPage; page < pages; page += 1) {
      const at = Math.floor(random() * (noise.length - pageBytes));
      if (random() < share) await overwrite(path, page * pageBytes, Buffer.from(noise.subarray(at, at + pageBytes)));
    }
  };
  const flipBits = async (path: string, count: number): Promise<void> => {
    const { size } = await stat(path);
    for (let at = 0; at < count; at += 1) await flipBit(path, Math.floor(random() * size), Math.floor(random() * 8));
  };
  const without = (dir: string, ...suffixes: string[]) =>
    Promise.all(suffixes.map((suffix) => rm(join(dir, `index.sqlite${suffix}`), { force: true })));

  const index = (dir: string): string => join(dir, 'index.sqlite');
  const wal = (dir: string): string => join(dir, 'index.sqlite-wal');
  const damages: readonly (readonly [name: string, inflict: (dir: string) => Promise<unknown>])[] = [
    ['bits of the file flip', (dir) => flipBits(index(dir), 50)],
    ['some pages are noise', (dir) => trashPages(index(dir), 0, 0.3)],
    ['all pages but the first are noise', (dir) => trashPages(index(dir), 1, 1)],
    ['the header is noise', (dir) => overwrite(index(dir), 0, Buffer.from(noise.subarray(0, 100)))],
    ['the file is empty', (dir) => truncate(index(dir), 0)],
    ['the file has lost its second half', async (dir) => truncate(index(dir), (await stat(index(dir))).size / 2)],
    ['the file is something else', (dir) => writeFile(index(dir), 'no database at all\n'.repeat(5000))],
    ['bits of the write-ahead log flip', (dir) => flipBits(wal(dir), 50)],
    ['pages of the write-ahead log are noise', (dir) => trashPages(wal(dir), 0, 0.3)],
    ['the write-ahead log is empty', (dir) => truncate(wal(dir), 0)],
    [
      'the write-ahead log has lost its second half',
      async (dir) => truncate(wal(dir), (await stat(wal(dir))).size / 2),
    ],
    ['the file is deleted', (dir) => without(dir, '')],
    ['the write-ahead log is deleted', (dir) => without(dir, '-wal', '-shm')],
    ['all of the index is deleted', (dir) => without(dir, '', '-wal', '-shm')],
    ['all bodies are deleted', (dir) => rm(join(dir, 'blocks'), { recursive: true })],
    ['the whole directory is emptied', (dir) => emptyDirectory(dir)],
  ];

  /** Small and large, so that there are inline bodies and files. */
  const storedSizes = [...Array.from({ length: 12 }, (_, at) => 500 + 2000 * at), 40_000, 700_001];

  async function fill(server: Server, fileSizes: readonly number[]): Promise<string[]> {
    const paths = fileSizes.map((size) => newPath(size));
    await Promise.all(paths.map((path) => untilHit(server, path)));
    return paths;
  }

  /** Checks that all paths are served, and are stored again where they were lost. */
  async function expectService(server: Server, paths: readonly string[]): Promise<void> {
    const others = [newPath(3000), newPath(40_000), newPath(700_001)];
    await Promise.all([...paths, ...others].map((path) => untilHit(server, path)));
    const lines = storeLines(server.output());
    // No line is logged twice.
    expect(new Set(lines.map((line) => line.replace(/"time":"?[^,"]+"?,/, ''))).size).toBe(lines.length);
    expect(lines.length).toBeLessThanOrEqual(2 * paths.length);
  }

  /** Checks that the server ends promptly, and that the next one works. */
  async function expectEndAndRestart(server: Server, dir: string, paths: readonly string[]): Promise<void> {
    await expectPromptEnd(server);
    await using next = await startOn(dir);
    await expectService(next, paths);
    expect(await next.stop('SIGTERM'), next.output()).toBe(0);
  }

  const timeout = 4 * recoversWithinMs;

  it.each(damages)('while the server runs: %s', { timeout }, async (_, inflict) => {
    const dir = await mkdtemp(join(root, 'index-'));
    await using server = await startOn(dir);
    const descriptors = descriptorsOf(server);
    const paths = await fill(server, storedSizes);
    await inflict(dir);
    await expectService(server, paths);
    await expectNothingKept(server, descriptors);
    await expectEndAndRestart(server, dir, paths);
  });

  it.each(damages)('while it is stopped: %s', { timeout }, async (_, inflict) => {
    const dir = await mkdtemp(join(root, 'index-'));
    await using killed = await startOn(dir);
    const paths = await fill(killed, storedSizes);
    // The server is killed so that a write-ahead log is left.
    await killed.stop('SIGKILL');
    await inflict(dir);

    await using server = await startOn(dir);
    await expectService(server, paths);
    expect(await server.stop('SIGTERM'), server.output()).toBe(0);
  });

  it('while it is stopped: rows can be found by their keys but not by their generations', { timeout }, async () => {
    const dir = await mkdtemp(join(root, 'index-'));
    await using first = await startOn(dir);
    const paths = await fill(first, storedSizes);
    await first.stop('SIGTERM');
    await misnameGenerations(index(dir));

    await using server = await startOn(dir);
    await expectService(server, paths);
    expect(await server.stop('SIGTERM'), server.output()).toBe(0);
  });

  describe('when it is larger than the part that the server has in memory', () => {
    let model: string;
    let stored: readonly string[];
    beforeAll(async () => {
      model = await mkdtemp(join(root, 'large-'));
      await using server = await startOn(model);
      const paths: string[] = [];
      for (let at = 0; at < 50; at += 1) paths.push(...(await fill(server, Array(16).fill(30_000))));
      stored = paths;
      await server.stop('SIGTERM');
    });

    const selected = damages.filter(([name]) =>
      /some pages|bits of the write-ahead|log is empty|second half/.test(name),
    );
    it.each(selected)('while the server runs: %s', { timeout }, async (_, inflict) => {
      const dir = await mkdtemp(join(root, 'index-'));
      await cp(model, dir, { recursive: true });
      await using server = await startOn(dir);
      const paths = [...stored.slice(0, 100), ...(await fill(server, storedSizes))];
      await inflict(dir);
      await expectService(server, paths);
      expect(await server.stop('SIGTERM'), server.output()).toBe(0);
    });
  });
});

/** Flips a bit in each name of a generation, only in the SQLite index over generations. */
async function misnameGenerations(path: string): Promise<void> {
  const database = new DatabaseSync(path);
  const pages = database
    .prepare(
      `SELECT pageno FROM dbstat WHERE name IN (
        SELECT list.name FROM pragma_index_list('entries') AS list, pragma_index_info(list.name) AS info
        WHERE info.seqno = 0 AND info.name = 'generation')`,
    )
    .all();
  database.close();
  for (const { pageno } of pages) {
    const start = (Number(pageno) - 1) * 4096;
    const page = (await readFile(path)).toString('latin1', start, start + 4096);
    for (const { index: at } of page.matchAll(/[0-9a-f]{32}/g)) await flipBit(path, start + at + 31);
  }
}

async function emptyDirectory(dir: string): Promise<void> {
  for (const name of await readdir(dir)) await rm(join(dir, name), { recursive: true });
}
