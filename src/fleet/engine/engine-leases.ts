/**
 * Leases in the engine: the right of one process of the whole fleet to exchange with the origin for a key. A lease has a time limit,
 * which its holder renews, and a fencing number. The store refuses what a holder with a lower number writes.
 *
 * The value of a lease is text: the fencing number, the instance of the holder, a tag of the seal, and how to reach it. The tag binds the
 * last one to the cache key and the instance: requests of clients go only where a member has said. A lease with another tag is absent.
 */

import type { Clock } from '../../http/clock.ts';
import type { Seal } from '../../store/redis/seal.ts';
import type { LeaseReply } from '../channel.ts';
import { type FleetEngine, withinTime } from './fleet-engine.ts';

/** How long a lease lasts without being renewed, in milliseconds. After the death of its holder, others wait as long. */
export const LEASE_MS = 5_000;
/** Interval of the renewals, in milliseconds. */
const RENEWAL_MS = 1_500;
/** The longest wait for an answer of the engine, in milliseconds. After that the process goes on without the lease of the fleet. */
const ANSWER_MS = 1_000;
/** Interval of the looks at a lease whose holder cannot be reached, in milliseconds. */
const LOOK_MS = 100;
/** How long a process that could not be reached twice is not asked again, in milliseconds. */
const SHUNNED_MS = 10_000;

/** Losses of a holder within this time are one: all its readers here lose it together. In milliseconds. */
const ONE_LOSS_MS = 1_000;
/** How long, and for how many keys, it is known that a lease was lost: what was begun under it may still be stored later. */
const LOST_MS = 600_000;
const MAX_LOST = 10_000;

/** Options of the leases of one process. */
export interface EngineLeasesOptions {
  readonly engine: Pick<FleetEngine, 'run'>;
  readonly seal: Pick<Seal, 'sign' | 'verifies'>;
  /** Identifies this process among all that ever used the engine. Has no space. */
  readonly instance: string;
  /** How others reach this process; empty where they cannot. */
  readonly address: () => string;
  /** The key of the lease, in the slot of the entries of the key. */
  readonly leaseKey: (key: string) => string;
  /** Milliseconds that never go back. */
  readonly clock: Clock;
  /** Whether the engine is known to be away: it is not asked then. */
  readonly isAway: () => boolean;
  /** Whether this process is too slow to keep up with the others, which do not wait for it any more. It has no leases then. */
  readonly isBehind: () => boolean;
  /** Called when a call has failed. */
  readonly onFailure: () => void;
  /** Called for a lease that no member with a known secret has written. */
  readonly onForged: () => void;
  /** Called before a granted lease is used: another process may have stored something under it. */
  readonly onGranted: (key: string) => Promise<void>;
  /** Called when another process has the lease now that this one held. */
  readonly onLost: (key: string) => void;
}

/** A lease of the engine that this process holds. */
interface Held {
  readonly value: string;
  readonly fence: number;
}

/** A process that could not be reached. */
interface Unreached {
  readonly count: number;
  readonly at: number;
}

/**
 * The leases of one process, as `LeaseClient` asks for them. Where the engine is away, or the holder cannot be reached although it
 * lives, a lease is granted that only this process knows: requests collapse within the process then. One that was granted because the
 * engine was away is claimed when it is back.
 */
export class EngineLeases {
  readonly #options: EngineLeasesOptions;
  readonly #held = new Map<string, Held>();
  /** Keys whose leases only this process knows, because the engine was away. */
  readonly #unclaimed = new Set<string>();
  /** When leases were lost, by key, the earliest first. */
  readonly #lost = new Map<string, number>();
  readonly #unreached = new Map<string, Unreached>();
  #cancelRenewal: () => void = () => {};
  #isClosed = false;

  constructor(options: EngineLeasesOptions) {
    this.#options = options;
  }

  /** The number of leases of the engine that this process holds. */
  get size(): number {
    return this.#held.size;
  }

  /**
   * Returns the fencing number of the lease of a key: 0, which is lower than any, where this process has lost it to another one;
   * undefined where it has none in the engine.
   */
  fenceOf(key: string): number | undefined {
    return this.#held.get(key)?.fence ?? (this.#lost.has(key) ? 0 : undefined);
  }

