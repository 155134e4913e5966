/** `rangeway check`: checks configuration files. */

import { loadConfig } from '../config/load.ts';
import { describeSending } from '../setup/move-to-socket.ts';
import { type CliIo, exitCode } from './io.ts';
import { formatProblem } from './serve-config.ts';
import { printableJson } from './text-sections.ts';

/** Checks each file and prints all problems; resolves with the exit code. */
export async function check(
  files: readonly string[],
  io: CliIo,
  { json = false }: { readonly json?: boolean } = {},
): Promise<number> {
  let code: number = exitCode.done;
  for (const file of files) {
    const loaded = await loadConfig(file);
    if (json) {
      const problems = loaded.kind === 'ok' ? [] : loaded.problems;
      io.stdout.write(`${printableJson({ file, isValid: loaded.kind === 'ok', problems })}\n`);
      if (loaded.kind !== 'ok') code = exitCode.misused;
      continue;
    }
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
