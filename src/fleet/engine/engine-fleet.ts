/**
 * The fleet of several machines that share a store in an engine (Redis, Valkey), as one of its members sees it. Every process that
 * serves is a member by itself, each worker of a machine too. Read engine-leases.ts, message-log.ts and peer-network.ts for the
 * three parts: who exchanges with the origin, what changed, and how bytes go from one member to another.
 */

import type { Cache } from '../../cache/cache.ts';
import { type Fleet, HolderLost, type InvalidationMessage, type PeerAnswer } from '../../cache/fleet.ts';
import type { Clock } from '../../http/clock.ts';
import type { EngineSharing } from '../../store/redis/redis-store.ts';
import type { Seal } from '../../store/redis/seal.ts';
import type { Store } from '../../store/store.ts';
import type { MemoryLease } from '../../store/tiered/tiered-store.ts';
import type { Emit } from '../../telemetry/events.ts';
import { LeaseClient, type NamedHolder } from '../leases.ts';
import { createHolderOver } from '../peer-client.ts';
import type { PeerServer, PeerSessionOptions } from '../peer-server.ts';
import { EngineLeases } from './engine-leases.ts';
import type { FleetEngine } from './fleet-engine.ts';
import { type FleetKeys, MessageLog, nameMember } from './message-log.ts';
import {
  connectToPeer,
  formatPeerAddress,
  type NetworkPeerOptions,
  type NetworkPeerServer,
  openNetworkPeers,
  parsePeerAddress,
} from './peer-network.ts';
import { readFromStore } from './stored-bytes.ts';

/** How long a peer may be silent while it is waited for, in milliseconds. It sends something every 3 s. */
const PATIENCE_MS = 10_000;
/** Interval of the looks for members with another secret, in milliseconds. */
const STRANGERS_MS = 10_000;
/** Shortest interval of the log lines about what is not authentic, in milliseconds. */
const FORGED_MS = 60_000;

/** Options of a member. */
export interface EngineFleetOptions {
  readonly engine: FleetEngine;
  readonly keys: FleetKeys;
  /** Authenticates what members tell each other. */
  readonly seal: Seal;
  /**
   * Whether the operator has stated the secret of `seal`. Otherwise this machine alone knows it, so there may be no other one. It does
   * not outlive the process, so records are not authenticated then.
   */
  readonly isSecretStated: boolean;
  /** The key of the lease of a cache key, in the slot of its entries. */
  readonly leaseKey: (key: string) => string;
  /** Where to listen for peers. Without a host: on the address of this machine that the engine sees. Port 0 lets the system choose. */
  readonly listen: { readonly host: string | undefined; readonly port: number };
  /** How peers reach this process, where that differs from where it listens. */
  readonly advertise: { readonly host: string; readonly port: number | undefined } | undefined;
  /** How long memory answers while the engine is away, before it is emptied. In milliseconds. */
  readonly trustMs: number;
  /** Whether unsafe requests are refused while the engine is away: other members cannot be told what they invalidate. */
  readonly refusesUnsafe: boolean;
  /** Milliseconds that never go back. */
  readonly clock: Clock;
  readonly emit: Emit;
}

/** The cache of a member, its store, and the rules by which it answers its peers. */
export interface EngineFleetGround extends Pick<PeerSessionOptions, 'admission'> {
  readonly cache: Cache;
  readonly store: Pick<Store, 'find' | 'blockSizeBytes'>;
}

/** A member of a fleet. */
export interface EngineFleet {
  readonly fleet: Fleet;
  readonly sharing: EngineSharing & MemoryLease;
  /** Whether the engine cannot be reached. */
  readonly isAway: boolean;
  /** Why requests should be sent to other members, for people; undefined where there is no reason. */
  readonly unreadyReason: string | undefined;
  /**
   * Joins the fleet: answers its peers about this cache, and applies their messages to it. Rejects with Node's error where the address
   * cannot be bound, and with `Error` where another machine is a member and no secret is stated. Closing what it resolves with cuts the running answers, whose readers go on elsewhere, and gives up all leases.
   */
  join(parts: EngineFleetGround): Promise<PeerServer>;
  /** Leaves the fleet, once its cache stores nothing any more. Never rejects. */
  close(): Promise<void>;
}

