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
  console.log(
    '| removal | entries | takes, s | longest PING meanwhile, ms | longest command, ms | commands over 1 ms |',
  );
  console.log('| --- | ---: | ---: | ---: | ---: | ---: |');
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
  const before = await readWork(watcher);
  let isOver = false;
  let longestMs = 0;
  const watching = (async () => {
    while (!isOver) {
      const sentAt = performance.now();
      await watcher.sendTo('', ['PING']);
      longestMs = Math.max(longestMs, performance.now() - sentAt);
      await delay(1);
    }
  })();
  const startedAt = performance.now();
  const removed = await remove();
  const seconds = (performance.now() - startedAt) / 1000;
  const after = await readWork(watcher);
  isOver = true;
  await watching;
  const slow = (await watcher.sendTo('', ['SLOWLOG', 'GET', '100000'])) as readonly (readonly unknown[])[];
  const longestUs = slow.reduce((most, [, , us]) => Math.max(most, Number(us)), 0);
  const command = slow.length === 0 ? 'under 1' : (longestUs / 1000).toFixed(1);
  const commands = after.commands - before.commands;
  const microseconds = (1e6 * (after.seconds - before.seconds)) / commands;
  const cells = [name, removed.length, seconds.toFixed(1), commands, microseconds.toFixed(0), command, slow.length];
  console.log(`| ${[...cells, longestMs.toFixed(0)].join(' | ')} |`);
}

/** Reads how many commands the engine has executed, and its processor time. */
async function readWork(client: RedisClient): Promise<{ readonly commands: number; readonly seconds: number }> {
  const text = String(await client.sendTo('', ['INFO', 'everything']));
  const numberOf = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(text)?.[1]);
  return {
    commands: numberOf('total_commands_processed'),
    seconds: numberOf('used_cpu_user') + numberOf('used_cpu_sys'),
  };
}
