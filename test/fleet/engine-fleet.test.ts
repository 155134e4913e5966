/** Whole members of a fleet over a real engine: three caches over one store, which reach each other over TLS. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { noFleet } from '../../src/cache/fleet.ts';
import { createEngineFleet, type EngineFleet } from '../../src/fleet/engine/engine-fleet.ts';
import type { FleetEngine } from '../../src/fleet/engine/fleet-engine.ts';
import type { PeerServer } from '../../src/fleet/peer-server.ts';
import { backgroundClock } from '../../src/setup/system.ts';
import { createMemoryStore } from '../../src/store/memory/memory-store.ts';
import { createSeal } from '../../src/store/redis/seal.ts';
import type { Store } from '../../src/store/store.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { Patience } from '../support/engines/patience.ts';
import { describeWithEngine } from '../support/engines/redis-server.ts';
import { openTestRedisStore } from '../support/engines/redis-store.ts';
import { TestEngine } from '../support/engines/test-engine.ts';
import { createRangeOrigin, type RangeOrigin } from '../support/origins/range-origin.ts';
import { admissionOf } from '../support/proxies/peer-ground.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { storeSample } from '../support/stores/stored-sample.ts';
import { expectPart, expectUntil, expectWhole } from '../support/values/expect-bytes.ts';

let engine: TestEngine;
beforeAll(async () => {
  engine = await TestEngine.start();
});
afterAll(async () => {
  await engine[Symbol.asyncDispose]();
});

interface Member {
  readonly proxy: WholeProxy;
  readonly fleet: EngineFleet;
  readonly events: ServerEvent[];
  peers: PeerServer;
  /** Whether it cannot reach the engine. */
  isCut: boolean;
}

let members: Member[];
let store: Store;
let origin: RangeOrigin;
beforeEach(async () => {
  await engine.flush();
  let ids = 0;
  const randomId = () => {
    ids += 1;
    return `generation-${ids}`;
  };
  store = createMemoryStore({ maxSizeBytes: 16 * 1024 * 1024, blockSizeBytes: 1024, now: Date.now, randomId });
  members = [];
  for (let count = 0; count < 3; count += 1) members.push(await join());
  origin = createRangeOrigin(members[0]?.proxy.origin as WholeProxy['origin']);
});
afterEach(async () => {
  for (const member of members) {
    member.isCut = false;
    await member.peers.close();
    await member.proxy.closeCache();
    await member.fleet.close();
  }
  await store.close();
});

async function join(secret = 'the secret of the fleet', isSecretStated = true): Promise<Member> {
  const own = await engine.connect();
  const events: ServerEvent[] = [];
  const cut = async () => Promise.reject(new Error('cut'));
  const connection: FleetEngine = {
    localAddress: () => own.localAddress(),
    run: (...call) => (member.isCut ? cut() : own.run(...call)),
    untilAppended: (...call) => (member.isCut ? cut() : own.untilAppended(...call)),
  };
  const fleet = createEngineFleet({
    engine: connection,
    keys: { log: '{t}:log', members: '{t}:members' },
    seal: createSeal([secret]),
    isSecretStated,
    leaseKey: (key) => `t:{${key}}:lease`,
    listen: { host: undefined, port: 0 },
    advertise: undefined,
    trustMs: 60_000,
    refusesUnsafe: false,
    clock: backgroundClock,
    emit: (event) => events.push(event),
  });
  const first = members[0]?.proxy;
  const proxy = createWholeProxy({
    fleet: fleet.fleet,
    createStore: () => store,
    ...(first === undefined ? {} : { origin: first.origin }),
    originRanges: 'auto',
  });
  const member: Member = { proxy, fleet, events, peers: undefined as unknown as PeerServer, isCut: false };
  try {
    member.peers = await fleet.join({ cache: proxy.cache, store, admission: admissionOf(proxy.route) });
  } catch (thrown) {
    await proxy.closeCache();
    await fleet.close();
    throw thrown;
  }
  return member;
}

/** Returns the key of the file, as the cache has it. */
async function keyOfFile({ proxy }: Member): Promise<string> {
  const { key } = JSON.parse(JSON.stringify(await proxy.explain({}))) as { key: string };
  return key;
}

const send = (member: number, range?: string) => {
  const proxy = members[member]?.proxy as WholeProxy;
  return proxy.send(range === undefined ? {} : { fields: { range } });
};

describeWithEngine('a miss in one member', () => {
  it('is joined by the others, whose clients get the bytes of their ranges as they arrive', async () => {
    const first = send(0);
    const transfer = await origin.begin();
    const second = send(1);
    const part = send(2, 'bytes=4000-4099');
    void transfer.sendTo(3000);
    await expectUntil(first, 3000);
    await expectUntil(second, 3000);
    transfer.finish();
    await expectWhole(first);
    await expectWhole(second);
    await expectPart(part, 4000, 4100);
    expect(origin.asked).toEqual(['whole']);
    await expectWhole(send(2));
    expect(origin.asked).toHaveLength(1);
  });

  it('is continued by another one when its member dies', async () => {
    const first = send(0);
    const transfer = await origin.begin();
    const second = send(1);
    void transfer.sendTo(4096);
    await expectUntil(first, 4096);
    await expectUntil(second, 4096);
    // As a kill does: it tells the engine nothing.
    const dead = members[0] as Member;
    dead.isCut = true;
    await dead.peers.close();
    // The store of this test is in one process, which the death of a member does not end.
    await dead.proxy.closeCache();
    const whole = expectWhole(second);
    (await origin.begin()).finish();
    await whole;
    expect(origin.asked).toEqual(['whole', 'bytes=4096- if "v1"']);
    await first.leave();
  });
});

