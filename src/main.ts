/** Composition root of a server of one process: builds the server from a configuration, and reloads it. Holds no rule of its own. */

import { OperationFault, type Operations } from './admin/operations.ts';
import type { Config } from './config/schema.ts';
import {
  type Admin,
  type AdminGround,
  createAdminGround,
  createDashboardLink,
  hasAdmin,
  openAdmin,
  openAdminSocket,
} from './setup/admin.ts';
import type { Prepared } from './setup/listeners.ts';
import { createOperations, createServingParts, type ServingParts } from './setup/operations.ts';
import { createReloads, type Reloads } from './setup/reload.ts';
import {
  type ConfigReading,
  describeAdmin,
  describeOrigins,
  type RunningServer,
  type StartOptions,
} from './setup/running-server.ts';
import { openServer, type Server } from './setup/server.ts';
import type { PlacedStoreConfig } from './setup/store.ts';
import { choosePseudonym, systemClock } from './setup/system.ts';
import { openTelemetry, type Telemetry } from './setup/telemetry.ts';
import type { Emit } from './telemetry/events.ts';

export type { ConfigReading, RunningServer, StartOptions };

/**
 * Starts a server in this process; `workers` is ignored. Rejects with Node's error when an address cannot be bound or a
 * certificate file cannot be read, and with `StoreFault` when the store's directory cannot be used. Nothing is left open then.
 */
export async function start(config: Config, options: StartOptions = {}): Promise<RunningServer> {
  const { emit = () => {}, log } = options;
  const readDroppedLines = () => log?.readDroppedLines?.() ?? 0;
  const telemetry = openTelemetry({ log: emit, readDroppedLines, role: { kind: 'alone' } });
  // Without an admin listener nothing reads the metrics, so events are not counted.
  const running = new SoleProcess({ ...options, emit: hasAdmin(config, options) ? telemetry.emit : emit }, telemetry);
  await running.open(config);
  return running;
}

/** A server of one process. */
class SoleProcess implements RunningServer {
  readonly operations: Operations;
  readonly #options: StartOptions;
  readonly #emit: Emit;
  readonly #telemetry: Telemetry;
  readonly #reloads: Reloads;
  readonly #ground: AdminGround;
  #admin: Admin | undefined;
  /** The admin listener on the default Unix socket (`openAdminSocket`). */
  #socket: Admin | undefined;
  #server: Server | undefined;
  #serving: ServingParts | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: StartOptions & { readonly emit: Emit }, telemetry: Telemetry) {
    this.#options = options;
    this.#emit = options.emit;
    this.#telemetry = telemetry;
    this.#reloads = createReloads({
      emit: options.emit,
      addresses: () => this.addresses,
      perform: () => this.#performReload(),
    });
    this.operations = createOperations({
      pid: process.pid,
      worker: 1,
      serving: () => this.#serving,
      log: options.log,
      counted: telemetry,
      now: systemClock.now,
      isStopping: () => this.#closing !== undefined,
      addresses: () => this.addresses,
      reload: () => this.#reloads.reload(),
    });
    this.#ground = createAdminGround(this.operations, options.emit);
  }

  get url(): string {
    return this.addresses[0] ?? '';
  }

  get addresses(): readonly string[] {
    return this.#server?.addresses ?? [];
  }

  async open(config: Config): Promise<void> {
    await using resources = new AsyncDisposableStack();
    // Opened first, so that it can answer that the server is not ready yet.
    this.#admin = await openAdmin(config, this.#ground);
    resources.defer(() => this.#admin?.close(0));
    const openBeside = async (store: PlacedStoreConfig) => {
      this.#socket = await openAdminSocket(config, store, this.#ground);
      return this.#socket;
    };
    const server = await openServer(config, {
      emit: this.#emit,
      pseudonym: choosePseudonym(config),
      openBeside: this.#options.adminSocket === true ? openBeside : undefined,
    });
    resources.move();
    this.#server = server;
    this.#serving = createServingParts(server);
    this.#telemetry.measure(server);
    const { addresses, place } = server;
    const where = `ready on ${addresses.join(' and ')}, in front of ${describeOrigins(config)}, storing in ${place}`;
    const message = `${where}${describeAdmin(this.#admin, this.#socket)}`;
    this.#emit({ kind: 'life', stage: 'ready', addresses, admin: (this.#admin ?? this.#socket)?.address, message });
  }

  createDashboardLink(): string | undefined {
    return createDashboardLink(this.#ground);
  }

  reload(): Promise<void> {
    return this.#reloads.reload();
  }

  close({ graceMs }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(graceMs);
    return this.#closing;
  }

  async #close(graceMs: number | undefined): Promise<void> {
    this.#reloads.end();
    await this.#server?.close(graceMs);
    await this.#admin?.close(0);
  }

  /** Performs one reload: reads the configuration again, and activates it. */
  async #performReload(): Promise<void> {
    const server = this.#server;
    if (server === undefined) throw new OperationFault('unavailable', 'The server is starting.');
    const { readAgain, log } = this.#options;
    const config = readAgain === undefined ? server.site.config : (await readAgain()).config;
    const prepared = await this.#prepare(server, config);
    await prepared.commit();
    log?.setLevel(config.log.level);
  }

  async #prepare(server: Server, config: Config): Promise<Prepared> {
    const { explain } = this.#options;
    try {
      await using resources = new AsyncDisposableStack();
      const prepared = resources.adopt(await server.prepareReload(config), (each) => each.abandon());
      await this.#admin?.renewToken();
      resources.move();
      return prepared;
    } catch (error) {
      if (error instanceof OperationFault || explain === undefined) throw error;
      throw new OperationFault('invalid', explain(error, config));
    }
  }
}
