/** Binds the places of a configuration for a moment, as the server does at its start, and finds the processes that hold them. */

import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import { basename } from 'node:path';
import { formatListenPlace, type ListenPlace } from '../../config/address.ts';
import type { Config } from '../../config/schema.ts';
import { ListenFault, openSocket } from '../../listener/accept/bind.ts';
import { systemCode } from '../../store/disk/bodies/file-system.ts';
import { readNumberFile } from './gather-machine.ts';
import type { ListenRights, PlaceFacts, PlaceOutcome, PortHolder } from './places.ts';

/** Reads which ports this user may open, and the umask. */
export function gatherListenRights(): ListenRights {
  const firstFree = readNumberFile('/proc/sys/net/ipv4/ip_unprivileged_port_start') ?? 1024;
  return { userId: process.getuid?.(), firstFree, umask: process.umask() };
}

/** By what the server of this configuration is known among others. */
export interface StoreMarks {
  /** A directory that only its server uses; undefined where it has none. */
  readonly dir: string | undefined;
  /** Ports of the engine of the store; empty without one. */
  readonly enginePorts: readonly number[];
}

/**
 * Binds all places, in their order, so that those that exclude each other are found too, and releases them at the end. Never rejects:
 * what is wrong is a fact.
 */
export async function gatherPlaces(
  { listen, admin }: Pick<Config, 'listen' | 'admin'>,
  store: StoreMarks,
): Promise<readonly PlaceFacts[]> {
  await using sockets = new AsyncDisposableStack();
  const places = listen.map(({ address, mode }, at) => ({ option: `listen[${at}]`, place: address, mode }));
  if (typeof admin === 'object') places.push({ option: 'admin.listen', place: admin.listen, mode: 0o600 });
  const facts: PlaceFacts[] = [];
  for (const { option, place, mode } of places) {
    facts.push({ option, place, mode, outcome: await bindPlace(place, mode, store, sockets) });
  }
  return facts;
}

async function bindPlace(
  place: ListenPlace,
  mode: number | undefined,
  store: StoreMarks,
  sockets: AsyncDisposableStack,
): Promise<PlaceOutcome> {
  if (place.kind === 'systemd') return { kind: 'passed' };
  try {
    const bound = place.kind === 'unix' ? { ...place, mode } : place;
    sockets.adopt(await openSocket(bound, formatListenPlace(place)), (socket) => socket.close());
    return { kind: 'free' };
  } catch (error) {
    return outcomeOf(error, place, store);
  }
}

function outcomeOf(error: unknown, place: ListenPlace, store: StoreMarks): PlaceOutcome {
  const code = systemCode(error instanceof ListenFault ? (error.cause ?? error) : error) ?? '';
  if (code === 'EADDRINUSE' && !(error instanceof ListenFault)) return { kind: 'held', by: findHolder(place, store) };
  if (code === 'EACCES' && place.kind === 'tcp') {
    return { kind: 'denied', firstFree: gatherListenRights().firstFree, nodePath: process.execPath };
  }
  const reason = error instanceof Error ? error.message : String(error);
  return { kind: 'failed', code, reason };
}

/** Finds the process that listens at a place; undefined where this user cannot see it. Needs Linux. */
function findHolder(place: ListenPlace, store: StoreMarks): PortHolder | undefined {
  const inodes =
    place.kind === 'tcp' ? listeningInodes(place.port) : place.kind === 'unix' ? socketInodes(place.path) : [];
  const links = new Set(inodes.map(linkOfSocket));
  // The processes of one server may share the socket.
  const holders = namesIn('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => ({ pid, files: namesIn(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`)) }))
    .filter(({ files }) => files.some((file) => links.has(file)));
  const [first] = holders;
  if (first === undefined) return undefined;
  const directory = store.dir === undefined ? undefined : `${realPathOf(store.dir)}/`;
  const connections = new Set(connectedInodes(store.enginePorts).map(linkOfSocket));
  const isOfStore = (file: string): boolean =>
    connections.has(file) || (directory !== undefined && file.startsWith(directory));
  return describeProcess(
    first.pid,
    holders.some(({ files }) => files.some(isOfStore)),
  );
}

function linkOfSocket(inode: string): string {
  return `socket:[${inode}]`;
}

/** Returns the inodes of the sockets that listen on a port (proc_net(5): state 0A). */
function listeningInodes(port: number): readonly string[] {
  return tcpSockets().flatMap(({ local, state, inode }) =>
    local.endsWith(portText(port)) && state === '0A' ? [inode] : [],
  );
}

/** Returns the inodes of the sockets that are connected to one of these ports, of any host (state 01). */
function connectedInodes(ports: readonly number[]): readonly string[] {
  if (ports.length === 0) return [];
  const ends = ports.map(portText);
  return tcpSockets().flatMap(({ remote, state, inode }) =>
    state === '01' && ends.some((end) => remote.endsWith(end)) ? [inode] : [],
  );
}

/** Returns the end of an address with a port, as the system lists it. */
function portText(port: number): string {
  return `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** A socket as the system lists it, with addresses and the state in hexadecimal digits. */
interface TcpSocket {
  readonly local: string;
  readonly remote: string;
  readonly state: string;
  readonly inode: string;
}

function tcpSockets(): readonly TcpSocket[] {
  return ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((table) =>
    textOf(table)
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .flatMap(([, local, remote, state, , , , , , inode]) =>
        local !== undefined && remote !== undefined && state !== undefined && inode !== undefined
          ? [{ local, remote, state, inode }]
          : [],
      ),
  );
}

function socketInodes(path: string): string[] {
  return textOf('/proc/net/unix')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .flatMap(([, , , , , , inode, name]) => (name === path && inode !== undefined ? [inode] : []));
}

function describeProcess(pid: string, hasStore: boolean): PortHolder {
  const words = textOf(`/proc/${pid}/cmdline`).split('\0');
  const comm = textOf(`/proc/${pid}/comm`).trim();
  // A program that a Node or another interpreter runs is named too.
  const script = words.slice(1).find((word) => /^[^-].*[./]/.test(word));
  const isInterpreter = /^(?:node|python[\d.]*|ruby|perl|java|MainThread)$/.test(comm);
  const name = isInterpreter && script !== undefined ? `${comm} ${basename(script)}` : comm;
  return { pid: Number(pid), name: name === '' ? 'a process' : name, isRangeway: isRangeway(words), hasStore };
}

/** A server of several processes sets its title, which replaces the command line. */
function isRangeway([program = '', ...rest]: readonly string[]): boolean {
  return /^rangeway\b/.test(basename(program)) || rest.some((word) => /^rangeway(?:\.js)?$/.test(basename(word)));
}

function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

function namesIn(directory: string): readonly string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
