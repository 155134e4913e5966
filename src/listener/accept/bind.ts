/**
 * Opens listening sockets: bound to an address or a path by this process, or passed by a service manager (sd_listen_fds(3)). A
 * socket stays open across reloads, while its listeners change.
 */

import { chmodSync, existsSync, lstatSync, rmSync } from 'node:fs';
import { connect, createServer, type ListenOptions, type Server, type Socket } from 'node:net';
import { dirname } from 'node:path';
import { longestSocketPath } from '../../config/address.ts';

/** Where to listen. */
export type BindPlace =
  /** A host name or an address, and a port; port 0 takes any free port. */
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number }
  /** A Unix socket and its permissions; undefined leaves them to the umask. */
  | { readonly kind: 'unix'; readonly path: string; readonly mode: number | undefined }
  /** The file descriptor of a bound socket, and its name for addresses. */
  | { readonly kind: 'passed'; readonly fd: number; readonly name: string };

/** The address of a bound socket. */
export interface SocketAddress {
  /** The IP address; empty for a Unix socket. */
  readonly host: string;
  /** The port; 0 for a Unix socket. */
  readonly port: number;
  /** The path of a Unix socket; undefined for TCP, and where the path is not known. */
  readonly path: string | undefined;
}

/** The umask while binding: only the owner can connect before the permissions are set. */
const ownerOnly = 0o177;

/**
 * Binds the server and listens. Rejects with Node's error, whose `code` is for example EADDRINUSE or EACCES, or with
 * `ListenFault`. A stale Unix socket, whose server is gone, is replaced; one with a listening server gives EADDRINUSE.
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

/** Returns the name of a place. Equal places have equal names, also several places on one host with port 0. */
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

/** A Unix socket and its permissions. */
type PathPlace = Extract<BindPlace, { kind: 'unix' }>;

/**
 * Binds a path by calling `listenThere`, which has to bind it before it returns. Replaces a stale socket, whose server is gone.
 * Rejects as `bind` does.
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

/** Returns why binding a path failed, where the system's error does not say it clearly. */
function pathFault(path: string): string | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined) return found.isSocket() ? undefined : 'the path exists and is not a socket';
  if (Buffer.byteLength(path) > longestSocketPath) return 'the path is too long for a socket';
  return existsSync(dirname(path)) ? undefined : `there is no directory ${dirname(path)}`;
}

/** Sets the umask during the call only: `listenThere` binds the path before it returns, so no other code runs with it. */
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

/** Removes a socket that no server listens on. Returns whether the path may be free now. */
async function removeStale(path: string): Promise<boolean> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return true;
  if ((await connectionFailure(path)) !== 'ECONNREFUSED') return false;
  // Another server may have replaced the socket meanwhile.
  if (lstatSync(path, { throwIfNoEntry: false })?.ino === found.ino) rmSync(path, { force: true });
  return true;
}

/** Returns the error code of a connection to a path; undefined where a server accepts it. */
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

/** Returns the bound address; an empty host and port 0 unless the socket is TCP. */
function addressOf(server: Server): SocketAddress {
  const bound = server.address();
  if (typeof bound !== 'object' || bound === null || !('port' in bound)) return { host: '', port: 0, path: undefined };
  return { host: bound.address, port: bound.port, path: undefined };
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/**
 * A bound socket. Connections wait until a listener takes them. They may be half open (`allowHalfOpen`); a listener that does not
 * want that sets it on each connection.
 */
export interface ListenSocket {
  readonly address: SocketAddress;
  /**
   * Passes all waiting and future connections to `accept`, which replaces the previous one. `onError` gets the errors of
   * connections that could not be accepted. Resolves when connections are accepted.
   */
  take(accept: (socket: Socket) => void, onError: (error: Error) => void): Promise<void>;
  /**
   * Stops accepting connections. Accepted connections stay open. Resolves when the socket is released. A second call waits for
   * the first.
   */
  close(): Promise<void>;
}

/**
 * Binds a place. Rejects with Node's error, whose `code` is for example EADDRINUSE, or with `ListenFault`. `name` identifies the
 * place in a configuration (`listenPlaces`).
 */
export type OpenSocket = (place: BindPlace, name: string) => Promise<ListenSocket>;

/** Binds a place in this process. */
export const openSocket: OpenSocket = async (place) => {
  const server = createSocketServer();
  // Created before binding, so that the first connections wait until a listener takes them.
  const waiting = createServerSocket(server, () => address);
  const address = await bind(server, place);
  return waiting;
};

/** Creates the Node server of a listening socket; it does not listen yet. */
export function createSocketServer(): Server {
  return createServer({ allowHalfOpen: true, noDelay: true, keepAlive: true });
}

/** Wraps a server that listens or will listen. `address` is called only once it listens. */
function createServerSocket(server: Server, address: () => SocketAddress): ListenSocket {
  return new ServerSocket(server, address);
}

class ServerSocket implements ListenSocket {
  readonly #server: Server;
  readonly #address: () => SocketAddress;
  /** Connections that no listener has taken yet. */
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

  /** Waits one turn of the event loop first, so that connections that the kernel has already accepted are taken. */
  async #close(): Promise<void> {
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    // Without a callback, which would wait for the end of all its connections.
    this.#server.close();
    for (const socket of this.#waiting.splice(0)) socket.destroy();
  }

  #keep(socket: Socket): void {
    socket.on('error', ignore);
    this.#waiting.push(socket);
  }
}

/** Every error is followed by `close`, which is handled. */
function ignore(): void {}

/** A socket that the service manager has passed. */
export interface PassedSocket {
  readonly fd: number;
  /** The name that the service manager gives it: usually that of the socket unit. */
  readonly name: string;
}

type Environment = Record<string, string | undefined>;

/** The first passed descriptor (SD_LISTEN_FDS_START); the ones before it are the standard streams. */
const firstFd = 3;

/** Upper bound of LISTEN_FDS, beyond any real unit. */
const mostSockets = 4096;

const variables = ['LISTEN_PID', 'LISTEN_PIDFDID', 'LISTEN_FDS', 'LISTEN_FDNAMES'];

/** Reads the passed sockets from environment variables; an empty array if they are not for the process `pid`. */
export function readPassedSockets(environment: Readonly<Environment>, pid: number): readonly PassedSocket[] {
  const { LISTEN_PID, LISTEN_FDS = '', LISTEN_FDNAMES = '' } = environment;
  if (LISTEN_PID !== String(pid) || !/^[1-9]\d{0,3}$/.test(LISTEN_FDS)) return [];
  const count = Math.min(Number(LISTEN_FDS), mostSockets);
  const names = LISTEN_FDNAMES.split(':');
  return Array.from({ length: count }, (_, at) => ({ fd: firstFd + at, name: names[at] || 'unknown' }));
}

/** Reads the passed sockets and deletes their variables, so that child processes do not take the sockets for their own. */
export function takePassedSockets(environment: Environment, pid: number): readonly PassedSocket[] {
  const sockets = readPassedSockets(environment, pid);
  for (const name of variables) delete environment[name];
  return sockets;
}

/** Returns the passed sockets, all or those of one name, as places to listen. Throws `ListenFault` when there is none. */
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

/** An error of a listener or its certificates. The message is one sentence for operators, and names the file or the place. */
export class ListenFault extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ListenFault';
  }
}
