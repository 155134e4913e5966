/** A real engine, or a real Cluster of three, that a test fills up, pauses, cuts off, damages and looks into. */

import type { EnginePlace } from '../../../src/store/redis/engine-links.ts';
import type { RedisClient } from '../../../src/store/redis/redis-client.ts';
import { until } from '../clocks/until.ts';
import type { RunningCommand } from './counted-client.ts';
import { type RedisServer, startRedisCluster, startRedisServer } from './redis-server.ts';
import { beginTestClient } from './test-client.ts';

/** A fault that lasts until the engine is healed. */
export type LastingFault = 'full' | 'readonly';

/** The options of the engine that cause a fault, and their usual values. */
const faultOptions: Readonly<Record<LastingFault, readonly [name: string, faulty: string, usual: string]>> = {
  full: ['maxmemory', '1', '0'],
  // It has no replica: writes are refused as on a replica.
  readonly: ['min-replicas-to-write', '1', '0'],
};

/** A key of the engine. */
export interface EngineKey {
  readonly name: string;
  /** Time to live in milliseconds; -1 for one that stays for ever. */
  readonly lifeMs: number;
  /** The fields of a hash. */
  readonly fields: readonly string[];
}

/** Lists the keys of a server: name, time to live, and the fields of a hash, in turn. ARGV: pattern. */
const listScript = `
local found = {}
for _, name in ipairs(redis.call('KEYS', ARGV[1])) do
  found[#found + 1] = name
  found[#found + 1] = redis.call('PTTL', name)
  found[#found + 1] = redis.call('TYPE', name).ok == 'hash' and redis.call('HKEYS', name) or {}
end
return found
`;

/** A server, and the connection of the test to it. */
interface Served {
  readonly server: RedisServer;
  readonly admin: RedisClient;
}

/** An engine. Only one test at a time may use it. */
export class FaultyEngine implements AsyncDisposable {
  /** How clients connect to it. */
  readonly place: EnginePlace;
  /** A client for the test, which no fault disturbs but a pause. */
  readonly client: RedisClient;
  readonly #served: readonly Served[];
  readonly #serverOf: (key: string) => RedisServer;
  readonly #end: () => PromiseLike<void>;
  readonly #faults = new Set<LastingFault>();
  /** The ids of the connections of the test, by server. */
  readonly #ownIds = new Map<RedisServer, ReadonlySet<string>>();
  #paused: RedisServer | undefined;

