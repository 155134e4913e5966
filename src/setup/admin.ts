/** Opens the admin listener from the configuration. */

import { randomBytes } from 'node:crypto';
import { lstat, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { Guesses, type Reach } from '../admin/access.ts';
import { ActivityFeed } from '../admin/activity.ts';
import { openAdminListener } from '../admin/admin-listener.ts';
import type { Operations } from '../admin/operations.ts';
import type { Dashboard } from '../admin/page.ts';
import { formatDashboardLink, Sessions } from '../admin/sessions.ts';
import { isLoopback } from '../config/address.ts';
import { runtimeDirectories, runtimeSocket, storeSocket } from '../config/default-places.ts';
import type { AdminConfig, Config } from '../config/schema.ts';
import type { SecretSource } from '../config/secret-source.ts';
import { bearerRule, createTokenTable } from '../guard/access/authorization.ts';
import { type BindPlace, openSocket } from '../listener/accept/bind.ts';
import type { Listener } from '../listener/accept/open-listener.ts';
import type { Emit } from '../telemetry/events.ts';
import { readDashboardFiles } from './dashboard-files.ts';
import { readSecret, unusable } from './secrets.ts';
import type { PlacedStoreConfig } from './store.ts';
import { backgroundClock, monotonicClock, systemClock, systemRandom } from './system.ts';

/** The admin listener of a server. */
export interface Admin {
  /** Where it is reached, such as `http://127.0.0.1:9180` or `unix:/run/rangeway/admin.sock`. */
  readonly address: string;
  /** Where browsers find the dashboard; undefined on a Unix socket. */
  readonly dashboard?: string | undefined;
  /** Reads the token again. Rejects where it cannot be used; the previous one stays valid then. */
  renewToken(): Promise<void>;
  /** Accepts no more requests, and cuts those that are not answered after `graceMs` milliseconds. */
  close(graceMs: number): Promise<void>;
}

/** The parts that all admin listeners of a server share. */
export interface AdminGround {
  /** May be called at once, before there is a server. */
  readonly operations: Operations;
  readonly emit: Emit;
  readonly activity: ActivityFeed;
  readonly dashboard: Dashboard;
  readonly sessions: Sessions;
}

/** Creates the parts that all admin listeners of a server share. */
export function createAdminGround(operations: Operations, emit: Emit): AdminGround {
  const activity = new ActivityFeed({ read: () => operations.readActivity(), after: backgroundClock.after });
  const sessions = new Sessions({ now: systemClock.now, random: systemRandom });
  return { operations, emit, activity, sessions, dashboard: { readFiles: readDashboardFiles, url: undefined } };
}

/** Returns a link to the dashboard that logs a browser in once, within five minutes; undefined where no browser can reach it. */
export function createDashboardLink({ dashboard: { url }, sessions }: AdminGround): string | undefined {
  return url === undefined ? undefined : formatDashboardLink(url, sessions.createCode().code);
}

/** Permissions of a Unix socket. Only its owner can connect, because a client that can may do everything. */
const ownerOnly = 0o600;

/**
 * Opens the configured admin listener; undefined where there is none. Rejects with Node's error or `ListenFault` when the address
 * cannot be bound, and with an error that names the source when the token cannot be read or used.
 */
export async function openAdmin({ admin }: Pick<Config, 'admin'>, ground: AdminGround): Promise<Admin | undefined> {
  if (admin === undefined || admin === 'off') return undefined;
  const { token: source, hosts } = admin;
  let isToken = source === undefined ? undefined : (await readAdminToken(source)).isToken;
  const listener = await openAdminListener({
    ...ground,
    socket: await openSocket(placeOf(admin), 'admin'),
    now: systemClock.now,
    rules: { reach: reachOf(admin), hosts: new Set(hosts) },
    isToken: isToken && ((text) => isToken?.(text) === true),
    guesses: new Guesses(monotonicClock.now),
  });
  if (admin.listen.kind === 'tcp') ground.dashboard.url = browserUrl(listener.address.url);
  return {
    address: listener.address.url,
    dashboard: ground.dashboard.url,
    async renewToken() {
      if (source === undefined) return;
      const { text, isToken: isNew } = await readAdminToken(source);
      // A browser may have logged in with the previous token, which is no longer valid.
      if (isToken?.(text) === false) {
        ground.sessions.endAll();
        ground.activity.disconnect();
      }
      isToken = isNew;
    },
    close: (graceMs) => closeAdmin(listener, graceMs, ground),
  };
}

/** Ends event streams first: they would never end by themselves. */
async function closeAdmin(listener: Listener, graceMs: number, { activity }: AdminGround): Promise<void> {
  activity.close();
  await listener.close(graceMs);
}

/** Checks whether there is an admin listener of any kind, which can read the metrics. */
export function hasAdmin(
  { admin }: Pick<Config, 'admin'>,
  { adminSocket = false }: { readonly adminSocket?: boolean | undefined },
) {
  return admin !== 'off' && (admin !== undefined || adminSocket);
}

/**
 * Opens the admin listener on the default Unix socket: `admin.sock` in the directory of the store, or, where that is not possible,
 * a socket in a directory for this user alone. It asks for no token: only the user that runs the server, and root, can connect.
 * Undefined where `admin` is "off" or names this socket already. Undefined also where it cannot be opened: the server runs
 * without it, and one line of the log says why.
 */
export async function openAdminSocket(
  { admin, listen }: Pick<Config, 'admin' | 'listen'>,
  store: PlacedStoreConfig,
  ground: AdminGround,
): Promise<Admin | undefined> {
  if (admin === 'off') return undefined;
  try {
    const inStore = storeSocket(store.type === 'disk' ? store.dir : undefined);
    const path = inStore ?? runtimeSocket(await createRuntimeDirectory(), listen, process.pid);
    if (admin?.listen.kind === 'unix' && admin.listen.path === path) return undefined;
    const listener = await openAdminListener({
      socket: await openSocket({ kind: 'unix', path, mode: ownerOnly }, 'admin'),
      ...ground,
      now: systemClock.now,
      rules: { reach: 'owner', hosts: new Set() },
      isToken: undefined,
      guesses: new Guesses(monotonicClock.now),
    });
    return {
      address: listener.address.url,
      renewToken: async () => {},
      close: (graceMs) => closeAdmin(listener, graceMs, ground),
    };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const message = `there is no admin socket, which rangeway ls, purge, warm, reload and explain look for: ${why}`;
    ground.emit({ kind: 'listener', level: 'warn', message });
    return undefined;
  }
}

/** Returns the first usable directory for sockets of this user, and creates it where it does not exist. Rejects where there is none. */
async function createRuntimeDirectory(): Promise<string> {
  const userId = process.getuid?.();
  const directories = runtimeDirectories({ environment: process.env, temporary: tmpdir(), userId });
  let fault: unknown;
  for (const directory of directories) {
    try {
      await mkdir(directory, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      });
      const found = await lstat(directory);
      // In a directory of another user, or one that others can write, they could put their own socket.
      if (found.isDirectory() && (userId === undefined || found.uid === userId) && (found.mode & 0o022) === 0) {
        return directory;
      }
      throw new Error(`${directory} is not a directory that this user alone can write`);
    } catch (error) {
      fault = error;
    }
  }
  throw fault;
}

function placeOf({ listen }: AdminConfig): BindPlace {
  if (listen.kind === 'unix') return { ...listen, mode: ownerOnly };
  if (listen.kind === 'tcp') return listen;
  throw new Error('the schema allows no other place');
}

/** Returns the URL for a browser on this machine; a listener on all addresses has no address of its own. */
function browserUrl(url: string): string {
  return url.replace('//0.0.0.0', '//127.0.0.1').replace('//[::]', '//[::1]');
}

function reachOf({ listen }: AdminConfig): Reach {
  if (listen.kind !== 'tcp') return 'owner';
  return isLoopback(listen.host) ? 'machine' : 'network';
}

/** Reads the token of the API, with the check of a text. Rejects, with the name of the source, where it cannot be used. */
export async function readAdminToken(
  source: SecretSource,
): Promise<{ readonly text: string; readonly isToken: (text: string) => boolean }> {
  const token = await readSecret(source);
  const fault = bearerRule({ name: '', secret: token, line: 1 });
  if (fault !== undefined) throw unusable(source, `cannot be used: ${fault}`);
  const find = createTokenTable([{ name: 'admin', secret: token, line: 1 }], randomBytes(32));
  return { text: token, isToken: (text) => find(text) !== undefined };
}
