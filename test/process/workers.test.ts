/** Several worker processes: their start, death and replacement, the end of a fleet, and what clients see of it. */

import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { RawClient } from '../support/clients/raw-client.ts';
import { until } from '../support/clocks/until.ts';
import { childrenOf, isRunning, startFleetProcess } from '../support/processes/fleet-process.ts';
import { startActivated, startRangeway } from '../support/processes/rangeway-process.ts';

let origin: Server;
let originUrl: string;
/** Responses to /slow whose second half is not sent yet. */
const slow: ServerResponse[] = [];
const firstHalf = 'the first half, ';
const secondHalf = 'the second half';
let dir: string;

beforeAll(async () => {
  origin = createServer((request, response) => {
    response.setHeader('cache-control', 'no-store');
    if (request.url !== '/slow') {
      response.end('here');
      return;
    }
    response.setHeader('content-length', firstHalf.length + secondHalf.length);
    response.write(firstHalf);
    slow.push(response);
  }).listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
});
afterAll(() => {
  origin.closeAllConnections();
  origin.close();
});
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-workers-'));
});
afterEach(async () => {
  for (const response of slow.splice(0)) response.destroy();
  await rm(dir, { recursive: true, force: true });
});

const configured = (options: object = {}) => ({
  store: { dir: join(dir, 'store') },
  routes: [{ origin: originUrl }],
  ...options,
});
const requestFor = (target: string) => `GET ${target} HTTP/1.1\r\nHost: files.example\r\n\r\n`;

/** Sends one request on a new connection, and returns the status. */
async function ask(port: number, target: string): Promise<number> {
  await using client = await RawClient.open(port);
  return (await client.exchange(requestFor(target))).status;
}

/** Opens one connection to each worker, by worker id. */
async function clientsOfAll(fleet: Awaited<ReturnType<typeof startFleetProcess>>): Promise<Map<number, RawClient>> {
  const clients = new Map<number, RawClient>();
  for (let count = 0; clients.size < fleet.workers().length; count += 1) {
    const client = await RawClient.open(fleet.port);
    const target = `/to-each-${count}`;
    expect((await client.exchange(requestFor(target))).status).toBe(200);
    await until('the log names the worker', async () => fleet.servedBy(target) !== undefined);
    const worker = fleet.servedBy(target) ?? 0;
    if (clients.has(worker)) await client[Symbol.asyncDispose]();
    else clients.set(worker, client);
  }
  return clients;
}

/** Starts a response, and returns its client when the first half has arrived. */
async function beginSlowly(port: number): Promise<RawClient> {
  const client = await RawClient.open(port);
  client.send(requestFor('/slow'));
  expect((await client.head())?.status).toBe(200);
  expect((await client.take(firstHalf.length)).toString()).toBe(firstHalf);
  return client;
}

const release = () => {
  for (const response of slow.splice(0)) response.end(secondHalf);
};

