/**
 * Programs that are not this project's, for tests that call them. A test whose program is missing is skipped with a line
 * that says so; where RANGEWAY_REQUIRE_CLIENTS=1 is set, as in CI, it fails instead.
 */

import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { it } from 'vitest';

/** What a program has done. */
export interface ProgramResult {
  readonly code: number;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** The path of a program that PATH has, or undefined. */
export function findProgram(name: string): string | undefined {
  const { PATH = '' } = process.env;
  return PATH.split(delimiter)
    .map((dir) => join(dir, name))
    .find(isExecutable);
}

/** How long a test may take; a browser on a busy machine needs some of it. */
const timeoutMs = 60_000;

/** A test that calls these programs. */
export function itWith(programs: readonly string[], name: string, test: () => Promise<void>): void {
  const missing = programs.filter((program) => findProgram(program) === undefined);
  it(name, { timeout: timeoutMs }, async (context) => {
    if (missing.length === 0) return test();
    const sentence = `"${name}" needs what is not installed here: ${missing.join(', ')}`;
    const { RANGEWAY_REQUIRE_CLIENTS: required } = process.env;
    if (required === '1') throw new Error(sentence);
    console.warn(`SKIPPED: ${sentence}`);
    return context.skip(sentence);
  });
}

/** Runs a program to its end, in a directory. Resolves whatever its exit code is; rejects where it takes too long. */
export function runProgram(program: string, args: readonly string[], cwd: string): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const options = { cwd, encoding: 'buffer', maxBuffer: 64 * 1024 * 1024, timeout: timeoutMs / 2 } as const;
    execFile(program, args, options, (error, stdout, stderr) => {
      const code = error === null ? 0 : error.code;
      if (typeof code === 'number') resolve({ code, stdout, stderr: stderr.toString() });
      else reject(error);
    });
  });
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
