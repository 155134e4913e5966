import { describe, expect, it } from 'vitest';
import { chooseAdminServer, formatAdminPlace, parseAdminPlace } from '../../../src/cli/admin/admin-server.ts';
import { createFakeCliIo } from '../../support/fake-cli-io.ts';

describe('parseAdminPlace', () => {
  it.each<[text: string, want: string | undefined]>([
    ['9180', 'http://127.0.0.1:9180'],
    ['localhost:9180', 'http://localhost:9180'],
    ['10.0.0.7:9180', 'http://10.0.0.7:9180'],
    ['[::1]:9180', 'http://[::1]:9180'],
    ['http://a.example:9180', 'http://a.example:9180'],
    ['https://a.example/rangeway/', 'https://a.example/rangeway'],
    ['unix:/run/admin.sock', 'unix:/run/admin.sock'],
    ['unix:admin.sock', 'unix:admin.sock'],
    ['unix:', undefined],
    ['0', undefined],
    ['70000', undefined],
    ['systemd', undefined],
    ['a.example', undefined],
    ['ftp://a.example', undefined],
    ['http://', undefined],
    ['http://a:b@c.example', undefined],
    ['http://a.example/?x', undefined],
    ['', undefined],
  ])('%s: %s', (text, want) => {
    const place = parseAdminPlace(text);
    expect(place && formatAdminPlace(place)).toBe(want);
  });
});

describe('chooseAdminServer', () => {
  it.each<[what: string, flags: object, env: Record<string, string>, place: string, token: string | undefined]>([
    ['nothing', {}, {}, 'http://127.0.0.1:9180', undefined],
    ['a flag before the environment', { admin: '1' }, { RANGEWAY_ADMIN: '2' }, 'http://127.0.0.1:1', undefined],
    ['the environment', {}, { RANGEWAY_ADMIN: 'unix:/a', RANGEWAY_ADMIN_TOKEN: 't' }, 'unix:/a', 't'],
    ['empty variables', {}, { RANGEWAY_ADMIN: '', RANGEWAY_ADMIN_TOKEN: '' }, 'http://127.0.0.1:9180', undefined],
    ['the variable of a flag', { token: 'env:X' }, { X: 'x', RANGEWAY_ADMIN_TOKEN: 't' }, 'http://127.0.0.1:9180', 'x'],
  ])('%s', async (_what, flags, env, place, token) => {
    const server = await chooseAdminServer(flags, createFakeCliIo(env));
    if (server.kind === 'none') throw new Error('none');
    expect([formatAdminPlace(server.place), server.token]).toEqual([place, token]);
  });

  it.each<[want: string, code: number, flags: object, env: Record<string, string>]>([
    ['--admin: expected a URL, [host:]port such as "9180", or "unix:PATH", found "x y"', 2, { admin: 'x y' }, {}],
    ['RANGEWAY_ADMIN: expected a URL', 2, {}, { RANGEWAY_ADMIN: 'nowhere' }],
    ['--token: expected "env:NAME" or "file:PATH"', 2, { token: 's3cret' }, {}],
    ['the secret env:X is not set', 1, { token: 'env:X' }, {}],
    ['the secret file:/nowhere/token cannot be read: ENOENT', 1, { token: 'file:/nowhere/token' }, {}],
  ])('%s', async (want, code, flags, env) => {
    const io = createFakeCliIo(env);
    expect(await chooseAdminServer(flags, io)).toEqual({ kind: 'none', exitCode: code });
    expect(io.written.stderr).toContain(want);
    expect(io.written.stderr).not.toContain('s3cret');
  });
});
