/**
 * The connections to an engine (Redis or Valkey) with the library @redis/client: to one server, to a Cluster, or to the master that
 * Sentinels name. No other file imports the library. `redis-client.ts` adds time-outs, bounds and the circuit breaker.
 */

import { setTimeout as delay } from 'node:timers/promises';
import {
  createClient,
  createCluster,
  createSentinel,
  type RedisClientOptions as LibraryOptions,
  RESP_TYPES,
} from '@redis/client';

/** A host and a port. */
export interface EngineAddress {
  readonly host: string;
  readonly port: number;
}

/** Where the engine is. */
export type EnginePlace =
  | { readonly kind: 'server'; readonly address: EngineAddress }
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'cluster'; readonly nodes: readonly EngineAddress[] }
  | {
      readonly kind: 'sentinels';
      readonly nodes: readonly EngineAddress[];
      /** The name of the master, as the Sentinels know it. */
      readonly master: string;
      readonly username: string | undefined;
      readonly password: string | undefined;
    };

/** TLS to an engine. */
export interface EngineTls {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly rejectUnauthorized: boolean;
}

/** How to connect. */
export interface LinkOptions {
  readonly place: EnginePlace;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly database: number;
  /** Certificates and keys in PEM, and whether the certificate of the engine is checked. Undefined for plain TCP. */
  readonly tls: EngineTls | undefined;
  readonly connectTimeoutMs: number;
  /** A connection that has brought nothing for so long is made anew, in milliseconds. */
  readonly silenceMs: number;
  /** Maximum number of commands that wait in the library. */
  readonly maxWaiting: number;
}

/** A part of a command. Texts are sent as UTF-8. */
export type CommandPart = string | Buffer;

/** The connections to an engine. Bulk texts in replies are Buffers. Each call rejects at once while there is no connection. */
export interface EngineLinks {
  /** Returns a name for the server that has a key; of the only server without a key. It changes after a failover. */
  nodeOf(key: string | undefined): string;
  /** Sends a command to the server that has `key`, or to any where there is none. */
  send(key: string | undefined, isReadOnly: boolean, parts: readonly CommandPart[]): Promise<unknown>;
  /** Returns the names of all servers that have keys. */
  nodes(): readonly string[];
  /** Sends a command to a server of this name. */
  sendTo(node: string, parts: readonly CommandPart[]): Promise<unknown>;
  /** Connects. May reject, or wait for as long as there is no engine. */
  connect(): Promise<unknown>;
  /** Closes all connections; running commands reject. */
  destroy(): void;
}

/** Delay before a new connection is tried, in milliseconds. */
const RECONNECT_MS = 250;
/** Delay after which a Cluster is asked for its nodes again while one of them cannot be reached, in milliseconds. */
const REFRESH_MS = 500;

/**
 * No time-out of the library: redis-client.ts has one for every command. The library's makes an `AbortSignal` with a timer for each
 * command. The timer stays for its five seconds although the command was answered, and the garbage collector visits all of them.
 */
const commandOptions = { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer }, timeout: 0 } as const;

/** Creates the connections, which are made by `connect`. `onError` receives each fault of a connection. */
export function createEngineLinks(options: LinkOptions, onError: (error: Error) => void): EngineLinks {
  const { place } = options;
  if (place.kind === 'cluster') return new ClusterLinks(options, place.nodes, onError);
  if (place.kind === 'sentinels') return new SentinelLinks(options, place, onError);
  return new ServerLinks(options, onError);
}

/** Options of every connection to a server with keys. */
function clientOptions({ username, password, silenceMs, maxWaiting }: LinkOptions) {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    pingInterval: Math.floor(silenceMs / 3),
    commandsQueueMaxLength: maxWaiting,
  } as const satisfies Partial<LibraryOptions>;
}

function socketOptions({ tls, connectTimeoutMs, silenceMs }: LinkOptions) {
  const common = { connectTimeout: connectTimeoutMs, socketTimeout: silenceMs, reconnectStrategy: () => RECONNECT_MS };
  return tls === undefined ? common : ({ ...tls, ...common, tls: true } as const);
}

/** Returns the two members alone: the library takes any other for an option of its own. */
function addressOf({ host, port }: EngineAddress): EngineAddress {
  return { host, port };
}

class ServerLinks implements EngineLinks {
  readonly #client;

