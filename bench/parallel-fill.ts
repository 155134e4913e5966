/**
 * `node bench/parallel-fill.ts [MiB] [rounds] [transfers,…]`: what `fill.parallel` gains on a slow line. As root, on Linux, with
 * iproute2 and python3. Prints a table: for each number of transfers, when the first byte of a cold file, the file, and seeks during
 * its download arrive.
 *
 * The origin is in a network namespace of its own. The line to it has a round trip of 100 ms and loses 1 % of the packets of each
 * direction. `lossy-link.py` makes it, so that the kernel needs no netem; the TCP at both ends is the kernel's, with CUBIC.
 */

import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, get, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { startRangeway } from '../test/support/processes/rangeway-process.ts';
import { patternBytes } from '../test/support/values/pattern-body.ts';
import { BenchFault } from './fault.ts';
import { medianOf } from './median.ts';
import { formatTable } from './table.ts';

const delayMs = 50;
const lossPercent = 1;
const originUrl = 'http://10.77.0.2:8000';
/** The seeks of other clients: seconds after the download began, and the offset as a share of the file. */
const seeks = [
  [3, 0.3],
  [6, 0.45],
  [9, 0.6],
  [12, 0.75],
  [15, 0.9],
  [18, 0.52],
  [21, 0.67],
  [24, 0.82],
  [27, 0.97],
] as const;

/** What one download shows. */
interface Reading {
  readonly firstByteMs: number;
  readonly wholeMs: number;
  /** Those seeks that began before the whole was there. */
  readonly seekMs: readonly number[];
}

const [role = '32', count = '1', third = '1,2,4,8'] = process.argv.slice(2);
if (role === 'origin') await serveFile(Number(count));
else if (role === 'measure') console.log(JSON.stringify(await measure(Number(count), Number(third))));
else await compare(Number(role) * 1024 * 1024, Number(count));

/** Measures all settings at the same time, each over a line of its own, and prints the table. */
async function compare(sizeBytes: number, rounds: number): Promise<void> {
  const settings = third.split(',').map(Number);
  const rows = await Promise.all(settings.map((requests) => rowOf(requests, sizeBytes, rounds)));
  const names = ['transfers', 'first byte', 'whole', 'speed', 'seek', 'longest seek', 'bytes on the line ÷ file'];
  console.log(formatTable([names, ...rows]));
}

/** Measures one setting: the row of the table. */
async function rowOf(requests: number, sizeBytes: number, rounds: number): Promise<string[]> {
  const readings: (Reading & { readonly carriedBytes: number })[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const reading = await overLine(requests, sizeBytes);
    console.error(`${requests}: ${JSON.stringify(reading)}`);
    readings.push(reading);
  }
  const of = (name: 'firstByteMs' | 'wholeMs' | 'carriedBytes') =>
    medianOf(readings.map((reading) => reading[name])) ?? 0;
  const sought = readings.flatMap(({ seekMs }) => seekMs);
  const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;
  return [
    requests === 1 ? 'off' : String(requests),
    `${Math.round(of('firstByteMs'))} ms`,
    seconds(of('wholeMs')),
    `${((sizeBytes * 8) / 1000 / of('wholeMs')).toFixed(1)} Mbit/s`,
    seconds(medianOf(sought) ?? 0),
    seconds(Math.max(...sought)),
    (of('carriedBytes') / sizeBytes).toFixed(3),
  ];
}

