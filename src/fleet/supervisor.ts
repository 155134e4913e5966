/**
 * Keeps the workers of a fleet running: it starts and replaces them, reloads all of them in two steps or none, and passes on
 * invalidations. A worker that does not apply an invalidation in time is ended. The supervisor has no store and serves no
 * client.
 */

import { OperationFault } from '../admin/operations.ts';
import type { InvalidationMessage } from '../cache/fleet.ts';
import type { Clock } from '../http/clock.ts';
import type { Emit } from '../telemetry/events.ts';
import {
  ChannelGone,
  type ConfigSource,
  type Remote,
  type SupervisorCalls,
  type WorkerCalls,
  type WorkerStart,
} from './channel.ts';
import type { LeaseTable } from './leases.ts';
import type { RosterEntry } from './operations.ts';
import { type FleetSockets, Handover, type NamedPlace } from './supervisor-sockets.ts';
import {
  type BackoffOptions,
  type ForkWorker,
  type HeartbeatOptions,
  type Incumbent,
  WorkerSlot,
} from './worker-slot.ts';

/** What a supervisor is made of. */
interface SupervisorParts {
  readonly workers: number;
  readonly fork: ForkWorker;
  readonly clock: Clock;
  /** Chance, from 0 to 1. */
  readonly random: () => number;
  /** Letters and digits that no other process has. */
  readonly randomId: () => string;
  readonly emit: Emit;
  readonly backoff: BackoffOptions;
  readonly heartbeat: HeartbeatOptions;
  readonly sockets: FleetSockets;
  readonly leases: LeaseTable;
  /** The socket by which a worker is reached by the others. */
  readonly peerSocket: (instance: string) => string;
  /** What every worker begins with. */
  readonly ground: Omit<WorkerStart, 'id' | 'instance' | 'isFirst' | 'fallen'>;
}

/** So many that have died without being followed by one that serves are remembered. */
const MOST_FALLEN = 1000;

/** A fleet. */
export class Supervisor {
  readonly #parts: SupervisorParts;
  readonly #slots: readonly WorkerSlot[];
  /** Processes that have, or may have, the store open. */
  readonly #holding = new Set<Incumbent>();
  /** Those that died so, and whose traces nobody has removed yet. */
  readonly #fallen = new Set<string>();
  /** Somebody opens the store, and nobody else has. */
  #firstOpening: Promise<unknown> | undefined;
  /** Workers that are being started. */
  readonly #admitting = new Set<Promise<unknown>>();
  /** While this is going on nobody is started. */
  #pause: Promise<unknown> | undefined;
  readonly #handover: Handover;
  #isStopping = false;
  /** While all stop: those who have no clients any more. */
  readonly #drained = new Set<string>();
  readonly #allDrained = Promise.withResolvers<void>();
  #ground: SupervisorParts['ground'];
  #addresses: readonly string[] = [];

  constructor(parts: SupervisorParts) {
    this.#parts = parts;
    this.#ground = parts.ground;
    this.#handover = new Handover(parts.sockets, (slot) => this.#slots[slot - 1]?.incumbent?.process.remote);
    this.#slots = Array.from({ length: parts.workers }, (_, index) => this.#createSlot(index + 1));
  }

  /** What is served. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** What workers begin with that are started from now on. */
  keep(changed: Partial<Pick<WorkerStart, 'logLevel' | 'passed'>>): void {
    this.#ground = { ...this.#ground, ...changed };
  }

  /** Starts all workers; resolves when all of them serve. Rejects with why one cannot: then there is none left. */
  async open(): Promise<void> {
    try {
      await Promise.all(this.#slots.map((slot) => slot.open()));
    } catch (error) {
      this.kill();
      await Promise.all(this.#slots.map(({ incumbent }) => incumbent?.process.ended));
      throw error;
    }
  }

  /** All workers that there should be, in the order of their numbers. Those who serve and answer can be asked. */
  roster(): readonly RosterEntry[] {
    return this.#slots.map(({ id, state, isFit, incumbent }) => {
      const isSilent = state === 'serving' && !isFit;
      return {
        id,
        pid: incumbent?.process.pid ?? 0,
        state: isSilent ? 'silent' : state,
        remote: isFit ? incumbent?.process.remote : undefined,
      };
    });
  }

