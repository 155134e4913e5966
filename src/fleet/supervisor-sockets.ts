/**
 * The listening sockets of a fleet, in the supervisor. They are bound once, kept for as long as the fleet runs, and handed over
 * to workers: no connection that waits in them is lost when a worker dies. The sockets of an absent worker go to another one
 * until it is back.
 */

import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { getSystemErrorMap } from 'node:util';
import { type BindPlace, bindPath, ListenFault, type SocketAddress } from '../listener/accept/bind.ts';
import type { Handle, Remote, WorkerCalls } from './channel.ts';

/** A place, and its name, which is unique in a configuration. */
export interface NamedPlace {
  readonly name: string;
  readonly place: BindPlace;
}

/** A socket to hand over: the arguments of `WorkerCalls.takeSocket`. */
interface SlotSocket {
  readonly name: string;
  readonly slot: number;
  readonly handle: Handle;
}

/** The slot of a socket that all workers share. */
const everySlot = 0;

/** The sockets of all places; none at first. */
export class FleetSockets {
  readonly #workers: number;
  readonly #bind: typeof bindPlace;
  #places = new Map<string, BoundPlace>();

  constructor(workers: number, bind = bindPlace) {
    this.#workers = workers;
    this.#bind = bind;
  }

  /** The names of the places that are bound. */
  get names(): readonly string[] {
    return [...this.#places.keys()];
  }

  /**
   * Binds the places that are not bound yet, all of them or none, and returns their names. Rejects as `bindPlace` does. Slots are
   * numbered from 1 on.
   */
  async open(places: readonly NamedPlace[]): Promise<readonly string[]> {
    await using opened = new AsyncDisposableStack();
    const added = new Map<string, BoundPlace>();
    for (const { name, place } of places) {
      if (this.#places.has(name)) continue;
      added.set(
        name,
        opened.adopt(await this.#bind(place, this.#workers), (bound) => bound.close()),
      );
    }
    opened.move();
    for (const [name, bound] of added) this.#places.set(name, bound);
    return [...added.keys()];
  }

  /** Returns the sockets that the worker of a slot listens on, of these places. */
  socketsOf(slot: number, names: readonly string[] = this.names): readonly SlotSocket[] {
    return names.flatMap((name) => {
      const handles = this.#places.get(name)?.handles ?? [];
      const isShared = handles.length < this.#workers;
      const handle = isShared ? handles[0] : handles[slot - 1];
      return handle === undefined ? [] : [{ name, slot: isShared ? everySlot : slot, handle }];
    });
  }

  /** Returns the sockets that only the worker of a slot listens on: connections wait in them while it cannot accept. */
  ownSocketsOf(slot: number): readonly SlotSocket[] {
    return this.socketsOf(slot).filter((socket) => socket.slot === slot);
  }

  /** Closes the sockets of these places, or of all. */
  close(names: readonly string[] = this.names): void {
    for (const name of names) {
      this.#places.get(name)?.close();
      this.#places.delete(name);
    }
  }
}

/** The sockets of one place. */
export interface BoundPlace {
  readonly place: BindPlace;
  readonly address: SocketAddress;
  /** One for each worker, among which the system distributes connections; or a single one for all. */
  readonly handles: readonly Handle[];
  /** Closes them; the path of a Unix socket is removed. */
  close(): void;
}

/** Node's own handle of a socket, bound to an address. */
interface SystemHandle extends Handle {
  getsockname?(into: { address?: string; port?: number }): number;
}

/**
 * The function that Node's cluster module binds with. `net.Server` cannot be used, because it accepts as soon as it is bound.
 * Returns a negative error number where it fails.
 */
type CreateHandle = (
  address: string | null,
  port: number | null,
  family: number | null,
  fd?: number,
  flags?: number,
) => SystemHandle | number;

const { _createServerHandle: createHandle } = net as unknown as { readonly _createServerHandle: CreateHandle };

/** UV_TCP_REUSEPORT of libuv. */
const reusePort = 2;

/** The errors of systems without it: all but Linux, FreeBSD and a few others. */
const withoutReusePort = new Set(['ENOTSUP', 'EINVAL', 'EOPNOTSUPP', 'ENOPROTOOPT']);

/**
 * Binds a place for a number of workers. Rejects with the same errors as `openSocket`. Connections are refused until a worker
 * listens, except on a passed socket.
 */
export async function bindPlace(place: BindPlace, workers: number): Promise<BoundPlace> {
  switch (place.kind) {
    case 'tcp':
      return bindTcp(place, workers);
    case 'unix': {
      let handle: SystemHandle | undefined;
      await bindPath(place, async () => {
        handle = bindHandle({ address: place.path }, () => createHandle(place.path, -1, -1));
      });
      return boundPlace(place, { host: '', port: 0, path: place.path }, handle === undefined ? [] : [handle]);
    }
    case 'passed': {
      const handle = openPassed(place);
      return boundPlace(place, addressOf(handle), [handle]);
    }
  }
}

async function bindTcp(place: Extract<BindPlace, { kind: 'tcp' }>, workers: number): Promise<BoundPlace> {
  const { address, family } = await lookup(place.host);
  const create = (port: number, flags: number): SystemHandle =>
    bindHandle({ address, port }, () => createHandle(address, port, family, undefined, flags));

  // Detects a server that is bound there already: with SO_REUSEPORT alone, another server of the same user is no error.
  const exclusive = create(place.port, 0);
  const { port } = addressOf(exclusive);
  const shared: SystemHandle[] = [];
  try {
    while (shared.length < workers) shared.push(create(port, reusePort));
  } catch (error) {
    for (const handle of shared) handle.close();
    if (withoutReusePort.has(codeOf(error))) return boundPlace(place, addressOf(exclusive), [exclusive]);
    exclusive.close();
    throw error;
  }
  const bound = boundPlace(place, addressOf(exclusive), shared);
  exclusive.close();
  return bound;
}

function boundPlace(place: BindPlace, address: SocketAddress, handles: readonly SystemHandle[]): BoundPlace {
  let isClosed = false;
  return {
    place,
    address,
    handles,
    close() {
      if (isClosed) return;
      isClosed = true;
      for (const handle of handles) handle.close();
    },
  };
}

function openPassed({ fd, name }: Extract<BindPlace, { kind: 'passed' }>): SystemHandle {
  try {
    return bindHandle({}, () => createHandle(null, null, null, fd));
  } catch (error) {
    throw passedFault(fd, name, error);
  }
}

/** Returns the error for a passed descriptor that is not a listening socket; the same text as that of `openSocket`. */
function passedFault(fd: number, name: string, cause: unknown): ListenFault {
  const { message } = cause as Error;
  const text = `cannot listen on ${name}: what was passed as file descriptor ${fd} is no socket to listen on (${message})`;
  return new ListenFault(text, { cause });
}

/** Calls `create`. Throws an error like that of `net.Server.listen` where it fails. */
function bindHandle(
  { address, port }: { readonly address?: string; readonly port?: number },
  create: () => SystemHandle | number,
): SystemHandle {
  const handle = create();
  // libuv reports that an address is in use only at the next call after the bind.
  const failed = typeof handle === 'number' ? handle : failureOf(handle);
  if (typeof handle === 'object' && failed === 0) return handle;
  if (typeof handle === 'object') handle.close();
  const [code = String(failed), reason = 'unknown error'] = getSystemErrorMap().get(failed) ?? [];
  const where = port === undefined || port === 0 ? (address ?? '') : `${address}:${port}`;
  const facts = { errno: failed, code, syscall: 'listen', address, port };
  throw Object.assign(new Error(`listen ${code}: ${reason} ${where}`.trimEnd()), facts);
}

function failureOf(handle: SystemHandle): number {
  return handle.getsockname?.({}) ?? 0;
}

function addressOf(handle: SystemHandle): SocketAddress {
  const found: { address?: string; port?: number } = {};
  handle.getsockname?.(found);
  return { host: found.address ?? '', port: found.port ?? 0, path: undefined };
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** The calls to a worker that concern sockets. */
type SocketTaker = Pick<Remote<WorkerCalls>, 'takeSocket' | 'leaveSocket'>;

/** Hands the sockets of a fleet to its workers. */
export class Handover {
  readonly #sockets: FleetSockets;
  readonly #takerOf: (slot: number) => SocketTaker | undefined;
  #covers: Covers = new Map();

  /** `takerOf` returns the process of a slot; undefined where there is none. */
  constructor(sockets: FleetSockets, takerOf: (slot: number) => SocketTaker | undefined) {
    this.#sockets = sockets;
    this.#takerOf = takerOf;
  }

  /** Hands a worker its sockets of these places, or of all. They arrive before any later call. */
  give(slot: number, names?: readonly string[]): void {
    handOver(this.#takerOf(slot), this.#sockets.socketsOf(slot, names));
  }

  /** Makes a worker give up its sockets of these places, and those of the workers that it covers. */
  takeBack(slot: number, names: readonly string[]): void {
    const covered = [...this.#covers].flatMap(([each, by]) => (by === slot ? [each] : []));
    for (const each of [slot, ...covered]) takeBack(this.#takerOf(slot), this.#sockets.socketsOf(each, names));
  }

  /** Makes workers accept connections on the sockets of others that cannot. */
  cover(slots: readonly SlotFitness[]): void {
    const covers = decideCovers(slots, this.#covers);
    const { begun, ended } = changedCovers(this.#covers, covers);
    this.#covers = covers;
    for (const [slot, by] of begun) handOver(this.#takerOf(by), this.#sockets.ownSocketsOf(slot));
    for (const [slot, by] of ended) takeBack(this.#takerOf(by), this.#sockets.ownSocketsOf(slot));
  }
}

function handOver(taker: SocketTaker | undefined, sockets: readonly SlotSocket[]): void {
  for (const { name, slot, handle } of sockets) {
    // The call fails where the worker is gone, which is handled elsewhere.
    taker?.takeSocket(name, slot, handle).catch(() => undefined);
  }
}

function takeBack(taker: SocketTaker | undefined, sockets: readonly SlotSocket[]): void {
  for (const { name, slot } of sockets) {
    // A worker that is gone has closed its sockets.
    taker?.leaveSocket(name, slot).catch(() => undefined);
  }
}

/** The state of a slot, as far as covers depend on it. */
export interface SlotFitness {
  readonly slot: number;
  /** Whether its worker accepts connections and answers. */
  readonly isFit: boolean;
  /** Whether connections can arrive at its socket: a worker has listened on it before. */
  readonly isOpen: boolean;
}

/** Slots that are covered, each with the slot that covers it. */
type Covers = ReadonlyMap<number, number>;

/** Decides which slots cover which. A slot keeps its cover where that is fit; otherwise it gets the one that covers the fewest. */
export function decideCovers(slots: readonly SlotFitness[], before: Covers): Covers {
  const fit = slots.filter(({ isFit }) => isFit).map(({ slot }) => slot);
  const needy = slots.filter(({ isFit, isOpen }) => isOpen && !isFit).map(({ slot }) => slot);
  const covers = new Map<number, number>();
  for (const slot of needy) {
    const by = before.get(slot);
    if (by !== undefined && fit.includes(by)) covers.set(slot, by);
  }
  for (const slot of needy) {
    if (covers.has(slot)) continue;
    const load = (by: number) => [...covers.values()].filter((each) => each === by).length;
    const [by] = [...fit].sort((a, b) => load(a) - load(b));
    if (by !== undefined) covers.set(slot, by);
  }
  return covers;
}

/** Returns the difference between two states: the covers that begin, and those that end. */
export function changedCovers(before: Covers, after: Covers): { readonly begun: Covers; readonly ended: Covers } {
  const missing = (here: Covers, there: Covers) => new Map([...here].filter(([slot, by]) => there.get(slot) !== by));
  return { begun: missing(after, before), ended: missing(before, after) };
}
