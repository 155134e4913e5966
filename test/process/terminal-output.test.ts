/** Commands in a pipe: no colours and no progress, unless they are asked for; JSON where it is asked for. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openActivityServer } from '../support/origins/activity-server.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { openCommandGround } from '../support/proxies/admin-commands-ground.ts';

/** Runs the executable to its end, with an empty standard input unless `input` has some. */
async function execute(args: readonly string[], environment: NodeJS.ProcessEnv = {}, input = '') {
  const { NO_COLOR: _no, FORCE_COLOR: _force, ...rest } = process.env;
  const child = spawn(process.execPath, [join(projectDirectory, 'bin/rangeway.js'), ...args], {
    env: { ...rest, ...environment },
  });
  child.stdin.end(input);
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: code as number, stdout, stderr };
}

describe('in a pipe', () => {
  let dir: string;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'rangeway-output-'));
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  it('top prints plain lines, or JSON', async () => {
    await using server = await openActivityServer();
    const args = ['top', '--admin', server.place, '-n', '2', '--interval', '100ms'];
    const plain = await execute(args);
    expect(plain).toMatchObject({ code: 0, stderr: '' });
    expect(plain.stdout.split('\n')).toHaveLength(3);
    expect(plain.stdout).toMatch(/^\d\d:\d\d:\d\d {2}100 requests\/s {2}hits 100 % of requests /m);
    const json = await execute([...args, '--json']);
    const readings = json.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).requests.hit);
    expect(readings).toHaveLength(2);
    expect(readings[1] - readings[0]).toBe(100);
  });

  it('top says that a server is too old', async () => {
    await using server = await openActivityServer(404);
    const { code, stderr } = await execute(['top', '--admin', server.place]);
    expect(code).toBe(1);
    expect(stderr).toContain('this server has no live activity (GET /api/v1/activity)');
  });

  it('ls has colours and bars only where they are asked for', async () => {
    await using ground = await openCommandGround({}, 'owner');
    const args = ['ls', '--admin', ground.place, '--limit', '1'];
    const plain = await execute(args);
    expect(plain.stdout).not.toMatch(/▓|▒|\p{Cc}(?<!\n)/u);
    const forced = await execute([...args, '--coverage'], { FORCE_COLOR: '1' });
    expect(forced.stdout).toContain('\u001b[36m▒░░░');
    const refused = await execute([...args, '--coverage'], { FORCE_COLOR: '0' });
    expect(refused.stdout).toMatch(/▒░{15} <1% {3}/);
    expect(refused.stdout).not.toContain('\u001b');
  });

  it('purge, reload, warm, check, sign and hash-password print JSON', async () => {
    await using ground = await openCommandGround({}, 'owner');
    const jsonOf = async (args: string[], input = '') => {
      const { stdout } = await execute([...args, '--json'], {}, input);
      return stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line));
    };
    const admin = ['--admin', ground.place];
    expect(await jsonOf(['purge', 'http://a/', ...admin])).toEqual([{ url: 'http://a/', mode: 'hard', entries: 2 }]);
    expect(await jsonOf(['reload', ...admin])).toEqual([{ isReloaded: true }]);
    expect(await jsonOf(['warm', 'http://a/', ...admin])).toEqual([
      { url: 'http://a/', status: 200, cacheStatus: 'rangeway; fwd=miss', bytes: 10 },
      { sum: { done: 1, failed: 0, skipped: 0, bytes: 10, total: 1, stopped: false } },
    ]);
    const file = join(dir, 'wrong.json');
    await writeFile(file, '{"routes": 7}');
    expect(await jsonOf(['check', file])).toMatchObject([{ file, isValid: false, problems: [{}] }]);
    await writeFile(join(dir, 'keys'), `one:${'k'.repeat(40)}\n`);
    const [signed] = await jsonOf(['sign', 'http://a/x', '--secret', `file:${join(dir, 'keys')}`]);
    expect(signed).toMatchObject({ url: expect.stringContaining('http://a/x?'), keyId: 'one' });
    const [hashed] = await jsonOf(['hash-password', 'ada'], 'a password');
    expect(hashed.line).toBe(`ada:${hashed.hash}`);
  });

  it('warm asks only the listener of the proxy for a playlist, whatever host it names', async () => {
    const hosts: string[] = [];
    const listener = createServer((request, response) => {
      hosts.push(`${request.headers.host}${request.url}`);
      if (request.url === '/away.m3u8') return void response.writeHead(302, { location: 'http://evil.example/' }).end();
      response.end('#EXTM3U\na.ts\nhttp://evil.example/b.ts\n');
    }).listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const address = `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
    const workers = [{ id: 1, pid: 1, state: 'serving' as const }];
    await using ground = await openCommandGround(
      { readReadiness: async () => ({ isReady: true, reason: undefined, workers, addresses: [address] }) },
      'owner',
    );
    const args = ['warm', '--admin', ground.place, '--manifest'];
    const warmed = await execute([...args, 'http://media.invalid/m.m3u8']);
    expect(warmed.stderr).toBe('rangeway: 1 URLs of other hosts are left out: evil.example\n');
    expect(warmed.stdout).toMatch(/^2 URLs, 20 B$/m);
    const away = await execute([...args, 'http://media.invalid/away.m3u8']);
    expect(away).toMatchObject({ code: 1 });
    expect(away.stderr).toContain('it redirects to another host, evil.example');
    expect(hosts).toEqual(['media.invalid/m.m3u8', 'media.invalid/away.m3u8']);
    const urls = ground.calls
      .filter(([name]) => name === 'warm')
      .map(([, order]) => (order as { urls: string[] }).urls);
    expect(urls).toEqual([['http://media.invalid/m.m3u8'], ['http://media.invalid/a.ts']]);
    listener.close().closeAllConnections();
  });
});
