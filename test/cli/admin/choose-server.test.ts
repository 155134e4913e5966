/** The choice of the running server that a command talks to. */

import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Guesses } from '../../../src/admin/access.ts';
import { openAdminListener } from '../../../src/admin/admin-listener.ts';
import { chooseAdminServer } from '../../../src/cli/admin/admin-server.ts';
import { formatAdminPlace } from '../../../src/cli/admin/flags.ts';
import { openSocket } from '../../../src/listener/accept/bind.ts';
import { createAdminGround } from '../../../src/setup/admin.ts';
import { createFakeCliIo } from '../../support/proxies/fake-cli-io.ts';
import { fakeOperations } from '../../support/proxies/fake-operations.ts';

let root: string;
let env: Record<string, string>;
let opened: AsyncDisposableStack;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'rw-'));
  env = { XDG_CACHE_HOME: join(root, 'caches'), XDG_RUNTIME_DIR: join(root, 'run'), TMPDIR: join(root, 'tmp') };
  opened = new AsyncDisposableStack();
  opened.defer(() => rm(root, { recursive: true, force: true }));
  for (const dir of Object.values(env)) await mkdir(dir);
});
afterEach(() => opened.disposeAsync());

/** Opens an admin listener on a socket at `path`, whose server serves `address`. */
async function listenAt(path: string, address = 'http://127.0.0.1:8080'): Promise<string> {
  const full = join(root, path);
  await mkdir(dirname(full), { recursive: true, mode: 0o700 });
  const readiness = { isReady: true, reason: undefined, workers: [], addresses: [address] };
  const listener = await openAdminListener({
    socket: await openSocket({ kind: 'unix', path: full, mode: 0o600 }, 'admin'),
    ...createAdminGround(fakeOperations({ readReadiness: async () => readiness }).operations, () => undefined),
    now: () => 0,
    rules: { reach: 'owner', hosts: new Set() },
    isToken: undefined,
    guesses: new Guesses(() => 0),
  });
  opened.defer(async () => void (await listener.close(0)));
  return `unix:${full}`;
}

/** Returns the place and the token of the chosen server; or the exit code and standard error. */
async function chosen(flags: object, more: Record<string, string> = {}, urls: readonly string[] = []) {
  const io = createFakeCliIo({ ...env, ...more });
  const server = await chooseAdminServer(flags, io, urls);
  if (server.kind === 'none') return [server.exitCode, io.written.stderr] as const;
  return [formatAdminPlace(server.place), server.token] as const;
}

describe('chooseAdminServer', () => {
  it.each<[what: string, flags: object, env: Record<string, string>, place: string, token: string | undefined]>([
    ['a flag over the environment', { admin: '1' }, { RANGEWAY_ADMIN: '2' }, 'http://127.0.0.1:1', undefined],
    ['the environment', {}, { RANGEWAY_ADMIN: 'unix:/a', RANGEWAY_ADMIN_TOKEN: 't' }, 'unix:/a', 't'],
    ['the default port with a token', {}, { RANGEWAY_ADMIN_TOKEN: 't' }, 'http://127.0.0.1:9180', 't'],
    ['the --token variable', { token: 'env:X' }, { X: 'x', RANGEWAY_ADMIN_TOKEN: 't' }, 'http://127.0.0.1:9180', 'x'],
    ['a directory over the environment', { dir: '/s' }, { RANGEWAY_ADMIN: '2' }, 'unix:/s/admin.sock', undefined],
  ])('takes %s', async (_what, flags, more, place, token) => {
    expect(await chosen(flags, more)).toEqual([place, token]);
  });

  it.each<[want: string, code: number, flags: object, env: Record<string, string>]>([
    ['--admin: expected a URL, [host:]port such as "9180", or "unix:PATH", found "x y"', 2, { admin: 'x y' }, {}],
    ['RANGEWAY_ADMIN: expected a URL', 2, {}, { RANGEWAY_ADMIN: 'nowhere' }],
    ['--token: expected "env:NAME" or "file:PATH"', 2, { token: 's3cret' }, {}],
    ['the secret env:X is not set', 1, { token: 'env:X' }, {}],
    ['the secret file:/nowhere/token cannot be read: ENOENT', 1, { token: 'file:/nowhere/token' }, {}],
    ['--admin and --dir exclude each other', 2, { admin: '1', dir: '/a' }, {}],
    ['has no room for a socket in its path', 2, { dir: `/${'x'.repeat(100)}` }, {}],
    ['/nowhere.json: cannot be read', 2, { config: '/nowhere.json' }, {}],
    ['no Rangeway of this user was found here: start one', 1, {}, { RANGEWAY_ADMIN: '', RANGEWAY_ADMIN_TOKEN: '' }],
  ])('%s', async (want, code, flags, more) => {
    const [exit, printed] = await chosen(flags, more);
    expect(exit).toBe(code);
    expect(printed).toContain(want);
    expect(printed).not.toContain('s3cret');
  });
});

