/**
 * A store in a real engine under random traffic: the engine evicts, loses and damages what it has, is full, paused or cut off, and the
 * server is closed and opened again. Each process has its own connections, and memory in front of the engine.
 */

import { expect } from 'vitest';
import type { Fleet } from '../../../src/cache/fleet.ts';
import { LINGER_MS } from '../../../src/store/redis/redis-bodies.ts';
import { createRedisKeys } from '../../../src/store/redis/redis-keys.ts';
import { openRedisStore, type RedisStoreOptions } from '../../../src/store/redis/redis-store.ts';
import type { AnnounceChange, Store, StoredEntry } from '../../../src/store/store.ts';
import { createMemoryTier } from '../../../src/store/tiered/memory-tier.ts';
import { createTieredStore, type TieredStore } from '../../../src/store/tiered/tiered-store.ts';
import type { ServerEvent } from '../../../src/telemetry/events.ts';
import { createFakeClock, type FakeClock } from '../clocks/fake-clock.ts';
import { sequentialIds } from '../clocks/sequential-ids.ts';
import { turn } from '../clocks/turn.ts';
import { until } from '../clocks/until.ts';
import { CountedClient } from '../engines/counted-client.ts';
import type { EngineKey, FaultyEngine } from '../engines/faulty-engine.ts';
import { beginTestClient } from '../engines/test-client.ts';
import { createSteeredStore, type SteeredStore } from '../stores/steered-store.ts';
import type { GroundStep, StoreOf, TrafficGround } from './traffic-ground.ts';
import { describeEntry, expectRightEntries, keptEntries } from './traffic-kept.ts';
import type { Plan } from './traffic-plan.ts';
import type { EngineStep } from './traffic-steps.ts';

/** Upper limit on the turns that `rest` waits, for work that never ends. */
const maxSteps = 500;
/** How long clients wait for an answer. So long that only a paused engine is late: see `rest`. */
const commandTimeoutMs = 1_000_000;
/** The longest interval of the PINGs of a client to an engine that was away, in milliseconds. */
const probeMs = 2000;
/** Time to live of entries, which no run reaches, in milliseconds. */
const keepMs = 3_600_000;

/** The names of keys, as patterns. The index of an entry is found by the entry, because most indexes have none. */
const patterns = { block: '*}:b:*', entry: '*}:e:*', index: '*}:e:*' } as const;

type EngineDamage = Extract<EngineStep, { kind: 'engine-damage' }>;
type EngineFaultStep = Extract<EngineStep, { kind: 'engine-fault' }>;

/** What one process has of the engine. */
interface Connected {
  readonly client: CountedClient;
  /** The time-outs and probes of the client. It moves only where no command waits, and for a paused engine. */
  readonly clientClock: FakeClock;
  /** The background work of the store. It follows the clock of the proxy. */
  readonly storeClock: FakeClock;
}

/** Stores of one or several processes in an engine, with memory in front of each. */
export class EngineGround implements TrafficGround, AsyncDisposable {
  readonly #plan: Plan;
  readonly #engine: FaultyEngine;
  readonly #processes: number;
  readonly #keys = createRedisKeys('traffic:');
  readonly #randomId = sequentialIds();
  /** Reads what the engine has, beside the processes. */
  readonly #readingClient: CountedClient;
  readonly #reader: Store;
  #connected: readonly Connected[] = [];
  #now: () => number = () => 0;
  /** The time, as far as the clocks of the processes have followed it. */
  #followedUntil: number | undefined;
  /** The entries when the stores were last idle; undefined before. */
  #kept: readonly StoredEntry[] | undefined;
  /** Whether anything has happened to the engine. */
  #isDisturbed = false;
  /** Whether a removal has failed. */
  #isOwing = false;
  mayServeRemoved = false;

  /** The engine must not be in use elsewhere. */
  constructor(plan: Plan, engine: FaultyEngine, processes = 1) {
    this.#plan = plan;
    this.#engine = engine;
    this.#processes = processes;
    this.#readingClient = new ReadingClient(engine.client);
    this.#reader = openRedisStore(this.#storeOptions(this.#readingClient, createFakeClock()));
  }

