/**
 * Keeps the workers of a fleet running: starts and replaces them, reloads all of them in two steps or none, and relays
 * invalidation messages. A worker that does not apply such a message in time is killed. The supervisor has no store and serves
 * no client. Read this file first, then `worker-slot.ts` (one worker) and `channel.ts` (the calls between the processes).
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
  type SlotProcess,
  WorkerSlot,
} from './worker-slot.ts';

/** The parts that a supervisor is made of. */
interface SupervisorParts {
  readonly workers: number;
  readonly fork: ForkWorker;
  readonly clock: Clock;
  /** A random number from 0 to 1. */
  readonly random: () => number;
  /** Returns letters and digits that no other process has. */
  readonly randomId: () => string;
  readonly emit: Emit;
  readonly backoff: BackoffOptions;
  readonly heartbeat: HeartbeatOptions;
  readonly sockets: FleetSockets;
  readonly leases: LeaseTable;
  /** Returns the path of the socket by which other workers reach a worker. */
  readonly peerSocket: (instance: string) => string;
  /** The options that every worker is started with. */
  readonly ground: Omit<WorkerStart, 'id' | 'instance' | 'isFirst' | 'fallen'>;
}

/** The number of dead workers that are remembered while no later worker has cleaned up after them. */
const MOST_FALLEN = 1000;

/** The supervisor of a fleet. */
export class Supervisor {
  readonly #parts: SupervisorParts;
  readonly #slots: readonly WorkerSlot[];
  /** Processes that have, or may have, the store open. */
  readonly #holding = new Set<SlotProcess>();
  /** Instances that died with the store open, and whose remains no worker has removed yet. */
  readonly #fallen = new Set<string>();
  /** Set while a worker opens the store and no other process has it open. */
  #firstOpening: Promise<unknown> | undefined;
  /** The starts of workers that are under way. */
  readonly #admitting = new Set<Promise<unknown>>();
  /** Set during a reload. No worker is started meanwhile. */
  #pause: Promise<unknown> | undefined;
  readonly #handover: Handover;
  #isStopping = false;
  /** During a shutdown: the workers that have no client left. */
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

  /** The addresses that are served. */
  get addresses(): readonly string[] {
    return this.#addresses;
  }

  /** Changes the options of workers that are started from now on. */
  keep(changed: Partial<Pick<WorkerStart, 'logLevel' | 'passed'>>): void {
    this.#ground = { ...this.#ground, ...changed };
  }

  /** Starts all workers. Resolves when all of them serve. Rejects with the reason where one cannot; no worker is left then. */
  async open(): Promise<void> {
    try {
      await Promise.all(this.#slots.map((slot) => slot.open()));
    } catch (error) {
      this.kill();
      await Promise.all(this.#slots.map(({ incumbent }) => incumbent?.process.ended));
      throw error;
    }
  }

  /** Returns all slots, ordered by number. Only workers that serve and answer can be called. */
  roster(): readonly RosterEntry[] {
    return this.#slots.map(({ id, state, isFit, unreadyReason, incumbent }) => {
      const isSilent = state === 'serving' && !isFit;
      return {
        id,
        pid: incumbent?.process.pid ?? 0,
        state: isSilent ? 'silent' : state,
        unreadyReason,
        remote: isFit ? incumbent?.process.remote : undefined,
      };
    });
  }

  /**
   * Activates another configuration, which listens at these places. All workers prepare it before the first one uses it; `confirm`
   * is called in between. Rejects, and changes nothing, where a place cannot be bound, a worker cannot use the configuration, or
   * `confirm` rejects; with `OperationFault` `unavailable` where the fleet is stopping.
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
      // A worker that is starting begins with the old configuration, and changes together with the others.
      await Promise.all(this.#admitting);
      this.#addresses = (await this.#change(config, places, confirm)) ?? this.#addresses;
      this.#ground = { ...this.#ground, config };
    } finally {
      this.#pause = undefined;
      resolve();
    }
  }

  /** Stops all workers. Running requests get `graceMs` milliseconds. Resolves when no worker is left. */
  async stop(graceMs: number): Promise<void> {
    this.#isStopping = true;
    const stopped = this.#slots.map((slot) => slot.stop(graceMs));
    this.#parts.sockets.close();
    await Promise.all(stopped);
  }

  /** Kills all workers, and starts no more. */
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
    // A worker that was started has the store open, and serves by the time it receives the next call.
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
    // Before the workers leave the other places: from now on no worker covers these for one that dies.
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

  #fork(id: number): SlotProcess {
    const instance = `w${id}${this.#parts.randomId()}`;
    return { instance, process: this.#parts.fork(this.#callsOf(instance)) };
  }

