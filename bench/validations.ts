/**
 * `node bench/validations.ts`: clients that ask in a loop for one resource with `no-cache`, before an origin that takes 50 ms,
 * straight, through Rangeway, and through Rangeway with two workers. The resource changes once. Prints a table in Markdown.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { formatFigure } from './table.ts';

const executable = fileURLToPath(new URL('../bin/rangeway.js', import.meta.url));
const latencyMs = 50;
const body = Buffer.alloc(2_000, 'x');

/** The origin: it counts its requests, and answers each after the latency. */
class SlowOrigin {
  requests = 0;
  version = 1;
  readonly server = createServer((request, response) => {
    this.requests += 1;
    setTimeout(() => {
      const etag = `"v${this.version}"`;
      const isSame = request.headers['if-none-match'] === etag;
      const fields = { etag, 'cache-control': 'no-cache' };
      response.writeHead(isSame ? 304 : 200, isSame ? fields : { ...fields, 'content-length': body.length });
      response.end(isSame ? undefined : body);
    }, latencyMs);
  });
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { clients: { type: 'string' }, seconds: { type: 'string' } } });
  const clients = Number(values.clients ?? 500);
  const seconds = Number(values.seconds ?? 10);
  if (!(clients > 0 && seconds > 0)) {
    console.error('node bench/validations.ts [--clients N (500)] [--seconds N (10)]');
    return 2;
  }
  console.log('| path | answers/s | origin requests/s | p50 | p99 |');
  console.log('| --- | ---: | ---: | ---: | ---: |');
  for (const workers of [0, 1, 2]) console.log(await measure(workers, clients, seconds));
  return 0;
}

/** Measures one path, and returns its row. `workers` is 0 for the origin without Rangeway. */
async function measure(workers: number, clients: number, seconds: number): Promise<string> {
  const origin = new SlowOrigin();
  origin.server.listen(0, '127.0.0.1', 4096);
  await once(origin.server, 'listening');
  const { port } = origin.server.address() as AddressInfo;
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-bench-validations-'));
  const rangeway = workers === 0 ? undefined : await startRangeway(dir, port, workers);
  try {
    const load = await runLoad(rangeway?.port ?? port, origin, clients, seconds);
    const perSecond = (count: number) => formatFigure(count / seconds, 0);
    const waits = load.waitsMs.toSorted((a, b) => a - b);
    const at = (share: number) => `${formatFigure(waits[Math.floor(waits.length * share)], 0)} ms`;
    const title = workers === 0 ? 'straight' : `Rangeway, workers: ${workers}`;
    return `| ${title} | ${perSecond(waits.length)} | ${perSecond(load.asked)} | ${at(0.5)} | ${at(0.99)} |`;
  } finally {
    await rangeway?.stop();
    origin.server.close();
    origin.server.closeAllConnections();
    await rm(dir, { recursive: true, force: true });
  }
}

async function runLoad(port: number, origin: SlowOrigin, clients: number, seconds: number) {
  const agent = new Agent({ keepAlive: true, maxSockets: clients });
  const ask = async () => {
    const sentAt = performance.now();
    const [response] = await once(get({ port, path: '/live.m3u8', agent }), 'response');
    let size = 0;
    for await (const chunk of response) size += chunk.length;
    if (size !== body.length) throw new Error(`${size} bytes, not ${body.length}`);
    return performance.now() - sentAt;
  };
  await ask();
  let isOver = false;
  let waitsMs: number[] = [];
  const loops = Array.from({ length: clients }, async () => {
    while (!isOver) waitsMs.push(await ask());
  });
  // Connections are opened and code is compiled in the first seconds.
  await delay(2_000);
  waitsMs = [];
  const before = origin.requests;
  await delay((seconds * 1000) / 2);
  origin.version = 2;
  await delay((seconds * 1000) / 2);
  const result = { waitsMs: [...waitsMs], asked: origin.requests - before };
  isOver = true;
  await Promise.all(loops);
  agent.destroy();
  return result;
}

async function startRangeway(dir: string, originPort: number, workers: number) {
  const config = {
    listen: '127.0.0.1:0',
    workers,
    store: { type: 'disk', dir: join(dir, 'store') },
    admin: 'off',
    log: { level: 'info', format: 'json' },
    limits: { connectionsPerClient: 0 },
    routes: [{ origin: { url: `http://127.0.0.1:${originPort}` } }],
  };
  const file = join(dir, 'config.json');
  await writeFile(file, JSON.stringify(config));
  const child = spawn(process.execPath, [executable, 'serve', '--config', file, '--log-level', 'info'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  const port = await new Promise<number>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk;
      const [, found] = /ready on http:\/\/[^\s",]+:(\d+)/.exec(output) ?? [];
      if (found !== undefined) resolve(Number(found));
    });
    child.once('exit', () => reject(new Error(`Rangeway did not start: ${output}`)));
  });
  const stop = async () => {
    child.removeAllListeners('exit');
    child.kill('SIGTERM');
    await once(child, 'exit');
  };
  return { port, stop };
}

process.exitCode = await main();
