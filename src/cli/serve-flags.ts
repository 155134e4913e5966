/** The flags of `serve`: what they are, and how they are laid over a configuration file. */

import { resolve } from 'node:path';
import type { Problem } from '../config/problems.ts';

/** The flags as given; what was not given is undefined. */
export interface ServeFlags {
  readonly config?: string | undefined;
  readonly listen?: string | undefined;
  readonly store?: string | undefined;
  readonly dir?: string | undefined;
  readonly maxSize?: string | undefined;
  readonly memory?: string | undefined;
  /** Milliseconds. */
  readonly defaultTtl?: number | undefined;
  readonly originHost?: string | undefined;
  readonly insecureTls?: boolean | undefined;
  readonly workers?: string | undefined;
  readonly admin?: string | undefined;
  /** Where the token is, never the token. */
  readonly adminToken?: string | undefined;
  readonly logLevel?: string | undefined;
  readonly logFormat?: string | undefined;
}

/** A configuration to check, and which of its options the command line has set. */
export type Overlay =
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
    return refuse(`<origin> and the routes of ${flags.config} exclude each other: leave out one of them`);
  }
  const stray = origin === undefined ? strayRouteFlag(flags) : undefined;
  if (stray !== undefined) return refuse(`${stray} goes with <origin>; in ${flags.config} it is an option of a route`);
  if (flags.admin === 'off' && flags.adminToken !== undefined) {
    return refuse('--admin off and --admin-token exclude each other');
  }
  const setBy = new Map<string, string>();
  let value = withoutAdminOff(flags.store === 'memory' ? withoutDiskOptions(file) : file, flags);
  for (const { flag, path, given } of serverFlags(flags)) {
    if (given === undefined) continue;
    value = withOption(value, path, given);
    setBy.set(path.join('.'), flag);
  }
  // Who says where it listens can be told that it needs a token.
  if (flags.admin !== undefined && flags.admin !== 'off' && !hasAdminToken(value))
    setBy.set('admin.token', '--admin-token');
  if (origin === undefined || !isObject(value)) return { kind: 'ok', value, setBy };
  for (const [path, flag] of routeOptionFlags) setBy.set(path, flag);
  return { kind: 'ok', value: { ...value, routes: [routeOf(origin, flags)] }, setBy };
}

/** The problem with the flag in place of the option's path, where a flag has set the option. */
export function nameProblem(problem: Problem, setBy: ReadonlyMap<string, string>): Problem & { fromFlag: boolean } {
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
    { flag: '--store', path: ['store', 'type'], given: flags.store },
    // Relative to where the command was given, not to the file.
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

/** A number where it is one: the check tells of everything else. */
function workersOf({ workers }: ServeFlags): number | string | undefined {
  return workers !== undefined && /^\d{1,9}$/.test(workers) ? Number(workers) : workers;
}

/** The path behind a prefix, as `--dir`, is relative to where the command was given. */
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

/** A file's options for a disk say nothing against `--store memory`. */
function withoutDiskOptions(file: unknown): unknown {
  const { store } = isObject(file) ? file : {};
  if (!isObject(file) || !isObject(store)) return file;
  const {
    dir: _dir,
    memoryBytes: _memory,
    lowWaterPercent: _lowWater,
    minFreeBytes: _minFree,
    sendfile: _sendfile,
    ...kept
  } = store;
  return { ...file, store: kept };
}

/** A file that switches the admin listener off says nothing against `--admin` and `--admin-token`. */
function withoutAdminOff(file: unknown, { admin, adminToken }: ServeFlags): unknown {
  if ((admin === undefined && adminToken === undefined) || !isObject(file)) return file;
  const { admin: stated, ...kept } = file;
  return stated === 'off' ? kept : file;
}

/** Sets one option. Where the file has something else than an object, it stays, and the check tells. */
function withOption(value: unknown, path: readonly string[], given: unknown): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return given;
  return isObject(value) ? { ...value, [name]: withOption(value[name] ?? {}, rest, given) } : value;
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function refuse(reason: string): Overlay {
  return { kind: 'refused', reason };
}
