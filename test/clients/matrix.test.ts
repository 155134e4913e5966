/**
 * Every client of the matrix before every origin that it names, without Rangeway and with it. With Rangeway each pair must work,
 * and the origin must not send more than the files. docs/clients.md has what came out; `npm run clients:table` writes it.
 *
 * `RANGEWAY_CLIENTS=short` runs each client before one origin, and only with Rangeway.
 */

import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { itWith } from '../support/processes/programs.ts';
import { closeBrowser } from './matrix/browser.ts';
import { clients, shortPairs } from './matrix/clients.ts';
import { type Fixtures, makeFixtures } from './matrix/fixtures.ts';
import { allowedBytes, type Ground, openGround } from './matrix/ground.ts';
import { origins } from './matrix/origins.ts';
import { bytesOf } from './matrix/relay.ts';
import { committedVerdicts, type Pair, page, verdicts, withTable } from './matrix/table.ts';

const { RANGEWAY_CLIENTS: form = 'all' } = process.env;
if (form !== 'all' && form !== 'short') throw new Error(`RANGEWAY_CLIENTS: expected all or short, found ${form}`);
const isShort = form === 'short';
const chosen = shortPairs();

let dir: string;
let fixtures: Fixtures;
const pairs: Pair[] = [];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-matrix-'));
  // Apache runs as another user.
  await chmod(dir, 0o755);
  await mkdir(join(dir, 'fixtures'));
  fixtures = await makeFixtures(join(dir, 'fixtures'));
});
afterAll(async () => {
  await closeBrowser();
  await rm(dir, { recursive: true, force: true });
});

describe.each(origins)('in front of $name', (origin) => {
  let opened: Promise<Ground> | undefined;
  afterAll(async () => (await opened)?.[Symbol.asyncDispose]());

  for (const client of clients.filter((each) =>
    isShort ? chosen.get(each) === origin : each.origins.includes(origin),
  )) {
    itWith([...origin.programs, ...client.programs], client.name, async () => {
      opened ??= openGround(origin, fixtures, join(dir, String(origins.indexOf(origin))));
      const ground = await opened;
      const without = isShort ? undefined : await ground.use(client, 'without');
      const through = await ground.use(client, 'with');
      if (without !== undefined) pairs.push({ client: client.name, origin: origin.name, without, with: through });
      if (through.fault !== undefined) throw through.fault;
      expect(through.atOrigin.length).toBeGreaterThan(0);
      const fileBytes = client.fileBytes?.(fixtures);
      if (fileBytes !== undefined) expect(bytesOf(through.atOrigin)).toBeLessThan(allowedBytes(origin, fileBytes));
    });
  }
});

describe('docs/clients.md', () => {
  const { RANGEWAY_CLIENTS_TABLE: isToBeWritten } = process.env;
  const declared = clients.flatMap((client) =>
    origins.filter((origin) => client.origins.includes(origin)).map((origin) => `${client.name} | ${origin.name}`),
  );
  const rowOf = (pair: Pair): number => declared.indexOf(`${pair.client} | ${pair.origin}`);

  it(isToBeWritten === '1' ? 'is written' : 'has all pairs, and what came of those that ran', async () => {
    const ran = pairs.toSorted((one, other) => rowOf(one) - rowOf(other));
    if (isToBeWritten === '1') await writeFile(page, withTable(await readFile(page, 'utf8'), ran));
    const rows = committedVerdicts();
    expect(rows.map((row) => row.split(' | ').slice(0, 2).join(' | '))).toEqual(declared);
    // Programs that are missing on this machine leave pairs out.
    expect(rows).toEqual(expect.arrayContaining([...verdicts(ran)]));
  });
});
