/** The server with its store in a real engine: hits after a restart, and clients that notice nothing of an engine that is away. */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeWithEngine, type RedisServer, startRedisServer } from '../support/engines/redis-server.ts';
import { type RangewayProcess, startProxy, startRangeway } from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const sizeBytes = 3_000_001;
const body = Buffer.from(patternBytes(0, sizeBytes));

/** An origin of one body for all paths, with ranges, that counts its requests. */
function createOrigin() {
  const requests: string[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    requests.push(`${request.method} ${request.url}`);
    response.setHeader('ETag', '"1"');
    response.setHeader('Cache-Control', 'max-age=3600');
    response.setHeader('Accept-Ranges', 'bytes');
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    if (request.method === 'POST') return void response.end('done');
    if (first === undefined) return void response.setHeader('Content-Length', sizeBytes).end(body);
    const end = last === '' ? sizeBytes : Math.min(sizeBytes, Number(last) + 1);
    response.statusCode = 206;
    response.setHeader('Content-Range', `bytes ${first}-${end - 1}/${sizeBytes}`);
    response.setHeader('Content-Length', end - Number(first)).end(body.subarray(Number(first), end));
  };
  return { requests, server: createServer(answer) };
}

type Proxy = RangewayProcess & { readonly url: string };

async function read(proxy: Proxy, path: string, start = 0, end = sizeBytes): Promise<string> {
  const isWhole = start === 0 && end === sizeBytes;
  const headers: Record<string, string> = isWhole ? {} : { range: `bytes=${start}-${end - 1}` };
  const response = await fetch(new URL(path, proxy.url), { headers });
  const bytes = Buffer.from(await response.arrayBuffer());
  const isRight = response.status === (isWhole ? 200 : 206) && bytes.equals(body.subarray(start, end));
  return isRight ? 'right' : `${response.status}, ${bytes.length} bytes`;
}

describeWithEngine('a server with its store in an engine', () => {
  const { requests, server: origin } = createOrigin();
  let engine: RedisServer;
  let originUrl = '';
  beforeAll(async () => {
    engine = await startRedisServer(['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']);
    origin.listen(0, '127.0.0.1');
    await once(origin, 'listening');
    originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    origin.closeAllConnections();
    origin.close();
    await once(origin, 'close');
    await engine[Symbol.asyncDispose]();
  });

  const start = (...args: string[]): Promise<Proxy> =>
    startProxy(originUrl, ['--store', `redis://127.0.0.1:${engine.port}`, '--log-level', 'debug', ...args]);

  it('answers from the engine after a restart, and several workers share it', async () => {
    await using first = await start();
    expect(await read(first, '/kept')).toBe('right');
    await first.waitFor(/"event":"fill".*"result":"stored"/);
    await first.stop('SIGTERM');
    const before = requests.length;
    // The key has the address of the listener in it.
    await using second = await start('--listen', new URL(first.url).host, '--workers', '2');
    expect(await Promise.all(['/kept', '/kept', '/kept'].map((path) => read(second, path)))).toEqual(
      Array(3).fill('right'),
    );
    expect(await read(second, '/kept', 1_000_000, 1_000_100)).toBe('right');
    expect(requests.length).toBe(before);
    await second.stop('SIGTERM');
  });

  it('serves every client while the engine is paused, killed and flushed, and stores again afterwards', async () => {
    await using proxy = await start();
    expect(await read(proxy, '/hot')).toBe('right');
    const readAll = (round: string) =>
      Promise.all([
        read(proxy, '/hot'),
        read(proxy, '/hot', 70_000, 900_000),
        read(proxy, `/new-${round}`),
        read(proxy, `/new-${round}`),
        read(proxy, `/part-${round}`, 1_000_000, 2_000_000),
      ]);
    const during = readAll('pause');
    engine.signal('SIGSTOP');
    expect(await during).toEqual(Array(5).fill('right'));
    expect(await readAll('paused')).toEqual(Array(5).fill('right'));
    const posted = await fetch(new URL('/hot', proxy.url), { method: 'POST', body: 'x' });
    expect([posted.status, await posted.text()]).toEqual([200, 'done']);
    engine.signal('SIGCONT');
    await proxy.waitFor(/the engine of the store answers/);
    const killed = readAll('kill');
    await engine.kill();
    expect(await killed).toEqual(Array(5).fill('right'));
    await engine.restart();
    const flushed = readAll('flush');
    await engine.command('FLUSHALL');
    expect(await flushed).toEqual(Array(5).fill('right'));
    await expect
      .poll(async () => {
        await read(proxy, '/again');
        return Number(await engine.command('DBSIZE'));
      })
      .toBeGreaterThan(40);
    expect(proxy.output()).not.toMatch(/"status":5\d\d/);
    await proxy.stop('SIGTERM');
  });

  it('starts without an engine, and says so', async () => {
    await engine.kill();
    await using proxy = await start();
    expect(await read(proxy, '/without')).toBe('right');
    await proxy.waitFor(/the engine of the store is away/);
    await engine.restart();
    await proxy.waitFor(/the engine of the store answers/);
    await proxy.stop('SIGTERM');
  });

  it('is seen by the doctor, or missed', async () => {
    await engine.kill();
    await using doctor = startRangeway(['doctor', '--store', `redis://127.0.0.1:${engine.port}`]);
    await doctor.waitFor(/no engine\s+answers:/);
    await engine.restart();
    await using well = startRangeway(['doctor', '--store', `redis://127.0.0.1:${engine.port}`]);
    await well.waitFor(/evicts\s+by\s+allkeys-lru/);
  });

  it('is known to the doctor by its engine while it runs', async () => {
    await using proxy = await start();
    const { host } = new URL(proxy.url);
    const examine = (port: number) => {
      const store = `redis://127.0.0.1:${port}`;
      return startRangeway(['doctor', '--listen', host, '--store', store]);
    };
    const isLinux = process.platform === 'linux';
    await using same = examine(engine.port);
    await same.waitFor(isLinux ? /the\s+Rangeway\s+of\s+this\s+configuration\s+listens\s+there/ : /listens\s+there/);
    await using other = examine(1);
    await other.waitFor(isLinux ? /another\s+Rangeway\s+listens\s+there/ : /listens\s+there/);
    await proxy.stop('SIGTERM');
  });
});
