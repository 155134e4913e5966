/** The listening sockets of a worker, as its supervisor has handed them over. */

import type { Server, Socket } from 'node:net';
import {
  type BindPlace,
  createSocketServer,
  ListenFault,
  type ListenSocket,
  type OpenSocket,
  type SocketAddress,
} from '../listener/accept/bind.ts';
import type { Handle } from './channel.ts';

/** What a worker listens on. */
export interface ReceivedSockets {
  /** Takes a socket of a place, its own (the first that comes) or that of another worker, which is listened on besides it. */
  add(name: string, slot: number, handle: Handle): void;
  /** Leaves a socket to its own worker. Connections that wait in it are not touched. */
  leave(name: string, slot: number): void;
  /** Opens the places that sockets have come for. */
  readonly openSocket: OpenSocket;
  /** From now on connections are taken: what listeners are opened before waits. Rejects with what `listen` fails with. */
  begin(): Promise<void>;
}

/** Creates the list of what has come, which is empty. */
export function createReceivedSockets(): ReceivedSockets {
  const places = new Map<string, ReceivedPlace>();
  let hasBegun = false;
  const placeOf = (name: string): ReceivedPlace => {
    const found = places.get(name);
    if (found !== undefined) return found;
    const place = new ReceivedPlace(() => {
      if (places.get(name) === place) places.delete(name);
    });
    places.set(name, place);
    if (hasBegun) void place.begin();
    return place;
  };
  return {
    add: (name, slot, handle) => placeOf(name).add(slot, handle),
    leave: (name, slot) => places.get(name)?.leave(slot),
    openSocket: async (place, name) => {
      const received = places.get(name);
      if (received === undefined) throw new ListenFault(`cannot listen on ${name}: its socket has not come`);
      received.name(place);
      return received;
    },
    async begin() {
      hasBegun = true;
      await Promise.all([...places.values()].map((place) => place.begin()));
    },
  };
}

/** All sockets of one place. */
class ReceivedPlace implements ListenSocket {
  readonly #forget: () => void;
  readonly #handles = new Map<number, Handle>();
  readonly #servers = new Map<number, Server>();
  #place: BindPlace | undefined;
  #accept: ((socket: Socket) => void) | undefined;
  #onError: (error: Error) => void = () => undefined;
  #hasBegun = false;
  #closed: Promise<void> | undefined;

  constructor(forget: () => void) {
    this.#forget = forget;
  }

  get address(): SocketAddress {
    const [handle] = this.#handles.values();
    if (this.#place?.kind === 'unix') return { host: '', port: 0, path: this.#place.path };
    const found: { address?: string; port?: number } = {};
    if (handle !== undefined && 'getsockname' in handle) {
      (handle as { getsockname(into: typeof found): number }).getsockname(found);
    }
    return { host: found.address ?? '', port: found.port ?? 0, path: undefined };
  }

  /** Tells what it is that has come. */
  name(place: BindPlace): void {
    this.#place = place;
  }

  add(slot: number, handle: Handle): void {
    // One that came for a configuration which was given up, and is no more.
    this.leave(slot);
    this.#handles.set(slot, handle);
    if (!this.#hasBegun || this.#accept === undefined) return;
    this.#listen(slot, handle).catch((error: Error) => this.#onError(error));
  }

  leave(slot: number): void {
    const server = this.#servers.get(slot);
    // A server that listens has the handle for its own.
    if (server === undefined) this.#handles.get(slot)?.close();
    else server.close();
    this.#servers.delete(slot);
    this.#handles.delete(slot);
  }

  async begin(): Promise<void> {
    this.#hasBegun = true;
    if (this.#accept !== undefined) await this.#listenOnAll();
  }

  async take(accept: (socket: Socket) => void, onError: (error: Error) => void): Promise<void> {
    this.#accept = accept;
    this.#onError = onError;
    if (this.#hasBegun) await this.#listenOnAll();
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** What has arrived already is taken before: one turn of the event loop. */
  async #close(): Promise<void> {
    this.#forget();
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    for (const slot of [...this.#handles.keys()]) this.leave(slot);
  }

  async #listenOnAll(): Promise<void> {
    await Promise.all([...this.#handles].map(([slot, handle]) => this.#listen(slot, handle)));
  }

  async #listen(slot: number, handle: Handle): Promise<void> {
    if (this.#servers.has(slot)) return;
    const server = createSocketServer();
    this.#servers.set(slot, server);
    server.on('connection', (socket) => this.#accept?.(socket));
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject);
    try {
      server.listen(handle, resolve);
      await promise;
    } catch (error) {
      this.#servers.delete(slot);
      throw this.#faultOf(error as Error);
    } finally {
      server.off('error', reject);
    }
    server.on('error', (error) => this.#onError(error));
  }

  #faultOf(error: Error): Error {
    if (this.#place?.kind !== 'passed') return error;
    const { fd, name } = this.#place;
    const text = `what was passed as file descriptor ${fd} is no socket to listen on (${error.message})`;
    return new ListenFault(`cannot listen on ${name}: ${text}`, { cause: error });
  }
}
