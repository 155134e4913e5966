/**
 * `rangeway serve` and `rangeway check`. Lays flags over the configuration file, runs the server until a signal stops it, and
 * describes errors of a start or a reload in one line.
 */

import { dirname, resolve } from 'node:path';
import { OperationFault } from '../admin/operations.ts';
import { formatListenPlace, type ListenPlace, mayResolveTo } from '../config/address.ts';
import { defaultStoreDirectory } from '../config/default-places.ts';
import { type ConfigText, checkConfig, loadConfig, readConfig } from '../config/load.ts';
import type { Problem } from '../config/problems.ts';
import { redisOptionNames } from '../config/redis-schema.ts';
import { type Config, diskOnlyOptions } from '../config/schema.ts';
import { countWorkers, startFleet } from '../fleet-main.ts';
import { ListenFault } from '../listener/accept/bind.ts';
import { type ConfigReading, type RunningServer, type StartOptions, start } from '../main.ts';
import { describeSending } from '../setup/move-to-socket.ts';
import { releaseMemoryWhenIdle, systemClock } from '../setup/system.ts';
import { StoreFault } from '../store/store.ts';
import { createLog } from '../telemetry/log.ts';
import { type CliIo, exitCode, openStopRequest } from './io.ts';
import { openServiceManager } from './service-manager.ts';
import { printableJson } from './text-sections.ts';

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
  const started = startAny(
    { config, source },
    { emit: manager.follow(log), log, readAgain, explain: describeReloadFailure, adminSocket: true },
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

/** Checks each file and prints all problems; resolves with the exit code. */
export async function check(
  files: readonly string[],
  io: CliIo,
  { json = false }: { readonly json?: boolean } = {},
): Promise<number> {
  let code: number = exitCode.done;
  for (const file of files) {
    const loaded = await loadConfig(file);
    if (json) {
      const problems = loaded.kind === 'ok' ? [] : loaded.problems;
      io.stdout.write(`${printableJson({ file, isValid: loaded.kind === 'ok', problems })}\n`);
      if (loaded.kind !== 'ok') code = exitCode.misused;
      continue;
    }
    if (loaded.kind === 'ok') {
      const { store } = loaded.config;
      const sending = store.type === 'disk' ? `, ${describeSending(store.sendfile)}` : '';
      io.stdout.write(`${file}: ok${sending}\n`);
      continue;
    }
    code = exitCode.misused;
    for (const problem of loaded.problems) io.stderr.write(`${formatProblem(file, problem)}\n`);
  }
  return code;
}

/** A configuration to use, or what is wrong with it, one problem a line. */
type ResolvedConfig =
  | ({ readonly kind: 'ok' } & ConfigReading)
  | { readonly kind: 'refused'; readonly lines: readonly string[] };

/** Reads the file and checks it together with the flags. Never throws. */
export async function resolveConfig(origin: string | undefined, flags: ServeFlags): Promise<ResolvedConfig> {
  const file = flags.config;
  const text: ConfigText = file === undefined ? { kind: 'ok', value: {} } : await readConfig(file);
  if (text.kind === 'invalid') return refuseConfig(text.problems.map((problem) => formatProblem(file, problem)));
  const overlay = overlayFlags(text.value, origin, flags);
  if (overlay.kind === 'refused') return refuseConfig([`rangeway: ${overlay.reason}`]);
  const directory = file === undefined ? '.' : dirname(file);
  const checked = checkConfig(overlay.value, directory);
  if (checked.kind === 'ok') return { ...checked, source: { value: overlay.value, directory } };
  return refuseConfig(
    checked.problems.map((problem) => {
      const named = nameProblemByFlag(problem, overlay.setBy);
      return formatProblem(named.fromFlag ? undefined : file, named);
    }),
  );
}

function refuseConfig(lines: readonly string[]): ResolvedConfig {
  return { kind: 'refused', lines };
}

/** Fills in the default store directory where the configuration names none. */
export function withStoreDirectory(config: Config, { env, home }: Pick<CliIo, 'env' | 'home'>): Config {
  const { store } = config;
  if (store.type !== 'disk' || store.dir !== undefined) return config;
  return { ...config, store: { ...store, dir: defaultStoreDirectory(config.listen, env, home) } };
}

/**
 * Fills in the store directory of a reloaded configuration. Where neither `next` nor `written` names one, the store stays where
 * it is, although the server may listen elsewhere now.
 */
export function keepStoreDirectory(next: Config, written: Config, running: Config): Config {
  const { store } = next;
  if (store.type !== 'disk' || written.store.type !== 'disk' || running.store.type !== 'disk') return next;
  if (store.dir !== undefined || written.store.dir !== undefined) return next;
  return { ...next, store: { ...store, dir: running.store.dir } };
}

/** The flags of `rangeway serve`; undefined where absent. */
export interface ServeFlags {
  readonly config?: string | undefined;
  readonly listen?: string | undefined;
  readonly store?: string | undefined;
  readonly dir?: string | undefined;
  readonly maxSize?: string | undefined;
  readonly memory?: string | undefined;
  /** In milliseconds. */
  readonly defaultTtl?: number | undefined;
  readonly originHost?: string | undefined;
  readonly insecureTls?: boolean | undefined;
  readonly workers?: string | undefined;
  readonly admin?: string | undefined;
  /** Where the token is, never the token itself. */
  readonly adminToken?: string | undefined;
  readonly logLevel?: string | undefined;
  readonly logFormat?: string | undefined;
}

/** A configuration to check, and which of its options the command line has set. */
type Overlay =
  | {
      readonly kind: 'ok';
      readonly value: unknown;
      /** From the path of an option to the flag, or argument, that set it. */
      readonly setBy: ReadonlyMap<string, string>;
    }
  | { readonly kind: 'refused'; readonly reason: string };

type JsonObject = Readonly<Record<string, unknown>>;

/** Lays the command line over the value of a configuration file; `{}` stands for no file. */
export function overlayFlags(file: unknown, origin: string | undefined, flags: ServeFlags): Overlay {
  if (origin !== undefined && hasRoutes(file)) {
    return refuseFlags(`<origin> and the routes of ${flags.config} exclude each other: leave out one of them`);
  }
  const stray = origin === undefined ? strayRouteFlag(flags) : undefined;
  if (stray !== undefined)
    return refuseFlags(`${stray} goes with <origin>; in ${flags.config} it is an option of a route`);
  if (flags.admin === 'off' && flags.adminToken !== undefined) {
    return refuseFlags('--admin off and --admin-token exclude each other');
  }
  const setBy = new Map<string, string>();
  let value = withoutAdminOff(withoutOtherStore(file, flags.store), flags);
  for (const { flag, path, given } of serverFlags(flags)) {
    if (given === undefined) continue;
    value = withOption(value, path, given);
    setBy.set(path.join('.'), flag);
  }
  // A missing token is then reported against --admin-token.
  if (flags.admin !== undefined && flags.admin !== 'off' && !hasAdminToken(value))
    setBy.set('admin.token', '--admin-token');
  if (origin === undefined || !isObject(value)) return { kind: 'ok', value, setBy };
  for (const [path, flag] of routeOptionFlags) setBy.set(path, flag);
  return { kind: 'ok', value: { ...value, routes: [routeOf(origin, flags)] }, setBy };
}

/** Names the flag in place of the option's path, where a flag has set the option. */
export function nameProblemByFlag(
  problem: Problem,
  setBy: ReadonlyMap<string, string>,
): Problem & { fromFlag: boolean } {
  const flag = setBy.get(problem.path);
  return { path: flag ?? problem.path, message: problem.message, fromFlag: flag !== undefined };
}

const routeOptionFlags: readonly (readonly [path: string, flag: string])[] = [
  ['routes[0].origin', '<origin>'],
  ['routes[0].origin.url', '<origin>'],
  ['routes[0].origin.host', '--origin-host'],
  ['routes[0].origin.insecureTls', '--insecure-tls'],
  ['routes[0].cache.defaultTtlSeconds', '--default-ttl'],
];

function serverFlags(flags: ServeFlags) {
  return [
    { flag: '--listen', path: ['listen'], given: flags.listen },
    ...storeFlags(flags.store),
    // Relative to the working directory, not to the file.
    { flag: '--dir', path: ['store', 'dir'], given: flags.dir === undefined ? undefined : resolve(flags.dir) },
    { flag: '--max-size', path: ['store', 'maxSizeBytes'], given: flags.maxSize },
    { flag: '--memory', path: ['store', 'memoryBytes'], given: flags.memory },
    { flag: '--workers', path: ['workers'], given: workersOf(flags) },
    flags.admin === 'off'
      ? { flag: '--admin', path: ['admin'], given: 'off' }
      : { flag: '--admin', path: ['admin', 'listen'], given: withAbsolutePath(flags.admin, 'unix:') },
    { flag: '--admin-token', path: ['admin', 'token'], given: withAbsolutePath(flags.adminToken, 'file:') },
    { flag: '--log-level', path: ['log', 'level'], given: flags.logLevel },
    { flag: '--log-format', path: ['log', 'format'], given: flags.logFormat },
  ] as const;
}

/** Returns a number where the text is one. The check reports any other text. */
function workersOf({ workers }: ServeFlags): number | string | undefined {
  return workers !== undefined && /^\d{1,9}$/.test(workers) ? Number(workers) : workers;
}

/** Resolves the path behind a prefix against the working directory, as for `--dir`. */
function withAbsolutePath(text: string | undefined, prefix: string): string | undefined {
  return text?.startsWith(prefix) && text.length > prefix.length ? prefix + resolve(text.slice(prefix.length)) : text;
}

function hasAdminToken(value: unknown): boolean {
  const { admin } = isObject(value) ? value : {};
  const { token } = isObject(admin) ? admin : {};
  return token !== undefined;
}

function strayRouteFlag(flags: ServeFlags): string | undefined {
  if (flags.defaultTtl !== undefined) return '--default-ttl';
  if (flags.insecureTls !== undefined) return '--insecure-tls';
  return flags.originHost === undefined ? undefined : '--origin-host';
}

function routeOf(origin: string, flags: ServeFlags): JsonObject {
  const { originHost, insecureTls } = flags;
  const options = {
    ...(originHost === undefined ? {} : { host: originHost }),
    ...(insecureTls === undefined ? {} : { insecureTls }),
  };
  return {
    origin: Object.keys(options).length === 0 ? origin : { url: origin, ...options },
    ...(flags.defaultTtl === undefined ? {} : { cache: { defaultTtlSeconds: flags.defaultTtl / 1000 } }),
  };
}

function hasRoutes(file: unknown): boolean {
  const { routes } = isObject(file) ? file : {};
  return routes !== undefined;
}

/** Returns the options that `--store` sets: the type, and the place of an engine where it is a URL. */
function storeFlags(given: string | undefined) {
  const type = { flag: '--store', path: ['store', 'type'] } as const;
  if (given === undefined || !isEngineUrl(given)) return [{ ...type, given }];
  return [
    { ...type, given: 'redis' },
    { flag: '--store', path: ['store', 'url'], given },
  ] as const;
}

/** Whether a store is named by the URL of an engine. */
export function isEngineUrl(text: string): boolean {
  return /^(?:rediss?|valkeys?|unix):/.test(text);
}

/** Removes the options of a file that a store has not which `--store` names. */
function withoutOtherStore(file: unknown, given: string | undefined): unknown {
  const { store } = isObject(file) ? file : {};
  if (given === undefined || !isObject(file) || !isObject(store)) return file;
  const ofDisk = [...diskOnlyOptions, 'memoryBytes'];
  const removed: ReadonlySet<string> = new Set(
    isEngineUrl(given)
      ? [
          ...diskOnlyOptions,
          'maxSizeBytes',
          'url',
          'cluster',
          'sentinels',
          'sentinelMaster',
          'sentinelUsername',
          'sentinelPassword',
        ]
      : given === 'memory'
        ? [...ofDisk, ...redisOptionNames]
        : redisOptionNames,
  );
  const kept = Object.fromEntries(Object.entries(store).filter(([name]) => !removed.has(name)));
  return { ...file, store: kept };
}

/** Removes `"admin": "off"` of a file where `--admin` or `--admin-token` is given. */
function withoutAdminOff(file: unknown, { admin, adminToken }: ServeFlags): unknown {
  if ((admin === undefined && adminToken === undefined) || !isObject(file)) return file;
  const { admin: stated, ...kept } = file;
  return stated === 'off' ? kept : file;
}

/** Sets one option. A value in the file that should be an object and is not stays, and the check reports it. */
function withOption(value: unknown, path: readonly string[], given: unknown): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return given;
  return isObject(value) ? { ...value, [name]: withOption(value[name] ?? {}, rest, given) } : value;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function refuseFlags(reason: string): Overlay {
  return { kind: 'refused', reason };
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

/** Formats `file: path: message`. Without a file it begins with `rangeway`, for problems of the command line. */
export function formatProblem(file: string | undefined, problem: Problem): string {
  return [file ?? 'rangeway', ...(problem.path === '' ? [] : [problem.path]), problem.message].join(': ');
}
