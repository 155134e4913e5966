/** Damage to body files, while the server runs and while it is stopped, costs another fetch and nothing else. */

import { appendFile, copyFile, mkdir, mkdtemp, rename, rm, stat, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askVerified } from '../support/clients/versioned-client.ts';
import { recoversWithinMs } from '../support/clocks/until.ts';
import { openVersionedOrigin, type VersionedOrigin } from '../support/origins/versioned-origin.ts';
import { faultRounds, faultSeed } from '../support/processes/fault-rounds.ts';
import {
  descriptorsOf,
  expectNothingKept,
  expectPromptEnd,
  untilBodiesClosed,
} from '../support/processes/process-remains.ts';
import { newPath, type Server, startSmall, untilHit, untilWhole } from '../support/processes/small-memory-server.ts';
import { flipBit, overwrite } from '../support/stores/damage.ts';
import { bodyFiles } from '../support/stores/disk-store.ts';
import { storeLines } from '../support/stores/store-complaints.ts';
import { seededRandom } from '../support/stores/traces.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

/** Ten blocks of 256 KiB, the last one shorter: more than fits into the memory tier. */
const sizeBytes = 2_500_001;
const blockSizeBytes = 256 * 1024;

const random = seededRandom(faultSeed);
const flips = Array.from({ length: Math.max(3, Math.ceil(faultRounds / 10)) }, (_, at) => at + 1);

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

/** An entry: its path at the origin, and the paths of its files. */
interface Files {
  readonly path: string;
  readonly body: string;
  readonly sums: string;
}

async function storeWithFiles(server: Server, dir: string): Promise<Files> {
  const before = new Set(await bodyFiles(dir));
  const path = newPath(sizeBytes);
  await untilHit(server, path);
  const [body = '', sums = '', ...more] = (await bodyFiles(dir)).filter((name) => !before.has(name));
  expect(more).toEqual([]);
  return { path, body, sums };
}

/** Reads the beginning of each block, and then the whole body until it arrives uncut. */
async function readAllOver(server: Server, path: string): Promise<void> {
  const starts = Array.from({ length: Math.ceil(sizeBytes / blockSizeBytes) }, (_, index) => index * blockSizeBytes);
  for (const start of starts) {
    const verified = await askVerified({ base: server.url, path, range: `bytes=${start}-${start + 99}` });
    expect([verified.status, verified.isComplete, verified.bytes], `${path} from ${start} on`).toEqual([
      206,
      true,
      100,
    ]);
  }
  await untilWhole(server, path);
}

