/**
 * The default places of the disk store and the admin socket. The server and the commands that look for its socket use the same
 * rules.
 */

import { createHash } from 'node:crypto';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { formatListenPlace, type ListenPlace, longestSocketPath } from './address.ts';

/**
 * Returns `rangeway/<host>-<port>` of the first listener, in $XDG_CACHE_HOME where that is an absolute path, as its
 * specification demands, else in `.cache` in the home directory. A server keeps its directory from start to start; two servers
 * have two. Returns undefined for port 0: the address changes at each start.
 */
export function defaultStoreDirectory(
  listen: readonly { readonly address: ListenPlace }[],
  environment: Readonly<Record<string, string | undefined>>,
  home: string,
): string | undefined {
  const name = listen[0] === undefined ? undefined : directoryName(listen[0].address);
  if (name === undefined) return undefined;
  // Some file systems forbid the colons of an IPv6 address in names.
  return join(storesDirectory(environment, home), name.replaceAll(/[^\w.-]/g, '_'));
}

/** Returns the directory that holds all default store directories. */
export function storesDirectory(environment: Readonly<Record<string, string | undefined>>, home: string): string {
  const { XDG_CACHE_HOME: stated = '' } = environment;
  return join(isAbsolute(stated) ? stated : join(home, '.cache'), 'rangeway');
}

function directoryName(place: ListenPlace): string | undefined {
  switch (place.kind) {
    case 'tcp':
      return place.port === 0 ? undefined : `${place.host}-${place.port}`;
    case 'unix':
      return `unix${place.path}`;
    case 'systemd':
      return place.name === undefined ? 'systemd' : `systemd-${place.name}`;
  }
}

/** The facts that decide the place of an admin socket, besides the configuration. */
export interface SocketEnvironment {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The directory for temporary files. */
  readonly temporary: string;
  /** The user id; undefined where the system has none. */
  readonly userId: number | undefined;
}

/** Name of the socket in the directory of a store. */
export const adminSocketName = 'admin.sock';

/** Returns this user's directories for admin sockets that have no place in a store directory, the preferred one first. */
export function runtimeDirectories({ environment, temporary, userId }: SocketEnvironment): readonly string[] {
  const { XDG_RUNTIME_DIR: stated = '' } = environment;
  const ours = join(temporary, `rangeway-${userId ?? 'user'}`);
  return isAbsolute(stated) ? [join(stated, 'rangeway'), ours] : [ours];
}

/**
 * Returns the socket in a store directory; undefined where there is no directory (a store in memory), or the path of the socket
 * would be too long.
 */
export function storeSocket(directory: string | undefined): string | undefined {
  if (directory === undefined) return undefined;
  const path = join(directory, adminSocketName);
  return Buffer.byteLength(path) <= longestSocketPath ? path : undefined;
}

/**
 * Returns the socket of a server in a directory of `runtimeDirectories`. It is named after the first listener, or after the
 * process where the system chooses the port. A name that is too long is replaced by its hash.
 */
export function runtimeSocket(
  directory: string,
  listen: readonly { readonly address: ListenPlace }[],
  processId: number,
): string {
  const [first] = listen;
  const isChosen = first === undefined || (first.address.kind === 'tcp' && first.address.port === 0);
  const name = isChosen ? `process-${processId}` : formatListenPlace(first.address);
  const path = join(directory, `${name.replaceAll(/[^\w.-]/g, '_')}.sock`);
  if (Buffer.byteLength(path) <= longestSocketPath) return path;
  return join(dirname(path), `${createHash('sha256').update(basename(path)).digest('hex').slice(0, 16)}.sock`);
}
