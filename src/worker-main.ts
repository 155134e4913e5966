/** Composition root of a worker: opens a server on the sockets that its supervisor hands over, and answers the supervisor's calls. */

import { rmdir } from 'node:fs/promises';
import type { InvalidationMessage } from './cache/fleet.ts';
import { checkConfig } from './config/load.ts';
import type { Config } from './config/schema.ts';
import {
  type Calls,
  type ChannelEnd,
  type ConfigSource,
  openChannel,
  type Remote,
  type SupervisorCalls,
  type WorkerCalls,
  type WorkerStart,
} from './fleet/channel.ts';
import { createPeerFleet } from './fleet/peer-client.ts';
import { openPeerServer, type PeerServer } from './fleet/peer-server.ts';
import { createReceivedSockets } from './fleet/worker-sockets.ts';
import type { Prepared } from './setup/listeners.ts';
import { createServingParts, createWorkerOperations } from './setup/operations.ts';
import { openServer, type PeerGround, type Server } from './setup/server.ts';
import { monotonicClock, secondsToMs, systemClock } from './setup/system.ts';
import { openTelemetry } from './setup/telemetry.ts';
import type { Sharing, StoreChange } from './store/store.ts';
import type { Emit } from './telemetry/events.ts';
import { createLog, type Log, type LogStream } from './telemetry/log.ts';

/** The parts of its process that a worker uses. */
export interface WorkerHost {
  /** This process's end of the channel to the supervisor. */
  readonly end: ChannelEnd;
  /** Where the log is written. */
  readonly logStream: LogStream;
  /** Sets the title of the process, which tools such as `ps` show. */
  setTitle(title: string): void;
  /** Exits at once. */
  exit(code: number): void;
}

/** How long the worker may take to end beyond the grace period of its connections, in milliseconds. */
const STOP_MARGIN_MS = 5000;

/** Serves until the supervisor stops the worker or is gone. Resolves when nothing is left open. */
export async function runWorker(host: WorkerHost): Promise<void> {
  const worker = new Worker(host);
  await worker.ended;
}

