/**
 * The commands that a store and a fleet send to an engine (Redis or Valkey): with a time-out, a bound on what waits, and a circuit
 * breaker for each server, so that a slow or absent engine holds up nothing. Read engine-links.ts next.
 */

import { createHash } from 'node:crypto';
import type { Clock } from '../../http/clock.ts';
import { connectionReason } from './connection-reasons.ts';
import { type CommandPart, createEngineLinks, type EngineLinks, type LinkOptions } from './engine-links.ts';

/**
 * Why a command failed. `away`: there is no connection, or the circuit breaker is open, or too much waits already. `slow`: no answer in
 * time. `full`: the engine has no memory left. `readonly`: it takes no writes, as a replica or after a failed save. `refused`: any
 * other error that the engine answered.
 */
export type EngineFaultReason = 'away' | 'slow' | 'full' | 'readonly' | 'refused';

/** A command that failed. Whether the engine has executed it is unknown after `away` and `slow`. */
export class EngineFault extends Error {
  readonly reason: EngineFaultReason;

  constructor(reason: EngineFaultReason, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EngineFault';
    this.reason = reason;
  }
}

/** Options of a client. */
export interface RedisClientSettings extends Omit<LinkOptions, 'silenceMs' | 'maxWaiting'> {
  readonly commandTimeoutMs: number;
  /** Maximum size of the commands that wait for their answers, in bytes. More are refused as `away`. */
  readonly queueBytes: number;
}

/** Options that the process gives. */
export interface RedisClientOptions extends RedisClientSettings {
  /** Milliseconds that never go back; its timers do not keep the process alive. */
  readonly clock: Clock;
  /** Called when the engine, or a server of a Cluster, cannot be reached any more, and when all can again. */
  readonly onChange?: (isAway: boolean, detail: string) => void;
}

/** The state of a breaker that is open: no command goes to its server until a PING was answered. */
interface OpenBreaker {
  delayMs: number;
}

/** A client of an engine. */
export interface RedisClient {
  /** Whether some server is known to be away. */
  readonly isAway: boolean;
  /** Resolves when the engine has answered for the first time, or the first attempt to connect has failed. Never rejects. */
  readonly started: Promise<void>;
  /** Sends a command about one key. Rejects with `EngineFault`. Texts in the reply are Buffers. */
  send(key: string, parts: readonly CommandPart[], isReadOnly?: boolean): Promise<unknown>;
  /**
   * Runs a Lua script. All keys are in one slot of a Cluster. Calls for one key run in the order in which they were made. Rejects with
   * `EngineFault`. Texts in the reply are Buffers.
   */
  run(script: string, keys: readonly string[], args: readonly CommandPart[]): Promise<unknown>;
  /** Returns the names of the servers that have keys. They change when a Cluster changes. */
  nodes(): readonly string[];
  /** Sends a command to one server. Rejects with `EngineFault`. */
  sendTo(node: string, parts: readonly CommandPart[]): Promise<unknown>;
  /**
   * Resolves when a stream has an entry after the id `after`, or after `blockMs` milliseconds. Uses a connection of its own, because the
   * wait blocks it. Rejects with `EngineFault`.
   */
  untilAppended(stream: string, after: string, blockMs: number): Promise<void>;
  /** The address of this machine that the engine sees; undefined before the first connection, and over a Unix socket. */
  localAddress(): string | undefined;
  /** Closes all connections. Running commands reject. */
  close(): void;
}

/** Connects to an engine, in the background if it is away. Wrong credentials count as away, too: `onChange` receives the reason. */
export function openRedisClient(options: RedisClientOptions): RedisClient {
  return new BreakingClient(options);
}

