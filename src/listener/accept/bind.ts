/**
 * Sockets to listen on: bound to an address or a path by this process, or passed by a service manager (sd_listen_fds(3)). A
 * socket outlives the listeners that take turns on it at a reload.
 */

import { chmodSync, existsSync, lstatSync, rmSync } from 'node:fs';
import { connect, createServer, type ListenOptions, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { longestSocketPath } from '../../config/default-places.ts';

/** Where to listen. */
export type BindPlace =
  /** A host name or an address, and the port; port 0 takes any free one. */
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  /** A Unix socket, and its permissions; those of the umask without them. */
  | { readonly kind: 'unix'; readonly path: string; readonly mode: number | undefined }
  /** A file descriptor of a socket that is bound already, and what it is called in addresses. */
  | { readonly kind: 'passed'; readonly fd: number; readonly name: string };

/** Where a socket is bound. */
export interface SocketAddress {
  /** The address; empty for a Unix socket. */
  readonly host: string;
  /** The port; 0 for a Unix socket. */
  readonly port: number;
  /** The path of a Unix socket, if it has one. */
  readonly path: string | undefined;
}

/** Nobody but the owner can connect in the moment before the permissions are set. */
const ownerOnly = 0o177;

/**
 * Binds the server and listens. Rejects with Node's error, its `code` such as EADDRINUSE or EACCES included, or with
 * `ListenFault`. A Unix socket that a server has left behind which is no more is replaced; one that somebody listens on is
 * EADDRINUSE.
 */
async function bind(server: Server, place: BindPlace): Promise<SocketAddress> {
  switch (place.kind) {
    case 'tcp':
      await listen(server, { host: place.host, port: place.port });
      break;
    case 'unix':
      await bindPath(place, () => listen(server, { path: place.path }));
      return { host: '', port: 0, path: place.path };
    case 'passed':
      await bindPassed(server, place);
  }
  return addressOf(server);
}

/** Names a place, the same whenever it is written the same. Several that the system chooses ports for have one name. */
export function placeName(place: BindPlace): string {
  switch (place.kind) {
    case 'tcp':
      return `${place.host.includes(':') ? `[${place.host}]` : place.host}:${place.port}`.toLowerCase();
    case 'unix':
      return `unix:${place.path}`;
    case 'passed':
      return place.name;
  }
}

/** A Unix socket, and its permissions. */
type PathPlace = Extract<BindPlace, { kind: 'unix' }>;

/**
 * Binds a path by what does that before it returns, and rejects where it cannot. A socket that a server has left behind which
 * is no more is replaced. Rejects as `bind` does.
 */
export async function bindPath({ path, mode }: PathPlace, listenThere: () => Promise<void>): Promise<void> {
  try {
    await withMode(path, mode, listenThere);
  } catch (error) {
    const fault = pathFault(path);
    if (fault !== undefined) throw new ListenFault(`cannot listen on unix:${path}: ${fault}`, { cause: error });
    if (!hasCode(error, 'EADDRINUSE') || !(await removeStale(path))) throw error;
    await withMode(path, mode, listenThere);
  }
}

/** What is wrong with a path that nothing could be bound to, where the error does not tell it. */
function pathFault(path: string): string | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined) return found.isSocket() ? undefined : 'something that is no socket is there';
  if (Buffer.byteLength(path) > longestSocketPath) return 'the path is too long for a socket';
  return existsSync(dirname(path)) ? undefined : `there is no directory ${dirname(path)}`;
}

/** The path is bound before `listenThere` returns, so that the umask is ours alone. */
function withMode(path: string, mode: number | undefined, listenThere: () => Promise<void>): Promise<void> {
  if (mode === undefined) return listenThere();
  const umask = process.umask(ownerOnly);
  let bound: Promise<void>;
  try {
    bound = listenThere();
  } finally {
    process.umask(umask);
  }
  return bound.then(() => chmodSync(path, mode));
}

/** Removes a socket that nobody listens on any more. Returns whether the path may be free now. */
async function removeStale(path: string): Promise<boolean> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return true;
  if ((await connectionFailure(path)) !== 'ECONNREFUSED') return false;
  // Another server may have replaced it meanwhile.
  if (lstatSync(path, { throwIfNoEntry: false })?.ino === found.ino) rmSync(path, { force: true });
  return true;
}

/** Why nobody can be reached at a path; undefined where somebody can. */
function connectionFailure(path: string): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const socket = connect({ path });
  socket.once('connect', () => resolve(undefined));
  socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
  return promise.finally(() => socket.destroy());
}

async function bindPassed(server: Server, { fd, name }: { fd: number; name: string }): Promise<void> {
  try {
    await listen(server, { fd });
  } catch (error) {
    const { message } = error as Error;
    throw new ListenFault(
      `cannot listen on ${name}: what was passed as file descriptor ${fd} is no socket to listen on (${message})`,
      { cause: error },
    );
  }
}

function listen(server: Server, options: ListenOptions & { readonly fd?: number }): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  try {
    server.listen(options, () => {
      server.off('error', reject);
      resolve();
    });
  } catch (error) {
    reject(error);
  }
  return promise.finally(() => server.off('error', reject));
}

