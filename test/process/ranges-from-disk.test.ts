/** Many concurrent readers of ranges of a body larger than memory, each at its own pace: reused buffers must never mix up bytes. */

import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { loadMoveToSocket } from '../../src/setup/move-to-socket.ts';
import { startConfigured } from '../support/processes/rangeway-process.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { seededRandom } from '../support/stores/traces.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const sizeBytes = 12 * 1024 * 1024 + 77;
/** Requests that a slow reader pipelines before it reads. */
const slowAtOnce = 60;
/** Ranges that each reader asks for. */
const rangesEach = 300;
const content = Buffer.from(patternBytes(0, sizeBytes, 1));

/** Opens an origin with one file, without ranges. */
async function openOrigin() {
  const server = createServer((_request, response) => {
    response.writeHead(200, { etag: '"1"', 'cache-control': 'max-age=3600', 'content-length': sizeBytes });
    response.end(content);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return { url: `http://127.0.0.1:${address.port}`, [Symbol.dispose]: () => server.close() };
}

/** One connection with pipelined range requests. It reads only as strictly as this test needs. */
class RangeReader {
  readonly #socket: Socket;
  readonly #chunks: AsyncIterator<Buffer>;
  /** Turns of the event loop that pass before it reads the next chunk. */
  readonly #delayTurns: number;
  #rest: Buffer = Buffer.alloc(0);

  constructor(port: number, delayTurns: number) {
    this.#socket = connect({ port, host: '127.0.0.1' });
    this.#chunks = this.#socket.iterator();
    this.#delayTurns = delayTurns;
  }

  send(text: string): void {
    this.#socket.write(text);
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Reads the next response: its status line, and its body of `length` bytes. */
  async next(length: number): Promise<{ readonly status: string; readonly body: Buffer }> {
    let end = this.#rest.indexOf('\r\n\r\n');
    for (; end < 0; end = this.#rest.indexOf('\r\n\r\n')) await this.#more();
    const status = this.#rest.toString('latin1', 0, this.#rest.indexOf('\r\n'));
    while (this.#rest.length < end + 4 + length) await this.#more();
    const body = this.#rest.subarray(end + 4, end + 4 + length);
    this.#rest = this.#rest.subarray(end + 4 + length);
    return { status, body };
  }

  async #more(): Promise<void> {
    for (let turn = 0; turn < this.#delayTurns; turn += 1) await setImmediate();
    const { done, value } = await this.#chunks.next();
    if (done === true) throw new Error('the connection ended');
    this.#rest = Buffer.concat([this.#rest, value]);
  }
}

/** Requests ranges, `atOnce` at a time on one connection. Returns how many were wrong. */
async function readRanges(port: number, random: () => number, atOnce: number, delayTurns: number): Promise<number> {
  const reader = new RangeReader(port, delayTurns);
  let wrong = 0;
  for (let asked = 0; asked < rangesEach; asked += atOnce) {
    const length = 200_000 + Math.floor(random() * 60_000);
    const starts = Array.from({ length: atOnce }, () => Math.floor(random() * (sizeBytes - length)));
    for (const start of starts) {
      // One per turn of the event loop, so that most requests find an idle connection.
      await setImmediate();
      reader.send(`GET /f HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nRange: bytes=${start}-${start + length - 1}\r\n\r\n`);
    }
    for (const start of starts) {
      const { status, body } = await reader.next(length);
      expect(status).toMatch(/^HTTP\/1\.1 206 /);
      if (!body.equals(content.subarray(start, start + length))) wrong += 1;
    }
  }
  reader.close();
  return wrong;
}

const hasCalls = loadMoveToSocket() !== undefined;

it.each<[way: string, sendfile: boolean]>([
  ['read by the process', false],
  ['moved by the system where it can', true],
])('every reader gets its own bytes, quick and slow ones side by side: %s', async (_way, sendfile) => {
  using origin = await openOrigin();
  const dir = await temporaryDirectory();
  const store = { type: 'disk', dir: join(dir, 'store'), memoryBytes: '1MB', sendfile };
  const routes = [{ origin: origin.url }];
  await using server = await startConfigured(dir, { listen: '127.0.0.1:0', store, routes });
  const whole = await fetch(`${server.url}/f`);
  expect((await whole.bytes()).length).toBe(sizeBytes);
  const random = seededRandom(20_260_101);
  const port = Number(new URL(server.url).port);
  const readers = Array.from({ length: 16 }, (_, at) =>
    readRanges(port, random, at % 4 === 0 ? slowAtOnce : 1, at % 3),
  );
  expect(await Promise.all(readers)).toEqual(readers.map(() => 0));
  // The log says so at the start, and standard error has no warning of Node.
  expect(server.output().includes('store.sendfile has no effect here')).toBe(sendfile && !hasCalls);
  expect(server.output()).not.toContain('ExperimentalWarning');
});
