/** Calls between a supervisor and a worker over the channel that Node gives them. */

import { describeFault, type Fault, reviveFault } from './fault.ts';

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
export interface Channel<C> {
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
