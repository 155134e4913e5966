/** Waits until nothing moves between clients and listeners: every byte that one side has written, the other has read. */

import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

/** Turns in a row without a change after which all consequences of the last byte have happened. */
const quietTurns = 3;

/** Upper limit on the turns, which nothing that ends reaches, even on a busy machine. */
const patienceTurns = 5_000_000;

/** Both ends of a TCP connection, below TLS if any. */
interface Pair {
  readonly client: Socket;
  server: Socket | undefined;
}

const pairs = new Map<number, Pair>();
/** Connections that were accepted before their clients saw it, by the client's port. */
const accepted = new Map<number, Socket>();
/** Bytes that were moved into a socket past Node, by its descriptor. */
const movedBytes = new Map<number, number>();
let underway = 0;
let moves = 0;
let isWatching = false;

/** Begins to watch connections that listeners of this process accept. Call it before the first connection. */
export function watchConnections(): void {
  if (isWatching) return;
  isWatching = true;
  subscribe('net.server.socket', (message) => {
    const { socket } = message as { readonly socket: Socket };
    const { remotePort = 0 } = socket;
    // The descriptor may be reused from an earlier socket.
    movedBytes.delete(descriptorOf(socket));
    const pair = pairs.get(remotePort);
    // The port may be reused from an earlier connection.
    if (pair === undefined || pair.server !== undefined) accepted.set(remotePort, socket);
    else pair.server = socket;
    socket.once('close', () => {
      moves += 1;
      if (accepted.get(remotePort) === socket) accepted.delete(remotePort);
    });
  });
}

/** Watches a client's connection from its start to its end. */
export function watchClient(client: Socket): void {
  beginMove();
  client.once('connect', () => {
    const { localPort = 0 } = client;
    pairs.set(localPort, { client, server: accepted.get(localPort) });
    accepted.delete(localPort);
    client.once('close', () => (moves += 1));
    endMove();
  });
  client.once('error', (error) => {
    if (client.localPort === undefined) throw error;
  });
}

/** Counts bytes that were moved into the socket of a listener past Node, which does not count them. */
export function noteMoved(descriptor: number, bytes: number): void {
  movedBytes.set(descriptor, (movedBytes.get(descriptor) ?? 0) + bytes);
}

/** Marks the start of a step that has no bytes on a connection yet. */
export function beginMove(): void {
  underway += 1;
}

/** Marks the end of such a step. */
export function endMove(): void {
  underway -= 1;
  moves += 1;
}

/** Waits at least one turn of the event loop, and until everything that was sent has had its consequences. */
export async function quiet(): Promise<void> {
  let last = '';
  let same = 0;
  for (let turns = 0; turns < patienceTurns; turns += 1) {
    await new Promise((resolve) => setImmediate(resolve));
    if (pairs.size === 0 && underway === 0) return;
    const state = isStill() ? stateOfAll() : '';
    same = state !== '' && state === last ? same + 1 : 0;
    last = state;
    if (same >= quietTurns) return;
  }
  throw new Error(
    `the wires do not become quiet: ${underway} under way, ${[...pairs.values()]
      .filter((pair) => !isPairStill(pair))
      .map(describe)
      .join('; ')}`,
  );
}

function isStill(): boolean {
  for (const [port, { client, server }] of pairs) {
    if (client.closed && (server === undefined || server.closed)) pairs.delete(port);
  }
  return underway === 0 && [...pairs.values()].every(isPairStill);
}

function isPairStill({ client, server }: Pair): boolean {
  if (server === undefined || client.destroyed || server.destroyed) return false;
  return client.bytesWritten === server.bytesRead && sentBytes(server) === client.bytesRead;
}

function sentBytes(server: Socket): number {
  return server.bytesWritten + (movedBytes.get(descriptorOf(server)) ?? 0);
}

function descriptorOf(socket: Socket): number {
  return (socket as { readonly _handle?: { readonly fd?: number } | null })._handle?.fd ?? -1;
}

function stateOfAll(): string {
  let bytes = 0;
  for (const { client } of pairs.values()) bytes += client.bytesWritten + client.bytesRead;
  return `${pairs.size} ${bytes} ${moves}`;
}

function describe({ client, server }: Pair): string {
  const end = (socket: Socket) => `${sentBytes(socket)} out, ${socket.bytesRead} in${socket.destroyed ? ', gone' : ''}`;
  return `client ${end(client)}; server ${server === undefined ? 'unknown' : end(server)}`;
}
