/**
 * `rangeway completion`: prints a script that completes the command line in bash, zsh or fish. It is made from the commands and
 * options of the program.
 */

import type { Command } from 'commander';
import { type CliIo, exitCode } from '../io.ts';
import { readProgram } from './completed-program.ts';
import { bashScript, fishScript, zshScript } from './scripts.ts';

/** The shells that there are scripts for. */
export type ShellName = 'bash' | 'zsh' | 'fish';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript };

/** Prints the script for a shell; returns the exit code. */
export function printCompletion(program: Command, shell: ShellName, io: CliIo): number {
  io.stdout.write(scripts[shell](readProgram(program)));
  return exitCode.done;
}
