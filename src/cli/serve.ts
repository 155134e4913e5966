/** `rangeway serve`: from the command line and a configuration file to a running server, until a signal stops it. */

import { OperationFault } from '../admin/operations.ts';
import { countWorkers, startFleet } from '../fleet-main.ts';
import { type ConfigReading, type RunningServer, type StartOptions, start } from '../main.ts';
import { releaseMemoryWhenIdle } from '../setup/release-memory.ts';
import { systemClock } from '../setup/system.ts';
import { createLog } from '../telemetry/log.ts';
import { exitCode } from './exit-code.ts';
import type { CliIo } from './io.ts';
import { resolveConfig, withSameStoreDirectory, withStoreDirectory } from './serve-config.ts';
import type { ServeFlags } from './serve-flags.ts';
import { openServiceManager } from './service-manager.ts';
import { describeReloadFailure, describeStartFailure } from './start-failure.ts';
import { openStopRequest } from './stop-request.ts';

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
    return { config: withSameStoreDirectory(next.config, written, config), source: next.source };
  };
  // The log is the output of a server: service managers and pipes take it from there. Standard error says why none runs.
  using manager = openServiceManager(io);
  const log = createLog({ ...config.log, stream: io.openLog(), now: systemClock.now });
  using stop = openStopRequest(io);
  const started = startAny(
    { config, source },
    { emit: manager.follow(log), log, readAgain, explain: describeReloadFailure, adminSocket: true },
  );
  // One that comes while the server starts is for what it has started with by then.
  const forget = io.onReloadSignal(() => void started.then((server) => server.reload()).catch(() => undefined));
  using _signals = { [Symbol.dispose]: forget };
  let server: RunningServer | undefined;
  try {
    // A start that nobody wants any more is not waited for.
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

/** One process, or several. */
function startAny({ config, source }: ConfigReading, options: StartOptions & Required<Pick<StartOptions, 'emit'>>) {
  if (countWorkers(config) > 1) return startFleet(config, source, options);
  releaseMemoryWhenIdle();
  return start(config, options);
}

/** Whether somebody serves. A process that cannot even tell is stuck. */
function isServing({ operations }: RunningServer): () => Promise<boolean> {
  return async () => (await operations.readReadiness()).workers.some(({ state }) => state === 'serving');
}
