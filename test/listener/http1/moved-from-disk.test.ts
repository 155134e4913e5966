/** Responses from a disk store whose bytes the system moves: every byte is right, for any request and any way of reading. */

import { truncate } from 'node:fs/promises';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { loadMoveToSocket } from '../../../src/setup/move-to-socket.ts';
import type { MoveToSocket } from '../../../src/store/disk/bodies/file-system.ts';
import { createMemoryTier } from '../../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../../src/store/tiered/tiered-store.ts';
import type { RawClient } from '../../support/clients/raw-client.ts';
import { createAnsweringOrigin } from '../../support/origins/answering-origin.ts';
import { type Carrier, openListener } from '../../support/proxies/open-listener.ts';
import { RoadGround } from '../../support/proxies/road-ground.ts';
import { flipBit } from '../../support/stores/damage.ts';
import { bodyFiles, openTestStore } from '../../support/stores/disk-store.ts';
import { copyToSocket } from '../../support/stores/moves.ts';
import { SteeredReads } from '../../support/stores/quick-reads.ts';
import { patternBytes } from '../../support/values/pattern-body.ts';

const sizeBytes = 3 * 1024 * 1024 + 4321;
const content = Buffer.from(patternBytes(0, sizeBytes));
const blockSizeBytes = 64 * 1024;
const fields = {
  date: 'Thu, 01 Jan 2026 00:00:00 GMT',
  etag: '"v1"',
  'last-modified': 'Wed, 01 Jan 2025 00:00:00 GMT',
  'cache-control': 'max-age=600',
};

const available = loadMoveToSocket();
/** The system calls where they are available, and a replacement that copies. */
const ways: readonly [way: string, move: MoveToSocket][] = [
  ['copied', copyToSocket()],
  ...(available === undefined ? [] : [['moved by the system', available] as [string, MoveToSocket]]),
];

/** Opens a listener in front of a disk store with a small memory tier. The file is stored, and has been read once. */
async function open(move: MoveToSocket, carrier: Carrier = 'tcp', memoryBytes = blockSizeBytes) {
  const reads = new SteeredReads();
  const moved = { bytes: 0 };
  const counted: MoveToSocket = (...bytes) => {
    const taken = move(...bytes);
    moved.bytes += taken;
    return taken;
  };
  const quickReads = { ...reads.options, move: counted };
  const { store: disk, dir } = await openTestStore({ blockSizeBytes, quickReads });
  const memory = createMemoryTier({ maxSizeBytes: memoryBytes });
  const store = createTieredStore(memory, disk, () => 0);
  const origin = createAnsweringOrigin({ bytes: content, fieldsOf: () => fields, hasRanges: true, asked: [] });
  const ground = new RoadGround({ origin, createStore: () => store });
  onTestFinished(() => ground.close());
  const listener = await openListener(ground.handler, { carrier, now: ground.clock.now });
  onTestFinished(() => listener[Symbol.asyncDispose]());
  const connect = async () => {
    const client = await listener.connect();
    onTestFinished(() => client[Symbol.asyncDispose]());
    return client;
  };
  const client = await connect();
  // The first request stores the file, the second reads it from the disk.
  for (let at = 0; at < 2; at += 1) expect((await client.exchange(get())).body.equals(content)).toBe(true);
  const [body = ''] = await bodyFiles(dir);
  return { reads, moved, ground, body, client, connect };
}

const get = (lines = '', version = '1.1') => `GET /file HTTP/${version}\r\nHost: files.example\r\n${lines}\r\n`;
const ranged = (start: number, end: number) => get(`Range: bytes=${start}-${end - 1}\r\n`);
const ranges: readonly (readonly [start: number, end: number])[] = [
  [0, 100_000],
  [0, 32 * 1024],
  [5, 70_005],
  [blockSizeBytes - 1, 2 * blockSizeBytes + 1],
  [sizeBytes - 40_000, sizeBytes],
  [1, 1_048_577],
  [0, 1_048_577],
  [3, sizeBytes],
  [100, 200],
];

