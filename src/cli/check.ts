/** `rangeway check`: what is wrong with configuration files. */

import { loadConfig } from '../config/load.ts';
import { describeSending } from '../setup/move-to-socket.ts';
import { exitCode } from './exit-code.ts';
import type { CliIo } from './io.ts';
import { formatProblem } from './problem-line.ts';

/** Checks each file, and tells everything that is wrong; resolves with the exit code. */
export async function check(files: readonly string[], io: CliIo): Promise<number> {
  let code: number = exitCode.done;
  for (const file of files) {
    const loaded = await loadConfig(file);
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