  constructor(options: LinkOptions, onError: (error: Error) => void) {
    const { place, database } = options;
    const socket =
      place.kind === 'socket'
        ? { ...socketOptions({ ...options, tls: undefined }), path: place.path, tls: false as const }
        : { ...socketOptions(options), ...(place.kind === 'server' ? addressOf(place.address) : {}) };
    this.#client = createClient({
      ...clientOptions(options),
      RESP: 2,
      database,
      socket,
      commandOptions,
    });
    this.#client.on('error', onError);
  }

  nodeOf(): string {
    return '';
  }

  send(_key: string | undefined, _isReadOnly: boolean, parts: readonly CommandPart[]): Promise<unknown> {
    return this.#client.sendCommand(parts);
  }

  nodes(): readonly string[] {
    return [''];
  }

  sendTo(_node: string, parts: readonly CommandPart[]): Promise<unknown> {
    return this.#client.sendCommand(parts);
  }

  connect(): Promise<unknown> {
    return this.#client.connect();
  }

  destroy(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }
}

class SentinelLinks implements EngineLinks {
  readonly #client;

  constructor(
    options: LinkOptions,
    place: Extract<EnginePlace, { kind: 'sentinels' }>,
    onError: (error: Error) => void,
  ) {
    const { username, password } = place;
    const socket = socketOptions(options);
    this.#client = createSentinel({
      name: place.master,
      sentinelRootNodes: place.nodes.map(addressOf),
      RESP: 2,
      masterPoolSize: 1,
      scanInterval: 1000,
      commandOptions,
      nodeClientOptions: { ...clientOptions(options), database: options.database, socket },
      sentinelClientOptions: { ...clientOptions({ ...options, username, password }), socket },
    });
    this.#client.on('error', onError);
    this.#client.on('client-error', ({ error }: { error: Error }) => onError(error));
  }

  nodeOf(): string {
    return '';
  }

  // All commands go to the master: a replica may not have yet what was just written.
  send(_key: string | undefined, _isReadOnly: boolean, parts: readonly CommandPart[]): Promise<unknown> {
    return this.#client.sendCommand(false, [...parts]);
  }

  nodes(): readonly string[] {
    return [''];
  }

  sendTo(_node: string, parts: readonly CommandPart[]): Promise<unknown> {
    return this.#client.sendCommand(false, [...parts]);
  }

  connect(): Promise<unknown> {
    return this.#client.connect();
  }

  destroy(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }
}

class ClusterLinks implements EngineLinks {
  readonly #client;
  #isRefreshing = false;

  constructor(options: LinkOptions, nodes: readonly EngineAddress[], onError: (error: Error) => void) {
    const defaults = { ...clientOptions(options), socket: socketOptions(options) };
    this.#client = createCluster({
      rootNodes: nodes.map((node) => ({ ...defaults, socket: { ...defaults.socket, ...addressOf(node) } })),
      defaults,
      RESP: 2,
      commandOptions,
      // Otherwise the library waits for every master that is named, and for ever for one that has died meanwhile.
      minimizeConnections: true,
      // The library looks only where a connection is lost that was there.
      topologyRefreshOnReconnectionAttemptStrategy: false,
    });
    this.#client.on('error', onError);
    this.#client.on('node-error', onError);
    this.#client.on('node-reconnecting', (node: EngineAddress) => void this.#refresh(node));
  }

  /** Asks the others for the nodes of the Cluster again: one that cannot be reached may have lost its slots. One at a time. */
  async #refresh({ host, port }: EngineAddress): Promise<void> {
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    // It reports failures as errors of the client, and is tried again.
    const asked = this.#client._slots.rediscover(undefined, new Set([`${host}:${port}`])).catch(() => {});
    await Promise.all([asked, delay(REFRESH_MS, undefined, { ref: false })]);
    this.#isRefreshing = false;
  }

  nodeOf(key: string | undefined): string {
    return key === undefined ? '' : (this.#client.slots[slotOf(key)]?.master.address ?? '');
  }

  send(key: string | undefined, isReadOnly: boolean, parts: readonly CommandPart[]): Promise<unknown> {
    return this.#client.sendCommand(key, isReadOnly, [...parts]);
  }

  nodes(): readonly string[] {
    return this.#client.masters.map(({ address }) => address);
  }

  async sendTo(node: string, parts: readonly CommandPart[]): Promise<unknown> {
    const master = this.#client.masters.find(({ address }) => address === node);
    if (master === undefined) throw new Error(`The Cluster has no master ${node} any more.`);
    const client = await this.#client.nodeClient(master);
    return client.sendCommand(parts);
  }

  connect(): Promise<unknown> {
    return this.#client.connect();
  }

  destroy(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }
}

/** Number of slots of a Cluster. */
const SLOTS = 16_384;

/** Returns the slot of a key in a Cluster: CRC-16 (XMODEM) of its hash tag, or of the whole key where it has none. */
export function slotOf(key: string): number {
  const open = key.indexOf('{');
  const close = open < 0 ? -1 : key.indexOf('}', open + 1);
  const hashed = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of Buffer.from(hashed)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = ((crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021) & 0xffff;
  }
  return crc % SLOTS;
}