describeWithEngine('a member without a secret', () => {
  it('does not join where another machine is there, and says what to do', async () => {
    await expect(join('drawn by this machine', false)).rejects.toThrow(/^another node uses this store.*fleet\.secret/);
    const seen = String(await engine.server.command('HKEYS', '{t}:members')).split(',');
    expect(seen).toHaveLength(3);
  });
});

describeWithEngine('a lease with an address that is none', () => {
  it('keeps no client from being served', async () => {
    const [first] = members;
    const seal = createSeal(['the secret of the fleet']);
    const key = await keyOfFile(first as Member);
    const value = `9 x ${seal.sign('lease', key, 'x', 'nowhere')} nowhere`;
    await engine.server.command('SET', `t:{${key}}:lease`, value, 'PX', '600000');
    const client = send(0);
    (await origin.begin()).finish();
    await expectWhole(client);
  });
});

describeWithEngine('an engine that a member cannot reach', () => {
  it('keeps no client from being served: requests collapse within the member', async () => {
    const alone = members[1] as Member;
    alone.isCut = true;
    await expect.poll(() => alone.fleet.isAway).toBe(true);
    const clients = [send(1), send(1)];
    const transfer = await origin.begin();
    transfer.finish();
    for (const client of clients) await expectWhole(client);
    expect(origin.asked).toEqual(['whole']);
    alone.isCut = false;
    await expect.poll(() => alone.fleet.isAway).toBe(false);
    expect(alone.events).toMatchObject([
      { kind: 'fleet', level: 'warn', stage: 'away' },
      { kind: 'fleet', level: 'info', stage: 'back' },
    ]);
  });
});

describeWithEngine('a soft purge', () => {
  it('fails where the engine takes no writes between its two announcements, and removes later', async () => {
    const { server } = engine;
    const setMode = (...mode: string[]) => server.command('REPLICAOF', ...mode);
    let announced = 0;
    const announce = async () => {
      announced += 1;
      await (announced % 2 === 1 ? setMode('127.0.0.1', '1') : setMode('NO', 'ONE'));
    };
    const { store: own } = await openTestRedisStore({ kind: 'server', address: server });
    const proxy = createWholeProxy({ fleet: { ...noFleet, announce }, createStore: () => own });
    const { key } = await storeSample(own, { key: 'k', sizeBytes: 1000, seed: 1 });
    const soft = { mode: 'soft', keys: [key], prefixes: [], tags: [] } as const;
    await expect(proxy.cache.purge(soft)).rejects.toMatchObject({ name: 'StoreFault' });
    const stored = async () => (await own.list({ kind: 'prefix', prefix: '' }, 2)).entries;
    await expect.poll(stored).toEqual([]);
    await proxy.closeCache();
  });

  it('leaves nothing unexpired for other members where its own finds nothing, because it owes a removal to the engine', async () => {
    const { server } = engine;
    const place = { kind: 'server', address: server } as const;
    const never = { now: backgroundClock.now, after: () => () => {} };
    const { store: other } = await openTestRedisStore(place, { prefix: 'owed:' });
    const { store: own } = await openTestRedisStore(place, { prefix: 'owed:', clock: never });
    const proxy = createWholeProxy({ createStore: () => own });
    const { key } = await storeSample(other, { key: 'k', sizeBytes: 1000, seed: 1 });
    await server.command('REPLICAOF', '127.0.0.1', '1');
    await expect(own.removeKey('owed')).rejects.toMatchObject({ name: 'StoreFault' });
    await server.command('REPLICAOF', 'NO', 'ONE');
    expect(await own.find(key)).toEqual([]);
    expect(await other.find(key)).toHaveLength(1);
    await proxy.cache.purge({ mode: 'soft', keys: [key], prefixes: [], tags: [] });
    const found = await other.find(key);
    expect(found.filter(({ metadata }) => metadata.expiredAt === undefined)).toEqual([]);
    await proxy.closeCache();
  });

  it('fails where its store cannot be read, and removes later', async () => {
    const patience = new Patience();
    const { store: own } = await openTestRedisStore({ kind: 'server', address: engine.server }, patience);
    const proxy = createWholeProxy({ createStore: () => own });
    const { key } = await storeSample(own, { key: 'k', sizeBytes: 1000, seed: 1 });
    await patience.whilePaused(engine.server, async () => {
      const soft = { mode: 'soft', keys: [key], prefixes: [], tags: [] } as const;
      await expect(proxy.cache.purge(soft)).rejects.toMatchObject({ name: 'StoreFault' });
    });
    const stored = async () => (await own.list({ kind: 'prefix', prefix: '' }, 2).catch(() => undefined))?.entries;
    await expect.poll(stored).toEqual([]);
    await proxy.closeCache();
  });
});

describeWithEngine('an invalidation', () => {
  it('keeps the flights of all members from being stored, by the time that it resolves', async () => {
    const first = send(0);
    const transfer = await origin.begin();
    void transfer.sendTo(3000);
    await expectUntil(first, 3000);
    const key = await keyOfFile(members[1] as Member);
    expect(key).toContain('/file');
    await members[1]?.proxy.cache.purge({ mode: 'hard', keys: [key], prefixes: [], tags: [] });
    transfer.finish();
    await expectWhole(first);
    await members[0]?.proxy.fillsEnded(1);
    const again = send(2);
    (await origin.begin()).finish();
    await expectWhole(again);
    expect(origin.asked).toEqual(['whole', 'whole']);
  });
});
