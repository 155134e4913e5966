/** The system calls that move bytes of a file into a socket, and what is logged where they are not available. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readSync, writeSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  describeSending,
  loadMoveToSocket,
  movesRightBytes,
  openMoveToSocket,
} from '../../src/setup/move-to-socket.ts';
import type { MoveToSocket } from '../../src/store/disk/bodies/file-system.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { untilClosed } from '../support/clocks/until-closed.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const available = loadMoveToSocket();
const move: MoveToSocket = () => 0;

describe('store.sendfile', () => {
  it.each<
    [
      sendfile: 'auto' | 'on' | 'off',
      works: boolean,
      want: MoveToSocket | undefined,
      level: 'warn' | 'debug' | undefined,
    ]
  >([
    ['auto', true, move, undefined],
    ['on', true, move, undefined],
    ['off', true, undefined, undefined],
    ['auto', false, undefined, 'debug'],
    ['on', false, undefined, 'warn'],
    ['off', false, undefined, undefined],
  ])('%s, where the calls work: %j', (sendfile, works, want, level) => {
    const events: ServerEvent[] = [];
    const found = openMoveToSocket(
      sendfile,
      (event) => events.push(event),
      () => (works ? move : undefined),
    );
    expect(found).toBe(want);
    const line = { kind: 'store', level, message: expect.stringContaining('store.sendfile') };
    expect(events).toEqual(level === undefined ? [] : [expect.objectContaining(line)]);
  });

  it('depends on whether the calls work in this process', () => {
    expect(openMoveToSocket('auto', () => {}) === undefined).toBe(available === undefined);
    expect(describeSending('auto')).toBe(available === undefined ? 'sendfile off' : 'sendfile on');
    expect(describeSending('off')).toBe('sendfile off');
  });
});

describe('the check at the start', () => {
  /** Returns a call that writes into a file as `sendfile` does into a socket, with the bytes changed. */
  const moveAs =
    (change: (bytes: Buffer) => Buffer): MoveToSocket =>
    (socket, head, file, position, sizeBytes) => {
      const bytes = Buffer.alloc(sizeBytes);
      readSync(file, bytes, 0, sizeBytes, position);
      writeSync(socket, change(Buffer.concat([head, bytes])));
      return head.length + sizeBytes;
    };
  const rows: readonly [name: string, move: MoveToSocket, works: boolean][] = [
    ['all of the right bytes', moveAs((bytes) => bytes), true],
    ['a changed byte', moveAs((bytes) => Buffer.from(bytes.map((byte, at) => (at === 100 ? byte ^ 1 : byte)))), false],
    ['one byte fewer than it says', moveAs((bytes) => bytes.subarray(1)), false],
    ['no bytes', () => 0, false],
  ];

  it.each(rows)('of calls that move %s', async (_name, moveBytes, works) => {
    const path = join(await temporaryDirectory(), 'socket');
    const socket = openSync(path, 'w');
    expect(movesRightBytes(moveBytes, socket, openSync(path, 'r'))).toBe(works);
    expect(() => writeSync(socket, 'x')).toThrow('EBADF');
  });

  it('prints nothing', async () => {
    const module = new URL('../../src/setup/move-to-socket.ts', import.meta.url).href;
    const script = `import(${JSON.stringify(module)}).then((calls) => calls.loadMoveToSocket())`;
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['-e', script]);
    expect(stdout + stderr).toBe('');
  });
});

const sizeBytes = 3 * 1024 * 1024 + 5;
const content = Buffer.from(patternBytes(0, sizeBytes));
const head = Buffer.from('some head\r\n\r\n', 'latin1');

type SocketWithHandle = Socket & { readonly _handle: { readonly fd: number } | null };

/** Opens a connection to a client that reads nothing yet. */
async function openPair(path?: string) {
  const server = createServer();
  onTestFinished(() => void server.close());
  await once(path === undefined ? server.listen(0, '127.0.0.1') : server.listen(path), 'listening');
  const address = server.address();
  if (address === null) throw new Error('not listening');
  const client = typeof address === 'string' ? connect(address) : connect(address.port, '127.0.0.1');
  client.pause();
  const [[socket]] = (await Promise.all([once(server, 'connection'), once(client, 'connect')])) as [[Socket], unknown];
  for (const each of [client, socket]) {
    each.on('error', () => {});
    onTestFinished(() => void each.destroy());
  }
  const descriptor = (socket as SocketWithHandle)._handle?.fd ?? -1;
  return { client, socket, descriptor };
}

async function openFile(bytes: Uint8Array = content): Promise<FileHandle> {
  const file = await open(join(await temporaryDirectory(), 'body'), 'w+');
  onTestFinished(() => file.close());
  await file.writeFile(bytes);
  return file;
}

