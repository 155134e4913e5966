/** The system's calls that move bytes of a file into a socket without a copy in this process (`store.sendfile`). */

import { closeSync, openSync, readSync } from 'node:fs';
import type { StoreConfig } from '../config/schema.ts';
import type { MoveToSocket } from '../store/disk/bodies/file-system.ts';
import type { Emit } from '../telemetry/events.ts';

/** What goes into the socket next comes soon: it is not to be sent alone (send(2)). */
const MSG_MORE = 0x8000;
const MSG_DONTWAIT = 0x40;

/** A pair of stream sockets that wait for nothing and that no other program inherits (socketpair(2)). */
const AF_UNIX = 1;
const SOCK_STREAM_NONBLOCK_CLOEXEC = 1 | 0x800 | 0x80000;

/** The check moves so many bytes, from an odd offset of a file that is always there: Node itself. */
const checkedBytes = 20_000;
const checkedOffset = 4_567;
const checkedHead = Buffer.from('head');

type Sendfile = Extract<StoreConfig, { type: 'disk' }>['sendfile'];

/** The calls, where the option wants them and they work here. `on` warns where they do not. */
export function openMoveToSocket(sendfile: Sendfile, emit: Emit, load = workingMoveToSocket): MoveToSocket | undefined {
  if (sendfile === 'off') return undefined;
  const move = load();
  if (move !== undefined) return move;
  const message = 'This process sends bodies itself: the system cannot do it here (store.sendfile)';
  const detail = `sendfile needs Linux and Node 26 with node:ffi; this is Node ${process.versions.node} on ${process.platform}`;
  emit({ kind: 'store', level: sendfile === 'on' ? 'warn' : 'debug', message, detail });
  return undefined;
}

/** How bodies are sent, for people: `sendfile on` where the system sends larger ones. */
export function describeSending(sendfile: Sendfile): string {
  const isOn = sendfile !== 'off' && workingMoveToSocket() !== undefined;
  return `sendfile ${isOn ? 'on' : 'off'}`;
}

let found: { readonly move: MoveToSocket | undefined } | undefined;

/** The calls, if they work in this process. It is found out once. */
function workingMoveToSocket(): MoveToSocket | undefined {
  found ??= { move: loadMoveToSocket() };
  return found.move;
}

/**
 * The calls, as `node:ffi` reaches them, after they have moved the right bytes through a pair of sockets; undefined where they
 * have not, or are not there. Sockets of Node do not wait, and SIGPIPE is ignored in its processes.
 */
export function loadMoveToSocket(): MoveToSocket | undefined {
  if (process.platform !== 'linux') return undefined;
  try {
    const ffi = loadFfi();
    const { functions } = ffi.dlopen(null, {
      send: { arguments: ['i32', 'buffer', 'u64', 'i32'], return: 'i64' },
      sendfile: { arguments: ['i32', 'i32', 'pointer', 'u64'], return: 'i64' },
      socketpair: { arguments: ['i32', 'i32', 'i32', 'buffer'], return: 'i32' },
    });
    const { send, sendfile, socketpair } = functions;
    // Of its own memory, which stays where it is.
    const offset = new BigInt64Array(Buffer.allocUnsafeSlow(8).buffer);
    const offsetPointer = ffi.getRawPointer(offset);
    const move: MoveToSocket = (socket, head, file, position, sizeBytes) => {
      const headBytes =
        head.length === 0 ? 0 : Number(send(socket, head, BigInt(head.length), MSG_MORE | MSG_DONTWAIT));
      if (headBytes < head.length) return Math.max(0, headBytes);
      offset[0] = BigInt(position);
      return headBytes + Math.max(0, Number(sendfile(socket, file, offsetPointer, BigInt(sizeBytes))));
    };
    const pair = Buffer.alloc(8);
    if (Number(socketpair(AF_UNIX, SOCK_STREAM_NONBLOCK_CLOEXEC, 0, pair)) !== 0) return undefined;
    return movesRightBytes(move, pair.readInt32LE(0), pair.readInt32LE(4)) ? move : undefined;
  } catch {
    // Of an older Node, one that was built without it, or a process that may not use it.
    return undefined;
  }
}

/** Node warns that it is experimental, to people who cannot act on it: not here, whoever has started this process. */
function loadFfi(): typeof import('node:ffi') {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule('node:ffi');
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Whether a head and bytes of a file come out of one socket as they were moved into the other one. Closes both. */
export function movesRightBytes(move: MoveToSocket, socket: number, otherEnd: number): boolean {
  const open = [socket, otherEnd];
  try {
    const file = openSync(process.execPath, 'r');
    open.push(file);
    const expected = Buffer.concat([checkedHead, Buffer.alloc(checkedBytes)]);
    readSync(file, expected, checkedHead.length, checkedBytes, checkedOffset);
    if (move(socket, checkedHead, file, checkedOffset, checkedBytes) !== expected.length) return false;
    const moved = Buffer.alloc(expected.length);
    let count = 0;
    while (count < moved.length) {
      const more = readSync(otherEnd, moved, count, moved.length - count, null);
      if (more === 0) break;
      count += more;
    }
    return moved.equals(expected);
  } finally {
    for (const descriptor of open) closeSync(descriptor);
  }
}
