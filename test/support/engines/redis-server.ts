/**
 * Real engines for tests: the redis-server of the system on free ports, as one server, as a Cluster of three masters, and with a
 * Sentinel. Tests that need them are declared with `describeWithEngine`, or with `describeWithEachEngine` where they also run with
 * valkey-server. RANGEWAY_ENGINE_PROGRAM names the one program of all tests.
 */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from '@redis/client';
import { describe, it } from 'vitest';
import { slotOf } from '../../../src/store/redis/engine-links.ts';
import { until } from '../clocks/until.ts';
import { findProgram, skipUnlessRequired } from '../processes/programs.ts';

/** One redis-server. */
export interface RedisServer extends AsyncDisposable {
  readonly host: '127.0.0.1';
  readonly port: number;
  /** Sends one command on a connection of its own, and returns its reply as the library gives it. */
  command(...parts: readonly string[]): Promise<unknown>;
  /** Sends a signal: SIGSTOP pauses the server, SIGCONT lets it go on. */
  signal(name: NodeJS.Signals): void;
  /** Kills the server, and waits until it has ended. */
  kill(): Promise<void>;
  /** Starts a killed server again on its port, empty. */
  restart(): Promise<void>;
}

/** A Cluster of three masters, at first without replicas. */
export interface RedisCluster extends AsyncDisposable {
  readonly servers: readonly RedisServer[];
  /** `host:port` of each. */
  readonly nodes: readonly { readonly host: string; readonly port: number }[];
  /** The server that has a key at the start. */
  serverOf(key: string): RedisServer;
  /** Starts one more server, which all others know, and which has no slots yet. It may become a replica. */
  join(): Promise<RedisServer>;
}

/** A master, a replica, and a Sentinel that watches them under the name `main`. */
export interface RedisSentinel extends AsyncDisposable {
  readonly master: RedisServer;
  readonly replica: RedisServer;
  readonly sentinel: { readonly host: string; readonly port: number };
}

/** A server with a second port that speaks TLS. Its other port is for the test. */
export interface RedisTlsServer extends RedisServer {
  readonly tlsPort: number;
}

const { RANGEWAY_ENGINE_PROGRAM: chosenProgram } = process.env;
const engineProgram = chosenProgram ?? 'redis-server';

/** Declares tests that need an engine; skipped without its program, failing where programs are required. */
export function describeWithEngine(name: string, define: () => void, program = engineProgram): void {
  if (findProgram(program) !== undefined) {
    describe(name, define);
    return;
  }
  it(name, (context) => skipUnlessRequired(context, `needs a program that is not installed: ${program}`));
}

/** Declares tests that run with Redis and with Valkey, or with the program that RANGEWAY_ENGINE_PROGRAM names. */
export function describeWithEachEngine(name: string, define: (program: string) => void): void {
  const programs = chosenProgram === undefined ? ['redis-server', 'valkey-server'] : [chosenProgram];
  for (const program of programs) describeWithEngine(`${name}: ${program}`, () => define(program), program);
}

/** Starts an engine without persistence. `options` are of its configuration, such as `['--maxmemory', '20mb']`. */
export function startRedisServer(
  options: readonly string[] = [],
  program: string = engineProgram,
): Promise<RedisServer> {
  return startOnFreePort(async (dir) => await startIn(dir, await freePort(), { program, options }));
}

/** Starts an engine that speaks TLS on a second port. `options` name its certificate, key and authority. */
export function startRedisTlsServer(options: readonly string[]): Promise<RedisTlsServer> {
  return startOnFreePort(async (dir) => {
    const tlsPort = await freePort();
    const tls = ['--tls-port', String(tlsPort), ...options];
    return { ...(await startIn(dir, await freePort(), { program: engineProgram, options: tls })), tlsPort };
  });
}

async function startOnFreePort<T>(start: (dir: string) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-redis-'));
  // Another process may take the port between the question and the start.
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start(dir);
    } catch (error) {
      if (attempt < 5) continue;
      await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }
}

/** Starts three masters that share the slots of a Cluster. One that does not answer for `nodeTimeoutMs` counts as dead. */
export async function startRedisCluster(program = engineProgram, nodeTimeoutMs = 2000): Promise<RedisCluster> {
  const clusterOptions = ['--cluster-enabled', 'yes', '--cluster-node-timeout', String(nodeTimeoutMs)];
  const servers = await Promise.all([0, 1, 2].map(() => startRedisServer(clusterOptions, program)));
  const [first] = servers as [RedisServer, RedisServer, RedisServer];
  const third = Math.ceil(16_384 / 3);
  await Promise.all(
    servers.map((server, at) =>
      server.command('CLUSTER', 'ADDSLOTSRANGE', String(at * third), String(Math.min(16_383, (at + 1) * third - 1))),
    ),
  );
  for (const [at, server] of servers.entries()) {
    await server.command('CLUSTER', 'SET-CONFIG-EPOCH', String(at + 1));
    if (server !== first) await server.command('CLUSTER', 'MEET', first.host, String(first.port));
  }
  await untilAllKnow(servers);
  const joined: RedisServer[] = [];
  return {
    servers,
    nodes: servers.map(({ host, port }) => ({ host, port })),
    serverOf: (key) => servers[Math.floor(slotOf(key) / third)] as RedisServer,
    async join() {
      const server = await startRedisServer(clusterOptions, program);
      joined.push(server);
      for (const { host, port } of servers) await server.command('CLUSTER', 'MEET', host, String(port));
      await untilAllKnow([...servers, ...joined]);
      return server;
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...servers, ...joined].map((server) => server[Symbol.asyncDispose]()));
    },
  };
}

