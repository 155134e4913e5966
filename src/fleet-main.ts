/** Composition root of a server of several processes: a supervisor in this process, and the workers that it starts. */

import { rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type LogLevel, OperationFault, type Operations } from './admin/operations.ts';
import { longestSocketPath } from './config/address.ts';
import type { Config } from './config/schema.ts';
import type { ConfigSource, WorkerStart } from './fleet/channel.ts';
import { createLeaseTable } from './fleet/leases.ts';
import { createFleetOperations } from './fleet/operations.ts';
import { peerSocketPath } from './fleet/peer-server.ts';
import { Supervisor } from './fleet/supervisor.ts';
import { FleetSockets } from './fleet/supervisor-sockets.ts';
import { forkWorker, workerBackoff, workerHeartbeat } from './fleet/worker-slot.ts';
import { ListenFault, type PassedSocket, takePassedSockets } from './listener/accept/bind.ts';
import {
  type Admin,
  type AdminGround,
  createAdminGround,
  createDashboardLink,
  hasAdmin,
  openAdmin,
  openAdminSocket,
} from './setup/admin.ts';
import { listenPlaces } from './setup/listeners.ts';
import { describeConfig } from './setup/operations.ts';
import { programArguments } from './setup/package-files.ts';
import { createReloads, describeFixedChanges, type Reloads } from './setup/reload.ts';
import {
  type ConfigReading,
  describeAdmin,
  describeOrigins,
  type RunningServer,
  type StartOptions,
} from './setup/running-server.ts';
import { describePlace, ownDirectory, type PlacedStoreConfig, withDirectory } from './setup/store.ts';
import { choosePseudonym, monotonicClock, randomFraction, randomId, secondsToMs, systemClock } from './setup/system.ts';
import { openTelemetry, type Telemetry } from './setup/telemetry.ts';
import { lockDirectory } from './store/disk/index/directory-lock.ts';
import type { Emit } from './telemetry/events.ts';

/** Length of the random part of a worker's instance name, in characters. */
const idLength = 16;
/** Number of characters that `mkdtemp` appends to the name of a directory. */
const suffixLength = 6;

/** Returns the number of workers that a configuration asks for; "auto" counts the available processors. */
export function countWorkers({ workers }: Pick<Config, 'workers'>): number {
  return workers === 'auto' ? availableParallelism() : workers;
}

/**
 * Starts a supervisor in this process, and the workers that serve. Resolves when all workers serve. Rejects as `start` does;
 * nothing is left then. Each worker logs its own requests, on the standard output of this process.
 */
export async function startFleet(config: Config, source: ConfigSource, options: StartOptions): Promise<RunningServer> {
  const { emit = () => {}, log } = options;
  const readDroppedLines = () => log?.readDroppedLines?.() ?? 0;
  const telemetry = openTelemetry({ log: emit, readDroppedLines, role: { kind: 'supervisor' } });
  // Without an admin listener nothing reads the metrics, so events are not counted.
  const fleetOptions = { ...options, emit: hasAdmin(config, options) ? telemetry.emit : emit };
  const fleet = new Fleet({ config, source }, fleetOptions, telemetry);
  await fleet.open();
  return fleet;
}

/**
 * Creates the directory of the sockets by which workers reach each other. No other user can enter it. Rejects with `ListenFault`
 * where the path of such a socket would be too long.
 */
async function createPeersDir(): Promise<string> {
  const parent = tmpdir();
  const longest = peerSocketPath(join(parent, `rangeway-${'x'.repeat(suffixLength)}`), `w9999${'x'.repeat(idLength)}`);
  if (Buffer.byteLength(longest) > longestSocketPath) {
    throw new ListenFault(`cannot start: the path ${parent} is too long for sockets in it; choose another with TMPDIR`);
  }
  return await mkdtemp(join(parent, 'rangeway-'));
}

