/** Answers what other processes ask about the keys that this one has the lease of. */

import { chmod, stat, unlink } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { PeerSession, type PeerSessionOptions } from './peer-session.ts';

/**
 * So many connections may wait to be accepted, as far as the system lets them: all who have waited for one lease connect in the
 * same tick, and who is turned away takes this process for lost.
 */
const BACKLOG = 65_535;

/** What a peer server is opened with. */
export interface PeerServerOptions extends PeerSessionOptions {
  /** The directory of the sockets: nobody else may enter it. */
  readonly dir: string;
  /** Names this process among all that there were. */
  readonly instance: string;
}

/** Accepts what other processes ask. */
export interface PeerServer {
  /** Cuts those off who are being answered: they go on elsewhere. Resolves when nothing is left. */
  close(): Promise<void>;
}

/** The path of the socket of a process. */
export function peerSocketPath(dir: string, instance: string): string {
  return join(dir, instance);
}

/** Opens the socket of a process. Rejects with Node's error, or where others may enter the directory. */
export async function openPeerServer(options: PeerServerOptions): Promise<PeerServer> {
  const { dir, instance } = options;
  await expectOwn(dir);
  const path = peerSocketPath(dir, instance);
  const sessions = new Set<Socket>();
  const server = createServer((socket) => {
    sessions.add(socket);
    socket.once('close', () => sessions.delete(socket));
    new PeerSession(socket, options).begin();
  });
  await listen(server, path);
  // The directory keeps everybody out; this one lets nobody in either.
  await chmod(path, 0o600);
  return {
    close: async () => {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      for (const socket of sessions) socket.destroy();
      await closed;
      // Node removes it where it could; it may be gone.
      await unlink(path).catch(() => {});
    },
  };
}

/** What comes over the sockets is believed: only who runs this may reach them. */
async function expectOwn(dir: string): Promise<void> {
  const { mode, uid } = await stat(dir);
  if ((mode & 0o077) !== 0 || uid !== process.geteuid?.()) {
    throw new Error(
      `The directory ${dir} of the sockets between processes must belong to this user alone (mode 0700).`,
    );
  }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path, backlog: BACKLOG }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}
