/**
 * Sockets that are bound in one process and listened on in others, to which they are handed over: whoever has bound them
 * accepts nothing, and as long as it keeps them no connection that waits in them is lost, whatever becomes of the others.
 */

import { lookup } from 'node:dns/promises';
import net from 'node:net';
import { getSystemErrorMap } from 'node:util';
import { type BindPlace, bindPath, type SocketAddress } from '../listener/bind.ts';
import { ListenFault } from '../listener/listen-fault.ts';
import type { Handle } from './channel.ts';

/** The sockets of one place. */
export interface BoundPlace {
  readonly place: BindPlace;
  readonly address: SocketAddress;
  /** One for each worker, between which the system shares out connections; or a single one for all. */
  readonly handles: readonly Handle[];
  /** Gives them back; the path of a Unix socket is removed. */
  close(): void;
}

/** Node's own handle of a socket, bound to an address. */
interface SystemHandle extends Handle {
  getsockname?(into: { address?: string; port?: number }): number;
}

/**
 * What Node's cluster module binds with. `net.Server` cannot do it: it accepts from the moment on at which it is bound. Gives
 * the negative number of an error where it fails.
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

/** What a system without it says: all but Linux, FreeBSD and a few others. */
const withoutReusePort = new Set(['ENOTSUP', 'EINVAL', 'EOPNOTSUPP', 'ENOPROTOOPT']);

/**
 * Binds a place for so many workers. Rejects as `bind` does, with the same words. Nothing waits in the sockets before somebody
 * listens.
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

  // Whether somebody listens there already: with SO_REUSEPORT another server of the same user would be no error.
  const alone = create(place.port, 0);
  const { port } = addressOf(alone);
  const shared: SystemHandle[] = [];
  try {
    while (shared.length < workers) shared.push(create(port, reusePort));
  } catch (error) {
    for (const handle of shared) handle.close();
    if (withoutReusePort.has(codeOf(error))) return boundPlace(place, addressOf(alone), [alone]);
    alone.close();
    throw error;
  }
  const bound = boundPlace(place, addressOf(alone), shared);
  alone.close();
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

/** What is passed and is no socket to listen on, in the words of `bind`. */
function passedFault(fd: number, name: string, cause: unknown): ListenFault {
  const { message } = cause as Error;
  const text = `cannot listen on ${name}: what was passed as file descriptor ${fd} is no socket to listen on (${message})`;
  return new ListenFault(text, { cause });
}

/** Calls, and throws an error like that of `net.Server.listen` where that has failed. */
function bindHandle(
  { address, port }: { readonly address?: string; readonly port?: number },
  create: () => SystemHandle | number,
): SystemHandle {
  const handle = create();
  // That an address is in use is told by the first question after it.
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
