/**
 * Tests that need root: for a file system of a few megabytes, and for a server of another user. Without root the test is skipped,
 * and the summary of the run says why; with RANGEWAY_REQUIRE_CLIENTS=1, as in CI, it fails instead.
 */

import { join } from 'node:path';
import { it } from 'vitest';
import { findProgram, skipUnlessRequired } from './programs.ts';
import { projectDirectory, type RangewayProcess, startLine } from './rangeway-process.ts';
import { mayMount } from './small-disk.ts';

/** Id of the user and group `nobody`, which has no rights of its own. */
export const unprivilegedId = 65_534;

/** Declares a test that needs root on Linux and these programs. */
export function itAsRoot(
  programs: readonly string[],
  name: string,
  test: () => Promise<void>,
  timeoutMs: number,
): void {
  it(name, { timeout: timeoutMs }, async (context) => {
    const missing = programs.filter((program) => findProgram(program) === undefined);
    if (process.platform !== 'linux' || process.getuid?.() !== 0) missing.unshift('root on Linux');
    else if (programs.includes('mount') && !mayMount()) missing.push('the right to mount');
    if (missing.length === 0) return test();
    skipUnlessRequired(context, `needs, and does not have: ${missing.join(', ')}`);
  });
}

/** Starts a server as the user `nobody` on a free port, and waits until it listens. */
export async function startUnprivilegedProxy(
  origin: string,
  flags: readonly string[],
): Promise<RangewayProcess & { readonly url: string }> {
  const id = String(unprivilegedId);
  const become = ['setpriv', `--reuid=${id}`, `--regid=${id}`, '--clear-groups'];
  const words = [...become, process.execPath, join(projectDirectory, 'bin/rangeway.js'), origin, ...flags];
  const quoted = [...words, '--listen', '127.0.0.1:0'].map((word) => `'${word}'`).join(' ');
  const started = startLine(`exec ${quoted}`);
  const [, url = ''] = await started.waitFor(/ready on (http:[^\s",]+),/);
  return { ...started, url };
}
