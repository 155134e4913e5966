/** `fill.parallel`, from the configuration file to the requests at the origin; reloads switch it while transfers run. */

import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const sizeBytes = 6_000_000;
const file = patternBytes(0, sizeBytes);
/** Bytes of each response that the origin sends before it waits for `release`. */
const sentAtOnce = 300_000;

let origin: Server;
let originUrl: string;
let dir: string;
let rangeway: RangewayProcess & { readonly url: string };
/** The requests at the origin: path and range. */
let asked: string[] = [];
let gate = Promise.withResolvers<void>();

function configOf(parallel: object | undefined): object {
  return {
    listen: '127.0.0.1:0',
    store: { type: 'memory' },
    log: { format: 'json', level: 'debug' },
    routes: [{ origin: originUrl, fill: { parallel } }],
  };
}

const on = { requests: 3, minBytes: '1MB', partBytes: '1MB' };

beforeAll(async () => {
  origin = createServer((request, response) => {
    const { range } = request.headers;
    const { promise } = gate;
    asked.push(`${request.url} ${range ?? 'whole'}`);
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? [];
    const start = Number(first ?? 0);
    const end = last === undefined || last === '' ? sizeBytes : Math.min(sizeBytes, Number(last) + 1);
    const part = first === undefined ? {} : { 'content-range': `bytes ${start}-${end - 1}/${sizeBytes}` };
    const fields = { etag: '"v1"', 'cache-control': 'max-age=600', 'accept-ranges': 'bytes', ...part };
    response.writeHead(first === undefined ? 200 : 206, { ...fields, 'content-length': end - start });
    const middle = Math.min(end, start + sentAtOnce);
    response.write(file.subarray(start, middle));
    void promise.then(() => response.end(file.subarray(middle, end)));
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  dir = await mkdtemp(join(tmpdir(), 'rangeway-parallel-'));
  rangeway = await startConfigured(dir, configOf(on));
});
afterAll(async () => {
  expect(await rangeway.stop('SIGTERM')).toBe(0);
  origin.closeAllConnections();
  origin.close();
  await rm(dir, { recursive: true, force: true });
});

/** Begins to download a path. Resolves when the origin has been asked for it `times` times. */
async function begin(path: string, times: number): Promise<{ readonly body: Promise<Buffer> }> {
  gate = Promise.withResolvers();
  asked = [];
  const body = fetch(rangeway.url + path).then(async (response) => Buffer.from(await response.arrayBuffer()));
  await expect.poll(() => asked).toHaveLength(times);
  return { body };
}

async function reload(parallel: object | undefined): Promise<void> {
  const outcomes = () => rangeway.output().match(/"stage":"reload(?:ed|_failed)"/g) ?? [];
  const before = outcomes().length;
  await writeFile(join(dir, 'rangeway.json'), JSON.stringify(configOf(parallel)));
  process.kill(rangeway.pid, 'SIGHUP');
  await expect.poll(outcomes).toHaveLength(before + 1);
  expect(outcomes().at(-1)).toContain('reloaded');
}

/** Lets the origin go on, and checks the body. */
async function finish({ body }: { readonly body: Promise<Buffer> }): Promise<void> {
  gate.resolve();
  expect((await body).equals(file)).toBe(true);
}

it('is switched off by a reload for new files, while running transfers go on to the last byte', async () => {
  const before = await begin('/a', 3);
  expect(asked).toEqual(['/a whole', expect.stringContaining('/a bytes='), expect.stringContaining('/a bytes=')]);
  await reload(undefined);
  await finish(before);
  const after = await begin('/b', 1);
  await finish(after);
  expect(asked).toEqual(['/b whole']);
});

it('is switched on by a reload for new files, while a running transfer goes on alone', async () => {
  const before = await begin('/c', 1);
  await reload(on);
  await finish(before);
  expect(asked).toEqual(['/c whole']);
  const after = await begin('/d', 3);
  await finish(after);
  expect(new Set(asked).size).toBe(asked.length);
});
