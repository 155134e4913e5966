/** `rangeway worker`: one worker process of a server. Only the supervisor starts it. */

import type { ChannelEnd } from '../fleet/channel.ts';
import { releaseMemoryWhenIdle } from '../setup/system.ts';
import { runWorker } from '../worker-main.ts';
import { type CliIo, exitCode, fail } from './io.ts';

/** Serves until the supervisor stops it or is gone; resolves with the exit code. */
export async function worker(io: CliIo): Promise<number> {
  if (process.send === undefined) {
    return fail(io, 'a worker is started by a server with "workers", not by people', exitCode.misused);
  }
  // A terminal sends these signals to every process. The supervisor decides when to stop and when to reload.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGHUP']) process.on(signal, () => undefined);
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
