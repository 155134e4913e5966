/** `rangeway worker`: one of the processes that a server starts for itself. */

import type { ChannelEnd } from '../fleet/channel.ts';
import { releaseMemoryWhenIdle } from '../setup/system.ts';
import { runWorker } from '../worker-main.ts';
import { type CliIo, exitCode, fail } from './io.ts';

/** Serves until the process that has started this one ends it, or is gone; resolves with the exit code. */
export async function worker(io: CliIo): Promise<number> {
  if (process.send === undefined) {
    return fail(io, 'a worker is started by a server with "workers", not by people', exitCode.misused);
  }
  // A terminal sends them to all processes: when to stop, and what to read again, is for the supervisor to say.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined);
  releaseMemoryWhenIdle();
  await runWorker({
    end: process as ChannelEnd,
    logStream: io.openLog(),
    setTitle: (title) => {
      process.title = title;
    },
    exit: io.exit,
  });
  return exitCode.done;
}
