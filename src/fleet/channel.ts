/**
 * Calls between a supervisor and a worker over the channel that Node gives them: which calls there are (`WorkerCalls`,
 * `SupervisorCalls`), how they are sent, and how errors are sent back.
 */

import { type LogLevel, OperationFault, type StoreOperations, type WorkerOperations } from '../admin/operations.ts';
import type { InvalidationMessage } from '../cache/fleet.ts';
import { ListenFault, type PassedSocket } from '../listener/accept/bind.ts';
import { StoreFault, type StoreFaultReason } from '../store/store.ts';

/** A configuration as it was written, and its directory. Each process checks it by itself. */
export interface ConfigSource {
  readonly value: unknown;
  /** The directory that relative paths in it start from. */
  readonly directory: string;
}

/** Options with which a worker is started. */
export interface WorkerStart {
  /** The number of its slot, from 1 on. A worker that replaces a dead one has the same number. */
  readonly id: number;
  /** Identifies this process among all workers that ever ran in the fleet. Letters and digits. */
  readonly instance: string;
  /** The number of workers in the fleet, this one included. */
  readonly workers: number;
  readonly config: ConfigSource;
  /** A random text that all processes of this machine have, and no other one. */
  readonly machineSecret: string;
  /** The directory of the sockets by which workers reach each other. Only the user that runs them can enter it. */
  readonly peersDir: string;
  /** Whether no other process has the store open yet. */
  readonly isFirst: boolean;
  /** Instances that died with the store open. The worker removes what they left in it. */
  readonly fallen: readonly string[];
  /** Our name in Via, the same in all workers. */
  readonly pseudonym: string;
  /** The sockets that the service manager passed to the supervisor. They give places their names; `takeSocket` brings the sockets. */
  readonly passed: readonly PassedSocket[];
  /** The log level. It overrides the configuration's, because an operator may have changed it since. */
  readonly logLevel: LogLevel;
}

/** The calls of a supervisor to a worker. */
export interface WorkerCalls extends StoreOperations, WorkerOperations {
  /** Opens everything. Resolves with the addresses that the worker serves. */
  start(options: WorkerStart): Promise<{ readonly addresses: readonly string[] }>;
  /**
   * Takes a socket. Sent before the `start` or `prepareReload` that needs it. `name` identifies the place in its configuration. A
   * place has one socket for all workers (`slot` 0), or one for each. A worker also gets sockets of absent workers.
   */
  takeSocket(name: string, slot: number, socket?: Handle): void;
  /** Stops accepting on a socket: its own worker accepts on it again, or the configuration that needed it was abandoned. */
  leaveSocket(name: string, slot: number): void;
  /** Answers at once, unless the event loop is blocked: with why requests should be sent to other machines, if there is a reason. */
  beat(): string | undefined;
  /** Prepares another configuration without using it. Rejects where it cannot be used. */
  prepareReload(config: ConfigSource): Promise<void>;
  /** Uses the prepared configuration from now on. Resolves with the addresses that the worker serves. */
  commitReload(): Promise<readonly string[]>;
  /** Discards the prepared configuration. */
  abandonReload(): Promise<void>;
  /** Applies an invalidation message of another process. */
  applyInvalidation(news: InvalidationMessage): Promise<void>;
  /** Ends after the running requests, or `graceMs` later. Resolves when nothing is left open. */
  stop(graceMs: number): Promise<void>;
}

/** The holder of a lease: the process that asked, or another one and the path of its socket. */
export type LeaseReply =
  | { readonly kind: 'ours' }
  | { readonly kind: 'theirs'; readonly instance: string; readonly socket: string };

/** The calls of a worker to its supervisor. */
export interface SupervisorCalls {
  /**
   * Asks for a lease. `lost` is the instance of a holder that could not be reached: the answer waits until that process has died or
   * released the lease, for a limited time.
   */
  acquireLease(key: string, lost?: string): Promise<LeaseReply>;
  releaseLease(key: string): void;
  /** During a shutdown: reports that this worker has no client left. Resolves when none has: others may read from this worker. */
  drained(): Promise<void>;
  /** Sends an invalidation message to all other workers. Resolves when each of them has applied it or has ended. */
  announce(news: InvalidationMessage): Promise<void>;
}

/** A socket that can be handed over: `net.Server.listen` takes it, and Node can send it. */
export interface Handle {
  listen(...values: never[]): unknown;
  /** Closes it in this process. */
  close(): unknown;
}

/** One end of a channel: a child process, or this process towards its parent. */
export interface ChannelEnd {
  send?(message: unknown, handle?: Handle, options?: undefined, callback?: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown, handle: unknown) => void): unknown;
  once(event: 'disconnect', listener: () => void): unknown;
}

/** The calls that one side offers to the other. Arguments are plain data; the last one may be a socket that is handed over. */
// biome-ignore lint/suspicious/noExplicitAny: each call has arguments of its own kind.
export type Calls = { readonly [name in string]: (...values: any[]) => unknown };

/** The calls of the other side, as they are made over the channel. */
export type Remote<C> = {
  readonly [N in keyof C]: C[N] extends (...values: infer V) => infer R ? (...values: V) => Promise<Awaited<R>> : never;
};

