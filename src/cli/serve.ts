/**
 * `rangeway serve`: runs the server until a signal stops it, and describes errors of a start or a reload in one line. The
 * configuration comes from serve-config.ts.
 */

import inspector from 'node:inspector';
import { OperationFault } from '../admin/operations.ts';
import { formatListenPlace, type ListenPlace, mayResolveTo } from '../config/address.ts';
import type { Config } from '../config/schema.ts';
import { countWorkers, startFleet } from '../fleet-main.ts';
import { ListenFault } from '../listener/accept/bind.ts';
import { type ConfigReading, type RunningServer, type StartOptions, start } from '../main.ts';
import { releaseMemoryWhenIdle, systemClock } from '../setup/system.ts';
import { StoreFault } from '../store/store.ts';
import type { Emit } from '../telemetry/events.ts';
import { createLog } from '../telemetry/log.ts';
import { type CliIo, exitCode, openStopRequest } from './io.ts';
import { keepStoreDirectory, resolveConfig, type ServeFlags, withStoreDirectory } from './serve-config.ts';
import { openServiceManager } from './service-manager.ts';

/** Serves until a signal stops it; resolves with the exit code. */
export async function serve(origin: string | undefined, flags: ServeFlags, io: CliIo): Promise<number> {
  const resolved = await resolveConfig(origin, flags);
  if (resolved.kind === 'refused') {
    for (const line of resolved.lines) io.stderr.write(`${line}\n`);
    return exitCode.misused;
  }
  const { config: written, source } = resolved;
  const config = withStoreDirectory(written, io);
  const readAgain = async (): Promise<ConfigReading> => {
    const next = await resolveConfig(origin, flags);
    if (next.kind === 'refused') throw new OperationFault('invalid', next.lines.join('\n'));
    return { config: keepStoreDirectory(next.config, written, config), source: next.source };
  };
  // The log goes to standard output, where service managers and pipes expect it. Standard error says why no server runs.
  using manager = openServiceManager(io);
  const log = createLog({ ...config.log, stream: io.openLog(), now: systemClock.now });
  using stop = openStopRequest(io);
  const emit = manager.follow(log);
  warnOfDebugger(emit);
  const started = startAny(
    { config, source },
    { emit, log, readAgain, explain: describeReloadFailure, adminSocket: true },
  );
  // A signal that arrives while the server starts takes effect after the start.
  const forget = io.onReloadSignal(() => void started.then((server) => server.reload()).catch(() => undefined));
  using _signals = { [Symbol.dispose]: forget };
  let server: RunningServer | undefined;
  try {
    // A stop signal ends the wait for a start.
    server = await Promise.race([started, stop.requested]);
  } catch (error) {
    io.stderr.write(`rangeway: ${describeStartFailure(error, written)}\n`);
    return exitCode.failed;
  }
  if (server !== undefined) manager.watch(isServing(server));
  await stop.requested;
  await server?.close();
  await manager.settle();
  return exitCode.done;
}

/** Says in the log that Node was started with a debugger, by `--inspect` or by NODE_OPTIONS. */
function warnOfDebugger(emit: Emit): void {
  const url = inspector.url();
  if (url === undefined) return;
  const message = `the debugger of Node listens on ${url}: who reaches it runs code in this process; start without --inspect`;
  emit({ kind: 'listener', level: 'warn', message });
}

/** Starts one process, or a fleet. */
function startAny({ config, source }: ConfigReading, options: StartOptions & Required<Pick<StartOptions, 'emit'>>) {
  if (countWorkers(config) > 1) return startFleet(config, source, options);
  releaseMemoryWhenIdle();
  return start(config, options);
}

/** Returns the check for the watchdog: whether a worker serves. A stuck process never answers it. */
function isServing({ operations }: RunningServer): () => Promise<boolean> {
  return async () => (await operations.readReadiness()).workers.some(({ state }) => state === 'serving');
}

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

/** Describes why a start failed, in one line without a stack. `config` is as it was written, without a default directory. */
export function describeStartFailure(error: unknown, config: Concerned): string {
  return describeFailure(error, config, 'start');
}

/** Describes why a running server cannot use a configuration. Advice about flags is removed: they no longer help. */
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
  // The message of a StoreFault is a sentence.
  if (error instanceof StoreFault) return `cannot ${purpose}. ${firstLine(error.message)}`;
  return `cannot ${purpose}: ${firstLine(error instanceof Error ? error.message : String(error))}`;
}

/** The default directory is named after the address, so the process that uses it probably listens there. */
function describeStoreInUse({ listen, store }: Pick<Config, 'listen' | 'store'>): string {
  if (store.type === 'redis' && store.local !== undefined) {
    return `cannot use ${store.local.dir}: it is in use by another process; choose another directory in store.local.dir`;
  }
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

/** Checks whether an error names this place. For a host name that was resolved the error has the address, not the name. */
function isConcerned(place: ListenPlace, { address, port, hostname }: SystemError): boolean {
  if (place.kind === 'unix') return address === place.path;
  if (place.kind !== 'tcp' || (hostname ?? place.host) !== place.host) return false;
  if (typeof address === 'string' && !mayResolveTo(place.host, address)) return false;
  // An error about a Unix socket has an address without a port; one about an unknown name has neither.
  return port === undefined ? address === undefined : port === place.port;
}

function formatPlaces(listen: Config['listen']): string {
  return listen.map(({ address }) => formatListenPlace(address)).join(' and ');
}

/** Returns the first system error among an error and its causes; undefined where there is none. */
function findSystemError(error: unknown): SystemError | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string' && 'syscall' in cause) return cause as Error & SystemError;
  }
  return undefined;
}

function firstLine(message: string): string {
  return message.split('\n', 1)[0] ?? '';
}
