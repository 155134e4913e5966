/** The admin listener of a configuration: its token and its address. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import {
  type Admin,
  type AdminGround,
  createAdminGround,
  createDashboardLink,
  openAdmin,
} from '../../src/setup/admin.ts';
import { fakeOperations } from '../support/proxies/fake-operations.ts';

const dir = await mkdtemp(join(tmpdir(), 'rangeway-admin-token-'));
afterAll(() => rm(dir, { recursive: true, force: true }));

async function open(admin: object): Promise<Admin & AsyncDisposable & { readonly ground: AdminGround }> {
  const checked = checkConfig(
    { admin: { listen: '127.0.0.1:0', ...admin }, routes: [{ origin: 'http://o.test' }] },
    dir,
  );
  if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
  const ground = createAdminGround(fakeOperations().operations, () => {});
  const opened = await openAdmin(checked.config, ground);
  if (opened === undefined) throw new Error('none is configured');
  return { ...opened, ground, [Symbol.asyncDispose]: () => opened.close(0) };
}

async function statusWith({ address }: Admin, token: string): Promise<number> {
  const response = await fetch(`${address}/api/v1/log`, { headers: { authorization: `Bearer ${token}` } });
  await response.arrayBuffer();
  return response.status;
}

const first = 'the-first-token-of-many';
const second = 'the-second-token-of-many';

describe('the token of the admin listener', () => {
  it('is the text of its file, without the line end', async () => {
    await writeFile(join(dir, 'token'), `${first}\n`);
    await using admin = await open({ token: 'file:token' });
    expect(admin.address).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect([await statusWith(admin, first), await statusWith(admin, second)]).toEqual([200, 401]);
  });

  it('ends all sessions and codes when it changes, and none when it is read again as it was', async () => {
    await writeFile(join(dir, 'token'), first);
    await using admin = await open({ token: 'file:token' });
    const { sessions } = admin.ground;
    const [session, { code }] = [sessions.open(), sessions.createCode()];
    await admin.renewToken();
    expect(sessions.has(session)).toBe(true);
    await writeFile(join(dir, 'token'), second);
    await admin.renewToken();
    expect([sessions.has(session), sessions.redeem(code)]).toEqual([false, false]);
  });

  it.each(['127.0.0.1:0', '0.0.0.0:0'])(
    'lets browsers find the dashboard at an address of this machine: %s',
    async (listen) => {
      await writeFile(join(dir, 'token'), first);
      await using admin = await open({ listen, token: 'file:token' });
      expect(admin.dashboard).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
      expect(createDashboardLink(admin.ground)).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/#code=[\w-]{43}$/);
    },
  );

  it('changes when its file is read again, and stays when that cannot be read', async () => {
    await writeFile(join(dir, 'token'), first);
    await using admin = await open({ token: 'file:token' });
    await writeFile(join(dir, 'token'), second);
    expect(await statusWith(admin, second)).toBe(401);
    await admin.renewToken();
    expect([await statusWith(admin, first), await statusWith(admin, second)]).toEqual([401, 200]);
    await rm(join(dir, 'token'));
    await expect(admin.renewToken()).rejects.toThrow('cannot be read');
    expect(await statusWith(admin, second)).toBe(200);
  });

  it.each<[why: string, text: string, reason: string]>([
    ['short', 'short', 'cannot be used: the token has fewer than 16 characters'],
    ['empty', '\n', 'is empty'],
    ['of two lines', `${first}\n${second}\n`, 'cannot be used: the token has characters that no bearer token may have'],
    ['with a space', `${first} `, 'cannot be used: the token has characters that no bearer token may have'],
  ])('is refused where it is %s, without being shown', async (_why, text, reason) => {
    await writeFile(join(dir, 'token'), text);
    const failure: Error = await open({ token: 'file:token' }).then(
      () => new Error('it was opened'),
      (error: Error) => error,
    );
    expect(failure.message).toBe(`the secret file:${join(dir, 'token')} ${reason}`);
  });
});
