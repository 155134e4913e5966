/**
 * External programs for tests. A test whose program is missing is skipped, and the summary of the run says why; with
 * RANGEWAY_REQUIRE_CLIENTS=1, as in CI, it fails instead.
 */

import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { it, type TestContext } from 'vitest';

/** Folders of servers such as nginx, which an ordinary user's PATH may lack. */
const systemFolders = ['/usr/local/sbin', '/usr/sbin', '/sbin'];

/** The exit code and output of a program. */
export interface ProgramResult {
  readonly code: number;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** Packages that only clients in a browser need: `npm ci --prefix test/clients --omit=optional`. */
const clientPackages = fileURLToPath(new URL('../../clients/node_modules', import.meta.url));

/** Returns the path of a program in PATH or in a folder of system programs, or of a package (`npm:<name>`), or undefined. */
export function findProgram(name: string): string | undefined {
  if (name.startsWith('npm:')) return [join(clientPackages, name.slice('npm:'.length))].find(isExecutable);
  const { PATH = '' } = process.env;
  return [...PATH.split(delimiter), ...systemFolders].map((dir) => join(dir, name)).find(isExecutable);
}

/** The timeout of a test, and the shorter one of a program in it. A browser on a busy machine is slow. */
const timeoutMs = 180_000;
const programTimeoutMs = 150_000;

/** Declares a test that needs these programs. */
export function itWith(programs: readonly string[], name: string, test: () => Promise<void>): void {
  const missing = programs.filter((program) => findProgram(program) === undefined);
  it(name, { timeout: timeoutMs }, async (context) => {
    if (missing.length === 0) return test();
    const sentence = `needs programs that are not installed: ${missing.join(', ')}`;
    skipUnlessRequired(context, sentence);
  });
}

/** Skips a test for the reason that the sentence tells. Throws with RANGEWAY_REQUIRE_CLIENTS=1. */
export function skipUnlessRequired(context: TestContext, sentence: string): void {
  const { RANGEWAY_REQUIRE_CLIENTS: required } = process.env;
  if (required === '1') throw new Error(sentence);
  context.skip(sentence);
}

/** Runs a program to its end in a directory, by default for two and a half minutes at most. Resolves with any exit code. Rejects where it takes longer. */
export function runProgram(
  program: string,
  args: readonly string[],
  cwd: string,
  limitMs = programTimeoutMs,
  env: NodeJS.ProcessEnv = process.env,
): Promise<ProgramResult> {
  return new Promise((resolve, reject) => {
    const options = { cwd, encoding: 'buffer', maxBuffer: 64 * 1024 * 1024, timeout: limitMs, env } as const;
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
