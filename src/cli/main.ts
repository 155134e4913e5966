/** Runs a command line and returns its exit code. Read `program.ts` next: it defines the commands and their flags. */

import { CommanderError } from 'commander';
import { type CliIo, createProcessIo, exitCode } from './io.ts';
import { createProgram } from './program.ts';

/** Runs a command line. `argv` is without the interpreter and the program. Resolves with the exit code. */
export async function run(argv: readonly string[], io: CliIo = createProcessIo()): Promise<number> {
  let code: number = exitCode.done;
  const program = createProgram(io, (result) => {
    code = result;
  });
  try {
    await program.parseAsync(argv, { from: 'user' });
    return code;
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    // Commander ends help and version with code 0. Any other early end is a misuse.
    return error.exitCode === 0 ? exitCode.done : exitCode.misused;
  }
}