/** An open channel. */
interface Channel<C> {
  readonly remote: Remote<C>;
  /** Resolves when the other process is gone. Unanswered calls then reject with `ChannelGone`. */
  readonly gone: Promise<void>;
  /** Ends the channel where the other process is known to be gone and no `disconnect` event comes. */
  leave(): void;
}

/** The other process was gone before it answered. */
export class ChannelGone extends Error {
  constructor() {
    super('The other process is gone.');
    this.name = 'ChannelGone';
  }
}

interface Call {
  readonly kind: 'call';
  readonly id: number;
  readonly name: string;
  readonly values: readonly unknown[];
}

interface Reply {
  readonly kind: 'reply';
  readonly id: number;
  readonly value?: unknown;
  readonly fault?: Fault;
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Opens a channel, and offers `local` to the other side. The processes must be forked with `serialization: 'advanced'`. */
export function openChannel<C>(end: ChannelEnd, local: Calls): Channel<C> {
  const waiting = new Map<number, Waiting>();
  const gone = Promise.withResolvers<void>();
  let isGone = false;
  let lastId = 0;

  const leave = () => {
    isGone = true;
    for (const { reject } of waiting.values()) reject(new ChannelGone());
    waiting.clear();
    gone.resolve();
  };
  /** Throws where a value cannot be cloned. */
  const send = (message: Call | Reply, handle?: Handle): void => {
    // `disconnect` reports that the other process is gone; messages sent before that event are lost.
    if (!isGone) end.send?.(message, handle, undefined, () => undefined);
  };
  const answer = async ({ id, name, values }: Call, handle: unknown): Promise<void> => {
    try {
      const call = Object.hasOwn(local, name) ? local[name] : undefined;
      if (call === undefined) throw new Error(`There is no call ${name}.`);
      const value = await call(...values, ...(handle === undefined ? [] : [handle]));
      send({ kind: 'reply', id, value });
    } catch (thrown) {
      send({ kind: 'reply', id, fault: describeFault(thrown) });
    }
  };
  const settle = ({ id, value, fault }: Reply): void => {
    const waiter = waiting.get(id);
    waiting.delete(id);
    if (fault === undefined) waiter?.resolve(value);
    else waiter?.reject(reviveFault(fault));
  };
  const ask = (name: string, values: readonly unknown[]): Promise<unknown> => {
    if (isGone) return Promise.reject(new ChannelGone());
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const id = ++lastId;
    const last = values.at(-1);
    const handle = isHandle(last) ? last : undefined;
    waiting.set(id, { resolve, reject });
    try {
      send({ kind: 'call', id, name, values: handle === undefined ? values : values.slice(0, -1) }, handle);
    } catch (thrown) {
      waiting.delete(id);
      reject(thrown as Error);
    }
    return promise;
  };

  end.on('message', (message, handle) => {
    const { kind } = Object(message) as { kind?: unknown };
    if (kind === 'call') void answer(message as Call, handle);
    if (kind === 'reply') settle(message as Reply);
  });
  end.once('disconnect', leave);

  const remote = new Proxy({} as Remote<C>, {
    // A remote has no `then`, so that it can be awaited without a call.
    get: (_, name) => {
      if (typeof name !== 'string' || name === 'then') return undefined;
      return (...values: unknown[]) => ask(name, values);
    },
  });
  return { remote, gone: gone.promise, leave };
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'listen' in value && typeof value.listen === 'function';
}

/** An error as plain data: its message, its causes, and the facts that the system adds. Survives structured cloning. */
interface Fault {
  readonly name: string;
  readonly message: string;
  /** Properties that are strings or numbers, such as `code`, `syscall` and `path`. */
  readonly facts: Readonly<Record<string, string | number>>;
  readonly cause: Fault | undefined;
}

/** Maximum depth of the causes that are kept. */
const MOST_CAUSES = 5;

/** Describes a thrown value. */
function describeFault(thrown: unknown, causes = MOST_CAUSES): Fault {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown), facts: {}, cause: undefined };
  const facts = Object.entries(thrown).filter(
    (fact): fact is [string, string | number] => typeof fact[1] === 'string' || typeof fact[1] === 'number',
  );
  const cause = thrown.cause === undefined || causes === 0 ? undefined : describeFault(thrown.cause, causes - 1);
  return { name: thrown.name, message: thrown.message, facts: Object.fromEntries(facts), cause };
}

/** Restores an error. `StoreFault`, `ListenFault` and `OperationFault` keep their class; any other error keeps only its name. */
function reviveFault({ name, message, facts, cause }: Fault): Error {
  const options = cause === undefined ? {} : { cause: reviveFault(cause) };
  const error = Object.assign(createError(name, message, facts['reason'], options), facts);
  if (error.name !== name) error.name = name;
  return error;
}

function createError(name: string, message: string, reason: unknown, options: ErrorOptions): Error {
  switch (name) {
    case 'StoreFault':
      return new StoreFault(reason as StoreFaultReason, message, options);
    case 'ListenFault':
      return new ListenFault(message, options);
    case 'OperationFault':
      return new OperationFault(reason as OperationFault['reason'], message);
    default:
      return new Error(message, options);
  }
}
