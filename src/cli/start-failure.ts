/** Says in one line why a server could not start, or could not go on with another configuration. */

import { formatListenPlace, type ListenPlace, mayStandFor } from '../config/address.ts';
import type { Config } from '../config/schema.ts';
import { ListenFault } from '../listener/listen-fault.ts';
import { StoreFault } from '../store/store.ts';

interface SystemError {
  readonly code: string;
  readonly message: string;
  readonly syscall?: unknown;
  readonly path?: unknown;
  readonly address?: unknown;
  readonly port?: unknown;
  readonly hostname?: unknown;
}

type Concerned = Pick<Config, 'listen' | 'admin' | 'store'>;

/** The reason in one line, without a stack. The configuration is the one that people wrote, no directory filled in. */
export function describeStartFailure(error: unknown, config: Concerned): string {
  return describeFailure(error, config, 'start');
}

/** The same for a configuration that a running server cannot go on with: flags are of no use any more. */
export function describeReloadFailure(error: unknown, config: Concerned): string {
  return describeFailure(error, config, 'use it').replace(/; choose [^;]* with --[a-z]+$/, '');
}

function describeFailure(error: unknown, config: Concerned, purpose: string): string {
  if (error instanceof StoreFault && error.reason === 'in_use') return describeStoreInUse(config);
  if (error instanceof ListenFault) return firstLine(error.message);
  const systemError = findSystemError(error);
  if (systemError?.syscall === 'listen' || systemError?.syscall === 'bind' || systemError?.syscall === 'getaddrinfo') {
    return describeListenFailure(systemError, config);
  }
  if (typeof systemError?.path === 'string') {
    return `cannot use ${systemError.path}: ${firstLine(systemError.message)}`;
  }
  // A store speaks in sentences.
  if (error instanceof StoreFault) return `cannot ${purpose}. ${firstLine(error.message)}`;
  return `cannot ${purpose}: ${firstLine(error instanceof Error ? error.message : String(error))}`;
}

/** The default directory belongs to the address: who uses the one listens on the other. */
function describeStoreInUse({ listen, store }: Pick<Config, 'listen' | 'store'>): string {
  const dir = store.type === 'disk' ? store.dir : undefined;
  return dir === undefined
    ? `cannot listen on ${formatPlaces(listen)}: a Rangeway seems to run there already; choose another address with --listen`
    : `cannot use ${dir}: it is in use by another process; choose another directory with --dir`;
}

function describeListenFailure(error: SystemError, { listen, admin }: Pick<Config, 'listen' | 'admin'>): string {
  const places = [
    ...listen.map((each) => ({ place: each.address, flag: '--listen' })),
    ...(typeof admin === 'object' ? [{ place: admin.listen, flag: '--admin' }] : []),
  ];
  const { place, flag = '--listen' } = places.find((each) => isConcerned(each.place, error)) ?? places[0] ?? {};
  const address = place === undefined ? 'any address' : formatListenPlace(place);
  const host = place?.kind === 'tcp' ? place.host : '';
  switch (error.code) {
    case 'EADDRINUSE':
      return place?.kind === 'unix'
        ? `cannot listen on ${address}: another process listens there`
        : `cannot listen on ${address}: the port is in use; choose another with ${flag}`;
    case 'EACCES':
      return place?.kind === 'unix'
        ? `cannot listen on ${address}: no permission to make this socket`
        : `cannot listen on ${address}: no permission for this port; choose one above 1023 with ${flag}`;
    case 'EADDRNOTAVAIL':
      return `cannot listen on ${address}: this machine does not have the address ${host}`;
    case 'ENOTFOUND':
      return `cannot listen on ${address}: the name ${host} is unknown`;
    default:
      return `cannot listen on ${address}: ${firstLine(error.message)}`;
  }
}

/** Whether an error names this place. Of a name that was looked up it tells the address, not the name. */
function isConcerned(place: ListenPlace, { address, port, hostname }: SystemError): boolean {
  if (place.kind === 'unix') return address === place.path;
  if (place.kind !== 'tcp' || (hostname ?? place.host) !== place.host) return false;
  if (typeof address === 'string' && !mayStandFor(place.host, address)) return false;
  // The address of a Unix socket has no port; a name that is not known has neither.
  return port === undefined ? address === undefined : port === place.port;
}

function formatPlaces(listen: Config['listen']): string {
  return listen.map(({ address }) => formatListenPlace(address)).join(' and ');
}

/** The error of the system behind an error, or the error itself. */
function findSystemError(error: unknown): SystemError | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string' && 'syscall' in cause) return cause as Error & SystemError;
  }
  return undefined;
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0] ?? '';
}
