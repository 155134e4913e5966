/** The command line: runs a command and tells the exit code. */

import { CommanderError } from 'commander';
import { type CliIo, createProcessIo, exitCode } from './io.ts';
import { createProgram } from './program.ts';

/** Runs a command line, without the names of the interpreter and the program; resolves with the exit code. */
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
    // Help and version are asked for; whatever else ends a command early is a misuse.
    return error.exitCode === 0 ? exitCode.done : exitCode.misused;
  }
}
