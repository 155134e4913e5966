/** From a configuration file, or a value, to a `Config` or to everything that is wrong with it. */

import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { findJsonFault } from './json-fault.ts';
import { describeIssues, type Problem } from './problems.ts';
import { type Config, configSchema } from './schema.ts';

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
  const { store } = config;
  return {
    ...config,
    store: store.type === 'disk' && store.dir !== undefined ? { ...store, dir: resolve(directory, store.dir) } : store,
    routes: config.routes.map((route) =>
      route.origin.caFile === undefined
        ? route
        : { ...route, origin: { ...route.origin, caFile: resolve(directory, route.origin.caFile) } },
    ),
  };
}