/** A server of several processes. */
class Fleet implements RunningServer {
  readonly operations: Operations;
  readonly #options: StartOptions & { readonly emit: Emit };
  readonly #reloads: Reloads;
  readonly #resources = new AsyncDisposableStack();
  readonly #ground: AdminGround;
  #reading: ConfigReading;
  #passed: readonly PassedSocket[] = [];
  #store: PlacedStoreConfig | undefined;
  #admin: Admin | undefined;
  /** The admin listener on the default Unix socket (`openAdminSocket`). */
  #socket: Admin | undefined;
  #supervisor: Supervisor | undefined;
  #closing: Promise<void> | undefined;

  constructor(reading: ConfigReading, options: StartOptions & { readonly emit: Emit }, telemetry: Telemetry) {
    const { emit, log } = options;
    this.#reading = reading;
    this.#options = options;
    this.#reloads = createReloads({ emit, addresses: () => this.addresses, perform: () => this.#performReload() });
    this.operations = createFleetOperations({
      roster: () => this.#supervisor?.roster() ?? [],
      isStopping: () => this.#closing !== undefined,
      addresses: () => this.addresses,
      readConfig: () => describeConfig(this.#config),
      readLogLevel: () => log?.readLevel() ?? 'silent',
      keepLogLevel: (level) => this.#keepLogLevel(level),
      reload: () => this.reload(),
      mergeMetrics: (readings) => telemetry.merge(readings),
      totalMetrics: (readings) => telemetry.totalOf(readings),
      now: systemClock.now,
      wait: (ms, signal) => delay(ms, undefined, { signal }).catch(() => undefined),
    });
    this.#ground = createAdminGround(this.operations, emit);
  }

  get #config(): Config {
    return this.#reading.config;
  }

  get url(): string {
    return this.addresses[0] ?? '';
  }

  get addresses(): readonly string[] {
    return this.#supervisor?.addresses ?? [];
  }