/** Failures in a row after which a breaker opens. */
const FAILURES_TO_OPEN = 3;
/** First and longest interval of the PINGs to a server whose breaker is open, in milliseconds. */
const FIRST_PROBE_MS = 100;
const LAST_PROBE_MS = 2000;
/** Interval of the attempts to connect for the first time, in milliseconds. */
const CONNECT_AGAIN_MS = 500;
/** Bytes that a command counts beside its texts. */
const COMMAND_BYTES = 200;
/** Number of commands that may wait in the library. `queueBytes` is the bound that counts. */
const MAX_WAITING = 100_000;

class BreakingClient implements RedisClient {
  readonly #options: RedisClientOptions;
  readonly #started = Promise.withResolvers<void>();
  readonly #cancelStart: () => void;
  readonly #hashes = new Map<string, string>();
  readonly #failures = new Map<string, number>();
  readonly #breakers = new Map<string, OpenBreaker>();
  #links: EngineLinks | undefined;
  #blocking: { readonly links: EngineLinks; readonly ready: Promise<unknown> } | undefined;
  #waitingBytes = 0;
  #lastError = '';
  #localAddress: string | undefined;
  #isAway = false;
  #isClosed = false;

  constructor(options: RedisClientOptions) {
    this.#options = options;
    const { clock, connectTimeoutMs, tls } = options;
    this.#cancelStart = clock.after(connectTimeoutMs, () => {
      const guess = tls === undefined ? '' : '; perhaps it does not speak TLS on this port';
      if (this.#lastError === '') this.#lastError = `it has not answered within ${connectTimeoutMs / 1000} s${guess}`;
      this.#noteStarted();
    });
    void this.#connect().then(() => this.#noteStarted());
  }

  get started(): Promise<void> {
    return this.#started.promise;
  }

  get isAway(): boolean {
    return this.#links === undefined || this.#breakers.size > 0;
  }

  send(key: string, parts: readonly CommandPart[], isReadOnly = false): Promise<unknown> {
    const links = this.#links;
    if (links === undefined) return Promise.reject(this.#away());
    return this.#within(links.nodeOf(key), sizeOf(parts), () => links.send(key, isReadOnly, parts));
  }

  async run(script: string, keys: readonly string[], args: readonly CommandPart[]): Promise<unknown> {
    const [key = ''] = keys;
    const rest = [String(keys.length), ...keys, ...args];
    try {
      return await this.send(key, ['EVALSHA', this.#hashOf(script), ...rest]);
    } catch (error) {
      if (!isUnknownScript(error)) throw error;
      return this.send(key, ['EVAL', script, ...rest]);
    }
  }

  nodes(): readonly string[] {
    return this.#links?.nodes() ?? [];
  }

  sendTo(node: string, parts: readonly CommandPart[]): Promise<unknown> {
    const links = this.#links;
    if (links === undefined) return Promise.reject(this.#away());
    return this.#within(node, sizeOf(parts), () => links.sendTo(node, parts));
  }

  async untilAppended(stream: string, after: string, blockMs: number): Promise<void> {
    if (this.#links === undefined || this.#breakers.has(this.#links.nodeOf(stream))) throw this.#away();
    this.#blocking ??= this.#openBlocking();
    const { links, ready } = this.#blocking;
    const { clock, commandTimeoutMs } = this.#options;
    const parts = ['XREAD', 'BLOCK', String(blockMs), 'STREAMS', stream, after];
    const reading = ready.then(() => links.send(stream, true, parts));
    try {
      await withinMs(clock, blockMs + commandTimeoutMs, reading);
    } catch (error) {
      // The connection may have been lost in silence: the next call makes a new one.
      if (this.#blocking?.links === links) this.#blocking = undefined;
      links.destroy();
      throw toEngineFault(error);
    }
  }

  localAddress(): string | undefined {
    return this.#localAddress;
  }

  close(): void {
    this.#isClosed = true;
    this.#links?.destroy();
    this.#blocking?.links.destroy();
    this.#links = undefined;
  }

  #hashOf(script: string): string {
    const known = this.#hashes.get(script);
    if (known !== undefined) return known;
    const hash = createHash('sha1').update(script).digest('hex');
    this.#hashes.set(script, hash);
    return hash;
  }

  /** Notes that the first attempt to connect has succeeded or failed. */
  #noteStarted(): void {
    this.#cancelStart();
    if (this.#links === undefined) this.#tell(true);
    this.#started.resolve();
  }

  #createLinks(silenceMs: number): EngineLinks {
    const options = { ...this.#options, silenceMs, maxWaiting: MAX_WAITING };
    return createEngineLinks(options, (error) => {
      this.#lastError = connectionReason(error);
      // One node of a Cluster, or one Sentinel, says nothing about the others.
      const { kind } = this.#options.place;
      if (kind === 'server' || kind === 'socket') this.#noteStarted();
    });
  }

  #openBlocking(): { readonly links: EngineLinks; readonly ready: Promise<unknown> } {
    // The wait for a stream is silent by itself.
    const links = this.#createLinks(Math.max(30_000, this.#silenceMs));
    const ready = links.connect();
    ready.catch(() => {});
    return { links, ready };
  }

  get #silenceMs(): number {
    return Math.max(3000, 3 * this.#options.commandTimeoutMs);
  }

  /** Connects for the first time; afterwards the library connects again by itself. Resolves also when the client is closed. */
  async #connect(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#isClosed) {
      const links = this.#createLinks(this.#silenceMs);
      try {
        // The library waits for as long as there is no server; `close` ends that.
        this.#closeWith(links);
        await links.connect();
        await this.#readLocalAddress(links);
        if (this.#isClosed) return links.destroy();
        this.#links = links;
        this.#tell(false);
        return;
      } catch (error) {
        this.#lastError = connectionReason(error);
        this.#noteStarted();
        links.destroy();
        await new Promise<void>((resolve) => clock.after(CONNECT_AGAIN_MS, resolve));
      }
    }
  }

  #closeWith(links: EngineLinks): void {
    const { clock } = this.#options;
    const look = (): void => {
      if (this.#links === links) return;
      if (this.#isClosed) links.destroy();
      else clock.after(CONNECT_AGAIN_MS, look);
    };
    clock.after(CONNECT_AGAIN_MS, look);
  }

  async #readLocalAddress(links: EngineLinks): Promise<void> {
    const { clock, commandTimeoutMs } = this.#options;
    const asked = links.nodes().map((node) =>
      links.sendTo(node, ['CLIENT', 'INFO']).catch((error: unknown) => {
        // A user without the right to this command needs no address unless it has peers.
        if (messageOf(error).startsWith('NOPERM')) return '';
        // Without a password the engine takes the connection and refuses every command.
        throw error;
      }),
    );
    // A master of a Cluster may be dead.
    const first = Promise.any(asked).catch(({ errors }: AggregateError) => Promise.reject(errors[0]));
    const info = String(await withinMs(clock, commandTimeoutMs, first));
    this.#localAddress = /(?:^| )addr=\[?([0-9a-f.:]+?)\]?:\d+(?: |$)/.exec(info)?.[1];
  }

  /** Runs a command for a server, within the bounds of time and size. */
  async #within(node: string, sizeBytes: number, send: () => Promise<unknown>): Promise<unknown> {
    const { clock, commandTimeoutMs, queueBytes } = this.#options;
    if (this.#breakers.has(node)) throw this.#away();
    if (this.#waitingBytes > 0 && this.#waitingBytes + sizeBytes > queueBytes) {
      throw new EngineFault('away', 'Too much waits for the engine already.');
    }
    this.#waitingBytes += sizeBytes;
    const sent = send().finally(() => {
      // Not when the time is over: the library has the command until it is answered, or its connection is closed.
      this.#waitingBytes -= sizeBytes;
    });
    try {
      const reply = await withinMs(clock, commandTimeoutMs, sent);
      this.#failures.delete(node);
      return reply;
    } catch (error) {
      const fault = toEngineFault(error);
      if (fault.reason === 'away' || fault.reason === 'slow') this.#noteFailure(node, fault);
      else this.#failures.delete(node);
      throw fault;
    }
  }

  #noteFailure(node: string, { message }: EngineFault): void {
    const count = (this.#failures.get(node) ?? 0) + 1;
    this.#failures.set(node, count);
    if (count < FAILURES_TO_OPEN || this.#breakers.has(node) || this.#isClosed) return;
    this.#lastError = message;
    this.#breakers.set(node, { delayMs: FIRST_PROBE_MS });
    this.#tell(true);
    this.#scheduleProbe(node);
  }

  #scheduleProbe(node: string): void {
    const breaker = this.#breakers.get(node);
    if (breaker === undefined || this.#isClosed) return;
    this.#options.clock.after(breaker.delayMs, () => void this.#probe(node, breaker));
  }

  /** Sends a PING to a server whose breaker is open, and closes the breaker when it is answered in time. */
  async #probe(node: string, breaker: OpenBreaker): Promise<void> {
    const links = this.#links;
    if (links === undefined || this.#isClosed) return;
    const { clock, commandTimeoutMs } = this.#options;
    const isGone = node !== '' && !links.nodes().includes(node);
    try {
      if (!isGone) await withinMs(clock, commandTimeoutMs, links.sendTo(node, ['PING']));
      this.#breakers.delete(node);
      this.#failures.delete(node);
      if (this.#breakers.size === 0) this.#tell(false);
    } catch (error) {
      this.#lastError = connectionReason(error);
      breaker.delayMs = Math.min(2 * breaker.delayMs, LAST_PROBE_MS);
      this.#scheduleProbe(node);
    }
  }

  #tell(isAway: boolean): void {
    if (this.#isClosed || this.#isAway === isAway) return;
    this.#isAway = isAway;
    this.#options.onChange?.(isAway, this.#lastError);
  }

  #away(): EngineFault {
    const reason = this.#lastError === '' ? '' : `: ${this.#lastError}`;
    return new EngineFault('away', `The engine cannot be reached${reason}`);
  }
}

/** Returns about how many bytes a command takes while it waits. */
function sizeOf(parts: readonly CommandPart[]): number {
  return parts.reduce((sum, { length }) => sum + length, COMMAND_BYTES);
}

/** Waits for a call for so many milliseconds; rejects with `EngineFault` `slow` after that. */
async function withinMs<T>(clock: Clock, limitMs: number, call: Promise<T>): Promise<T> {
  call.catch(() => {});
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const cancel = clock.after(limitMs, () => {
    reject(new EngineFault('slow', `The engine has not answered within ${limitMs} ms.`));
  });
  call.then(resolve, reject);
  try {
    return await promise;
  } finally {
    cancel();
  }
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof EngineFault && error.message.startsWith('NOSCRIPT');
}

/** Errors that the engine answers, by the word that they begin with. */
const reasonOfWord: Readonly<Record<string, EngineFaultReason>> = {
  OOM: 'full',
  READONLY: 'readonly',
  MISCONF: 'readonly',
  NOREPLICAS: 'readonly',
  CLUSTERDOWN: 'away',
  MASTERDOWN: 'away',
  LOADING: 'away',
  TRYAGAIN: 'away',
  BUSY: 'away',
};

function toEngineFault(error: unknown): EngineFault {
  if (error instanceof EngineFault) return error;
  const message = messageOf(error);
  const [, word = ''] = /^-?([A-Z]+)(?: |$)/.exec(message) ?? [];
  // A script reports an error of a command in it with words of its own around.
  const inner = /\b(OOM|READONLY|MISCONF|NOREPLICAS)\b/.exec(message)?.[1] ?? word;
  const reason = reasonOfWord[inner] ?? (word === '' ? 'away' : 'refused');
  return new EngineFault(reason, message, { cause: error });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}