  /**
   * Goes on with another configuration, which listens at these places: all workers make it ready before the first one uses it.
   * Rejects, and leaves everything as it is, where a place cannot be bound, a worker cannot use it, or `confirm` rejects, which
   * is called when all have; and with `OperationFault` `unavailable` where all stop.
   */
  async reload(
    config: ConfigSource,
    places: readonly NamedPlace[],
    confirm: () => Promise<void> = async () => undefined,
  ): Promise<void> {
    while (this.#pause !== undefined) await this.#pause;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#pause = promise;
    try {
      // Who is being started begins with the old one, and changes with the others.
      await Promise.all(this.#admitting);
      this.#addresses = (await this.#change(config, places, confirm)) ?? this.#addresses;
      this.#ground = { ...this.#ground, config };
    } finally {
      this.#pause = undefined;
      resolve();
    }
  }

  /** Stops all workers, which get so many milliseconds for what is under way. Resolves when there is none. */
  async stop(graceMs: number): Promise<void> {
    this.#isStopping = true;
    const stopped = this.#slots.map((slot) => slot.stop(graceMs));
    this.#parts.sockets.close();
    await Promise.all(stopped);
  }

  /** Ends all workers at once, and starts no more. */
  kill(): void {
    for (const slot of this.#slots) slot.abandon();
  }

  async #change(
    config: ConfigSource,
    places: readonly NamedPlace[],
    confirm: () => Promise<void>,
  ): Promise<readonly string[] | undefined> {
    const { sockets } = this.#parts;
    const added = await sockets.open(places);
    // Whoever has been started has the store open, and serves at the latest by the time that this is heard.
    const members = this.#slots.flatMap((slot) => {
      const { incumbent } = slot;
      return incumbent !== undefined && this.#holding.has(incumbent) ? [{ slot, incumbent }] : [];
    });
    try {
      this.#expectToStay();
      await prepareAll(members, config, ({ id }) => this.#handover.give(id, added));
      await confirm();
      this.#expectToStay();
    } catch (error) {
      await abandonAll(members);
      for (const { slot } of members) this.#handover.takeBack(slot.id, added);
      sockets.close(added);
      throw error;
    }
    // Before they leave the other places: from now on nobody is to cover there one that dies.
    const kept = new Set(places.map(({ name }) => name));
    sockets.close(sockets.names.filter((name) => !kept.has(name)));
    return await commitAll(members);
  }

  #expectToStay(): void {
    if (this.#isStopping) throw new OperationFault('unavailable', 'The server is stopping.');
  }

  #createSlot(id: number): WorkerSlot {
    const { clock, random, emit, backoff, heartbeat } = this.#parts;
    return new WorkerSlot({
      id,
      clock,
      random,
      emit,
      backoff,
      heartbeat,
      fork: () => this.#fork(id),
      admit: (incumbent) => this.#admit(id, incumbent),
      onChange: () => this.#cover(),
      isAlone: () => !this.#slots.some(({ isFit }) => isFit),
      onEnded: (incumbent) => this.#forget(incumbent),
    });
  }

  #fork(id: number): Incumbent {
    const instance = `w${id}${this.#parts.randomId()}`;
    return { instance, process: this.#parts.fork(this.#callsOf(instance)) };
  }