describe('several workers', () => {
  it('share a port, have process titles, and end when the supervisor is stopped', async () => {
    await using fleet = await startFleetProcess(dir, configured({ workers: 3 }));
    const ready = fleet
      .output()
      .split('\n')
      .filter((line) => line.includes('"stage":"ready"'));
    expect(ready.length).toBe(1);
    expect(ready[0]).toMatch(
      /ready on http:\/\/127\.0\.0\.1:\d+, in front of .*, storing in .*store, sendfile (?:on|off), with 3 workers, administered on unix:[^"]+"/,
    );
    const workers = fleet.workers();
    expect(workers.map(({ id }) => id)).toEqual([1, 2, 3]);
    expect(childrenOf(fleet.pid).sort()).toEqual(workers.map(({ pid }) => pid).sort());
    const titleOf = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').replace(/\0+$/, '');
    expect([fleet.pid, ...workers.map(({ pid }) => pid)].map(titleOf)).toEqual([
      'rangeway: supervisor',
      'rangeway: worker 1',
      'rangeway: worker 2',
      'rangeway: worker 3',
    ]);
    const clients = await clientsOfAll(fleet);
    for (const client of clients.values()) await client[Symbol.asyncDispose]();

    expect(await fleet.stop('SIGTERM')).toBe(0);
    expect(workers.map(({ pid }) => isRunning(pid))).toEqual([false, false, false]);
    expect(fleet.output().match(/"stage":"stopping"/g)?.length).toBe(1);
    expect(fleet.output()).toMatch(/"stage":"stopped".*\n$/);
  });

  it('leave no temporary directory behind', async () => {
    const temporary = join(dir, 'tmp');
    await mkdir(temporary);
    await using fleet = await startFleetProcess(dir, { routes: [{ origin: originUrl }] }, { TMPDIR: temporary });
    expect(await ask(fleet.port, '/x')).toBe(200);
    // The directory of the store, and that of the sockets between workers.
    expect((await readdir(temporary)).length).toBe(2);
    expect(await fleet.stop('SIGTERM')).toBe(0);
    expect(await readdir(temporary)).toEqual([]);
  });

  it('need a directory for temporary files whose path leaves room for their sockets', async () => {
    const TMPDIR = join(dir, 'x'.repeat(80));
    await mkdir(TMPDIR);
    const args = [originUrl, '--workers', '2', '--dir', join(dir, 'store'), '--listen', '0'];
    await using started = startRangeway(args, { TMPDIR });
    expect(await started.ended()).toBe(1);
    expect(started.output()).toContain(`the path ${TMPDIR} is too long for sockets in it; choose another with TMPDIR`);
    expect(await readdir(TMPDIR)).toEqual([]);
  });

  it('listen on a Unix socket too, which is removed at the end', async () => {
    const path = join(dir, 'web.sock');
    const listen = ['127.0.0.1:0', { address: `unix:${path}`, mode: '0660' }];
    await using fleet = await startFleetProcess(dir, configured({ listen }));
    await using local = await RawClient.open(path);
    expect((await local.exchange(requestFor('/x'))).status).toBe(200);
    expect(await fleet.stop('SIGTERM')).toBe(0);
    expect(existsSync(path)).toBe(false);
  });

  it('listen on sockets that systemd has opened', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const file = join(dir, 'rangeway.json');
    await writeFile(file, JSON.stringify(configured({ listen: 'systemd', workers: 2 })));
    await using fleet = startActivated(['--config', file], [server], ['web']);
    await fleet.waitFor(/ready on/);
    server.close();
    expect(await ask(port, '/x')).toBe(200);
    expect(await fleet.stop('SIGTERM')).toBe(0);
  });

  it('cannot be started from the command line', async () => {
    await using alone = startRangeway(['worker']);
    expect(await alone.ended()).toBe(2);
    expect(alone.output()).toBe('rangeway: a worker is started by a server with "workers", not by people\n');
  });

  it('ignore signals that are for their supervisor', async () => {
    await using fleet = await startFleetProcess(dir, configured());
    const [first] = fleet.workers();
    for (const signal of ['SIGHUP', 'SIGTERM', 'SIGINT'] as const) process.kill(first?.pid ?? 0, signal);
    for (let count = 0; count < 20; count += 1) expect(await ask(fleet.port, '/x')).toBe(200);
    expect(isRunning(first?.pid ?? 0)).toBe(true);
    expect(fleet.output()).not.toContain('"stage":"ended"');
  });
});

describe('a worker that is killed', () => {
  it('loses its own connections and no other, and is replaced', async () => {
    await using fleet = await startFleetProcess(dir, configured());
    const clients = await clientsOfAll(fleet);
    const [first] = fleet.workers();
    process.kill(first?.pid ?? 0, 'SIGKILL');
    const statuses: number[] = [];
    while (!fleet.output().includes('worker 1 serves again')) statuses.push(await ask(fleet.port, '/meanwhile'));
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect((await clients.get(2)?.exchange(requestFor('/still')))?.status).toBe(200);
    expect(await clients.get(1)?.rest()).toBe('');
    expect(fleet.output()).toContain('worker 1 was ended by SIGKILL: another one is started');
    for (const client of (await clientsOfAll(fleet)).values()) await client[Symbol.asyncDispose]();
    for (const client of clients.values()) await client[Symbol.asyncDispose]();
  });

  it('together with all others leaves connections waiting, which the replacements serve', async () => {
    await using fleet = await startFleetProcess(dir, configured());
    for (const { pid } of fleet.workers()) process.kill(pid, 'SIGKILL');
    const asked = Array.from({ length: 20 }, (_, index) => ask(fleet.port, `/waits-${index}`));
    expect(new Set(await Promise.all(asked))).toEqual(new Set([200]));
    const workers = await fleet.waitForServing(4);
    expect(childrenOf(fleet.pid).sort()).toEqual(workers.map(({ pid }) => pid).sort());
  });

  it('repeatedly is restarted with a delay, while another one serves', async () => {
    await using fleet = await startFleetProcess(dir, configured());
    const kill = () => process.kill(fleet.workers()[0]?.pid ?? 0, 'SIGKILL');
    kill();
    await fleet.waitForServing(3);
    kill();
    await fleet.waitFor(/worker 1 was ended by SIGKILL: another one is started in \d+ ms/);
    const statuses = await Promise.all(Array.from({ length: 20 }, () => ask(fleet.port, '/covered')));
    expect(new Set(statuses)).toEqual(new Set([200]));
    expect(fleet.output()).not.toMatch(/(worker 1 serves again[\s\S]*){2}/);
    await fleet.waitForServing(4);
  });
});

describe('a worker that hangs', () => {
  it('leaves new connections to another one', async () => {
    await using fleet = await startFleetProcess(dir, configured());
    const { pid = 0 } = fleet.workers()[0] ?? {};
    process.kill(pid, 'SIGSTOP');
    const statuses = await Promise.all(Array.from({ length: 20 }, () => ask(fleet.port, '/hung')));
    expect(new Set(statuses)).toEqual(new Set([200]));
    process.kill(pid, 'SIGCONT');
    expect(await fleet.stop('SIGTERM')).toBe(0);
  });
});

