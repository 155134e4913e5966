/** The default admin listener: a Unix socket in the directory of the store. */

import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { canConnect } from '../../src/cli/admin/admin-server.ts';
import { openScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { startConfigured } from '../support/processes/rangeway-process.ts';
import { runCommand } from '../support/proxies/admin-commands-ground.ts';

const root = await mkdtemp(join(tmpdir(), 'rw-'));
afterAll(() => rm(root, { recursive: true, force: true }));

let count = 0;
/** Makes a directory, and an environment in which no other server can be found. */
async function newGround() {
  count += 1;
  const dir = join(root, String(count));
  await mkdir(join(dir, 'tmp'), { recursive: true });
  const env = { TMPDIR: join(dir, 'tmp'), XDG_RUNTIME_DIR: '', XDG_CACHE_HOME: dir };
  return { dir, env };
}

const base = { listen: '127.0.0.1:0', log: { format: 'json' }, routes: [{ origin: 'http://127.0.0.1:1' }] };
const modeOf = async (path: string) => (await stat(path)).mode & 0o777;
const isThere = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  );
const small = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=60\r\nETag: "a"\r\n\r\nbytes';

describe.each([1, 2])('with %i workers', (workers) => {
  it('is open to its owner alone, survives a reload, replaces the socket of a crashed server, and is removed at the end', async () => {
    await using origin = await openScriptedOrigin(small);
    const { dir, env } = await newGround();
    const config = { ...base, workers, store: { dir: 'store' }, routes: [{ origin: origin.url }] };
    const path = join(dir, 'store/admin.sock');
    const flags = ['--dir', join(dir, 'store')];
    {
      await using server = await startConfigured(dir, config, env);
      expect(server.output()).toContain(`administered on unix:${path}"`);
      expect([await modeOf(path), await modeOf(join(dir, 'store'))]).toEqual([0o600, 0o700]);
      expect(await runCommand(['reload', ...flags], env)).toMatchObject({ code: 0 });
      expect(await runCommand(['warm', '/film', ...flags], env)).toMatchObject({ code: 0 });
      await server.waitFor(/"action":"warm","peer":"unix","msg":"http:\S+\/film fetched: 200, 5 bytes/);
      const explained = await runCommand(['explain', '/film', '--config', join(dir, 'rangeway.json')], env);
      expect(explained.stdout).toMatch(/^GET http:\S+\/film\n\ndecision {5}hit: /);
      expect(await runCommand(['purge', '/film', ...flags], env)).toMatchObject({ stdout: '/film: 1 removed\n' });
      await server.stop('SIGKILL');
    }
    expect([await isThere(path), await canConnect(path)]).toEqual([true, false]);
    await using server = await startConfigured(dir, config, env);
    expect(await runCommand(['ls', ...flags], env)).toMatchObject({ code: 0 });
    expect(await server.stop('SIGTERM')).toBe(0);
    expect(await isThere(path)).toBe(false);
  });
});

it('is in the temporary directory of a store that is used for one start, and commands find it there', async () => {
  const { dir, env } = await newGround();
  await using server = await startConfigured(dir, base, env);
  expect(server.output()).toMatch(new RegExp(`administered on unix:${dir}/tmp/rangeway-\\w+/admin\\.sock"`));
  expect(await runCommand(['ls'], env)).toMatchObject({ code: 0 });
});

it.each([
  ['in memory', { type: 'memory' }],
  ['whose path is too long for a socket', { dir: `./${'x'.repeat(90)}` }],
])('is in a private directory with a store %s', async (_what, store) => {
  const { dir, env } = await newGround();
  await using server = await startConfigured(dir, { ...base, store }, env);
  const [, path = ''] = /administered on unix:([^"]+)"/.exec(server.output()) ?? [];
  expect(path).toBe(join(dir, `tmp/rangeway-${process.getuid?.()}/process-${server.pid}.sock`));
  expect([await modeOf(path), await modeOf(join(path, '..'))]).toEqual([0o600, 0o700]);
  expect(await runCommand(['ls'], env)).toMatchObject({ code: 0 });
});

it('is left out with one warning where no private directory can be had', async () => {
  const { dir, env } = await newGround();
  await mkdir(join(dir, `tmp/rangeway-${process.getuid?.()}`));
  await chmod(join(dir, `tmp/rangeway-${process.getuid?.()}`), 0o777);
  await using server = await startConfigured(dir, { ...base, store: { type: 'memory' } }, env);
  expect(server.output()).not.toContain('administered');
  const warnings = server.output().match(/"level":"warn".*/g);
  expect(warnings).toEqual([
    expect.stringMatching(/there is no admin socket, .* is not a directory that this user alone/),
  ]);
});

it('is open beside another admin listener, which requires its token', async () => {
  const { dir, env } = await newGround();
  const admin = { listen: '127.0.0.1:0', token: 'env:RANGEWAY_TEST_TOKEN' };
  const more = { ...env, RANGEWAY_TEST_TOKEN: 'a-token-for-the-tests' };
  await using server = await startConfigured(dir, { ...base, admin, store: { dir: 's' } }, more);
  expect(server.output()).toMatch(/administered on (http:\S+) and unix:\S+\/s\/admin\.sock, dashboard: \1\/"/);
  expect(await runCommand(['ls', '--dir', join(dir, 's')], env)).toMatchObject({ code: 0 });
});

it.each<[string, object]>([
  ['switched off', { admin: 'off' }],
  ['the same path is configured', { admin: { listen: 'unix:s/admin.sock' } }],
])('is not opened by default where the configuration says otherwise: %s', async (what, more) => {
  const { dir, env } = await newGround();
  await mkdir(join(dir, 's'));
  await using server = await startConfigured(dir, { ...base, store: { dir: 's' }, ...more }, env);
  expect(server.output()).not.toContain('"level":"warn"');
  expect(await isThere(join(dir, 's/admin.sock'))).toBe(what !== 'switched off');
  const { code } = await runCommand(['ls', '--dir', join(dir, 's')], env);
  expect(code).toBe(what === 'switched off' ? 1 : 0);
});

it('does not touch a socket on which another process listens, and warns once', async () => {
  const { dir, env } = await newGround();
  await mkdir(join(dir, 's'));
  const path = join(dir, 's/admin.sock');
  const other = createServer().listen(path);
  await once(other, 'listening');
  await using server = await startConfigured(dir, { ...base, store: { dir: 's' } }, env);
  expect(server.output()).not.toContain('administered');
  expect(server.output().match(/"level":"warn".*/g)).toEqual([expect.stringContaining('there is no admin socket')]);
  expect(await canConnect(path)).toBe(true);
  expect(await server.stop('SIGTERM')).toBe(0);
  expect(await canConnect(path)).toBe(true);
  other.close();
});