/** Requests a range, and expects its bytes. */
async function expectRange(client: RawClient, start: number, end: number): Promise<void> {
  const response = await client.exchange(ranged(start, end));
  expect(response.status).toBe(206);
  expect(response.lines).toContainEqual(['Content-Range', `bytes ${start}-${end - 1}/${sizeBytes}`]);
  expect(response.body.equals(content.subarray(start, end))).toBe(true);
}

describe.each(ways)('bytes from the disk, %s', (_way, move) => {
  it('are right for the whole and for ranges, repeatedly on one connection', async () => {
    const { client, moved } = await open(move);
    for (let round = 0; round < 3; round += 1) {
      for (const [start, end] of ranges) await expectRange(client, start, end);
      const before = moved.bytes;
      expect((await client.exchange(get())).body.equals(content)).toBe(true);
      expect(moved.bytes - before).toBeGreaterThan(blockSizeBytes);
    }
  });

  it('are followed by correct other responses', async () => {
    const { client } = await open(move);
    for (const [start, end] of ranges) {
      await expectRange(client, start, end);
      const head = await client.exchange('HEAD /file HTTP/1.1\r\nHost: files.example\r\n\r\n');
      expect(head.lines).toContainEqual(['Content-Length', String(sizeBytes)]);
      await expectRange(client, start, end);
      expect((await client.exchange(get('If-None-Match: "v1"\r\n'))).status).toBe(304);
      expect((await client.exchange(get('If-Match: "v0"\r\n'))).status).toBe(412);
      expect((await client.exchange(get(`Range: bytes=${sizeBytes}-\r\n`))).status).toBe(416);
    }
  });

  it('are the parts of a multipart response', async () => {
    const { client } = await open(move);
    const response = await client.exchange(get(`Range: bytes=10-200000,300000-300001,${sizeBytes - 50_000}-\r\n`));
    expect(response.status).toBe(206);
    for (const [start, end] of [
      [10, 200_001],
      [300_000, 300_002],
      [sizeBytes - 50_000, sizeBytes],
    ] as const) {
      const before = `Content-Range: bytes ${start}-${end - 1}/${sizeBytes}\r\n\r\n`;
      const at = response.body.indexOf(before.toLowerCase(), 0, 'latin1');
      const place = (at < 0 ? response.body.indexOf(before, 0, 'latin1') : at) + before.length;
      expect(response.body.subarray(place, place + end - start).equals(content.subarray(start, end))).toBe(true);
    }
    await expectRange(client, 0, 100_000);
  });

  it('are in the order of pipelined requests', async () => {
    const { client } = await open(move);
    client.send(ranges.map(([start, end]) => ranged(start, end)).join('') + get() + ranged(7, 70_000));
    for (const [start, end] of [...ranges, [0, sizeBytes] as const, [7, 70_000] as const]) {
      expect((await client.response())?.body.equals(content.subarray(start, end))).toBe(true);
    }
  });

  it.each<[version: string, lines: string]>([
    ['1.0', ''],
    ['1.1', 'Connection: close\r\n'],
  ])('are complete where the connection ends behind them: HTTP/%s', async (version, lines) => {
    const { connect } = await open(move);
    const client = await connect();
    const response = await client.exchange(get(lines, version));
    expect(response).toMatchObject({ status: 200, isWhole: true });
    expect(response.body.equals(content)).toBe(true);
    expect(await client.rest()).toBe('');
  });

  it('reach clients that read in small steps, and faster clients beside them', async () => {
    const { connect } = await open(move);
    const readSlowly = async () => {
      const client = await connect();
      for (const request of [get(), ranged(9, 1_000_009)]) {
        client.send(request);
        const head = await client.head();
        const length = Number(head?.lines.find(([name]) => name === 'Content-Length')?.[1]);
        const start = length === sizeBytes ? 0 : 9;
        for (let at = 0; at < length; at += 50_000) {
          client.socket.pause();
          for (let turn = 0; turn < 3; turn += 1) await setImmediate();
          const end = Math.min(at + 50_000, length);
          const part = await client.take(end - at);
          expect(part.equals(content.subarray(start + at, start + end))).toBe(true);
        }
      }
    };
    const readFast = async () => {
      const client = await connect();
      for (let round = 0; round < 4; round += 1)
        for (const [start, end] of ranges) await expectRange(client, start, end);
    };
    await Promise.all([readSlowly(), readFast(), readSlowly(), readFast()]);
  });

  it('reach clients that stay while others leave midway', async () => {
    const { connect, client } = await open(move);
    for (let at = 0; at < 10; at += 1) {
      const leaving = await connect();
      leaving.send(at % 2 === 0 ? get() : ranged(0, 1_000_000));
      await leaving.take(at * 20_000 + 1);
      leaving.reset();
      await expectRange(client, at, at + 300_000);
    }
  });

  it.each<[carrier: Carrier, isMoved: boolean]>([
    ['proxy-protocol', true],
    ['looked', true],
    ['unix', true],
    ['tls', false],
  ])('reach clients over %s, moved: %s', async (carrier, isMoved) => {
    const { client, moved } = await open(move, carrier);
    for (const [start, end] of ranges) await expectRange(client, start, end);
    expect((await client.exchange(get())).body.equals(content)).toBe(true);
    expect(moved.bytes > 0).toBe(isMoved);
  });

  it('are a file body for 32 KiB to 1 MiB, a body in memory below, and a stream above', async () => {
    const { ground } = await open(move);
    const kindOf = async (range: string) => (await ground.bodyFor({ fields: { range } })).kind;
    await kindOf('bytes=100-199');
    expect(await kindOf('bytes=3-32770')).toBe('file');
    expect(await kindOf('bytes=3-32769')).toBe('bytes');
    expect(await kindOf(`bytes=3-${3 + 1024 * 1024 - 1}`)).toBe('file');
    expect(await kindOf(`bytes=3-${3 + 1024 * 1024}`)).toBe('stream');
    expect(await kindOf('bytes=0-')).toBe('stream');
  });

  it('of less than 128 KiB are copied from memory, where the memory tier has them', async () => {
    const openAsked = async () => {
      const { ground, reads } = await open(move, 'tcp', 2 * sizeBytes);
      const ask = async (range: string) => {
        const before = reads.bytes;
        const { kind } = await ground.bodyFor({ fields: { range } });
        return [kind, reads.bytes - before];
      };
      await ask('bytes=100-199');
      return ask;
    };
    const ask = await openAsked();
    expect([await ask('bytes=65536-131071'), await ask('bytes=2000000-2131070')]).toEqual([
      ['bytes', 0],
      ['bytes', 0],
    ]);
    // A file is closed after a second without use. On a busy machine that may happen between two requests.
    await expect.poll(async () => (await openAsked())('bytes=2000000-2131071')).toEqual(['file', 139_264]);
  });

  it('are repaired where a file was damaged, a minute after it was checked', async () => {
    const { client, connect, reads, body, moved } = await open(move);
    for (const [at, place] of [5, 700_000, sizeBytes - 1].entries()) {
      for (const [start, end] of ranges) await expectRange(client, start, end);
      // No response is on its way any more whose bytes the system would read from the file.
      await flipBit(body, place);
      for (let passed = 0; passed < 66; passed += 1) reads.pass(950);
      const again = await connect();
      expect((await again.exchange(get())).body.equals(content)).toBe(true);
      for (const [start, end] of ranges) await expectRange(client, start, end);
      expect(moved.bytes).toBeGreaterThan(at);
    }
  });

  it('are right or missing where a file was just truncated', async () => {
    const { connect, client, body } = await open(move);
    for (const [start, end] of ranges) await expectRange(client, start, end);
    await truncate(body, 1_000_000);
    const [start, end] = [900_000, 1_100_000] as const;
    const cut = await connect();
    cut.send(ranged(start, end));
    const first = await cut.response();
    expect(first?.body.equals(content.subarray(start, start + first.body.length)) ?? true).toBe(true);
    // The next request finds the file repaired.
    const next = await connect();
    await expectRange(next, start, end);
    expect((await next.exchange(get())).body.equals(content)).toBe(true);
    for (const [from, to] of ranges) await expectRange(next, from, to);
  });
});