/** Downloads once over a new line. */
async function overLine(requests: number, sizeBytes: number): Promise<Reading & { readonly carriedBytes: number }> {
  const near = `rw-near-${process.pid}-${requests}`;
  const far = `rw-far-${process.pid}-${requests}`;
  const within = (namespace: string, ...words: readonly string[]) =>
    spawn('ip', ['netns', 'exec', namespace, process.execPath, import.meta.filename, ...words], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
  for (const namespace of [near, far]) execFileSync('ip', ['netns', 'add', namespace]);
  const running: { readonly kill: () => boolean }[] = [];
  try {
    const script = join(import.meta.dirname, 'lossy-link.py');
    const line = spawn('python3', [script, near, far, String(delayMs), String(lossPercent)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    running.push(line);
    const said = createInterface(line.stdout)[Symbol.asyncIterator]();
    await said.next();
    // The algorithm of the origin decides what a lost packet costs.
    const route = ['10.77.0.1', 'dev', `f${line.pid}`, 'src', '10.77.0.2', 'congctl', 'cubic'];
    execFileSync('ip', ['-n', far, 'route', 'replace', ...route]);
    const origin = within(far, 'origin', String(sizeBytes));
    running.push(origin);
    await once(origin.stdout, 'data');
    const measured = within(near, 'measure', String(requests), String(sizeBytes));
    running.push(measured);
    const lines: string[] = [];
    for await (const text of createInterface(measured.stdout)) lines.push(text);
    const reading = JSON.parse(lines.at(-1) ?? '') as Reading;
    line.stdin.end();
    const { value: carried } = await said.next();
    return { ...reading, carriedBytes: Number(carried) };
  } finally {
    for (const each of running) each.kill();
    for (const namespace of [near, far]) execFileSync('ip', ['netns', 'del', namespace]);
  }
}

/** The origin: one file, with ranges and a strong validator. */
async function serveFile(sizeBytes: number): Promise<void> {
  const file = Buffer.from(patternBytes(0, sizeBytes));
  const server = createServer(({ headers }, response) => {
    const fields = { 'accept-ranges': 'bytes', etag: '"v1"', 'cache-control': 'max-age=3600' };
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
    if (first === undefined) {
      response.writeHead(200, { ...fields, 'content-length': sizeBytes });
      response.end(file);
      return;
    }
    const start = Number(first);
    const end = Math.min(sizeBytes, last === '' ? sizeBytes : Number(last) + 1);
    const range = { 'content-range': `bytes ${start}-${end - 1}/${sizeBytes}`, 'content-length': end - start };
    response.writeHead(206, { ...fields, ...range });
    response.end(file.subarray(start, end));
  });
  server.listen(8000, '10.77.0.2');
  await once(server, 'listening');
  console.log('listening');
}

/** Starts Rangeway in this namespace, and downloads the file, while other requests seek. */
async function measure(requests: number, sizeBytes: number): Promise<Reading> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-parallel-'));
  try {
    const config = join(dir, 'config.json');
    const fill = requests === 1 ? {} : { parallel: { requests, minBytes: '1MiB' } };
    const routes = [{ origin: originUrl, fill }];
    await writeFile(config, JSON.stringify({ listen: ['127.0.0.1:0'], store: { dir: join(dir, 'store') }, routes }));
    await using server = startRangeway(['--config', config]);
    const [, url = ''] = await server.waitFor(/ready on (http:[^\s",]+),/);
    const startedAt = performance.now();
    const whole = await ask(`${url}/file`, {});
    const firstByteMs = performance.now() - startedAt;
    const hash = createHash('sha256');
    const seeking: Promise<number>[] = [];
    const timers = seeks.map(([seconds, share]) =>
      setTimeout(() => seeking.push(seek(`${url}/file`, Math.floor(sizeBytes * share))), seconds * 1000),
    );
    for await (const chunk of whole as AsyncIterable<Uint8Array>) hash.update(chunk);
    for (const timer of timers) clearTimeout(timer);
    const wholeMs = performance.now() - startedAt;
    const expected = createHash('sha256').update(patternBytes(0, sizeBytes)).digest('hex');
    if (hash.digest('hex') !== expected) throw new BenchFault('the file has wrong bytes');
    return { firstByteMs, wholeMs, seekMs: await Promise.all(seeking) };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Returns after how many milliseconds 64 KiB from an offset on have arrived. */
async function seek(url: string, offset: number): Promise<number> {
  const startedAt = performance.now();
  for await (const _ of await ask(url, { range: `bytes=${offset}-${offset + 65_535}` }));
  return performance.now() - startedAt;
}

async function ask(url: string, headers: Record<string, string>): Promise<IncomingMessage> {
  const [response] = (await once(get(url, { headers, agent: false }), 'response')) as [IncomingMessage];
  if ((response.statusCode ?? 500) >= 300) throw new BenchFault(`status ${response.statusCode}`);
  return response;
}
