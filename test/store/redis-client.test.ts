/** The client of an engine: one server, a Cluster and Sentinels; time-outs, bounds, the circuit breaker and the return of an engine. */

import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { slotOf } from '../../src/store/redis/engine-links.ts';
import { EngineFault, type RedisClient } from '../../src/store/redis/redis-client.ts';
import { Patience } from '../support/engines/patience.ts';
import {
  describeWithEachEngine,
  type RedisCluster,
  type RedisServer,
  replicate,
  startRedisCluster,
  startRedisSentinel,
  startRedisServer,
} from '../support/engines/redis-server.ts';
import { openTestClient } from '../support/engines/test-client.ts';

const bytes = Buffer.from([0, 1, 0x0d, 0x0a, 0xff, 0x80]);
const setScript = "return redis.call('SET', KEYS[1], ARGV[1])";

async function reasonOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'none',
    (error: unknown) => (error instanceof EngineFault ? error.reason : String(error)),
  );
}

async function works(client: RedisClient): Promise<void> {
  // The library would make one for each command, which stays in memory for seconds after the answer.
  using timeouts = vi.spyOn(AbortSignal, 'timeout');
  for (const key of ['a', 'b{x}', 'c{y}z', 'd']) {
    await client.run(setScript, [key], [bytes]);
    expect(await client.send(key, ['GET', key], true)).toEqual(bytes);
  }
  expect(timeouts).not.toHaveBeenCalled();
}

describeWithEachEngine('a client of one server', (program) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedisServer([], program);
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const place = () => ({ kind: 'server', address: server }) as const;

  it('sends commands and scripts with bytes, and knows its own address', async () => {
    const client = await openTestClient(place());
    await works(client);
    expect(client.localAddress()).toBe('127.0.0.1');
    expect(client.isAway).toBe(false);
  });

  it('waits for a stream on a connection of its own', async () => {
    const client = await openTestClient(place());
    const waiting = client.untilAppended('stream', '0', 4000);
    await client.send('stream', ['XADD', 'stream', '*', 'a', 'b']);
    await waiting;
    await client.untilAppended('stream', '$', 1);
  });

  it('names the reason of what the engine refuses', async () => {
    const client = await openTestClient(place());
    await client.send('list', ['LPUSH', 'list', 'a']);
    expect(await reasonOf(client.send('list', ['GET', 'list']))).toBe('refused');
    await server.command('CONFIG', 'SET', 'maxmemory', '1');
    expect(await reasonOf(client.run(setScript, ['a'], ['b']))).toBe('full');
    expect(await reasonOf(client.send('a', ['SET', 'a', 'b']))).toBe('full');
    await server.command('CONFIG', 'SET', 'maxmemory', '0');
    await server.command('REPLICAOF', '127.0.0.1', '1');
    expect(await reasonOf(client.send('a', ['SET', 'a', 'b']))).toBe('readonly');
    await server.command('REPLICAOF', 'NO', 'ONE');
    expect(client.isAway).toBe(false);
  });

  it('bounds what waits for a paused engine, opens its breaker, and closes it when the engine goes on', async () => {
    const changes: boolean[] = [];
    const patience = new Patience();
    const client = await openTestClient(place(), {
      ...patience.clientOptions,
      queueBytes: 100_000,
      onChange: (isAway) => changes.push(isAway),
    });
    await works(client);
    await patience.whilePaused(server, async () => {
      const large = Buffer.alloc(60_000);
      const reasons = await Promise.all([1, 2].map(() => reasonOf(client.send('a', ['SET', 'a', large]))));
      expect(reasons).toEqual(['slow', 'away']);
      await expect.poll(() => reasonOf(client.send('a', ['GET', 'a']))).toBe('away');
      expect(client.isAway).toBe(true);
    });
    await expect.poll(() => client.isAway).toBe(false);
    await works(client);
    expect(changes).toEqual([false, true, false].slice(-changes.length));
  });

  it('connects again after the engine was killed, and runs scripts that it has forgotten', async () => {
    const patience = new Patience();
    const client = await openTestClient(place(), patience.clientOptions);
    await works(client);
    await patience.end(async () => {
      await server.kill();
      await expect.poll(() => reasonOf(client.send('a', ['GET', 'a']))).toBe('away');
      await server.restart();
    });
    await expect.poll(() => reasonOf(client.send('a', ['GET', 'a']))).toBe('none');
    await works(client);
  });
});