/** The address that the system tells, which it does for TCP. */
function addressOf(server: Server): SocketAddress {
  const bound = server.address();
  if (typeof bound !== 'object' || bound === null || !('port' in bound)) return { host: '', port: 0, path: undefined };
  return { host: bound.address, port: bound.port, path: undefined };
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/**
 * A bound socket. Connections that come while nobody takes them wait. They may be half open (`allowHalfOpen`): who speaks a
 * protocol that has no use for that says so on each.
 */
export interface ListenSocket {
  readonly address: SocketAddress;
  /**
   * Gives all connections from now on to `accept`, in place of whoever had them before. `onError` is told of those that could
   * not be accepted. Resolves when they come.
   */
  take(accept: (socket: Socket) => void, onError: (error: Error) => void): Promise<void>;
  /**
   * Takes no more connections; those that were taken are not touched. Resolves when the socket is given back. A second call
   * waits for the first.
   */
  close(): Promise<void>;
}

/**
 * Binds a place. Rejects with Node's error, its `code` such as EADDRINUSE included, or with `ListenFault`. The name is the
 * place's among all of a configuration (`listenPlaces`).
 */
export type OpenSocket = (place: BindPlace, name: string) => Promise<ListenSocket>;

/** Binds a place in this process. */
export const openSocket: OpenSocket = async (place) => {
  const server = createSocketServer();
  // What comes from the first moment on waits until somebody takes it.
  const waiting = createServerSocket(server, () => address);
  const address = await bind(server, place);
  return waiting;
};

/** A server as `createServerSocket` wants it: that does not listen yet. */
export function createSocketServer(): Server {
  return createServer({ allowHalfOpen: true, noDelay: true, keepAlive: true });
}

/** The socket that a server listens on, or is going to: `address` is called once it does. */
function createServerSocket(server: Server, address: () => SocketAddress): ListenSocket {
  return new ServerSocket(server, address);
}

class ServerSocket implements ListenSocket {
  readonly #server: Server;
  readonly #address: () => SocketAddress;
  /** Those that nobody has taken yet. */
  readonly #waiting: Socket[] = [];
  #accept: ((socket: Socket) => void) | undefined;
  #onError: (error: Error) => void = () => undefined;
  #closed: Promise<void> | undefined;

  constructor(server: Server, address: () => SocketAddress) {
    this.#server = server;
    this.#address = address;
    server.on('connection', (socket) => {
      if (this.#accept === undefined) this.#keep(socket);
      else this.#accept(socket);
    });
    server.on('error', (error) => this.#onError(error));
  }

  get address(): SocketAddress {
    return this.#address();
  }

  async take(accept: (socket: Socket) => void, onError: (error: Error) => void): Promise<void> {
    this.#accept = accept;
    this.#onError = onError;
    for (const socket of this.#waiting.splice(0)) {
      socket.off('error', ignore);
      if (!socket.destroyed) accept(socket);
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** What the system has accepted for us already is taken before: one turn of the event loop. */
  async #close(): Promise<void> {
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    // The server's own callback would wait for all connections that came of it.
    this.#server.close();
    for (const socket of this.#waiting.splice(0)) socket.destroy();
  }

  #keep(socket: Socket): void {
    socket.on('error', ignore);
    this.#waiting.push(socket);
  }
}

/** The close that follows an error says enough. */
function ignore(): void {}

/** A socket that was passed on. */
export interface PassedSocket {
  readonly fd: number;
  /** What the manager calls it: that of the socket's unit, as a rule. */
  readonly name: string;
}

type Environment = Record<string, string | undefined>;

/** The first descriptor that is passed; those before it are the standard streams. */
const firstFd = 3;

/** More than any unit has; what is larger is no count. */
const mostSockets = 4096;

const variables = ['LISTEN_PID', 'LISTEN_PIDFDID', 'LISTEN_FDS', 'LISTEN_FDNAMES'];

/** The sockets that an environment tells of, if they are meant for the process with this id. */
export function readPassedSockets(environment: Readonly<Environment>, pid: number): readonly PassedSocket[] {
  const { LISTEN_PID, LISTEN_FDS = '', LISTEN_FDNAMES = '' } = environment;
  if (LISTEN_PID !== String(pid) || !/^[1-9]\d{0,3}$/.test(LISTEN_FDS)) return [];
  const count = Math.min(Number(LISTEN_FDS), mostSockets);
  const names = LISTEN_FDNAMES.split(':');
  return Array.from({ length: count }, (_, at) => ({ fd: firstFd + at, name: names[at] || 'unknown' }));
}

/** Takes the sockets out of the environment, so that no process that is started from here takes them for its own. */
export function takePassedSockets(environment: Environment, pid: number): readonly PassedSocket[] {
  const sockets = readPassedSockets(environment, pid);
  for (const name of variables) delete environment[name];
  return sockets;
}

/** All of the sockets, or those of one name, as places to listen. Throws `ListenFault` when there is none. */
export function choosePassedSockets(sockets: readonly PassedSocket[], name: string | undefined): readonly BindPlace[] {
  const chosen = sockets.filter((socket) => name === undefined || socket.name === name);
  if (chosen.length === 0) throw new ListenFault(describeAbsence(sockets, name));
  return chosen.map((socket) => ({ kind: 'passed', fd: socket.fd, name: `systemd:${socket.name}` }));
}

function describeAbsence(sockets: readonly PassedSocket[], name: string | undefined): string {
  if (sockets.length === 0) {
    return `cannot listen on systemd${name === undefined ? '' : `:${name}`}: no sockets were passed to this process; start it by a socket unit`;
  }
  const names = [...new Set(sockets.map((socket) => socket.name))].join(', ');
  return `cannot listen on systemd:${name}: no socket of this name was passed; those that were: ${names}`;
}

/** Says in one sentence for people what is wrong, naming the file or the place. */
export class ListenFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ListenFault';
  }
}
