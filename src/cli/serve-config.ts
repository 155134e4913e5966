/** The configuration of `serve`: a file, with the command line laid over it; read at the start and at each reload. */

import { dirname } from 'node:path';
import { type ConfigText, checkConfig, readConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { defaultStoreDirectory } from '../config/store-directory.ts';
import type { ConfigReading } from '../main.ts';
import type { CliIo } from './io.ts';
import { formatProblem } from './problem-line.ts';
import { nameProblem, overlayFlags, type ServeFlags } from './serve-flags.ts';

/** A configuration to use, or what is wrong with it, one problem a line. */
export type ResolvedConfig =
  | ({ readonly kind: 'ok' } & ConfigReading)
  | { readonly kind: 'refused'; readonly lines: readonly string[] };

/** Reads the file and checks it together with the flags. Never throws. */
export async function resolveConfig(origin: string | undefined, flags: ServeFlags): Promise<ResolvedConfig> {
  const file = flags.config;
  const text: ConfigText = file === undefined ? { kind: 'ok', value: {} } : await readConfig(file);
  if (text.kind === 'invalid') return refuse(text.problems.map((problem) => formatProblem(file, problem)));
  const overlay = overlayFlags(text.value, origin, flags);
  if (overlay.kind === 'refused') return refuse([`rangeway: ${overlay.reason}`]);
  const directory = file === undefined ? '.' : dirname(file);
  const checked = checkConfig(overlay.value, directory);
  if (checked.kind === 'ok') return { ...checked, source: { value: overlay.value, directory } };
  return refuse(
    checked.problems.map((problem) => {
      const named = nameProblem(problem, overlay.setBy);
      return formatProblem(named.fromFlag ? undefined : file, named);
    }),
  );
}

function refuse(lines: readonly string[]): ResolvedConfig {
  return { kind: 'refused', lines };
}

/** The configuration with the directory of its store, where it names none. */
export function withStoreDirectory(config: Config, { env, home }: Pick<CliIo, 'env' | 'home'>): Config {
  const { store } = config;
  if (store.type !== 'disk' || store.dir !== undefined) return config;
  return { ...config, store: { ...store, dir: defaultStoreDirectory(config.listen, env, home) } };
}

/**
 * A configuration that comes after another one: where neither names a directory, the store stays in the one that it has, though
 * the server may listen elsewhere now.
 */
export function withSameStoreDirectory(next: Config, written: Config, running: Config): Config {
  const { store } = next;
  if (store.type !== 'disk' || written.store.type !== 'disk' || running.store.type !== 'disk') return next;
  if (store.dir !== undefined || written.store.dir !== undefined) return next;
  return { ...next, store: { ...store, dir: running.store.dir } };
}
