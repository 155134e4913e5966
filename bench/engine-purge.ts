/**
 * Measures removals from a large store in Redis or Valkey: how long they take, and how long one command holds the engine up.
 * `node bench/engine-purge.ts --entries 100000` starts an engine of its own and prints a table.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { backgroundClock, randomId } from '../src/setup/system.ts';
import { openRedisClient, type RedisClient } from '../src/store/redis/redis-client.ts';
import { createRedisKeys } from '../src/store/redis/redis-keys.ts';
import { openRedisStore } from '../src/store/redis/redis-store.ts';
import type { Store } from '../src/store/store.ts';
import { storeTagged } from '../test/support/stores/stored-sample.ts';

const { RANGEWAY_ENGINE_PROGRAM: program = 'redis-server' } = process.env;
/** Entries that are stored at a time. */
const AT_ONCE = 200;
/** Commands that take longer are counted, in microseconds. */
const SLOW_US = 1000;
const host = 'https://media.example/';

const { values } = parseArgs({ options: { entries: { type: 'string', default: '100000' } } });
const entryCount = Number(values.entries);

const dir = await mkdtemp(join(tmpdir(), 'rangeway-purge-'));
const path = join(dir, 'engine.sock');
const logging = ['--slowlog-log-slower-than', String(SLOW_US), '--slowlog-max-len', '100000'];
const engine = spawn(program, ['--port', '0', '--unixsocket', path, '--save', '', '--dir', dir, ...logging]);
const ended = once(engine, 'exit');
try {
  await measure();
} finally {
  engine.kill();
  await ended;
  await rm(dir, { recursive: true, force: true });
}

async function connect(): Promise<RedisClient> {
  const client = openRedisClient({
    place: { kind: 'socket', path },
    username: undefined,
    password: undefined,
    database: 0,
    tls: undefined,
    connectTimeoutMs: 10_000,
    commandTimeoutMs: 60_000,
    queueBytes: 256_000_000,
    clock: backgroundClock,
  });
  while (client.nodes().length === 0) await delay(50);
  return client;
}

async function measure(): Promise<void> {
  const client = await connect();
  const watcher = await connect();
  const store = openRedisStore({
    client,
    keys: createRedisKeys('rangeway:'),
    blockSizeBytes: 65_536,
    maxEntryBytes: 1_000_000,
    keepMs: 3_600_000,
    now: Date.now,
    clock: backgroundClock,
    randomId,
    emit: () => {},
  });
  const head = [
    'removal',
    'entries',
    'takes, s',
    'processor time of the engine, s',
    '99.9 % of calls within, ms',
    'longest call, ms',
  ];
  console.log(`| ${head.join(' | ')} |`);
  console.log(`| --- |${' ---: |'.repeat(head.length - 1)}`);
  await fill(store);
  await report('a tag of one in a thousand', watcher, () => store.removeTagged('few'));
  await report('a tag of all', watcher, () => store.removeTagged('all'));
  await fill(store);
  await report('a prefix of one in ten', watcher, () => store.removePrefixed(`${host}9`));
  await report('a host with all', watcher, () => store.removePrefixed(host));
  await store.close();
  watcher.close();
}

async function fill(store: Store): Promise<void> {
  for (let from = 0; from < entryCount; from += AT_ONCE) {
    const storing = Array.from({ length: Math.min(AT_ONCE, entryCount - from) }, (_, at) => {
      const number = from + at;
      const tags = number % 1000 === 0 ? ['all', 'few'] : ['all'];
      // The first digit is spread evenly.
      return storeTagged(store, { key: `${host}${number % 10}/${number}`, sizeBytes: 1000, seed: number }, tags);
    });
    await Promise.all(storing);
  }
}

async function report(name: string, watcher: RedisClient, remove: () => Promise<readonly string[]>): Promise<void> {
  await watcher.sendTo('', ['SLOWLOG', 'RESET']);
  await watcher.sendTo('', ['CONFIG', 'RESETSTAT']);
  const before = await readProcessorTime(watcher);
  const startedAt = performance.now();
  const removed = await remove();
  const seconds = (performance.now() - startedAt) / 1000;
  const engineSeconds = (await readProcessorTime(watcher)) - before;
  // The times of the engine are those of the clock: on a busy machine the longest is that of a call in which it had to wait.
  const slow = (await watcher.sendTo('', ['SLOWLOG', 'GET', '100000'])) as readonly (readonly unknown[])[];
  const longestUs = slow.reduce((most, [, , us]) => Math.max(most, Number(us)), 0);
  const latencies = await readInfo(watcher, 'latencystats');
  const nearlyAllUs = Number(/^latency_percentiles_usec_evalsha:.*p99\.9=([\d.]+)/m.exec(latencies)?.[1]);
  const longest = slow.length === 0 ? 'under 1' : (longestUs / 1000).toFixed(0);
  const cells = [name, removed.length, seconds.toFixed(1), engineSeconds.toFixed(1), (nearlyAllUs / 1000).toFixed(2)];
  console.log(`| ${[...cells, longest].join(' | ')} |`);
}

async function readInfo(client: RedisClient, section: string): Promise<string> {
  return String(await client.sendTo('', ['INFO', section]));
}

/** Returns the processor time of the engine so far, in seconds. */
async function readProcessorTime(client: RedisClient): Promise<number> {
  const text = await readInfo(client, 'cpu');
  const secondsOf = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text)?.[1]);
  return secondsOf('used_cpu_user') + secondsOf('used_cpu_sys');
}