/** Starts a master, a replica and a Sentinel. A failover takes about a second. */
export async function startRedisSentinel(program = engineProgram): Promise<RedisSentinel> {
  const master = await startRedisServer([], program);
  const replica = await startRedisServer(['--replicaof', `${master.host} ${master.port}`], program);
  await untilFollowing(replica);
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-sentinel-'));
  const port = await freePort();
  const file = join(dir, 'sentinel.conf');
  const lines = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${dir}`,
    `sentinel monitor main ${master.host} ${master.port} 1`,
    'sentinel down-after-milliseconds main 500',
    'sentinel failover-timeout main 3000',
  ];
  await writeFile(file, `${lines.join('\n')}\n`);
  const process = spawn(findProgram(program) ?? program, [file, '--sentinel'], { stdio: 'ignore' });
  const sentinel = { host: '127.0.0.1', port };
  await until('the Sentinel knows the replica', async () => {
    const known = await ask(port, ['SENTINEL', 'REPLICAS', 'main']).catch(() => []);
    return Array.isArray(known) && known.length > 0;
  });
  return {
    master,
    replica,
    sentinel,
    async [Symbol.asyncDispose]() {
      await end(process);
      await Promise.all([master, replica].map((server) => server[Symbol.asyncDispose]()));
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Waits until each of the servers of a Cluster knows that all of them are there. */
async function untilAllKnow(servers: readonly RedisServer[]): Promise<void> {
  const isWhole = new RegExp(`cluster_state:ok[\\s\\S]*cluster_known_nodes:${servers.length}\\b`);
  await until('the Cluster is whole', async () => {
    const infos = await Promise.all(servers.map((server) => server.command('CLUSTER', 'INFO')));
    return infos.every((info) => isWhole.test(String(info)));
  });
}

/** Makes a server of a Cluster a replica of another one. Waits until it has all that its master has, and all others know its role. */
export async function replicate(
  replica: RedisServer,
  master: RedisServer,
  others: readonly RedisServer[],
): Promise<void> {
  const [id, masterId] = await Promise.all(
    [replica, master].map((each) => each.command('CLUSTER', 'MYID').then(String)),
  );
  await replica.command('CLUSTER', 'REPLICATE', masterId as string);
  await untilFollowing(replica);
  await until('all know the replica', async () => {
    const lists = await Promise.all(others.map((each) => each.command('CLUSTER', 'NODES')));
    return lists.every((list) => new RegExp(`^${id} \\S+ slave ${masterId} `, 'm').test(String(list)));
  });
}

/** Waits until a replica has all that its master has. */
export async function untilFollowing(replica: RedisServer): Promise<void> {
  await until('the replica follows its master', async () =>
    String(await replica.command('INFO', 'replication')).includes('master_link_status:up'),
  );
}

/** Returns a port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => server.close(() => resolve()));
  // A Cluster also listens on the port 10,000 above.
  return port <= 55_000 ? port : freePort();
}

/** A program and the options of its configuration. */
interface Program {
  readonly program: string;
  readonly options: readonly string[];
}

async function startIn(dir: string, port: number, { program, options }: Program): Promise<RedisServer> {
  // A master waits five seconds for more replicas by default.
  const usual = ['--bind', '127.0.0.1', '--save', '', '--repl-diskless-sync-delay', '0', '--dir', dir];
  const args = ['--port', String(port), ...usual, ...options];
  let process = await startOn(program, port, args);
  const kill = () => end(process);
  return {
    host: '127.0.0.1',
    port,
    command: (...parts) => ask(port, parts),
    signal: (name) => void process.kill(name),
    kill,
    async restart() {
      process = await startOn(program, port, args);
    },
    async [Symbol.asyncDispose]() {
      await kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Starts the program and waits until it answers. Rejects where it ends at once. */
async function startOn(program: string, port: number, args: readonly string[]): Promise<ChildProcess> {
  const process = spawn(findProgram(program) ?? program, args, { stdio: 'ignore' });
  await until('the engine answers', async () => {
    if (process.exitCode !== null) return true;
    return await ask(port, ['PING']).then(
      () => true,
      (error: unknown) => String(error).includes('NOAUTH'),
    );
  });
  if (process.exitCode !== null) throw new Error(`${program} has ended with ${process.exitCode}.`);
  return process;
}

async function ask(port: number, parts: readonly string[]): Promise<unknown> {
  const client = createClient({ RESP: 2, socket: { host: '127.0.0.1', port, reconnectStrategy: false } });
  client.on('error', () => {});
  await client.connect();
  try {
    return await client.sendCommand(parts);
  } finally {
    client.destroy();
  }
}

async function end(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  const exited = once(process, 'exit');
  process.kill('SIGKILL');
  await exited;
}
