/** How a command that does one thing tells why it has not done it. */

import type { exitCode } from './exit-code.ts';
import type { CliIo } from './io.ts';

type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** Prints the reason, and gives the exit code back. */
export function fail(io: CliIo, reason: string, code: ExitCode): ExitCode {
  io.stderr.write(`rangeway: ${reason}\n`);
  return code;
}
