/** `rangeway dashboard`: the link that it prints, and what it says where there is none. */

import { expect, it } from 'vitest';
import { browserCommand, dashboard } from '../../../src/cli/admin/dashboard.ts';
import { openCommandGround } from '../../support/proxies/admin-commands-ground.ts';
import { createFakeCliIo } from '../../support/proxies/fake-cli-io.ts';

const link = /^http:\/\/127\.0\.0\.1:\d+\/#code=[\w-]{43}\n$/;

it('prints a link that logs in, for a server that is asked by its port', async () => {
  await using ground = await openCommandGround();
  const { code, stdout, stderr } = await ground.run('dashboard');
  expect([code, stderr]).toEqual([0, 'rangeway: the link logs in once, within 5 minutes\n']);
  expect(stdout).toMatch(link);
  expect(stdout).toContain(ground.place);
  const [url = '', secret] = stdout.trim().split('/#code=');
  const logIn = () =>
    fetch(`${url}/api/v1/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code: secret }),
    });
  expect([(await logIn()).status, (await logIn()).status]).toEqual([204, 401]);
});

it('prints JSON', async () => {
  await using ground = await openCommandGround();
  const { code, stdout, stderr } = await ground.run('dashboard', '--json');
  expect([code, stderr]).toEqual([0, '']);
  const printed = JSON.parse(stdout);
  expect(printed).toEqual({ link: expect.stringMatching(/#code=/), expiresAt: expect.any(Number) });
});

it('prints the link of the port where it asks the socket, and the flag to add where there is no port', async () => {
  await using ground = await openCommandGround({}, 'owner');
  expect(await ground.run('dashboard')).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('--admin 9090'),
  });
  ground.dashboard.url = 'http://127.0.0.1:1234';
  expect((await ground.run('dashboard')).stdout).toMatch(/^http:\/\/127\.0\.0\.1:1234\/#code=[\w-]{43}\n$/);
});

it.each([true, false])('opens the link with --open; a browser starts: %s', async (starts) => {
  await using ground = await openCommandGround({}, 'owner');
  ground.dashboard.url = 'http://127.0.0.1:1234';
  const io = createFakeCliIo({ RANGEWAY_ADMIN: ground.place });
  const opened: string[] = [];
  const code = await dashboard({ open: true }, io, async (url) => {
    opened.push(url);
    return starts;
  });
  expect([code, `${opened[0]}\n`]).toEqual([starts ? 0 : 1, io.written.stdout]);
});

it('fails where no server is found', async () => {
  const io = createFakeCliIo({ RANGEWAY_ADMIN: 'unix:/nowhere/admin.sock' });
  expect(await dashboard({}, io, async () => true)).toBe(1);
  expect(io.written.stderr).toContain('no server listens');
});

it.each([
  ['linux', ['xdg-open']],
  ['darwin', ['open']],
  ['win32', ['cmd', '/c', 'start', '""']],
] as const)('starts the browser of %s', (platform, command) => {
  expect(browserCommand(platform)).toEqual(command);
});