  async open(): Promise<void> {
    const { emit } = this.#options;
    const config = this.#config;
    await using opened = new AsyncDisposableStack();
    opened.defer(() => this.#resources.disposeAsync());
    const { supervisor, store } = await this.#assemble();
    await supervisor.open();
    opened.move();
    const { addresses } = this;
    const where = `ready on ${addresses.join(' and ')}, in front of ${describeOrigins(config)}`;
    const what = `storing in ${describePlace(store)}, with ${countWorkers(config)} workers${describeAdmin(this.#admin, this.#socket)}`;
    emit({
      kind: 'life',
      stage: 'ready',
      addresses,
      admin: (this.#admin ?? this.#socket)?.address,
      message: `${where}, ${what}`,
    });
  }

  createDashboardLink(): string | undefined {
    return createDashboardLink(this.#ground);
  }

  reload(): Promise<void> {
    return this.#reloads.reload();
  }

  close({
    graceMs = secondsToMs(this.#config.shutdownGraceSeconds),
  }: {
    readonly graceMs?: number;
  } = {}): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  /** Opens everything that the fleet needs before its workers are started. */
  async #assemble(): Promise<{ supervisor: Supervisor; store: PlacedStoreConfig }> {
    const resources = this.#resources;
    const config = this.#config;
    const workers = countWorkers(config);
    process.title = 'rangeway: supervisor';
    // Opened first, so that it can answer that the server is not ready yet.
    this.#admin = await openAdmin(config, this.#ground);
    resources.defer(() => this.#admin?.close(0));
    const store = await withDirectory(config, resources);
    this.#store = store;
    const shared = ownDirectory(store);
    if (shared !== undefined) resources.use(await lockDirectory(shared));
    if (this.#options.adminSocket === true) {
      this.#socket = await openAdminSocket(config, store, this.#ground);
      resources.defer(() => this.#socket?.close(0));
    }
    this.#passed = takePassedSockets(process.env, process.pid);
    const sockets = resources.adopt(new FleetSockets(workers), (opened) => opened.close());
    await sockets.open(listenPlaces(config, this.#passed));
    const peersDir = await createPeersDir();
    const removePeersDir = () => rmSync(peersDir, { recursive: true, force: true });
    resources.defer(removePeersDir);

    const supervisor = this.#createSupervisor(sockets, {
      workers,
      config: this.#placed(this.#reading.source),
      peersDir,
      machineSecret: randomId(),
      pseudonym: choosePseudonym(config),
      passed: this.#passed,
      logLevel: config.log.level,
    });
    // However this process exits, no worker may stay behind and accept connections.
    const endAll = () => {
      supervisor.kill();
      removePeersDir();
    };
    process.on('exit', endAll);
    resources.defer(() => void process.off('exit', endAll));
    return { supervisor, store };
  }

  #createSupervisor(sockets: FleetSockets, ground: Omit<WorkerStart, 'id' | 'instance' | 'isFirst' | 'fallen'>) {
    this.#supervisor = new Supervisor({
      workers: ground.workers,
      fork: (calls) => forkWorker([...programArguments(), 'worker'], calls),
      clock: monotonicClock,
      random: randomFraction,
      randomId: () => randomId().slice(0, idLength),
      emit: this.#options.emit,
      backoff: workerBackoff,
      heartbeat: workerHeartbeat,
      sockets,
      leases: createLeaseTable(monotonicClock),
      peerSocket: (instance) => peerSocketPath(ground.peersDir, instance),
      ground,
    });
    return this.#supervisor;
  }

  /** Returns the configuration with the store's directory, which it need not name and all workers share. */
  #placed({ value, directory }: ConfigSource): ConfigSource {
    if (this.#store?.type !== 'disk') return { value, directory };
    const { store, ...rest } = value as { readonly store?: object };
    return { value: { ...rest, store: { ...store, dir: this.#store.dir } }, directory };
  }

  #keepLogLevel(level: LogLevel): void {
    this.#options.log?.setLevel(level);
    this.#supervisor?.keep({ logLevel: level });
  }

  /** Performs one reload: reads the configuration again, and has all workers activate it. */
  async #performReload(): Promise<void> {
    const supervisor = this.#supervisor;
    if (supervisor === undefined) throw new OperationFault('unavailable', 'The server is starting.');
    const { config, source } = (await this.#options.readAgain?.()) ?? this.#reading;
    const fixed = describeFixedChanges(this.#config, config);
    if (fixed !== undefined) throw new OperationFault('invalid', fixed);
    await this.#explained(config, () => {
      const places = listenPlaces(config, this.#passed);
      return supervisor.reload(this.#placed(source), places, async () => await this.#admin?.renewToken());
    });
    this.#forgetPassed(config);
    this.#reading = { config, source };
    this.#keepLogLevel(config.log.level);
  }

  /** Forgets passed sockets that were closed. Their descriptors may soon belong to something else. */
  #forgetPassed(next: Config): void {
    const descriptorsOf = (config: Config) =>
      listenPlaces(config, this.#passed).flatMap(({ place }) => (place.kind === 'passed' ? [place.fd] : []));
    const before = descriptorsOf(this.#config);
    const after = descriptorsOf(next);
    this.#passed = this.#passed.filter(({ fd }) => !before.includes(fd) || after.includes(fd));
    this.#supervisor?.keep({ passed: this.#passed });
  }

  async #explained(config: Config, change: () => Promise<void>): Promise<void> {
    const { explain } = this.#options;
    try {
      await change();
    } catch (error) {
      if (error instanceof OperationFault || explain === undefined) throw error;
      throw new OperationFault('invalid', explain(error, config));
    }
  }

  async #close(graceMs: number): Promise<void> {
    const { emit } = this.#options;
    const { addresses } = this;
    this.#reloads.end();
    const stopped = this.#supervisor?.stop(graceMs);
    emit({ kind: 'life', stage: 'stopping', addresses, message: 'stopping: no new connections' });
    await stopped;
    await this.#resources.disposeAsync();
    emit({ kind: 'life', stage: 'stopped', addresses, message: 'stopped' });
  }
}