describe('damage to the files of a body', () => {
  const flipAnywhere = async (path: string): Promise<void> =>
    flipBit(path, Math.floor(random() * (await stat(path)).size), Math.floor(random() * 8));
  const halve = async (path: string): Promise<void> => truncate(path, Math.floor((await stat(path)).size / 2) + 3);
  const replace = async (path: string, other: string): Promise<void> => {
    await copyFile(other, `${path}.other`);
    await rename(`${path}.other`, path);
  };

  /** A kind of damage. */
  interface Damage {
    readonly name: string;
    readonly inflict: (files: Files, other: Files) => Promise<unknown>;
    readonly isHarmless?: boolean;
  }
  const damages: readonly Damage[] = [
    ...flips.map((at) => ({
      name: `a bit of the body flips, ${at}`,
      inflict: ({ body }: Files) => flipAnywhere(body),
    })),
    ...flips.map((at) => ({
      name: `a bit of the sums flips, ${at}`,
      inflict: ({ sums }: Files) => flipAnywhere(sums),
    })),
    { name: 'the body loses its second half', inflict: ({ body }) => halve(body) },
    { name: 'the sums lose their second half', inflict: ({ sums }) => halve(sums) },
    { name: 'the body is empty', inflict: ({ body }) => truncate(body, 0) },
    { name: 'the sums are empty', inflict: ({ sums }) => truncate(sums, 0) },
    { name: 'both are empty', inflict: ({ body, sums }) => Promise.all([truncate(body, 0), truncate(sums, 0)]) },
    { name: 'the body is longer', inflict: ({ body }) => appendFile(body, patternBytes(0, 300_000)), isHarmless: true },
    { name: 'the sums are longer', inflict: ({ sums }) => appendFile(sums, patternBytes(0, 13)), isHarmless: true },
    { name: 'a block of the body is zeros', inflict: ({ body }) => overwrite(body, 300_000, Buffer.alloc(70_000)) },
    { name: 'the body is deleted', inflict: ({ body }) => rm(body) },
    { name: 'the sums are deleted', inflict: ({ sums }) => rm(sums) },
    { name: 'both are deleted', inflict: ({ body, sums }) => Promise.all([rm(body), rm(sums)]) },
    {
      name: "another entry's body takes the place of the body",
      inflict: ({ body }, other) => replace(body, other.body),
    },
    {
      name: "another entry's sums take the place of the sums",
      inflict: ({ sums }, other) => replace(sums, other.sums),
    },
    {
      name: "another entry's files take the place of both",
      inflict: ({ body, sums }, other) => Promise.all([replace(body, other.body), replace(sums, other.sums)]),
    },
    { name: 'a directory is in the place of the body', inflict: ({ body }) => rm(body).then(() => mkdir(body)) },
    { name: 'a directory is in the place of the sums', inflict: ({ sums }) => rm(sums).then(() => mkdir(sums)) },
  ];

  /** Checks that the damaged entry is served, fetched again and logged, and that another entry is not affected. */
  async function expectHealed(
    server: Server,
    files: Files,
    other: Files,
    { isHarmless = false }: Damage,
  ): Promise<void> {
    const linesBefore = storeLines(server.output()).length;
    const [fetched, otherFetched] = [origin.requestsFor(files.path), origin.requestsFor(other.path)];
    await readAllOver(server, files.path);
    await untilHit(server, files.path);
    const isFetchedAgain = origin.requestsFor(files.path) > fetched;
    expect(isFetchedAgain).toBe(!isHarmless);
    const generation = /([^/]+)\.body$/.exec(files.body)?.[1] ?? '';
    const lines = storeLines(server.output()).slice(linesBefore);
    if (isHarmless) expect(lines).toEqual([]);
    else expect(lines).not.toEqual([]);
    for (const line of lines) expect(line).toMatch(new RegExp(`${generation}.*damaged`));
    // At most one line per block.
    expect(lines.length).toBeLessThanOrEqual(Math.ceil(sizeBytes / blockSizeBytes));
    await untilHit(server, other.path);
    expect(origin.requestsFor(other.path)).toBe(otherFetched);
  }

  describe(`while the server runs (seed ${faultSeed})`, () => {
    let dir: string;
    let server: Server;
    let descriptors: number;
    beforeAll(async () => {
      dir = await mkdtemp(join(root, 'running-'));
      server = await startOn(dir);
      descriptors = descriptorsOf(server);
    });
    afterAll(() => server[Symbol.asyncDispose]());

    it.each(damages)('$name', { timeout: 2 * recoversWithinMs }, async (damage) => {
      const files = await storeWithFiles(server, dir);
      // The entry that was stored and read last fills memory, so no block of the first one is left there.
      const other = await storeWithFiles(server, dir);
      // An open body can be read although its files are deleted, and its sums are already known.
      await untilBodiesClosed(server);
      await damage.inflict(files, other);
      await expectHealed(server, files, other, damage);
    });

    it('leaves no connection or file open', async () => {
      await expectNothingKept(server, descriptors);
      await expectPromptEnd(server);
    });
  });

  describe(`while it is stopped (seed ${faultSeed})`, () => {
    const stored = new Map<Damage, { readonly files: Files; readonly other: Files }>();
    let server: Server;
    let descriptors: number;
    beforeAll(async () => {
      const dir = await mkdtemp(join(root, 'stopped-'));
      await using first = await startOn(dir);
      for (const damage of damages) {
        stored.set(damage, { files: await storeWithFiles(first, dir), other: await storeWithFiles(first, dir) });
      }
      await first.stop('SIGTERM');
      for (const [damage, { files, other }] of stored) await damage.inflict(files, other);
      server = await startOn(dir);
      descriptors = descriptorsOf(server);
    });
    afterAll(() => server[Symbol.asyncDispose]());

    it.each(damages)('$name', { timeout: 2 * recoversWithinMs }, async (damage) => {
      const entry = stored.get(damage);
      if (entry === undefined) throw new Error(`nothing was stored for "${damage.name}"`);
      await expectHealed(server, entry.files, entry.other, damage);
    });

    it('leaves no connection or file open', async () => {
      await expectNothingKept(server, descriptors);
      await expectPromptEnd(server);
    });
  });
});
