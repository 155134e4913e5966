/** The commands that administer a running server, through the executable. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  projectDirectory,
  type RangewayProcess,
  startConfigured,
  startRangeway,
} from '../support/processes/rangeway-process.ts';
import { runCommand } from '../support/proxies/admin-commands-ground.ts';

/** Runs the executable to its end, with `input` on its standard input. */
async function execute(args: readonly string[], environment: NodeJS.ProcessEnv = {}, input = '') {
  const child = spawn(process.execPath, [join(projectDirectory, 'bin/rangeway.js'), ...args], {
    env: { ...process.env, ...environment },
  });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: code as number, stdout, stderr };
}

describe.each([1, 2])('with %i workers', (workers) => {
  let dir: string;
  let origin: Server;
  let originUrl: string;
  let rangeway: RangewayProcess & { readonly url: string };
  let environment: NodeJS.ProcessEnv;
  const asked: string[] = [];
  const config = () => ({
    listen: '127.0.0.1:0',
    workers,
    admin: { listen: 'unix:./admin.sock', token: 'env:ADMIN_TOKEN' },
    store: { dir: './store', maxSizeBytes: '10MB' },
    routes: [{ origin: originUrl }],
  });
  beforeAll(async () => {
    origin = createServer((request, response) => {
      asked.push(request.url ?? '');
      if (request.url === '/absent') return void response.writeHead(404).end();
      const fields = { 'cache-control': 'max-age=600', 'cache-tag': 'films', etag: '"v1"' };
      response.writeHead(200, fields).end('0123456789');
    });
    origin.listen(0, '127.0.0.1');
    await once(origin, 'listening');
    originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
    dir = await mkdtemp(join(tmpdir(), 'rangeway-commands-'));
    const ADMIN_TOKEN = 'a-token-for-the-commands';
    rangeway = await startConfigured(dir, config(), { ADMIN_TOKEN });
    environment = { RANGEWAY_ADMIN: `unix:${join(dir, 'admin.sock')}`, RANGEWAY_ADMIN_TOKEN: ADMIN_TOKEN };
  });
  afterAll(async () => {
    await rangeway[Symbol.asyncDispose]();
    origin.close().closeAllConnections();
    await rm(dir, { recursive: true, force: true });
  });

  it('warm fetches the URLs that it reads from a pipe, ls lists them, purge removes them', async () => {
    const urls = ['/a', '/b', '/absent'].map((path) => rangeway.url + path);
    const warmed = await execute(['warm', '-'], environment, `# films\n\n${urls.join('\r\n')}`);
    expect(warmed, rangeway.output()).toMatchObject({ code: 1, stderr: `rangeway: ${urls[2]}: the answer was 404\n` });
    expect(warmed.stdout).toMatch(/^2 URLs, 20 B; 1 failed$/m);
    expect(asked.splice(0).sort()).toEqual(['/a', '/absent', '/b']);

    const listed = await runCommand(['ls', '--tag', 'films'], environment);
    expect(listed).toMatchObject({ code: 0, stderr: '' });
    const lines = listed.stdout.trimEnd().split('\n');
    expect(lines.map((line) => line.slice(0, 28)).sort()).toEqual([
      '10 B      all       200     ',
      '10 B      all       200     ',
      'SIZE      PRESENT   STATUS  ',
    ]);
    expect(listed.stdout).toContain(`${urls[0]}  (tags `);

    expect(await runCommand(['purge', urls[0] ?? ''], environment)).toEqual({
      code: 0,
      stdout: `${urls[0]}: 1 removed\n`,
      stderr: '',
    });
    for (const url of urls.slice(0, 2)) expect(await (await fetch(url)).text()).toBe('0123456789');
    expect(asked.splice(0)).toEqual(['/a']);

    // The client may have the last byte before it is stored.
    const stored = async () => (await runCommand(['ls', '--tag', 'films'], environment)).stdout.match(/^10 B +all /gm);
    await expect.poll(stored).toHaveLength(2);
    const soft = await runCommand(['purge', '--tag', 'films', '--soft'], environment);
    expect(soft).toMatchObject({ code: 0, stdout: 'tag films: 2 expired\n' });
    expect((await runCommand(['ls', `${rangeway.url}/b`], environment)).stdout).toContain('(to be validated');
  });

  it('reload ends with 0 when the new configuration is in use, and lists all problems where it cannot be used', async () => {
    const file = join(dir, 'rangeway.json');
    await writeFile(file, JSON.stringify({ ...config(), lisen: 1, routes: [{ orgin: originUrl }] }));
    expect(await runCommand(['reload'], environment)).toEqual({
      code: 2,
      stdout: '',
      stderr: [
        'routes[0].origin: is required',
        'routes[0].orgin: unknown option "orgin"; did you mean "origin"?',
        'lisen: unknown option "lisen"; did you mean "listen"?',
      ]
        .map((problem) => `${file}: ${problem}\n`)
        .join(''),
    });
    expect(await (await fetch(`${rangeway.url}/a`)).text(), 'nothing has changed').toBe('0123456789');

    const other = createServer((_, response) => response.end('other')).listen(0, '127.0.0.1');
    await once(other, 'listening');
    const otherUrl = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    await writeFile(file, JSON.stringify({ ...config(), routes: [{ origin: otherUrl }] }));
    expect(await runCommand(['reload'], environment)).toEqual({
      code: 0,
      stdout: 'the configuration was read again and is in use\n',
      stderr: '',
    });
    expect(await (await fetch(`${rangeway.url}/a`)).text(), 'it is in use').toBe('other');
    other.close().closeAllConnections();
  });

  it('a wrong token is reported as such', async () => {
    const { code, stdout, stderr } = await runCommand(['ls', '--token', 'env:OTHER'], {
      ...environment,
      OTHER: 'x'.repeat(20),
    });
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain('does not take this token');
  });
});

describe('flags of serve', () => {
  it('--admin, --admin-token and --workers are enough', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-commands-'));
    await using _removed = { [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }) };
    await writeFile(join(dir, 'token'), 'a-token-for-the-commands\n');
    const socket = `unix:${join(dir, 'admin.sock')}`;
    await using rangeway = startRangeway([
      'http://127.0.0.1:1',
      ...['--listen', '127.0.0.1:0', '--dir', join(dir, 'store'), '--workers', '2'],
      ...['--admin', socket, '--admin-token', `file:${join(dir, 'token')}`],
    ]);
    await rangeway.waitFor(/ready on .* with 2 workers/);
    const refused = await execute(['ls', '--admin', socket]);
    expect(refused.stderr).toContain('asks for a token');
    const listed = await runCommand(['ls', '--admin', socket, '--token', `file:${join(dir, 'token')}`]);
    expect(listed).toEqual({ code: 0, stdout: '', stderr: 'rangeway: nothing is stored there\n' });
    expect(await rangeway.stop('SIGTERM')).toBe(0);
  });
});

describe('rangeway probe', () => {
  it('reports what the origin lacks', async () => {
    const origin = createServer((_, response) => response.end('0123456789')).listen(0, '127.0.0.1');
    await once(origin, 'listening');
    const { code, stdout, stderr } = await runCommand([
      'probe',
      `http://127.0.0.1:${(origin.address() as AddressInfo).port}/x`,
    ]);
    origin.close().closeAllConnections();
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/^in short {5}missing: HEAD, ranges, validator, freshness$/m);
  });
});
