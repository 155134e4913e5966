/**
 * Where the disk store and the admin socket are when the configuration does not say. The server and the commands that look for
 * it use the same rule.
 */

import { createHash } from 'node:crypto';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { formatListenPlace, type ListenPlace } from './address.ts';

/**
 * `rangeway/<host>-<port>` of the first listener, in the directory for caches: $XDG_CACHE_HOME where it is an absolute path,
 * as its specification wants, else `.cache` in the home directory. One server keeps its directory from start to start; two
 * have two. Undefined for port 0: nobody comes back to the address that the system chooses.
 */
export function defaultStoreDirectory(
  listen: readonly { readonly address: ListenPlace }[],
  environment: Readonly<Record<string, string | undefined>>,
  home: string,
): string | undefined {
  const name = listen[0] === undefined ? undefined : directoryName(listen[0].address);
  if (name === undefined) return undefined;
  // The colons of an IPv6 address are not welcome in file names everywhere.
  return join(storesDirectory(environment, home), name.replaceAll(/[^\w.-]/g, '_'));
}

/** The directory of all stores that have no other place. */
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

/** What decides it besides the configuration. */
export interface SocketGround {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The directory for temporary files. */
  readonly temporary: string;
  /** The user's number; undefined where the system has none. */
  readonly userId: number | undefined;
}

/** Name of the socket in the directory of a store. */
export const adminSocketName = 'admin.sock';

/** The longest path of a Unix socket that all systems have room for, in bytes. */
export const longestSocketPath = 103;

/** The directories, of this user alone, for the sockets of servers that have no directory with room for one: the first is preferred. */
export function runtimeDirectories({ environment, temporary, userId }: SocketGround): readonly string[] {
  const { XDG_RUNTIME_DIR: stated = '' } = environment;
  const ours = join(temporary, `rangeway-${userId ?? 'user'}`);
  return isAbsolute(stated) ? [join(stated, 'rangeway'), ours] : [ours];
}

/**
 * The socket in the directory of a store; undefined where there is no directory (a store in memory), or the path of the socket
 * would be too long.
 */
export function storeSocket(directory: string | undefined): string | undefined {
  if (directory === undefined) return undefined;
  const path = join(directory, adminSocketName);
  return Buffer.byteLength(path) <= longestSocketPath ? path : undefined;
}

/**
 * The socket of a server elsewhere, in a directory of `runtimeDirectories`: named after its first listener, and after the process
 * where the system chooses the port.
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
