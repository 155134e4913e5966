/** From a configuration file, or a value, to a `Config` or to everything that is wrong with it. */

import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { findJsonFault } from './json-fault.ts';
import { describeIssues, type Problem } from './problems.ts';
import { type AdminConfig, type Config, configSchema, type ListenerConfig, type RouteConfig } from './schema.ts';
import type { SecretSource } from './values.ts';

/** Everything that is wrong, at once. */
export interface InvalidConfig {
  readonly kind: 'invalid';
  readonly problems: readonly Problem[];
}

/** A configuration to use, or what is wrong with it. */
export type LoadedConfig = { readonly kind: 'ok'; readonly config: Config } | InvalidConfig;

/** The value that a file holds, or why it holds none. */
export type ConfigText = { readonly kind: 'ok'; readonly value: unknown } | InvalidConfig;

/** Reads and checks a file. Never throws; a file that cannot be read is a problem like others. */
export async function loadConfig(file: string): Promise<LoadedConfig> {
  const text = await readConfig(file);
  return text.kind === 'ok' ? checkConfig(text.value, dirname(file)) : text;
}

/** Reads a file as JSON, not checked yet. Never throws. */
export async function readConfig(file: string): Promise<ConfigText> {
  try {
    return parseConfigText(await readFile(file, 'utf8'));
  } catch (error) {
    return invalid(`cannot be read: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The value of a JSON text, or its first fault with line and column. A byte order mark at its start is skipped. */
export function parseConfigText(text: string): ConfigText {
  const json = text.replace(/^\uFEFF/, '');
  const fault = findJsonFault(json);
  if (fault !== undefined) return invalid(`line ${fault.line}, column ${fault.column}: ${fault.message}`);
  return { kind: 'ok', value: JSON.parse(json) };
}

/** Checks a value and fills in the defaults. Relative paths in it are taken from `directory`. */
export function checkConfig(value: unknown, directory: string): LoadedConfig {
  // Only what the schema itself says is a message; the words for all else are those of `describeIssues`.
  const result = configSchema.safeParse(value, { reportInput: true, error: () => '' });
  if (!result.success) return { kind: 'invalid', problems: describeIssues(result.error.issues) };
  return { kind: 'ok', config: withAbsolutePaths(result.data, directory) };
}

function invalid(message: string): InvalidConfig {
  return { kind: 'invalid', problems: [{ path: '', message }] };
}

function withAbsolutePaths(config: Config, directory: string): Config {
  const { store, listen, admin, routes } = config;
  return {
    ...config,
    listen: listen.map((listener) => listenerIn(directory, listener)),
    admin: typeof admin === 'object' ? adminIn(directory, admin) : admin,
    store: store.type === 'disk' && store.dir !== undefined ? { ...store, dir: resolve(directory, store.dir) } : store,
    routes: routes.map((route) => routeIn(directory, route)),
  };
}

function listenerIn(directory: string, listener: ListenerConfig): ListenerConfig {
  const { address, tls } = listener;
  return {
    ...listener,
    address: address.kind === 'unix' ? { ...address, path: resolve(directory, address.path) } : address,
    tls:
      tls === undefined
        ? undefined
        : { ...tls, certificates: tls.certificates.map((pair) => withPaths(directory, pair, ['certFile', 'keyFile'])) },
  };
}

function adminIn(directory: string, { listen, token, ...rest }: AdminConfig): AdminConfig {
  return {
    ...rest,
    listen: listen.kind === 'unix' ? { ...listen, path: resolve(directory, listen.path) } : listen,
    token: secretIn(directory, token),
  };
}

function routeIn(directory: string, route: RouteConfig): RouteConfig {
  const { origin, access, fields, errorPages } = route;
  const { setSecret } = fields.toOrigin;
  return {
    ...route,
    origin: withPaths(directory, origin, ['caFile', 'certFile', 'keyFile']),
    access: {
      ...access,
      basic: secretIn(directory, access.basic),
      bearer: secretIn(directory, access.bearer),
      apiKey: secretIn(directory, access.apiKey),
      signedUrls: secretIn(directory, access.signedUrls),
    },
    fields: {
      ...fields,
      toOrigin: { ...fields.toOrigin, setSecret: mapValues(setSecret, (source) => secretIn(directory, source)) },
    },
    errorPages: mapValues(errorPages, (path) => resolve(directory, path)),
  };
}

function secretIn<S extends SecretSource | undefined>(directory: string, source: S): S {
  return source?.kind === 'file' ? { ...source, name: resolve(directory, source.name) } : source;
}

/** A copy in which the paths of these names that are there are absolute. */
function withPaths<T extends object>(directory: string, value: T, names: readonly (keyof T)[]): T {
  const copy = { ...value };
  for (const name of names) {
    const path: unknown = copy[name];
    if (typeof path === 'string') Object.assign(copy, { [name]: resolve(directory, path) });
  }
  return copy;
}

function mapValues<T, R>(record: Readonly<Record<string, T>>, change: (value: T) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}