describe('a start that fails', () => {
  it('because the port is in use is reported in one line, as by a single process', async () => {
    const busy = createServer().listen(0, '127.0.0.1');
    await once(busy, 'listening');
    const { port } = busy.address() as AddressInfo;
    await using rangeway = startRangeway([originUrl, '--listen', `127.0.0.1:${port}`, '--workers', '2', '--dir', dir]);
    expect(await rangeway.ended()).toBe(1);
    expect(rangeway.output()).toBe(
      `rangeway: cannot listen on 127.0.0.1:${port}: the port is in use; choose another with --listen\n`,
    );
    busy.close();
  });

  it('because another fleet has the port is reported, though the system would let both bind it', async () => {
    await using fleet = await startFleetProcess(dir, configured());
    const flags = ['--listen', `127.0.0.1:${fleet.port}`, '--workers', '2', '--dir', join(dir, 'other')];
    await using rangeway = startRangeway([originUrl, ...flags]);
    expect(await rangeway.ended()).toBe(1);
    expect(rangeway.output()).toContain('the port is in use');
  });

  it('because another server has the store is reported', async () => {
    await using fleet = await startFleetProcess(dir, configured());
    const flags = ['--listen', '127.0.0.1:0', '--workers', '2', '--dir', join(dir, 'store')];
    await using rangeway = startRangeway([originUrl, ...flags]);
    expect(await rangeway.ended()).toBe(1);
    expect(rangeway.output()).toMatch(/^rangeway: cannot use .*store: it is in use by another process; .*\n$/);
    expect(await ask(fleet.port, '/x')).toBe(200);
  });

  it('in the workers is reported in one line, and leaves no worker behind', async () => {
    const tls = { certificates: [{ certFile: 'no.pem', keyFile: 'no.key' }] };
    const config = configured({ listen: [{ address: '127.0.0.1:0', tls }] });
    const failed = startFleetProcess(dir, config).catch((error: unknown) => String(error));
    expect(await failed).toMatch(/written:\nrangeway: cannot use .*no\.pem: [^\n]+\n$/);
  });
});

describe('the end of a fleet', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)('by %s to all of its processes lets responses finish', async (signal) => {
    await using fleet = await startFleetProcess(dir, configured({ shutdownGraceSeconds: 3600 }));
    await using client = await beginSlowly(fleet.port);
    const ended = fleet.stop(signal);
    for (const { pid } of fleet.workers()) process.kill(pid, signal);
    await fleet.waitFor(/"stage":"stopping"/);
    await until('the port is closed', () =>
      RawClient.open(fleet.port).then(
        (late) => late[Symbol.asyncDispose]().then(() => false),
        () => true,
      ),
    );
    release();
    expect((await client.take(secondHalf.length)).toString()).toBe(secondHalf);
    expect(await ended).toBe(0);
    expect(fleet.output()).not.toContain('"stage":"cut"');
    expect(fleet.output()).not.toContain('"stage":"ended"');
  });

  it('cuts running responses when shutdownGraceSeconds are over', async () => {
    await using fleet = await startFleetProcess(dir, configured({ shutdownGraceSeconds: 0.1 }));
    await using client = await beginSlowly(fleet.port);
    expect(await fleet.stop('SIGTERM')).toBe(0);
    expect(await client.rest()).toBe('');
    expect(fleet.output()).toMatch(/"worker":\d,.*"stage":"cut"/);
  });

  it('by a second signal is immediate for all processes', async () => {
    await using fleet = await startFleetProcess(dir, configured({ shutdownGraceSeconds: 3600 }));
    const workers = fleet.workers();
    await using client = await beginSlowly(fleet.port);
    const ended = fleet.stop('SIGTERM');
    await fleet.waitFor(/"stage":"stopping"/);
    let code: number | null | undefined;
    void ended.then((exitCode) => {
      code = exitCode;
    });
    // Repeats the signal until it comes late enough after the first to count.
    await until('the supervisor has ended', async () => {
      if (code === undefined) void fleet.stop('SIGTERM');
      return code !== undefined;
    });
    expect(code).toBe(143);
    await until('all workers have ended', async () => workers.every(({ pid }) => !isRunning(pid)));
    expect(await client.rest()).toBe('');
  });

  it('whose supervisor is killed follows by itself, when running responses are finished', async () => {
    await using fleet = await startFleetProcess(dir, configured({ shutdownGraceSeconds: 3600 }));
    const workers = fleet.workers();
    await using client = await beginSlowly(fleet.port);
    process.kill(fleet.pid, 'SIGKILL');
    await fleet.waitFor(/ends: its supervisor is gone[\s\S]*ends: its supervisor is gone/);
    await until('the worker without work has ended', async () => workers.some(({ pid }) => !isRunning(pid)));
    await expect(RawClient.open(fleet.port)).rejects.toThrow('ECONNREFUSED');
    release();
    expect((await client.take(secondHalf.length)).toString()).toBe(secondHalf);
    await until('all workers have ended', async () => workers.every(({ pid }) => !isRunning(pid)));
  });
});