describe('the only running server', () => {
  it.each([
    ['in the directory of its store', 'caches/rangeway/127.0.0.1-8080/admin.sock'],
    ['in a temporary directory', 'tmp/rangeway-Ab12Cd/admin.sock'],
    ['in the directory for sockets', 'run/rangeway/127.0.0.1_8080.sock'],
    ['in the socket directory of the user below TMPDIR', `tmp/rangeway-${process.getuid?.()}/127.0.0.1_8080.sock`],
  ])('is found %s, and gets no token', async (_where, path) => {
    const place = await listenAt(path);
    expect(await chosen({}, { RANGEWAY_ADMIN_TOKEN: 'a-token-of-another' })).toEqual([place, undefined]);
  });

  it('is found beside sockets of ended servers, and directories that other users can write', async () => {
    await mkdir(join(root, 'caches/rangeway/gone'), { recursive: true });
    await writeFile(join(root, 'caches/rangeway/gone/admin.sock'), '');
    await listenAt('tmp/rangeway-open/admin.sock');
    await chmod(join(root, 'tmp/rangeway-open'), 0o777);
    await listenAt('tmp/other/admin.sock');
    const place = await listenAt('caches/rangeway/127.0.0.1-8080/admin.sock');
    expect(await chosen({})).toEqual([place, undefined]);
  });

  it('is chosen among several by the URLs of the command', async () => {
    const one = await listenAt('caches/rangeway/127.0.0.1-8080/admin.sock');
    const other = await listenAt('run/rangeway/b.sock', 'http://127.0.0.1:9090');
    expect(await chosen({}, {}, ['http://localhost:9090/a', '127.0.0.1:9090/b'])).toEqual([other, undefined]);
    for (const urls of [[], ['/a'], ['http://127.0.0.1:8080/a', 'http://127.0.0.1:9090/a'], ['http://a.example/']]) {
      const [code, printed] = await chosen({}, {}, urls);
      expect(code).toBe(2);
      expect(printed).toBe(
        'rangeway: 2 servers of this user run here: say which is meant, with one of\n' +
          `  --admin ${one}   serves http://127.0.0.1:8080\n  --admin ${other}   serves http://127.0.0.1:9090\n`,
      );
    }
  });
});

describe('--config', () => {
  const routes = [{ origin: 'http://127.0.0.1:3000' }];
  it.each<[what: string, config: object, want: string | RegExp]>([
    ['the directory of the store', { store: { dir: 's' } }, 'unix:ROOT/s/admin.sock'],
    ['the default directory', { listen: '127.0.0.1:8080' }, 'unix:ROOT/caches/rangeway/127.0.0.1-8080/admin.sock'],
    ['a store in memory', { store: { type: 'memory' } }, 'unix:ROOT/run/rangeway/127.0.0.1_8080.sock'],
    ['a path that is too long', { store: { dir: 'x'.repeat(100) } }, 'unix:ROOT/run/rangeway/127.0.0.1_8080.sock'],
    ['no routes', { routes: undefined, store: { dir: 's' } }, 'unix:ROOT/s/admin.sock'],
    ['no admin listener', { admin: 'off' }, /switches the admin listener off/],
    ['port 0', { store: { type: 'memory' }, listen: '127.0.0.1:0' }, /has the system choose the port/],
    ['an unknown option', { stor: {} }, /stor: unknown option/],
  ])('with %s', async (_what, config, want) => {
    const file = join(root, 'rangeway.json');
    await writeFile(file, JSON.stringify({ routes, ...config }));
    const [place, printed] = await chosen({ config: file });
    if (typeof want === 'string') expect(place).toBe(want.replace('ROOT', root));
    else expect(printed).toMatch(want);
  });
});
