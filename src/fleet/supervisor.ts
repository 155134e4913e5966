/** Keeps the workers of a fleet running and together: it holds no store and serves no client. */

import { OperationFault } from '../admin/operations.ts';
import type { News } from '../cache/fleet.ts';
import type { Clock } from '../http/clock.ts';
import type { Emit } from '../telemetry/events.ts';
import type { BackoffOptions } from './backoff.ts';
import type { ConfigSource, SupervisorCalls, WorkerStart } from './calls.ts';
import { ChannelGone } from './channel.ts';
import type { RosterEntry } from './fleet-operations.ts';
import { abandonAll, commitAll, prepareAll } from './fleet-reload.ts';
import type { FleetSockets, NamedPlace } from './fleet-sockets.ts';
import { Handover } from './handover.ts';
import type { HeartbeatOptions } from './heartbeat.ts';
import type { LeaseTable } from './lease-table.ts';
import { relayNews } from './news-relay.ts';
import type { ForkWorker } from './worker-process.ts';
import { type Incumbent, WorkerSlot } from './worker-slot.ts';

/** What a supervisor is made of. */
export interface SupervisorParts {
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

  #tellOthers(instance: string, news: News): Promise<void> {
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