class Worker {
  readonly #host: WorkerHost;
  readonly #supervisor: Remote<SupervisorCalls>;
  readonly #sockets = createReceivedSockets();
  readonly #end = Promise.withResolvers<void>();
  #emit: Emit = () => {};
  #log: Log | undefined;
  #start: WorkerStart | undefined;
  #opening: Promise<Server> | undefined;
  #server: Server | undefined;
  #isStopping = false;
  #prepared: { readonly change: Prepared; readonly config: Config } | undefined;
  /** Invalidation messages that arrived before the server was open. They are applied once it is. */
  readonly #earlyNews: InvalidationMessage[] = [];
  /** The calls that the supervisor can make. Those of the admin API are added once the server is open. */
  readonly #calls: Partial<WorkerCalls> = {
    takeSocket: (name, slot, handle) => {
      if (handle !== undefined) this.#sockets.add(name, slot, handle);
    },
    leaveSocket: (name, slot) => this.#sockets.leave(name, slot),
    beat: () => this.#server?.unreadyReason,
    start: (start) => this.#open(start),
    prepareReload: (config) => this.#prepare(config),
    commitReload: () => this.#commit(),
    abandonReload: () => this.#abandon(),
    applyInvalidation: (news) => this.#apply(news),
    stop: (graceMs) => this.#stop(graceMs),
  };

  constructor(host: WorkerHost) {
    this.#host = host;
    const { remote, gone } = openChannel<SupervisorCalls>(host.end, this.#calls as unknown as Calls);
    this.#supervisor = remote;
    void gone.then(() => this.#leave());
  }

  get ended(): Promise<void> {
    return this.#end.promise;
  }

  async #open(start: WorkerStart): Promise<{ readonly addresses: readonly string[] }> {
    this.#start = start;
    this.#host.setTitle(`rangeway: worker ${start.id}`);
    const config = checked(start.config);
    const { logStream: stream } = this.#host;
    const { now } = systemClock;
    const log = createLog({ ...config.log, level: start.logLevel, stream, now, worker: start.id });
    this.#log = log;
    // The supervisor logs the start and the stop, once for all workers.
    const ownLog: Emit = (event) => {
      if (event.kind !== 'life' || event.stage === 'cut') log(event);
    };
    const telemetry = openTelemetry({
      log: ownLog,
      readDroppedLines: log.readDroppedLines,
      role: { kind: 'worker', id: start.id },
    });
    // Without an admin listener nothing reads the metrics, so events are not counted.
    this.#emit = config.admin === 'off' ? ownLog : telemetry.emit;
    this.#opening = this.#openServer(start, config);
    const server = await this.#opening;
    const serving = createServingParts(server);
    telemetry.measure(server);
    Object.assign(
      this.#calls,
      createWorkerOperations({ worker: start.id, serving: () => serving, log, counted: telemetry }),
    );
    for (const news of this.#earlyNews) await server.cache.applyInvalidation(news);
    this.#server = server;
    // Requests are accepted from here on: all earlier invalidation messages have been applied.
    await this.#sockets.begin();
    return { addresses: server.addresses };
  }

  async #openServer(start: WorkerStart, config: Config): Promise<Server> {
    const { pseudonym, passed, instance, isFirst, fallen, workers, peersDir, machineSecret } = start;
    const fleet = createPeerFleet(this.#supervisor, monotonicClock);
    const announce = (change: StoreChange) => fleet.announce({ kind: 'store', change });
    const sharing: Sharing = { instance, isFirst, fallen, announce };
    const openPeers = async (ground: PeerGround) => {
      const peers = await openPeerServer({ ...ground, dir: peersDir, instance, clock: monotonicClock });
      return { close: () => this.#closePeers(peers) };
    };
    const company = { fleet, openSocket: this.#sockets.openSocket, passed, openPeers, sharing, machineSecret, workers };
    return await openServer(config, { emit: this.#emit, pseudonym, company });
  }

  /** While the fleet stops, other workers may still read fills of this one for their clients. Waits until none has a client. */
  async #closePeers(peers: PeerServer): Promise<void> {
    if (this.#isStopping) await this.#supervisor.drained().catch(() => undefined);
    await peers.close();
  }

  async #prepare(source: ConfigSource): Promise<void> {
    const config = checked(source);
    const change = await this.#server?.prepareReload(config);
    this.#prepared = change && { change, config };
  }

  async #commit(): Promise<readonly string[]> {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    if (prepared === undefined) throw new Error('no configuration is ready');
    await prepared.change.commit();
    this.#log?.setLevel(prepared.config.log.level);
    return this.#server?.addresses ?? [];
  }

  async #abandon(): Promise<void> {
    const prepared = this.#prepared;
    this.#prepared = undefined;
    await prepared?.change.abandon();
  }

  async #apply(news: InvalidationMessage): Promise<void> {
    if (this.#server === undefined) this.#earlyNews.push(news);
    else await this.#server.cache.applyInvalidation(news);
  }

  async #stop(graceMs: number): Promise<void> {
    this.#isStopping = true;
    await this.#close(graceMs);
    // One turn later, so that the reply is sent to the supervisor before the process ends.
    setImmediate(() => this.#end.resolve());
  }

  async #close(graceMs?: number): Promise<void> {
    const server = await this.#opening?.catch(() => undefined);
    await server?.close(graceMs);
  }

  /** Stops as on the supervisor's call: without a supervisor the worker is not replaced, and learns of no purge by another one. */
  async #leave(): Promise<void> {
    const config = this.#server?.site.config;
    const graceMs = config === undefined ? 0 : secondsToMs(config.shutdownGraceSeconds);
    const cancel = systemClock.after(graceMs + STOP_MARGIN_MS, () => this.#host.exit(1));
    if (this.#start !== undefined) {
      const message = `worker ${this.#start.id} ends: its supervisor is gone`;
      this.#emit({ kind: 'fleet', level: 'warn', worker: undefined, stage: 'ended', message, detail: undefined });
    }
    await this.#close();
    // Fails for all workers but the last one, because the directory is not empty before.
    if (this.#start !== undefined) await rmdir(this.#start.peersDir).catch(() => undefined);
    cancel();
    this.#end.resolve();
  }
}

/** Checks the configuration in this process; what it refers to may have changed since the supervisor checked it. Throws `Error`. */
function checked({ value, directory }: ConfigSource): Config {
  const loaded = checkConfig(value, directory);
  if (loaded.kind === 'ok') return loaded.config;
  throw new Error(loaded.problems.map(({ path, message }) => `${path} ${message}`.trim()).join('; '));
}