/** Reads until the other side ends the connection. */
async function readAll(client: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of client) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Moves the head, then the bytes of a file from `position` up to `end`, whenever the socket has room. */
async function moveAll(move: MoveToSocket, socket: number, file: number, position: number, end: number): Promise<void> {
  const whole = head.length + end - position;
  for (let taken = 0; taken < whole; await setImmediate()) {
    const at = position + Math.max(0, taken - head.length);
    taken += move(socket, head.subarray(Math.min(taken, head.length)), file, at, end - at);
  }
}

// Not every version of Node has the calls.
describe.each(available === undefined ? [] : [available])('the calls of the system', (move) => {
  it('put the head and then the bytes into the socket', async () => {
    const { client, socket, descriptor } = await openPair();
    const { fd } = await openFile();
    expect(move(descriptor, head, fd, 1000, 5000)).toBe(head.length + 5000);
    expect(move(descriptor, head.subarray(5), fd, 0, 1)).toBe(head.length - 5 + 1);
    expect(move(descriptor, new Uint8Array(), fd, sizeBytes - 3, 3)).toBe(3);
    socket.end();
    const expected = [
      head,
      content.subarray(1000, 6000),
      head.subarray(5),
      content.subarray(0, 1),
      content.subarray(-3),
    ];
    expect((await readAll(client)).equals(Buffer.concat(expected))).toBe(true);
  });

  it.each<[name: string, position: number]>([
    ['all of the file', 0],
    ['from the middle of a page on', 123_457],
  ])('move as much as the socket has room for, until the client reads: %s', async (_name, position) => {
    const { client, socket, descriptor } = await openPair(join(await temporaryDirectory(), 'socket'));
    const { fd } = await openFile();
    const first = move(descriptor, new Uint8Array(), fd, position, sizeBytes - position);
    expect(first).toBeGreaterThan(0);
    expect(first).toBeLessThan(sizeBytes - position);
    let filled = first;
    for (let more = -1; more !== 0; filled += more) {
      more = move(descriptor, new Uint8Array(), fd, position + filled, 4096);
    }
    const reading = readAll(client);
    await setImmediate();
    await moveAll(move, descriptor, fd, 0, 50_000);
    socket.end();
    const bytes = await reading;
    expect(bytes.subarray(0, filled).equals(content.subarray(position, position + filled))).toBe(true);
    expect(bytes.subarray(-50_000).equals(content.subarray(0, 50_000))).toBe(true);
  });

  it('move a whole body of some MiB to a client that reads', async () => {
    const { client, socket, descriptor } = await openPair();
    const { fd } = await openFile();
    const reading = readAll(client);
    await moveAll(move, descriptor, fd, 7, sizeBytes);
    socket.end();
    expect((await reading).equals(Buffer.concat([head, content.subarray(7)]))).toBe(true);
  });

  it('move no bytes beyond the end of the file', async () => {
    const { client, socket, descriptor } = await openPair();
    const { fd } = await openFile();
    expect(move(descriptor, new Uint8Array(), fd, sizeBytes, 10)).toBe(0);
    expect(move(descriptor, head, fd, sizeBytes + 100, 10)).toBe(head.length);
    expect(move(descriptor, new Uint8Array(), fd, sizeBytes - 4, 10)).toBe(4);
    socket.end();
    expect((await readAll(client)).equals(Buffer.concat([head, content.subarray(-4)]))).toBe(true);
  });

  it('reach beyond 4 GiB', async () => {
    const { client, socket, descriptor } = await openPair();
    const file = await openFile();
    const far = 2 ** 32 + 12_345;
    await file.write(Buffer.from('far away'), 0, 8, far);
    expect(move(descriptor, new Uint8Array(), file.fd, far, 8)).toBe(8);
    socket.end();
    expect((await readAll(client)).toString('latin1')).toBe('far away');
  });

  it.each<[name: string, socket: (pair: Awaited<ReturnType<typeof openPair>>) => number]>([
    ['an invalid descriptor', () => -1],
    ['a descriptor that is not open', () => 1_000_000],
  ])('move nothing into %s, and do not throw', async (_name, socketOf) => {
    const pair = await openPair();
    const { fd } = await openFile();
    expect(move(socketOf(pair), head, fd, 0, 10)).toBe(0);
    expect(move(socketOf(pair), new Uint8Array(), fd, 0, 10)).toBe(0);
  });

  it('move the head, and nothing from a closed file', async () => {
    const { descriptor } = await openPair();
    expect(move(descriptor, head, -1, 0, 10)).toBe(head.length);
    expect(move(descriptor, new Uint8Array(), -1, 0, 10)).toBe(0);
  });

  it('move nothing to a client that has left, and do not end the process', async () => {
    const { client, socket, descriptor } = await openPair();
    const { fd } = await openFile();
    const closed = untilClosed(socket);
    // At first only the kernel knows of the reset.
    client.resetAndDestroy();
    let taken = -1;
    for (let at = 0; taken !== 0 && at < 1000; at += 1) {
      taken = socket.destroyed ? 0 : move(descriptor, new Uint8Array(), fd, 0, 1000);
      await setImmediate();
    }
    expect(taken).toBe(0);
    socket.destroy();
    await closed;
  });
});
