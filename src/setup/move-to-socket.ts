/** System calls that move bytes of a file into a socket without a copy in this process (`store.sendfile`). */

import { closeSync, openSync, readSync } from 'node:fs';
import type { StoreConfig } from '../config/schema.ts';
import type { MoveToSocket } from '../store/disk/bodies/file-system.ts';
import type { Emit } from '../telemetry/events.ts';

/** Says that more bytes follow soon, so that these are not sent alone (send(2)). */
const MSG_MORE = 0x8000;
const MSG_DONTWAIT = 0x40;

/** A pair of non-blocking stream sockets that no other program inherits (socketpair(2)). */
const AF_UNIX = 1;
const SOCK_STREAM_NONBLOCK_CLOEXEC = 1 | 0x800 | 0x80000;

/** The check moves this many bytes, from an odd offset of a file that always exists: Node itself. */
const checkedBytes = 20_000;
const checkedOffset = 4_567;
const checkedHead = Buffer.from('head');

type Sendfile = Extract<StoreConfig, { type: 'disk' }>['sendfile'];

/** Returns the function that moves, where the option allows it and it works here. Warns where it is "on" and does not work. */
export function openMoveToSocket(sendfile: Sendfile, emit: Emit, load = workingMoveToSocket): MoveToSocket | undefined {
  if (sendfile === 'off') return undefined;
  const move = load();
  if (move !== undefined) return move;
  const message = 'This process sends bodies itself: the system cannot do it here (store.sendfile)';
  const detail = `sendfile needs Linux and Node 26 with node:ffi; this is Node ${process.versions.node} on ${process.platform}`;
  emit({ kind: 'store', level: sendfile === 'on' ? 'warn' : 'debug', message, detail });
  return undefined;
}

/** Describes how bodies are sent: `sendfile on` where the system sends larger ones. */
export function describeSending(sendfile: Sendfile): string {
  const isOn = sendfile !== 'off' && workingMoveToSocket() !== undefined;
  return `sendfile ${isOn ? 'on' : 'off'}`;
}

let found: { readonly move: MoveToSocket | undefined } | undefined;

/** Returns the function that moves, if it works in this process. The check is made once. */
function workingMoveToSocket(): MoveToSocket | undefined {
  found ??= { move: loadMoveToSocket() };
  return found.move;
}

/**
 * Returns the function that moves, by way of `node:ffi`, once it has moved the right bytes through a pair of sockets. Undefined where
 * it has not, or the calls are not available. Node's sockets are non-blocking, and Node ignores SIGPIPE.
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
    // Not from Node's shared pool: the address must stay valid.
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
    // An older Node, a build without node:ffi, or a process that may not use it.
    return undefined;
  }
}

/** Loads `node:ffi` without Node's warning that it is experimental: users cannot act on it. */
function loadFfi(): typeof import('node:ffi') {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return process.getBuiltinModule('node:ffi');
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Checks that a head and bytes of a file arrive at one socket as they were moved into the other one. Closes both. */
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