  async open(now: () => number): Promise<StoreOf> {
    this.#now = now;
    this.#followedUntil = undefined;
    if (this.#kept === undefined) await this.#engine.flush();
    this.#engine.resume();
    this.mayServeRemoved = this.#isOwing;
    this.#connected = await Promise.all(Array.from({ length: this.#processes }, () => this.#connect()));
    const kept = await keptEntries(this.#reader);
    expect(kept.map(describeEntry)).toEqual((this.#kept ?? []).map(describeEntry));
    return (process, fleet) => this.#openStore(this.#connected[process] as Connected, fleet);
  }

  async take(step: GroundStep): Promise<void> {
    if (step.kind === 'engine-heal') return await this.heal();
    this.#isDisturbed = true;
    switch (step.kind) {
      case 'engine-damage':
        return await this.#damage(step);
      case 'engine-fault':
        return await this.#fail(step);
      case 'engine-lost':
        return this.#connected[step.who % this.#connected.length]?.client.lose(step.count, step.isDone);
      case 'engine-flush':
        return await this.#engine.flush();
      default:
        throw new Error(`an engine has no ${step.kind}`);
    }
  }

  async heal(): Promise<void> {
    await this.#engine.heal();
    for (const { client } of this.#connected) client.lose(0, false);
    await this.rest();
    await until('all processes reach the engine again', async () => {
      for (const { clientClock } of this.#connected) clientClock.advance(probeMs);
      return (await Promise.all(this.#connected.map(({ client }) => isConnected(client)))).every((isThere) => isThere);
    });
  }

  turn(): Promise<void> {
    this.#follow();
    return turn();
  }

  /** Waits a turn, and until all commands were answered. Those that wait for a paused server are late then. */
  async rest(): Promise<void> {
    const passedMs = this.#follow();
    await turn();
    for (let passed = 0; passed < maxSteps; passed += 1) {
      const clients = [this.#readingClient, ...this.#connected.map(({ client }) => client)];
      const running = clients.flatMap((client) => client.running);
      if (running.length === 0) break;
      const answered = running.filter((command) => !this.#engine.isPausedFor(command));
      if (answered.length > 0) await Promise.allSettled(answered.map(({ answer }) => answer));
      else for (const { clientClock } of this.#connected) clientClock.advance(commandTimeoutMs);
      await turn();
    }
    for (const { clientClock } of this.#connected) clientClock.advance(passedMs);
  }

  async expectIdle(): Promise<void> {
    this.#engine.resume();
    await this.rest();
    // What is held is renewed at this interval.
    for (const { storeClock } of this.#connected) storeClock.advance(LINGER_MS / 3);
    await this.rest();
    // One timer asks how full the engine is, another one tries what is owed again.
    const most = this.#isOwing ? 2 : 1;
    for (const { storeClock } of this.#connected) expect(storeClock.pending).toBeLessThanOrEqual(most);
    this.#kept = await keptEntries(this.#reader);
  }

  async expectClosed(): Promise<void> {
    for (const { storeClock, clientClock } of this.#connected) {
      expect(storeClock.pending).toBe(0);
      // The timers of a client find out that it is closed.
      clientClock.advance(commandTimeoutMs);
      expect(clientClock.pending).toBe(0);
    }
    await this.#engine.untilDeserted();
    this.#expectLimited(await this.#engine.keys());
  }

  async expectRightKept(latestVersion: number): Promise<void> {
    await this.#engine.heal();
    await expectRightEntries(this.#plan, this.#reader, { latestVersion, isDamaged: this.#isDisturbed });
    await this.rest();
  }

  /** Closes all connections, also after a failure, and heals the engine for others. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine.heal();
    for (const { client } of this.#connected) client.close();
    await this.#engine.untilDeserted();
  }

  async #connect(): Promise<Connected> {
    const clientClock = createFakeClock();
    const client = new CountedClient(beginTestClient(this.#engine.place, { clock: clientClock, commandTimeoutMs }));
    await client.started;
    return { client, clientClock, storeClock: createFakeClock() };
  }

  #openStore({ client, storeClock }: Connected, fleet: Fleet): SteeredStore {
    const { blockSizeBytes, tierBytes } = this.#plan;
    let tiered: TieredStore | undefined;
    const announce: AnnounceChange = (change) => {
      tiered?.forget(change);
      return fleet.announce({ kind: 'store', change });
    };
    const below = openRedisStore({
      ...this.#storeOptions(client, storeClock),
      sharing: { announce, fenceOf: () => undefined, current: () => undefined },
    });
    tiered = createTieredStore(createMemoryTier({ maxSizeBytes: tierBytes }), below, this.#now);
    return createSteeredStore({ blockSizeBytes, below: tiered });
  }

  #storeOptions(client: CountedClient, clock: FakeClock): RedisStoreOptions {
    const { blockSizeBytes, maxSizeBytes } = this.#plan;
    return {
      client,
      keys: this.#keys,
      blockSizeBytes,
      maxEntryBytes: maxSizeBytes / 2,
      keepMs,
      now: () => this.#now(),
      clock,
      randomId: this.#randomId,
      emit: (event) => this.#note(event),
    };
  }

  #note(event: ServerEvent): void {
    if (event.kind !== 'store' || event.message !== 'the engine cannot remove entries now') return;
    this.#isOwing = true;
    // The other processes do not know what this one owes.
    if (this.#processes > 1) this.mayServeRemoved = true;
  }

  /** Moves the clocks of the stores to the time of the proxy. Returns how much time has passed, in milliseconds. */
  #follow(): number {
    const now = this.#now();
    const passedMs = now - (this.#followedUntil ?? now);
    this.#followedUntil = now;
    for (const { storeClock } of this.#connected) storeClock.advance(passedMs);
    return passedMs;
  }

  async #fail({ on, who }: EngineFaultStep): Promise<void> {
    switch (on) {
      case 'full':
      case 'readonly':
        return await this.#engine.begin(on);
      case 'paused':
        return this.#engine.pause(who);
      case 'cut':
        return await this.#engine.cut(who);
    }
  }

  /** Damages a key as a failing memory does, or evicts it. */
  async #damage({ of, manner, who, at }: EngineDamage): Promise<void> {
    if (this.#engine.isPaused) return;
    const keys = await this.#engine.keys(patterns[of]);
    const chosen = keys[who % Math.max(1, keys.length)];
    if (chosen === undefined) return;
    const { name, fields } = chosen;
    if (of === 'index') return await this.#engine.evict(this.#indexOf(name));
    if (manner === 'evict') return await this.#engine.evict(name);
    const field = fields[at % Math.max(1, fields.length)];
    const place = Math.floor(at / Math.max(1, fields.length));
    await this.#engine.change(name, field, (value) => {
      if (manner === 'truncate') return value.subarray(0, place % (value.length + 1));
      return field === undefined ? flipOne(value, place) : changeDigit(value, place);
    });
  }

  /** Returns the index that has an entry. */
  #indexOf(entryName: string): string {
    return this.#keys.index(this.#keys.bucketOf(entryName) ?? 0);
  }

  /** Fails where something stays in the engine for ever, or without a fault longer than those that read it need it. */
  #expectLimited(keys: readonly EngineKey[]): void {
    expect(keys.filter(({ lifeMs }) => lifeMs < 0).map(({ name }) => name)).toEqual([]);
    if (this.#isDisturbed) return;
    const generations = new Set(keys.flatMap(({ fields }) => fields.filter((field) => field.startsWith('h:'))));
    const orphaned = keys.filter(({ name, lifeMs }) => {
      const generation = /\}:b:(.*):\d+$/.exec(name)?.[1];
      return generation !== undefined && lifeMs > LINGER_MS && !generations.has(`h:${generation}`);
    });
    expect(orphaned.map(({ name }) => name)).toEqual([]);
  }
}

/** A client of a store that only reads: the store never begins its background work, and does not close the client. */
class ReadingClient extends CountedClient {
  override readonly started = new Promise<void>(() => {});

  override close(): void {}
}

async function isConnected(client: CountedClient): Promise<boolean> {
  if (client.isAway) return false;
  return await Promise.all(client.nodes().map((node) => client.sendTo(node, ['PING']))).then(
    () => true,
    () => false,
  );
}

/** Changes a bit of a value. */
function flipOne(value: Buffer, place: number): Buffer {
  const changed = Buffer.from(value);
  if (value.length > 0)
    changed.writeUInt8(value.readUInt8(place % value.length) ^ (1 << (place % 8)), place % value.length);
  return changed;
}

/** Changes a bit of a digit, so that the text keeps its form and has another meaning. */
function changeDigit(value: Buffer, place: number): Buffer {
  const digits = [...value.toString('latin1').matchAll(/\d/g)].map(({ index }) => index);
  const at = digits[place % Math.max(1, digits.length)];
  const changed = Buffer.from(value);
  if (at !== undefined) changed.writeUInt8(value.readUInt8(at) ^ 1, at);
  return changed;
}
