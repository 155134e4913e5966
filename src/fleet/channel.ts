/**
 * Calls between a supervisor and a worker over the channel that Node gives them: which calls there are (`WorkerCalls`,
 * `SupervisorCalls`), how they are sent, and how errors survive the way.
 */

import { type LogLevel, OperationFault, type StoreOperations, type WorkerOperations } from '../admin/operations.ts';
import type { InvalidationMessage } from '../cache/fleet.ts';
import { ListenFault, type PassedSocket } from '../listener/accept/bind.ts';
import { StoreFault, type StoreFaultReason } from '../store/store.ts';

/** A configuration as it was written, and where: each process checks it by itself. */
export interface ConfigSource {
  readonly value: unknown;
  /** Relative paths in it are taken from here. */
  readonly directory: string;
}

/** What a worker begins with. */
export interface WorkerStart {
  /** Its number from 1 on; who takes the place of a dead one has the same. */
  readonly id: number;
  /** Names this process among all that there were; of letters and digits. */
  readonly instance: string;
  /** How many workers there are, itself included. */
  readonly workers: number;
  readonly config: ConfigSource;
  /** The directory of the sockets by which workers reach each other; only the user that runs them can enter it. */
  readonly peersDir: string;
  /** Whether no other process has the store open yet. */
  readonly isFirst: boolean;
  /** Processes that died with the store open, whose traces in it are to be removed. */
  readonly fallen: readonly string[];
  /** Our name in Via, the same in all workers. */
  readonly pseudonym: string;
  /** What the service manager has passed to the supervisor: the names of what `takeSocket` brings. */
  readonly passed: readonly PassedSocket[];
  /** What its log keeps, whatever the configuration says: somebody may have changed it since. */
  readonly logLevel: LogLevel;
}

/** What a supervisor asks of a worker. */
export interface WorkerCalls extends StoreOperations, WorkerOperations {
  /** Opens everything; resolves with the addresses that it serves. */
  start(options: WorkerStart): Promise<{ readonly addresses: readonly string[] }>;
  /**
   * Takes a socket; comes before the `start` or `prepareReload` that needs it. `name` is the place's among all of a
   * configuration. A place may have several sockets, one for each worker: those of others are taken while they are away.
   */
  takeSocket(name: string, slot: number, socket?: Handle): void;
  /** Takes no more connections of a socket that its own worker takes again. */
  leaveSocket(name: string, slot: number): void;
  /** Answers at once, as long as the event loop turns. */
  beat(): void;
  /** Makes everything ready for another configuration, which is not used yet. Rejects where it cannot be used. */
  prepareReload(config: ConfigSource): Promise<void>;
  /** Goes on with what was prepared. */
  commitReload(): Promise<readonly string[]>;
  /** Gives up what was prepared. */
  abandonReload(): Promise<void>;
  /** Learns what another process has changed. */
  heed(news: InvalidationMessage): Promise<void>;
  /** Ends after what is under way, or `graceMs` later; resolves when nothing is left. */
  stop(graceMs: number): Promise<void>;
}

/** Who has a lease: the one who asked, or another one and where it is reached. */
export type LeaseReply =
  | { readonly kind: 'ours' }
  | { readonly kind: 'theirs'; readonly instance: string; readonly socket: string };

/** What a worker asks of its supervisor. */
export interface SupervisorCalls {
  /** Asks for a lease. `lost` names a process that had it and could not be reached: it is waited for whether it has died. */
  acquireLease(key: string, lost?: string): Promise<LeaseReply>;
  releaseLease(key: string): void;
  /** While all stop: has no client any more. Resolves when no other worker has, for they may be reading from this one. */
  drained(): Promise<void>;
  /** Tells all other workers; resolves when each that lives has heeded it. */
  tell(news: InvalidationMessage): Promise<void>;
}

/** A socket that is handed over: whatever `net.Server.listen` takes and Node can send. */
export interface Handle {
  listen(...values: never[]): unknown;
  /** Gives back this process's hold of it. */
  close(): unknown;
}

/** One end of a channel: a child process, or the own process toward its parent. */
export interface ChannelEnd {
  send?(message: unknown, handle?: Handle, options?: undefined, callback?: (error: Error | null) => void): boolean;
  on(event: 'message', listener: (message: unknown, handle: unknown) => void): unknown;
  once(event: 'disconnect', listener: () => void): unknown;
}

/** What one side offers to the other: calls with plain arguments, the last of which may be a socket that is handed over. */
// biome-ignore lint/suspicious/noExplicitAny: each call has arguments of its own kind.
export type Calls = { readonly [name in string]: (...values: any[]) => unknown };

/** The calls as they are made from afar. */
export type Remote<C> = {
  readonly [N in keyof C]: C[N] extends (...values: infer V) => infer R ? (...values: V) => Promise<Awaited<R>> : never;
};

/** A channel that is open. */
interface Channel<C> {
  readonly remote: Remote<C>;
  /** Resolves when the other side is gone. Calls that are not answered then reject with `ChannelGone`. */
  readonly gone: Promise<void>;
  /** The other side is known to be gone, though the channel has not told it. */
  leave(): void;
}

/** The other side is gone before it has answered. */
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

/** Opens a channel whose other side is offered `local`. The processes must be forked with `serialization: 'advanced'`. */
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
    // The end of the other side is told by "disconnect"; until then what is sent there is lost.
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
    // It is no promise, though somebody may wait for it.
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

/** What is left of an error: its words, what it was caused by, and what the system says of it. Survives structured cloning. */
interface Fault {
  readonly name: string;
  readonly message: string;
  /** Properties that are texts or numbers, such as `code`, `syscall` and `path`. */
  readonly facts: Readonly<Record<string, string | number>>;
  readonly cause: Fault | undefined;
}

/** Errors have causes that have causes; further ones tell nobody anything. */
const MOST_CAUSES = 5;

/** What can be told of whatever was thrown. */
function describeFault(thrown: unknown, causes = MOST_CAUSES): Fault {
  if (!(thrown instanceof Error)) return { name: 'Error', message: String(thrown), facts: {}, cause: undefined };
  const facts = Object.entries(thrown).filter(
    (fact): fact is [string, string | number] => typeof fact[1] === 'string' || typeof fact[1] === 'number',
  );
  const cause = thrown.cause === undefined || causes === 0 ? undefined : describeFault(thrown.cause, causes - 1);
  return { name: thrown.name, message: thrown.message, facts: Object.fromEntries(facts), cause };
}

/** The error again: of its own class where that is known to people who are told of it. */
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
