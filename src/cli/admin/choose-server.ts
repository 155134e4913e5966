/** Chooses the running Rangeway that a command is for: by its flags, by the environment, or by what runs on this machine. */

import { tmpdir } from 'node:os';
import { resolve } from 'node:path';
import { runtimeDirectories, runtimeSocket, type SocketGround, storeSocket } from '../../config/admin-socket.ts';
import { secretSource } from '../../config/values.ts';
import { readSecret } from '../../setup/secrets.ts';
import { exitCode } from '../exit-code.ts';
import { fail } from '../failure.ts';
import type { CliIo } from '../io.ts';
import { resolveConfig, withStoreDirectory } from '../serve-config.ts';
import { printable } from '../text-sections.ts';
import { type AdminFlags, type AdminPlace, type AdminServer, type NoServer, parseAdminPlace } from './admin-server.ts';
import { askAdmin } from './ask-admin.ts';
import { canConnect, findAdminSockets } from './find-sockets.ts';
import { isServedAt } from './stored-url.ts';

/** Where the listener of a server is that was started with a token, where no socket is found. */
const portPlace = 'http://127.0.0.1:9180';

const placeVariable = 'RANGEWAY_ADMIN';
const tokenVariable = 'RANGEWAY_ADMIN_TOKEN';

/**
 * The server that the flags name, by the place of its listener, its configuration file or the directory of its store; or the
 * environment where they do not. Without that: the server of this user whose admin socket is found, and of several the one
 * that serves the URLs that the command is about (`asked`). The token is read from its source. Prints why where there is none.
 * Never rejects.
 */
export async function chooseAdminServer(
  flags: AdminFlags,
  io: CliIo,
  asked: readonly string[] | string = [],
): Promise<AdminServer | NoServer> {
  const { admin, config, dir } = flags;
  const given = [
    admin === undefined ? [] : ['--admin'],
    config === undefined ? [] : ['--config'],
    dir === undefined ? [] : ['--dir'],
  ].flat();
  if (given.length > 1) return none(io, `${given.join(' and ')} exclude each other: say one of them`, exitCode.misused);
  if (config !== undefined) return await serverOfFile(config, io);
  if (dir !== undefined) {
    const path = storeSocket(resolve(dir));
    if (path !== undefined) return socketServer(path);
    return none(io, `--dir: ${dir} has no room for a socket in its path: use --config, or --admin`, exitCode.misused);
  }
  const { [placeVariable]: fromEnvironment = '' } = io.env;
  const stated = admin ?? (fromEnvironment === '' ? undefined : fromEnvironment);
  if (stated === undefined) return await findServer(flags, io, [asked].flat());
  const place = parseAdminPlace(stated);
  if (place !== undefined) return await withToken(place, flags, io);
  const by = admin === undefined ? placeVariable : '--admin';
  const reason = `${by}: expected a URL, [host:]port such as "9180", or "unix:PATH", found ${JSON.stringify(stated)}`;
  return none(io, reason, exitCode.misused);
}

/** The server with this configuration file, by the rule by which it chooses its socket. */
async function serverOfFile(file: string, io: CliIo): Promise<AdminServer | NoServer> {
  const alone = await resolveConfig(undefined, { config: file });
  // A file without routes is for a server whose origin stands on its command line.
  const resolved = alone.kind === 'ok' ? alone : await resolveConfig('http://origin.invalid', { config: file });
  if (resolved.kind === 'refused') {
    for (const line of alone.kind === 'refused' ? alone.lines : []) io.stderr.write(`${line}\n`);
    return { kind: 'none', exitCode: exitCode.misused };
  }
  const { admin, listen, store } = withStoreDirectory(resolved.config, io);
  if (admin === 'off') return none(io, `${file} switches the admin listener off ("admin": "off")`, exitCode.failed);
  const inStore = storeSocket(store.type === 'disk' ? store.dir : undefined);
  if (inStore !== undefined) return socketServer(inStore);
  const isChosen = listen[0]?.address.kind === 'tcp' && listen[0].address.port === 0;
  if (isChosen)
    return none(io, `${file} has the system choose the port: say with --admin where its socket is`, exitCode.failed);
  const paths = runtimeDirectories(groundOf(io)).map((directory) => runtimeSocket(directory, listen, 0));
  for (const path of paths) if (await canConnect(path)) return socketServer(path);
  return socketServer(paths[0] as string);
}

async function findServer(flags: AdminFlags, io: CliIo, asked: readonly string[]): Promise<AdminServer | NoServer> {
  const paths = await findAdminSockets(groundOf(io), io.home);
  const [first] = paths;
  if (first === undefined) {
    const hasToken = flags.token !== undefined || (io.env[tokenVariable] ?? '') !== '';
    if (hasToken) return await withToken({ kind: 'url', url: new URL(portPlace) }, flags, io);
    const reason =
      'no Rangeway of this user was found here: start one, or say with --admin, --config or --dir which is meant';
    return none(io, reason, exitCode.failed);
  }
  if (paths.length === 1) return socketServer(first);
  const servers = await Promise.all(paths.map(async (path) => ({ path, addresses: await readAddresses(path) })));
  const meant = servers.filter(({ addresses }) => asked.length > 0 && asked.every((url) => isServedAt(url, addresses)));
  const [only] = meant;
  if (only !== undefined && meant.length === 1) return socketServer(only.path);
  const lines = servers.map(
    ({ path, addresses }) =>
      `  --admin unix:${path}${addresses.length === 0 ? '' : `   serves ${addresses.join(' and ')}`}`,
  );
  const reason = [`${paths.length} servers of this user run here: say which is meant, with one of`, ...lines].join(
    '\n',
  );
  return none(io, printable(reason), exitCode.misused);
}

/** The addresses that a server serves; none where it does not tell. */
async function readAddresses(path: string): Promise<readonly string[]> {
  const question = { method: 'GET', path: '/api/v1/status', wants: 'addresses', timeoutMs: 5_000 } as const;
  const reply = await askAdmin(socketServer(path), question);
  const { addresses } = (reply.kind === 'answered' ? reply.value : {}) as { readonly addresses?: unknown };
  return Array.isArray(addresses) ? addresses.map(String) : [];
}

/** A socket of this user's own asks for no token, and gets none. */
function socketServer(path: string): AdminServer {
  return { kind: 'server', place: { kind: 'unix', path }, token: undefined };
}

async function withToken(place: AdminPlace, { token }: AdminFlags, io: CliIo): Promise<AdminServer | NoServer> {
  const { [tokenVariable]: tokenThere = '' } = io.env;
  const source = secretSource.safeParse(token ?? `env:${tokenVariable}`);
  // What was given is not repeated: it may be the token itself.
  if (!source.success) return none(io, '--token: expected "env:NAME" or "file:PATH"', exitCode.misused);
  if (token === undefined && tokenThere === '') return { kind: 'server', place, token: undefined };
  try {
    return { kind: 'server', place, token: await readSecret(source.data, io.env) };
  } catch (error) {
    return none(io, error instanceof Error ? error.message : String(error), exitCode.failed);
  }
}

function none(io: CliIo, reason: string, code: Parameters<typeof fail>[2]): NoServer {
  return { kind: 'none', exitCode: fail(io, reason, code) };
}

function groundOf({ env }: CliIo): SocketGround {
  const { TMPDIR: stated = '' } = env;
  return { environment: env, temporary: stated === '' ? tmpdir() : stated, userId: process.getuid?.() };
}
