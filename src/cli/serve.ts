/** `rangeway serve`: from the command line and a configuration file to a running server, until a signal stops it. */

import { dirname } from 'node:path';
import { type ConfigText, checkConfig, readConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { defaultStoreDirectory } from '../config/store-directory.ts';
import { type RunningServer, start } from '../main.ts';
import { createLog } from '../telemetry/log.ts';
import { exitCode } from './exit-code.ts';
import type { CliIo } from './io.ts';
import { formatProblem } from './problem-line.ts';
import { nameProblem, overlayFlags, type ServeFlags } from './serve-flags.ts';
import { describeStartFailure } from './start-failure.ts';
import { openStopRequest } from './stop-request.ts';

/** Serves until a signal stops it; resolves with the exit code. */
export async function serve(origin: string | undefined, flags: ServeFlags, io: CliIo): Promise<number> {
  const resolved = await resolveConfig(origin, flags);
  if (resolved.kind === 'refused') {
    for (const line of resolved.lines) io.stderr.write(`${line}\n`);
    return exitCode.misused;
  }
  const config = withStoreDirectory(resolved.config, io);
  // The log is the output of a server: service managers and pipes take it from there. Standard error says why none runs.
  const emit = createLog({ ...config.log, stream: io.stdout });
  using stop = openStopRequest(io);
  let server: RunningServer | undefined;
  try {
    // A start that nobody wants any more is not waited for.
    server = await Promise.race([start(config, { emit }), stop.requested]);
  } catch (error) {
    io.stderr.write(`rangeway: ${describeStartFailure(error, resolved.config)}\n`);
    return exitCode.failed;
  }
  await stop.requested;
  await server?.close({ graceMs: config.shutdownGraceSeconds * 1000 });
  return exitCode.done;
}

type ResolvedConfig =
  | { readonly kind: 'ok'; readonly config: Config }
  | { readonly kind: 'refused'; readonly lines: readonly string[] };

async function resolveConfig(origin: string | undefined, flags: ServeFlags): Promise<ResolvedConfig> {
  const file = flags.config;
  const text: ConfigText = file === undefined ? { kind: 'ok', value: {} } : await readConfig(file);
  if (text.kind === 'invalid') return refuse(text.problems.map((problem) => formatProblem(file, problem)));
  const overlay = overlayFlags(text.value, origin, flags);
  if (overlay.kind === 'refused') return refuse([`rangeway: ${overlay.reason}`]);
  const checked = checkConfig(overlay.value, file === undefined ? '.' : dirname(file));
  if (checked.kind === 'ok') return checked;
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

function withStoreDirectory(config: Config, io: CliIo): Config {
  const { store } = config;
  if (store.type !== 'disk' || store.dir !== undefined) return config;
  return { ...config, store: { ...store, dir: defaultStoreDirectory(config.listen, io.env, io.home) } };
}
