/** A socket and who uses it: what happens to it is told without a function of its own for each socket. */

import type { Socket } from 'node:net';

/** How long a socket that we have ended is still read from (RFC 9112 §9.6), in milliseconds. */
const lingerMs = 2_000;

/** Who uses a socket. */
export interface SocketUser {
  /** Bytes have come. */
  receive(chunk: Buffer): void;
  /** The other side has ended its half. */
  receiveEnd(): void;
  /** The socket takes more. */
  makeRoom(): void;
  /** Nothing more comes and nothing more leaves. */
  close(): void;
}

const user = Symbol('user');
type UsedSocket = Socket & { [user]?: SocketUser };

/** From now on the user is told. */
export function useSocket(socket: Socket, newUser: SocketUser): void {
  (socket as UsedSocket)[user] = newUser;
  socket.on('data', onData).on('end', onEnd).on('drain', onDrain).on('close', onClose);
}

/** From now on somebody else reads the socket. */
export function stopReading(socket: Socket): void {
  socket.off('data', onData).off('end', onEnd).pause();
}

/**
 * Ends our side, then reads on for a while and drops what comes: closing at once could reset the connection before the
 * client has read the last response (RFC 9112 §9.6).
 */
export function endSlowly(socket: Socket): void {
  socket.end(() => {
    const timer = setTimeout(() => socket.destroy(), lingerMs).unref();
    socket.once('close', () => clearTimeout(timer));
  });
  socket.resume();
}

function onData(this: UsedSocket, chunk: Buffer): void {
  this[user]?.receive(chunk);
}

function onEnd(this: UsedSocket): void {
  this[user]?.receiveEnd();
}

function onDrain(this: UsedSocket): void {
  this[user]?.makeRoom();
}

function onClose(this: UsedSocket): void {
  this[user]?.close();
}