  /** Returns the calls that a worker can make. */
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
      announce: (news) => this.#tellOthers(instance, news),
    };
  }

  #tellOthers(instance: string, news: InvalidationMessage): Promise<void> {
    const others = this.#slots.filter(
      ({ incumbent }) => incumbent !== undefined && incumbent.instance !== instance && this.#holding.has(incumbent),
    );
    return relayNews(news, others, this.#parts.clock);
  }

  /** Makes a process serve. The first worker opens the store alone, and no worker starts during a reload. */
  async #admit(slot: number, incumbent: SlotProcess): Promise<void> {
    // Until the process is up, the ends of other workers may still be reported.
    await incumbent.process.remote.beat();
    for (;;) {
      if (this.#pause !== undefined) await this.#pause;
      else if (this.#firstOpening !== undefined) await this.#firstOpening;
      else break;
    }
    if (this.#slots[slot - 1]?.incumbent !== incumbent) throw new ChannelGone();
    const isFirst = this.#holding.size === 0;
    const admitted = this.#start(slot, incumbent, isFirst);
    // A worker that cannot be started is killed.
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

  async #start(slot: number, incumbent: SlotProcess, isFirst: boolean): Promise<void> {
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

  #forget(incumbent: SlotProcess): void {
    void this.#passLeasesOn(incumbent.instance);
    if (this.#holding.delete(incumbent)) this.#fallen.add(incumbent.instance);
    // The remains of a forgotten worker are removed when the next first worker opens the store.
    const [oldest] = this.#fallen;
    if (this.#fallen.size > MOST_FALLEN && oldest !== undefined) this.#fallen.delete(oldest);
    this.#noteDrained();
  }

  /**
   * Frees the leases of a dead process. Before that, all other workers learn that it writes nothing any more, and that what is
   * stored under its keys may have changed: it may have died before it could announce a change.
   */
  async #passLeasesOn(instance: string): Promise<void> {
    const { leases } = this.#parts;
    const keys = leases.keysOf(instance);
    if (!this.#isStopping)
      await this.#tellOthers(instance, { kind: 'store', change: { kind: 'fallen', instances: [instance] } });
    if (!this.#isStopping && keys.length > 0)
      await this.#tellOthers(instance, { kind: 'store', change: { kind: 'keys', keys } });
    leases.noteDeath(instance);
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

/** A worker that takes part in a reload. Later workers of its slot do not. */
interface Member {
  readonly slot: WorkerSlot;
  readonly incumbent: SlotProcess;
}

/**
 * Makes all members prepare the configuration; `begin` is called for each before. Rejects where one of them cannot, after all
 * have answered. A member that dies meanwhile does not count: its replacement starts with the active configuration.
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

/** Makes all members discard what they have prepared. */
async function abandonAll(members: readonly Member[]): Promise<void> {
  await Promise.all(
    members.map((member) =>
      withWorker(member, 'it could not discard a configuration', (remote) => remote.abandonReload()),
    ),
  );
}

/** Makes all members use what they have prepared, and returns the addresses that they serve. A member that cannot is replaced. */
async function commitAll(members: readonly Member[]): Promise<readonly string[] | undefined> {
  const addresses = await Promise.all(
    members.map((member) =>
      withWorker(member, 'it could not use another configuration', (remote) => remote.commitReload()),
    ),
  );
  return addresses.find((each) => each !== undefined);
}

/** Calls a member. One that fails is in an unknown state, and is killed. */
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

/** How long a worker may take to apply an invalidation message, in milliseconds: until then it may serve what was purged. */
const APPLY_MS = 10_000;

/** Sends a message to these workers. Resolves when each has applied it or has ended. One that fails, or takes too long, is killed. */
async function relayNews(
  news: InvalidationMessage,
  slots: readonly WorkerSlot[],
  clock: Pick<Clock, 'after'>,
): Promise<void> {
  await Promise.all(
    slots.map(async (slot) => {
      const { incumbent } = slot;
      if (incumbent !== undefined) await relayToOne(news, slot, incumbent, clock);
    }),
  );
}

async function relayToOne(
  news: InvalidationMessage,
  slot: WorkerSlot,
  { process }: SlotProcess,
  clock: Pick<Clock, 'after'>,
): Promise<void> {
  const end = (reason: string): void => {
    if (slot.incumbent?.process === process) slot.kill(reason);
  };
  const cancel = clock.after(APPLY_MS, () => end(`it did not apply an invalidation within ${APPLY_MS / 1000} s`));
  try {
    await process.remote.applyInvalidation(news);
  } catch (error) {
    if (!(error instanceof ChannelGone)) end(`it could not apply an invalidation: ${(error as Error).message}`);
    await process.ended;
  } finally {
    cancel();
  }
}