  /** What a worker can ask for. */
  #callsOf(instance: string): SupervisorCalls {
    const { leases, peerSocket } = this.#parts;
    const asker = { instance, socket: peerSocket(instance) };
    return {
      acquireLease: async (key, lost) => leases.acquire(key, asker, lost),
      releaseLease: (key) => leases.release(key, instance),
      drained: () => {
        this.#drained.add(instance);
        this.#noteDrained();
        return this.#allDrained.promise;
      },
      tell: (news) => this.#tellOthers(instance, news),
    };
  }

  #tellOthers(instance: string, news: InvalidationMessage): Promise<void> {
    const others = this.#slots.filter(
      ({ incumbent }) => incumbent !== undefined && incumbent.instance !== instance && this.#holding.has(incumbent),
    );
    return relayNews(news, others, this.#parts.clock);
  }

  /** Brings a process to serve. Only one opens a store that nobody has open, and nobody begins while all are changed. */
  async #admit(slot: number, incumbent: Incumbent): Promise<void> {
    // Until it has come up it may be heard that others have died at the same time.
    await incumbent.process.remote.beat();
    for (;;) {
      if (this.#pause !== undefined) await this.#pause;
      else if (this.#firstOpening !== undefined) await this.#firstOpening;
      else break;
    }
    if (this.#slots[slot - 1]?.incumbent !== incumbent) throw new ChannelGone();
    const isFirst = this.#holding.size === 0;
    const admitted = this.#start(slot, incumbent, isFirst);
    // Whoever cannot be started is ended.
    const settled = admitted.catch(() => incumbent.process.ended);
    if (isFirst) {
      this.#firstOpening = settled;
      void settled.then(() => {
        this.#firstOpening = undefined;
      });
    }
    this.#admitting.add(settled);
    void settled.then(() => this.#admitting.delete(settled));
    await admitted;
  }

  async #start(slot: number, incumbent: Incumbent, isFirst: boolean): Promise<void> {
    const { instance, process } = incumbent;
    const { remote } = process;
    this.#holding.add(incumbent);
    const fallen = [...this.#fallen];
    this.#handover.give(slot);
    const { logLevel } = this.#ground;
    const { addresses } = await remote.start({ ...this.#ground, id: slot, instance, isFirst, fallen });
    if (this.#ground.logLevel !== logLevel) await remote.setLogLevel(this.#ground.logLevel);
    for (const gone of fallen) this.#fallen.delete(gone);
    this.#addresses = addresses;
  }

  #forget(incumbent: Incumbent): void {
    void this.#passLeasesOn(incumbent.instance);
    if (this.#holding.delete(incumbent)) this.#fallen.add(incumbent.instance);
    // What one of the oldest has left is removed with the rest when the store is next opened by a first one.
    const [oldest] = this.#fallen;
    if (this.#fallen.size > MOST_FALLEN && oldest !== undefined) this.#fallen.delete(oldest);
    this.#noteDrained();
  }

  /**
   * A lease of a dead process passes on when all know that nothing of it is being written any more, and that what is stored
   * under its keys may be another than they know: it may have died before it could tell.
   */
  async #passLeasesOn(instance: string): Promise<void> {
    const { leases } = this.#parts;
    const keys = leases.keysOf(instance);
    if (!this.#isStopping)
      await this.#tellOthers(instance, { kind: 'store', change: { kind: 'fallen', instances: [instance] } });
    if (!this.#isStopping && keys.length > 0)
      await this.#tellOthers(instance, { kind: 'store', change: { kind: 'keys', keys } });
    leases.fall(instance);
  }

  #noteDrained(): void {
    const isOver = this.#slots.every(({ incumbent }) => !incumbent || this.#drained.has(incumbent.instance));
    if (this.#drained.size > 0 && isOver) this.#allDrained.resolve();
  }

  #cover(): void {
    if (this.#isStopping) return;
    this.#handover.cover(this.#slots.map(({ id, isFit, hasServed }) => ({ slot: id, isFit, isOpen: hasServed })));
  }
}

/** One of those that are changed, in its slot: who comes after it there has nothing to do with the change. */
interface Member {
  readonly slot: WorkerSlot;
  readonly incumbent: Incumbent;
}

/**
 * Has all of them make it ready; `begin` is called for each before. Rejects where one cannot, when all
 * have answered. Who dies meanwhile is no hindrance: another one comes, and begins with what is in use by then.
 */
async function prepareAll(
  members: readonly Member[],
  config: ConfigSource,
  begin: (slot: WorkerSlot) => void,
): Promise<void> {
  const outcomes = await Promise.allSettled(
    members.map(async ({ slot, incumbent }) => {
      begin(slot);
      await unlessGone(incumbent.process.remote.prepareReload(config));
    }),
  );
  const failed = outcomes.find((outcome) => outcome.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/** Has all of them give up what they have made ready, if they have. */
async function abandonAll(members: readonly Member[]): Promise<void> {
  await Promise.all(
    members.map((member) =>
      withWorker(member, 'it could not give up a configuration', (remote) => remote.abandonReload()),
    ),
  );
}

/** Has all of them use what they have made ready; gives the addresses that they serve. Who cannot is replaced. */
async function commitAll(members: readonly Member[]): Promise<readonly string[] | undefined> {
  const addresses = await Promise.all(
    members.map((member) =>
      withWorker(member, 'it could not go on with another configuration', (remote) => remote.commitReload()),
    ),
  );
  return addresses.find((each) => each !== undefined);
}

/** Whoever fails is in a state that nobody knows, and is ended. */
async function withWorker<T>(
  { slot, incumbent }: Member,
  complaint: string,
  ask: (remote: Remote<WorkerCalls>) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await ask(incumbent.process.remote);
  } catch (error) {
    const isThere = slot.incumbent === incumbent && !(error instanceof ChannelGone);
    if (isThere) slot.kill(`${complaint}: ${(error as Error).message}`);
    await incumbent.process.ended;
    return undefined;
  }
}

async function unlessGone(asked: Promise<void>): Promise<void> {
  try {
    await asked;
  } catch (error) {
    if (!(error instanceof ChannelGone)) throw error;
  }
}

/** How long a worker may take to heed news, in milliseconds: it might serve what was purged. */
const HEED_MS = 10_000;

/** Tells these workers. Resolves when each has heeded it or has ended; who takes too long, or cannot, is ended. */
async function relayNews(
  news: InvalidationMessage,
  slots: readonly WorkerSlot[],
  clock: Pick<Clock, 'after'>,
): Promise<void> {
  await Promise.all(
    slots.map(async (slot) => {
      const { incumbent } = slot;
      if (incumbent !== undefined) await tellOne(news, slot, incumbent, clock);
    }),
  );
}

async function tellOne(
  news: InvalidationMessage,
  slot: WorkerSlot,
  { process }: Incumbent,
  clock: Pick<Clock, 'after'>,
): Promise<void> {
  const end = (reason: string): void => {
    if (slot.incumbent?.process === process) slot.kill(reason);
  };
  const cancel = clock.after(HEED_MS, () => end(`it has not heeded for ${HEED_MS / 1000} s what was purged`));
  try {
    await process.remote.heed(news);
  } catch (error) {
    if (!(error instanceof ChannelGone)) end(`it could not heed what was purged: ${(error as Error).message}`);
    await process.ended;
  } finally {
    cancel();
  }
}
