/** Finds the configuration of `rangeway serve`: lays flags over the configuration file, and names what is wrong by file or flag. */

import { dirname, resolve } from 'node:path';
import { defaultStoreDirectory } from '../config/default-places.ts';
import { type ConfigText, checkConfig, readConfig } from '../config/load.ts';
import type { Problem } from '../config/problems.ts';
import { redisOptionNames } from '../config/redis-schema.ts';
import { type Config, diskOnlyOptions } from '../config/schema.ts';
import type { ConfigReading } from '../main.ts';
import type { CliIo } from './io.ts';

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

/** Formats `file: path: message`. Without a file it begins with `rangeway`, for problems of the command line. */
export function formatProblem(file: string | undefined, problem: Problem): string {
  return [file ?? 'rangeway', ...(problem.path === '' ? [] : [problem.path]), problem.message].join(': ');
}