/** Creates a member, which has not joined yet. */
export function createEngineFleet(options: EngineFleetOptions): EngineFleet {
  return new Member(options);
}

class Member implements EngineFleet {
  readonly fleet: Fleet;
  readonly sharing: EngineSharing & MemoryLease;
  readonly #options: EngineFleetOptions;
  readonly #leases: EngineLeases;
  readonly #client: LeaseClient;
  readonly #log: MessageLog;
  #cache: Cache | undefined;
  #store: EngineFleetGround['store'] | undefined;
  #address = '';
  #forgedAt = Number.NEGATIVE_INFINITY;
  #hasStrangers = false;
  #isClosed = false;
  #cancelLook: () => void = () => {};

  constructor(options: EngineFleetOptions) {
    const { engine, keys, seal, leaseKey, clock, trustMs } = options;
    const instance = nameMember(seal);
    this.#options = options;
    this.#log = new MessageLog({
      engine,
      keys,
      instance,
      seal,
      clock,
      trustMs,
      onForged: () => this.#noteForged('a message'),
      apply: (news) => this.#apply(news),
      onChange: (isAway) => {
        this.#tell(isAway);
        if (!isAway) void this.#leases.claim();
        else if (this.#log.isBehind) void this.#leases.giveUp();
      },
    });
    this.#leases = new EngineLeases({
      engine,
      instance,
      seal,
      leaseKey,
      onForged: () => this.#noteForged('a lease'),
      clock,
      address: () => this.#address,
      isAway: () => this.#log.isAway,
      isBehind: () => this.#log.isBehind,
      onFailure: () => this.#log.noteFailure(),
      onGranted: (key) => this.#apply({ kind: 'store', change: { kind: 'keys', keys: [key] } }),
      onLost: (key) => this.#client.forget(key),
    });
    this.#client = new LeaseClient({
      supervisor: this.#leases,
      reach: (other, address) => this.#reach(other, address),
    });
    this.fleet = {
      acquire: (key, signal, lost) => this.#client.acquire(key, signal, lost),
      hold: (key) => this.#client.hold(key),
      announce: (news) => this.#log.announce(news),
      refusesUnsafe: () => options.refusesUnsafe && this.#log.isAway,
    };
    this.sharing = {
      announce: async (change) => void (await this.#log.append({ kind: 'store', change })),
      fenceOf: (key) => this.#leases.fenceOf(key),
      current: () => this.#log.current(),
      isMemoryCurrent: () => this.#log.isMemoryCurrent,
      seal: options.isSecretStated ? seal : undefined,
    };
  }

  get isAway(): boolean {
    return this.#log.isAway;
  }

  get unreadyReason(): string | undefined {
    if (!this.#log.isBehind) return undefined;
    return 'It cannot keep up with the messages of the other nodes: a look at their log has taken more than six seconds.';
  }

  async join({ cache, store, admission }: EngineFleetGround): Promise<PeerServer> {
    const { engine, listen, advertise, seal, isSecretStated, clock } = this.#options;
    const host = listen.host ?? engine.localAddress() ?? '127.0.0.1';
    const server = await this.#openPeers({ cache, admission, clock, seal, host, port: listen.port });
    if (server !== undefined) {
      const port = advertise?.port ?? server.port;
      this.#address = formatPeerAddress({ host: advertise?.host ?? host, port });
    }
    this.#cache = cache;
    this.#store = store;
    await this.#log.begin();
    if (!isSecretStated && (await this.#log.countStrangers()) > 0) {
      await server?.close();
      throw new Error(secretRequired);
    }
    this.#scheduleLook();
    return {
      close: async () => {
        await server?.close();
        await this.#leases.close();
      },
    };
  }

  /** Undefined where the engine sees an address that is not of this machine: others cannot reach this process then. */
  async #openPeers(options: NetworkPeerOptions): Promise<NetworkPeerServer | undefined> {
    const { listen, emit } = this.#options;
    try {
      return await openNetworkPeers(options);
    } catch (thrown) {
      if (listen.host !== undefined || (thrown as NodeJS.ErrnoException).code !== 'EADDRNOTAVAIL') throw thrown;
      const message = `other machines cannot reach this one: the engine sees it at ${options.host}, which is not its own address`;
      const detail = 'set fleet.listen and fleet.advertise';
      emit({ kind: 'fleet', level: 'warn', worker: undefined, stage: 'away', message, detail });
      return undefined;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelLook();
    await this.#leases.close();
    await this.#log.close();
  }

  #reach(instance: string, address: string): NamedHolder {
    const { seal, clock } = this.#options;
    const peer = parsePeerAddress(address);
    if (peer === undefined) {
      const lost: NamedHolder = { instance, answer: () => Promise.reject(new HolderLost(lost)) };
      return lost;
    }
    const connect = () => connectToPeer(peer, seal, clock);
    const holder = createHolderOver(instance, { connect, clock, patienceMs: PATIENCE_MS });
    return {
      instance,
      answer: async (inquiry, version) => this.#withStoredBytes(await holder.answer(inquiry, version), inquiry.key),
    };
  }

  #withStoredBytes(reply: PeerAnswer | undefined, key: string): PeerAnswer | undefined {
    const { clock } = this.#options;
    const answer = reply?.answer;
    if (answer?.kind !== 'representation' || this.#store === undefined) return reply;
    const representation = readFromStore(answer.representation, { store: this.#store, key, clock });
    return { ...reply, answer: { ...answer, representation } } as PeerAnswer;
  }

  async #apply(news: InvalidationMessage): Promise<void> {
    await this.#cache?.applyInvalidation(news).catch(() => {});
  }

  /** Counts what is in the engine and not authentic. One line in the log a minute. */
  #noteForged(what: string): void {
    const { clock, emit } = this.#options;
    const isTold = clock.now() < this.#forgedAt + FORGED_MS;
    if (!isTold) this.#forgedAt = clock.now();
    const message = `${what} in the engine is not authentic, and counts as absent`;
    const detail = 'another node has another fleet.secret or none, or another program writes to the engine';
    emit({ kind: 'store', level: isTold ? 'debug' : 'warn', message, detail, count: { damagedBlocks: 1 } });
  }

  #scheduleLook(): void {
    this.#cancelLook = this.#options.clock.after(STRANGERS_MS, async () => {
      const count = await this.#log.countStrangers();
      if (count > 0 && !this.#hasStrangers) this.#tellOfStrangers();
      this.#hasStrangers = count > 0;
      if (!this.#isClosed) this.#scheduleLook();
    });
  }

  #tellOfStrangers(): void {
    const { isSecretStated, emit } = this.#options;
    const message = isSecretStated
      ? 'another node uses the store of this one with another fleet.secret, or none: each fetches for itself, and neither uses what the other has stored'
      : secretRequired;
    emit({ kind: 'fleet', level: 'error', worker: undefined, stage: 'away', message, detail: undefined });
  }

  #tell(isAway: boolean): void {
    const message = isAway
      ? 'the engine of the store is away: memory and the origin answer, and this process fetches for itself'
      : 'the engine of the store is back, and all that was announced meanwhile is applied';
    const level = isAway ? 'warn' : 'info';
    this.#options.emit({
      kind: 'fleet',
      level,
      worker: undefined,
      stage: isAway ? 'away' : 'back',
      message,
      detail: undefined,
    });
  }
}

/** Why a machine may not be a member without a secret, and what to do. */
const secretRequired =
  'another node uses this store, so all of them need fleet.secret: a random text of at least 32 characters, such as of "openssl rand -hex 32", the same on all nodes; "fleet": { "secret": "file:/etc/rangeway/fleet-secret" } (docs/redis-store.md)';
