/** The listening sockets of a worker, which its supervisor hands over. */

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

/** The sockets that a worker was given. */
export interface ReceivedSockets {
  /** Adds a socket of a place: the worker's own, which comes first, or that of an absent worker, on which it listens besides. */
  add(name: string, slot: number, handle: Handle): void;
  /** Stops accepting on a socket, and closes it in this process. Connections that wait in it are not affected. */
  leave(name: string, slot: number): void;
  /** Opens the places whose sockets have arrived. */
  readonly openSocket: OpenSocket;
  /** Begins to accept connections; those of listeners that were opened before have waited. Rejects as `listen` fails. */
  begin(): Promise<void>;
}

/** Creates an empty set of received sockets. */
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

  /** Sets the place that the sockets belong to. */
  name(place: BindPlace): void {
    this.#place = place;
  }

  add(slot: number, handle: Handle): void {
    // An earlier one came with a configuration that was abandoned.
    this.leave(slot);
    this.#handles.set(slot, handle);
    if (!this.#hasBegun || this.#accept === undefined) return;
    this.#listen(slot, handle).catch((error: Error) => this.#onError(error));
  }

  leave(slot: number): void {
    const server = this.#servers.get(slot);
    // A listening server owns the handle.
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

  /** Waits one turn of the event loop first, so that connections that have already arrived are accepted. */
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