  private constructor(
    place: EnginePlace,
    servers: readonly RedisServer[],
    serverOf: (key: string) => RedisServer,
    end: () => PromiseLike<void>,
  ) {
    this.place = place;
    this.client = beginTestClient(place);
    this.#served = servers.map((server) => ({
      server,
      admin: beginTestClient({ kind: 'server', address: server }),
    }));
    this.#serverOf = serverOf;
    this.#end = end;
  }

  /** Starts one server. */
  static async startServer(): Promise<FaultyEngine> {
    const server = await startRedisServer();
    const end = () => server[Symbol.asyncDispose]();
    return await new FaultyEngine({ kind: 'server', address: server }, [server], () => server, end).#started();
  }

  /** Starts a Cluster of three. Its servers do not count each other as dead while one of them is paused. */
  static async startCluster(): Promise<FaultyEngine> {
    const cluster = await startRedisCluster(undefined, 60_000);
    const place = { kind: 'cluster', nodes: cluster.nodes } as const;
    const end = () => cluster[Symbol.asyncDispose]();
    return await new FaultyEngine(place, cluster.servers, cluster.serverOf, end).#started();
  }

  async #started(): Promise<this> {
    await Promise.all([this.client.started, ...this.#served.map(({ admin }) => admin.started)]);
    await Promise.all(this.client.nodes().map((node) => this.client.sendTo(node, ['PING'])));
    for (const { server, admin } of this.#served) this.#ownIds.set(server, new Set(await idsOf(admin)));
    return this;
  }

  /** Whether one of its servers is paused. */
  get isPaused(): boolean {
    return this.#paused !== undefined;
  }

  /** Whether the server that a command is for is paused. */
  isPausedFor({ about }: RunningCommand): boolean {
    if (this.#paused === undefined) return false;
    if ('key' in about) return this.#serverOf(about.key) === this.#paused;
    return about.node === '' || about.node.endsWith(`:${this.#paused.port}`);
  }

  /** Empties the engine, and makes it forget its scripts, as a restart does. */
  async flush(): Promise<void> {
    await this.#operate(async () => {
      await this.#toAll(['FLUSHALL']);
      await this.#toAll(['SCRIPT', 'FLUSH']);
    });
  }

  async begin(fault: LastingFault): Promise<void> {
    if (this.#paused !== undefined) return;
    this.#faults.add(fault);
    const [name, faulty] = faultOptions[fault];
    await this.#toAll(['CONFIG', 'SET', name, faulty]);
  }

  /** Pauses a server, by its number. It still gets what is sent to it, and executes it when it goes on. */
  pause(who: number): void {
    if (this.#paused !== undefined) return;
    this.#paused = this.#choose(who).server;
    this.#paused.signal('SIGSTOP');
  }

  /** Lets a paused server go on. */
  resume(): void {
    this.#paused?.signal('SIGCONT');
    this.#paused = undefined;
  }

  /** Ends the connections of all clients to a server, by its number; new ones are accepted. */
  async cut(who: number): Promise<void> {
    if (this.#paused !== undefined) return;
    const { server, admin } = this.#choose(who);
    for (const id of await this.#foreignIds(server, admin)) {
      // It may have ended meanwhile.
      await admin.sendTo('', ['CLIENT', 'KILL', 'ID', id]).catch(() => {});
    }
  }

  /** Ends all faults. */
  async heal(): Promise<void> {
    this.resume();
    for (const fault of this.#faults) {
      const [name, , usual] = faultOptions[fault];
      await this.#toAll(['CONFIG', 'SET', name, usual]);
    }
    this.#faults.clear();
  }

  /** Waits until only the test itself is connected. */
  async untilDeserted(): Promise<void> {
    await until('all connections to the engine are closed', async () => {
      const others = await Promise.all(this.#served.map(({ server, admin }) => this.#foreignIds(server, admin)));
      return others.flat().length === 0;
    });
  }

  /** Lists all keys whose names match a pattern, by name. */
  async keys(pattern = '*'): Promise<readonly EngineKey[]> {
    const lists = await this.#toAll(['EVAL', listScript, '0', pattern]);
    const found: EngineKey[] = [];
    for (const list of lists as readonly (readonly [])[]) {
      for (let at = 0; at < list.length; at += 3) {
        const [name, lifeMs, fields] = list.slice(at, at + 3) as unknown as [Buffer, number, readonly Buffer[]];
        found.push({ name: String(name), lifeMs, fields: fields.map(String).sort() });
      }
    }
    return found.sort((one, other) => (one.name < other.name ? -1 : 1));
  }

  /** Evicts a key, as an engine without room does. */
  async evict(name: string): Promise<void> {
    await this.#operate(() => this.client.send(name, ['UNLINK', name]));
  }

  /** Changes the value of a string, or of a field of a hash. Nothing happens where it does not exist. */
  async change(name: string, field: string | undefined, change: (value: Buffer) => Buffer): Promise<void> {
    await this.#operate(async () => {
      const read = field === undefined ? ['GET', name] : ['HGET', name, field];
      const value = (await this.client.send(name, read)) as Buffer | null;
      if (value === null) return;
      const changed = change(value);
      const write = field === undefined ? ['SET', name, changed, 'KEEPTTL', 'XX'] : ['HSET', name, field, changed];
      await this.client.send(name, write);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.resume();
    this.client.close();
    for (const { admin } of this.#served) admin.close();
    await this.#end();
  }

  #choose(who: number): Served {
    return this.#served[who % this.#served.length] as Served;
  }

  #toAll(parts: readonly string[]): Promise<readonly unknown[]> {
    return Promise.all(this.#served.map(({ admin }) => admin.sendTo('', parts)));
  }

  async #foreignIds(server: RedisServer, admin: RedisClient): Promise<readonly string[]> {
    const own = this.#ownIds.get(server);
    return (await idsOf(admin)).filter((id) => own?.has(id) !== true);
  }

  /** Does something although the engine is full or takes no writes. A paused engine is left alone. */
  async #operate(operation: () => Promise<unknown>): Promise<void> {
    if (this.#paused !== undefined) return;
    const faults = [...this.#faults];
    if (faults.length > 0) await this.heal();
    await operation();
    for (const fault of faults) await this.begin(fault);
  }
}

/** Returns the ids of all connections of clients to a server. */
async function idsOf(admin: RedisClient): Promise<readonly string[]> {
  const list = String(await admin.sendTo('', ['CLIENT', 'LIST', 'TYPE', 'normal']));
  return [...list.matchAll(/^id=(\d+) /gm)].map(([, id = '']) => id);
}
