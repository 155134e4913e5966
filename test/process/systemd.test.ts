/** Rangeway under systemd: its notifications, the environment of its workers, and socket activation. */

import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createNetServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type NotifySocket, openNotifyFile, openNotifySocket } from '../support/processes/notify-socket.ts';
import { itOnLinux } from '../support/processes/process-status.ts';
import { itWith } from '../support/processes/programs.ts';
import { startActivated, startConfigured, startRangeway } from '../support/processes/rangeway-process.ts';

let origin: Server;
let originUrl: string;
let dir: string;
beforeAll(async () => {
  origin = createServer((_, response) => response.setHeader('cache-control', 'max-age=600').end('0123456789'));
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
afterAll(() => origin.close().closeAllConnections());
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-systemd-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const configOf = (more: object = {}) => ({
  listen: '127.0.0.1:0',
  store: { dir: './store', maxSizeBytes: '10MB' },
  routes: [{ origin: originUrl }],
  ...more,
});

/** Returns the command line of a process, or the title that it has given itself; of one that has just ended, nothing. */
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

/** Returns the child processes of a process. */
function childrenOf(pid: number): number[] {
  const parentOf = (each: string): number => {
    try {
      return Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${each}/status`, 'utf8'))?.[1]);
    } catch {
      // It has ended since it was listed.
      return 0;
    }
  };
  return readdirSync('/proc')
    .filter((each) => /^\d+$/.test(each) && parentOf(each) === pid)
    .map(Number);
}

/** Starts a server, reloads it with a good and with a broken file, stops it, and checks the notifications of each step. */
async function expectWholeLife(manager: NotifySocket, more: object = {}): Promise<void> {
  const file = join(dir, 'rangeway.json');
  await using rangeway = await startConfigured(dir, configOf(more), manager.environment);
  const states = async () => (await manager.messages()).map(([first]) => first);
  await expect.poll(states).toEqual(['READY=1']);
  expect((await manager.messages())[0]?.[1]).toMatch(/^STATUS=ready on http:\/\/127\.0\.0\.1:\d+, in front of http:/);

  const before = process.hrtime.bigint() / 1000n;
  process.kill(rangeway.pid, 'SIGHUP');
  await expect.poll(states).toEqual(['READY=1', 'RELOADING=1', 'READY=1']);
  const [name, micros = ''] = (await manager.messages())[1]?.[1]?.split('=') ?? [];
  expect(name).toBe('MONOTONIC_USEC');
  expect(BigInt(micros) >= before && BigInt(micros) <= process.hrtime.bigint() / 1000n, micros).toBe(true);

  await writeFile(file, '{ "lisen": 1, "orgin": 2 }');
  process.kill(rangeway.pid, 'SIGHUP');
  await expect.poll(async () => (await states()).slice(3)).toEqual(['RELOADING=1', 'READY=1']);
  expect((await manager.messages()).at(-1)?.[1]).toContain('rangeway.json: ');

  expect(await rangeway.stop('SIGTERM'), rangeway.output()).toBe(0);
  await expect.poll(async () => (await states())[5]).toBe('STOPPING=1');
  expect(rangeway.output()).not.toContain('cannot be notified');
}

describe('the service manager', () => {
  it('is notified of readiness, reloads and the end', async () => {
    await using manager = await openNotifyFile(dir);
    await expectWholeLife(manager);
  });

  it('is notified by the supervisor of several workers', async () => {
    await using manager = await openNotifyFile(dir);
    await expectWholeLife(manager, { workers: 2 });
  });

  itWith(['systemd-notify', 'python3'], 'is notified by datagrams to its socket', async () => {
    await using manager = await openNotifySocket(join(dir, 'notify'));
    await expectWholeLife(manager);
  });

  itWith(['systemd-notify', 'python3'], 'is notified by datagrams to an abstract socket', async () => {
    await using manager = await openNotifySocket(`@rangeway-test-${process.pid}`);
    await using rangeway = await startConfigured(dir, configOf(), manager.environment);
    await expect.poll(async () => (await manager.messages())[0]?.[0]).toBe('READY=1');
    expect(await rangeway.stop('SIGTERM')).toBe(0);
  });

  it('gets watchdog notifications as often as WATCHDOG_USEC asks for', async () => {
    await using manager = await openNotifyFile(dir);
    const environment = { ...manager.environment, WATCHDOG_USEC: '200000' };
    await using rangeway = await startConfigured(dir, configOf(), environment);
    await expect
      .poll(async () => (await manager.messages()).filter(([first]) => first === 'WATCHDOG=1').length)
      .toBeGreaterThan(2);
    expect(await rangeway.stop('SIGTERM')).toBe(0);
  });

  it.each<[what: string, environment: (dir: string) => NodeJS.ProcessEnv, complaint: string]>([
    ['no socket exists', () => ({ NOTIFY_SOCKET: '/nowhere/notify' }), 'the service manager cannot be notified: '],
    [
      'systemd-notify is missing',
      (empty) => ({ NOTIFY_SOCKET: '/nowhere/notify', PATH: empty }),
      'the service manager cannot be notified: there is no program systemd-notify in PATH',
    ],
  ])('does not affect the server where %s', async (_what, environment, complaint) => {
    await using rangeway = await startConfigured(dir, configOf(), environment(dir));
    await rangeway.waitFor(new RegExp(`rangeway: ${complaint}`));
    expect(await (await fetch(`${rangeway.url}/x`)).text()).toBe('0123456789');
    expect(await rangeway.stop('SIGTERM')).toBe(0);
    expect(rangeway.output().match(/cannot be notified/g)).toHaveLength(1);
  });
});

describe('workers', () => {
  itOnLinux('do not inherit the variables of the service manager', async () => {
    await using manager = await openNotifyFile(dir);
    const environment = { ...manager.environment, WATCHDOG_USEC: '60000000', RANGEWAY_TEST: 'kept' };
    await using rangeway = await startConfigured(dir, configOf({ workers: 2 }), environment);
    // A systemd-notify that still runs is a child, too.
    const environments = childrenOf(rangeway.pid)
      .filter((pid) => /\bworker\b/.test(commandOf(pid)))
      .map((pid) => readFileSync(`/proc/${pid}/environ`, 'utf8'));
    expect(environments).toHaveLength(2);
    for (const each of environments) {
      expect(each).toContain('RANGEWAY_TEST=kept');
      expect(each).not.toMatch(/NOTIFY_SOCKET|WATCHDOG_|LISTEN_FDS/);
    }
  });

  it('share the sockets that systemd has opened', async () => {
    const socket = createNetServer().listen(0, '127.0.0.1');
    await once(socket, 'listening');
    const { port } = socket.address() as AddressInfo;
    const file = join(dir, 'rangeway.json');
    await writeFile(file, JSON.stringify(configOf({ listen: 'systemd:http', workers: 2 })));
    await using rangeway = startActivated(['--config', file], [socket], ['http']);
    await rangeway.waitFor(/ready on http:/);
    // From here on only the server has the socket open, as under systemd.
    socket.close();
    const url = `http://127.0.0.1:${port}/x`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => (await fetch(url, { headers: { connection: 'close' } })).text()),
    );
    expect(new Set(answers)).toEqual(new Set(['0123456789']));
    expect(await rangeway.stop('SIGTERM'), rangeway.output()).toBe(0);
  });

  it('need the sockets that the configuration names', async () => {
    const file = join(dir, 'rangeway.json');
    await writeFile(file, JSON.stringify(configOf({ listen: 'systemd:http', workers: 2 })));
    await using rangeway = startRangeway(['--config', file]);
    expect(await rangeway.ended()).toBe(1);
    expect(rangeway.output()).toContain('cannot listen on systemd:http: no sockets were passed to this process');
  });
});