describeWithEachEngine('a client of an engine that is not there', (program) => {
  it('refuses at once, and connects when it comes', async () => {
    const server = await startRedisServer([], program);
    await server.kill();
    const client = await openTestClient({ kind: 'server', address: server }, { connectTimeoutMs: 50 });
    expect(await reasonOf(client.send('a', ['GET', 'a']))).toBe('away');
    await server.restart();
    await expect.poll(() => client.isAway).toBe(false);
    await works(client);
    await server[Symbol.asyncDispose]();
  });

  it('logs in', async () => {
    await using server = await startRedisServer(['--requirepass', 'open sesame'], program);
    const refused = await openTestClient({ kind: 'server', address: server }, { connectTimeoutMs: 200 });
    expect(await reasonOf(refused.send('a', ['GET', 'a']))).toBe('away');
    const client = await openTestClient({ kind: 'server', address: server }, { password: 'open sesame' });
    await works(client);
    client.close();
    refused.close();
  });
});

describeWithEachEngine('a client of a Cluster', (program) => {
  let cluster: RedisCluster;
  beforeAll(async () => {
    cluster = await startRedisCluster(program);
  });
  afterAll(() => cluster[Symbol.asyncDispose]());

  it('computes the slots as the engine does', async () => {
    for (const key of ['', 'a', '{}', 'x{}', 'x{y}z{w}', 'é{ü', '{é}', 'rangeway:{3Kd_-}:e']) {
      expect(slotOf(key), key).toBe(await cluster.servers[0]?.command('CLUSTER', 'KEYSLOT', key));
    }
  });

  it('sends each command to the master of its key, and knows all masters', async () => {
    const client = await openTestClient({ kind: 'cluster', nodes: cluster.nodes.slice(0, 1) });
    await works(client);
    expect(client.nodes()).toHaveLength(3);
    for (const node of client.nodes()) expect(String(await client.sendTo(node, ['PING']))).toBe('PONG');
    const waiting = client.untilAppended('stream', '0', 4000);
    await client.send('stream', ['XADD', 'stream', '*', 'a', 'b']);
    await waiting;
  });

  it('holds up only the keys of a paused master', async () => {
    const patience = new Patience();
    const client = await openTestClient({ kind: 'cluster', nodes: cluster.nodes }, patience.clientOptions);
    await works(client);
    const paused = cluster.serverOf('a');
    const other = ['b', 'c', 'd', 'e', 'f'].find((key) => cluster.serverOf(key) !== paused) ?? '';
    paused.signal('SIGSTOP');
    try {
      await patience.end(() => expect.poll(() => reasonOf(client.send('a', ['GET', 'a']))).toBe('away'));
      expect(await reasonOf(client.send(other, ['GET', other]))).toBe('none');
    } finally {
      paused.signal('SIGCONT');
    }
    await expect.poll(() => client.isAway).toBe(false);
  });
});

describeWithEachEngine('a client of a Cluster with a dead master', (program) => {
  it('starts, and finds the new master, although it was never connected to the old one', async () => {
    await using cluster = await startRedisCluster(program);
    const replica = await cluster.join();
    const [dead, ...others] = cluster.servers as [RedisServer, RedisServer, RedisServer];
    await replicate(replica, dead, cluster.servers);
    await dead.kill();
    const nodes = others.map(({ host, port }) => ({ host, port }));
    const patience = new Patience(1000);
    const client = await openTestClient({ kind: 'cluster', nodes }, patience.clientOptions);
    expect(client.nodes()).toContain(`${dead.host}:${dead.port}`);
    const key =
      Array.from({ length: 100 }, (_, at) => `key${at}`).find((each) => cluster.serverOf(each) === dead) ?? '';
    await patience.end(async () => {
      expect(await reasonOf(client.send(key, ['GET', key], true))).not.toBe('none');
      await replica.command('CLUSTER', 'FAILOVER', 'TAKEOVER');
      await expect.poll(() => reasonOf(client.send(key, ['SET', key, 'value']))).toBe('none');
    });
    await works(client);
    await expect.poll(() => client.isAway).toBe(false);
    client.close();
  });
});

describeWithEachEngine('a client of Sentinels', (program) => {
  it('follows a failover to the new master', async () => {
    await using engines = await startRedisSentinel(program);
    const { sentinel, master } = engines;
    const place = {
      kind: 'sentinels',
      nodes: [sentinel],
      master: 'main',
      username: undefined,
      password: undefined,
    } as const;
    const patience = new Patience(1000);
    const client = await openTestClient(place, patience.clientOptions);
    await works(client);
    await patience.end(async () => {
      await master.kill();
      await expect.poll(() => reasonOf(client.run(setScript, ['a'], ['b']))).toBe('none');
    });
    await works(client);
    client.close();
  });
});
