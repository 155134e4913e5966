/** What all builds of packages share: the checkout, programs that they run, and how they end. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/** The root of the checkout. */
export const checkout = fileURLToPath(new URL('..', import.meta.url));

/** Runs a program to its end. Rejects where it fails. */
export const run = promisify(execFile);

/** Prints why a build failed; returns the exit code. */
export function failBuild(error: unknown): number {
  console.error(`build: ${error instanceof Error ? error.message : String(error)}`);
  return 1;
}
