/** Bytes from origins are all read through one buffer, and chunks that were returned are never overwritten. */

import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it } from 'vitest';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import { originRequest } from '../support/origins/origin-request.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { originOptions } from './origin-options.ts';

const kibibyte = 1024;

/** Opens an origin. The path is the offset of the body in the pattern. Head and body are written together. */
async function openOrigin(sizeBytes: number) {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (head) => {
      const from = Number(/^GET \/(\d+)/.exec(head.toString('latin1'))?.[1]);
      socket.cork();
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${sizeBytes}\r\n\r\n`);
      socket.write(patternBytes(from, from + sizeBytes));
      socket.uncork();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const origin = createUndiciOrigin(originOptions({ url: `http://127.0.0.1:${port}` }));
  return {
    origin,
    async [Symbol.asyncDispose]() {
      await origin.close();
      server.close();
    },
  };
}

it('received chunks stay unchanged while more bytes arrive, over this and other connections', async () => {
  const sizeBytes = 64 * kibibyte;
  await using opened = await openOrigin(sizeBytes);
  const { origin } = opened;
  const chunks = new Map<number, Uint8Array[]>();
  const read = async (from: number) => {
    const { body } = await origin.fetch(originRequest({ target: `/${from}` }));
    const own: Uint8Array[] = [];
    chunks.set(from, own);
    for await (const chunk of body) own.push(chunk);
  };
  for (let round = 0; round < 4; round += 1) {
    await Promise.all(Array.from({ length: 16 }, (_, at) => read((round * 16 + at) * 1000)));
  }
  expect(chunks.size).toBe(64);
  for (const [from, own] of chunks) expect(Buffer.concat(own).equals(patternBytes(from, from + sizeBytes))).toBe(true);
});

it('unread chunks stay unchanged while their connection is held back and others are read', async () => {
  const sizeBytes = 2048 * kibibyte;
  await using opened = await openOrigin(sizeBytes);
  const offsets = [0, 1000, 2000, 3000];
  const responses = await Promise.all(
    offsets.map((from) => opened.origin.fetch(originRequest({ target: `/${from}` }))),
  );
  const chunks = offsets.map((): Uint8Array[] => []);
  const iterators = responses.map(({ body }) => body[Symbol.asyncIterator]());
  // The bodies are read in turn: while a chunk of one is read, the others are full or on their way.
  for (let isOver = false; !isOver; ) {
    isOver = true;
    for (const [at, iterator] of iterators.entries()) {
      const { done, value } = await iterator.next();
      if (done === true) continue;
      chunks[at]?.push(value);
      isOver = false;
    }
  }
  for (const [at, from] of offsets.entries()) {
    expect(Buffer.concat(chunks[at] ?? []).equals(patternBytes(from, from + sizeBytes))).toBe(true);
  }
});

it('received chunks take no more memory than they need', async () => {
  const sizeBytes = 64 * kibibyte;
  await using opened = await openOrigin(sizeBytes);
  const { body } = await opened.origin.fetch(originRequest({ target: '/0' }));
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  const memories = new Set(chunks.map(({ buffer }) => buffer));
  const taken = [...memories].reduce((sum, { byteLength }) => sum + byteLength, 0);
  expect(taken).toBeLessThan(sizeBytes + kibibyte);
});