  /** Asks for a lease. `lost` is the instance of a holder that could not be reached. Never rejects. */
  async acquireLease(key: string, lost?: string): Promise<LeaseReply> {
    if (this.#options.isAway() || this.#options.isBehind()) return this.#grantUnclaimed(key);
    if (lost !== undefined) this.#noteUnreached(lost);
    try {
      return await this.#acquire(key, lost);
    } catch {
      this.#options.onFailure();
      return this.#grantUnclaimed(key);
    }
  }

  /**
   * The engine is back: claims the leases that were granted while it was away. One that another process has by now counts as lost, so
   * that the store refuses what this process would write beside it. Never rejects.
   */
  async claim(): Promise<void> {
    await Promise.all([...this.#unclaimed].map((key) => this.#claimOne(key)));
  }

  /** Releases a lease. Never rejects: a lease that cannot be released ends by itself. */
  async releaseLease(key: string): Promise<void> {
    this.#unclaimed.delete(key);
    const held = this.#held.get(key);
    if (held === undefined) return;
    this.#held.delete(key);
    if (this.#held.size === 0) this.#cancelRenewal();
    await this.#release(key, held.value);
  }

  /** Gives up all leases: what was begun under them is not stored. Never rejects. */
  async giveUp(): Promise<void> {
    const held = [...this.#held];
    this.#held.clear();
    this.#cancelRenewal();
    for (const [key] of held) this.#lose(key);
    await Promise.all(held.map(([key, { value }]) => this.#release(key, value)));
  }

  /** Renews all leases now, or gives them up where this process cannot keep up. Never rejects. */
  async renew(): Promise<void> {
    if (this.#options.isBehind()) return await this.giveUp();
    if (this.#options.isAway()) return;
    await Promise.all([...this.#held].map(([key, held]) => this.#renewOne(key, held)));
  }

  /** Releases all leases. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRenewal();
    await Promise.all([...this.#held.keys()].map((key) => this.releaseLease(key)));
  }

  #grantUnclaimed(key: string): LeaseReply {
    this.#unclaimed.add(key);
    return ours;
  }

  async #claimOne(key: string): Promise<void> {
    let found: Found;
    try {
      found = await this.#ask(key);
    } catch {
      this.#options.onFailure();
      return;
    }
    const isWanted = this.#unclaimed.delete(key);
    if (found.kind === 'granted') {
      // It was released meanwhile, and perhaps acquired again under another number.
      if (!isWanted && this.#held.get(key)?.value === found.value) await this.releaseLease(key);
    } else if (isWanted) this.#lose(key);
  }

  async #acquire(key: string, lost: string | undefined): Promise<LeaseReply> {
    const { clock } = this.#options;
    const patienceEnd = clock.now() + LEASE_MS + LOOK_MS;
    for (let leftMs: number | undefined; ; ) {
      const found = await this.#ask(key);
      if (found.kind === 'granted') return ours;
      const { instance, socket } = found;
      if (instance !== lost) return this.#isOutOfReach(found) ? ours : { kind: 'theirs', instance, socket };
      // A lease that was renewed since shows that its holder lives.
      const isAlive = leftMs !== undefined && found.leftMs > leftMs;
      if (isAlive || clock.now() > patienceEnd)
        return this.#isOutOfReach(found) ? ours : { kind: 'theirs', instance, socket };
      leftMs = found.leftMs;
      await new Promise<void>((resolve) => void clock.after(LOOK_MS, resolve));
    }
  }

  async #ask(key: string): Promise<Found> {
    const { engine, instance, seal, leaseKey, clock, onGranted } = this.#options;
    const address = this.#options.address();
    const own = `${seal.sign('lease', key, instance, address)} ${address}`;
    const ask = async (forged = ''): Promise<Found | Forged> => {
      const reply = await engine.run(acquireScript, [leaseKey(key)], [instance, own, String(LEASE_MS), forged]);
      return readFound(reply, (tag, ...texts) => seal.verifies(tag, 'lease', key, ...texts));
    };
    const asked = ask().then((each) => (each.kind === 'forged' ? this.#replace(each.value, ask) : each));
    let found: Found;
    try {
      found = await withinTime(clock, ANSWER_MS, asked);
    } catch (thrown) {
      // Granted too late: this process goes on without it.
      void asked.then((late) => (late.kind === 'granted' ? this.#release(key, late.value) : undefined)).catch(() => {});
      throw thrown;
    }
    if (found.kind === 'granted') {
      this.#held.set(key, { value: found.value, fence: found.fence });
      this.#lost.delete(key);
      if (this.#held.size === 1) this.#scheduleRenewal();
      await onGranted(key);
    }
    return found;
  }

  /** Takes a lease that is not authentic as absent. */
  async #replace(value: string, ask: (forged: string) => Promise<Found | Forged>): Promise<Found> {
    this.#options.onForged();
    const found = await ask(value);
    if (found.kind === 'forged') throw new Error('Another program writes leases.');
    return found;
  }

  async #release(key: string, value: string): Promise<void> {
    const { engine, leaseKey } = this.#options;
    await engine.run(releaseScript, [leaseKey(key)], [value]).catch(() => {});
  }

  async #renewOne(key: string, held: Held): Promise<void> {
    const { engine, leaseKey, clock, onFailure } = this.#options;
    let isOurs: boolean;
    try {
      const renewing = engine.run(renewScript, [leaseKey(key)], [held.value, String(LEASE_MS)]);
      isOurs = Number(await withinTime(clock, ANSWER_MS, renewing)) === 1;
    } catch {
      onFailure();
      return;
    }
    // It may have been released meanwhile: then this renewal has put it back.
    if (this.#held.get(key) !== held) return void (isOurs && (await this.#release(key, held.value)));
    if (isOurs) return;
    this.#held.delete(key);
    this.#lose(key);
  }

  /** Another process has the lease of a key that this process has used as its own. */
  #lose(key: string): void {
    this.#noteLost(key);
    this.#options.onLost(key);
  }

  #noteLost(key: string): void {
    const now = this.#options.clock.now();
    this.#lost.delete(key);
    this.#lost.set(key, now);
    for (const [each, at] of this.#lost) {
      if (at >= now - LOST_MS && this.#lost.size <= MAX_LOST) return;
      this.#lost.delete(each);
    }
  }

  #scheduleRenewal(): void {
    this.#cancelRenewal();
    this.#cancelRenewal = this.#options.clock.after(RENEWAL_MS, () => {
      void this.renew().then(() => {
        if (this.#held.size > 0 && !this.#isClosed) this.#scheduleRenewal();
      });
    });
  }

  #noteUnreached(instance: string): void {
    const now = this.#options.clock.now();
    for (const [each, { at }] of this.#unreached) if (at < now - SHUNNED_MS) this.#unreached.delete(each);
    const known = this.#unreached.get(instance);
    if (known !== undefined && now < known.at + ONE_LOSS_MS) return;
    this.#unreached.set(instance, { count: (known?.count ?? 0) + 1, at: now });
  }

  /** Whether a process was not reached at least twice of late. Once is an accident, such as a cut connection. */
  #isOutOfReach({ instance, socket }: { readonly instance: string; readonly socket: string }): boolean {
    if (socket === '') return true;
    const known = this.#unreached.get(instance);
    return known !== undefined && known.count > 1 && known.at > this.#options.clock.now() - SHUNNED_MS;
  }
}

const ours: LeaseReply = { kind: 'ours' };

/** The answer of the engine to the question for a lease. */
type Found =
  | { readonly kind: 'granted'; readonly value: string; readonly fence: number }
  | { readonly kind: 'held'; readonly instance: string; readonly socket: string; readonly leftMs: number };

/** A lease that no member has written. */
interface Forged {
  readonly kind: 'forged';
  readonly value: string;
}

function readFound(
  reply: unknown,
  isAuthentic: (tag: string, instance: string, address: string) => boolean,
): Found | Forged {
  const [isGranted, value = '', leftMs] = (reply as readonly unknown[]).map(String);
  const [, fence, instance = '', tag = '', socket = ''] = /^(\d+) (\S+) (\S+) (.*)$/s.exec(value) ?? [];
  if (fence === undefined || !isAuthentic(tag, instance, socket)) return { kind: 'forged', value };
  if (isGranted === '1') return { kind: 'granted', value, fence: Number(fence) };
  return { kind: 'held', instance, socket, leftMs: Number(leftMs) };
}

/**
 * Grants a lease where it is free, not authentic or the asker has it, otherwise returns the one that is there. The fencing number is the time of the
 * engine in microseconds, and larger than that of the lease before: a counter would begin again once the engine was flushed.
 */
const acquireScript = `
local held = redis.call('GET', KEYS[1])
local last = 0
if held then
  local fence, instance = string.match(held, '^(%d+) (%S+) ')
  if instance ~= ARGV[1] and held ~= ARGV[4] then return {0, held, redis.call('PTTL', KEYS[1])} end
  last = tonumber(fence or 0)
end
local time = redis.call('TIME')
local fence = math.max(time[1] * 1000000 + time[2], last + 1)
local value = string.format('%.0f', fence) .. ' ' .. ARGV[1] .. ' ' .. ARGV[2]
redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
return {1, value, ARGV[3]}
`;

/** Extends a lease. One that has ended, and that no other process has taken, is put back with its number. */
const renewScript = `
local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`;

const releaseScript = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`;
