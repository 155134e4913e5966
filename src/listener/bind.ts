/** Binds a socket to listen on: to an address, to a path, or to a socket that somebody else has opened. */

import { chmodSync, existsSync, lstatSync, rmSync } from 'node:fs';
import { connect, type ListenOptions, type Server } from 'node:net';
import { dirname } from 'node:path';
import { longestSocketPath } from '../config/admin-socket.ts';
import { ListenFault } from './listen-fault.ts';

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
export async function bind(server: Server, place: BindPlace): Promise<SocketAddress> {
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
export type PathPlace = Extract<BindPlace, { kind: 'unix' }>;

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
