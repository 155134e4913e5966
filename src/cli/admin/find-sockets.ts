/** The admin sockets of servers that this user runs on this machine, where commands look for them without being told. */

import { lstat, readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { adminSocketName, runtimeDirectories, type SocketGround } from '../../config/admin-socket.ts';
import { storesDirectory } from '../../config/store-directory.ts';

/** A connection to a Unix socket is made or refused at once, unless the server behind it is stuck. */
const PATIENCE_MS = 2_000;

/**
 * The paths of those that a server listens on: in the directories of stores that are where they are by default, in those of
 * temporary stores, and in the directories for the sockets of all others. Places that other users can write, such as the
 * directory for temporary files, count only as far as a directory in them is this user's own.
 */
export async function findAdminSockets(ground: SocketGround, home: string): Promise<readonly string[]> {
  const { environment, temporary, userId } = ground;
  const stores = storesDirectory(environment, home);
  const isOurs = async (path: string): Promise<boolean> => {
    const found = await lstat(path).catch(() => undefined);
    return found?.isDirectory() === true && isOwn(found, userId) && (found.mode & 0o022) === 0;
  };
  const paths = (await namesIn(stores)).map((name) => join(stores, name, adminSocketName));
  for (const name of await namesIn(temporary)) {
    const directory = join(temporary, name);
    if (name.startsWith('rangeway-') && (await isOurs(directory))) paths.push(join(directory, adminSocketName));
  }
  for (const directory of runtimeDirectories(ground)) {
    if (!(await isOurs(directory))) continue;
    const names = (await namesIn(directory)).filter((name) => name.endsWith('.sock'));
    paths.push(...names.map((name) => join(directory, name)));
  }
  const live = await Promise.all([...new Set(paths)].map((path) => isLive(path, userId)));
  return [...new Set(paths)].filter((_, index) => live[index]);
}

/** Whether a server of this user listens on a socket; for root, of any user. */
async function isLive(path: string, userId: number | undefined): Promise<boolean> {
  const found = await lstat(path).catch(() => undefined);
  const isSocket = found?.isSocket() === true;
  if (!isSocket || (userId !== 0 && !isOwn(found, userId))) return false;
  return await canConnect(path);
}

/** Whether a server listens on a Unix socket and this user may connect to it. */
export function canConnect(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect({ path, timeout: PATIENCE_MS });
  socket.once('connect', () => resolve(true));
  socket.once('timeout', () => resolve(false));
  socket.once('error', () => resolve(false));
  return promise.finally(() => socket.destroy());
}

function isOwn({ uid }: { readonly uid: number }, userId: number | undefined): boolean {
  return userId === undefined || uid === userId;
}

async function namesIn(directory: string): Promise<readonly string[]> {
  return await readdir(directory).catch(() => []);
}
