/**
 * Tests that need root: for a file system of a few megabytes, and for a server of another user. Without root the test is skipped
 * with a line that says so; with RANGEWAY_REQUIRE_CLIENTS=1, as in CI, it fails instead.
 */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'vitest';
import { findProgram } from './programs.ts';
import { projectDirectory, type RangewayProcess, startLine } from './rangeway-process.ts';

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
    const sentence = `"${name}" needs, and does not have: ${missing.join(', ')}`;
    const { RANGEWAY_REQUIRE_CLIENTS: required } = process.env;
    if (required === '1') throw new Error(sentence);
    console.warn(`SKIPPED: ${sentence}`);
    return context.skip(sentence);
  });
}

/** Mounts a file system of `sizeBytes` in memory. Disposing unmounts it, even where files in it are open. */
export async function mountSmallDisk(sizeBytes: number): Promise<AsyncDisposable & { readonly dir: string }> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-disk-'));
  const failure = mountMemory(dir, sizeBytes);
  if (failure !== undefined) {
    await rm(dir, { recursive: true });
    throw new Error(`no file system could be mounted: ${failure}`);
  }
  const unmount = (): void => unmountLazily(dir);
  // An aborted test run does not dispose.
  process.once('exit', unmount);
  return {
    dir,
    async [Symbol.asyncDispose]() {
      process.off('exit', unmount);
      unmount();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Checks the right to mount, which root in a container may lack. */
function mayMount(): boolean {
  const dir = mkdtempSync(join(tmpdir(), 'rangeway-disk-'));
  const failure = mountMemory(dir, 4096);
  if (failure === undefined) unmountLazily(dir);
  rmdirSync(dir);
  return failure === undefined;
}

/** Mounts a tmpfs. Returns the error text, or undefined at success. */
function mountMemory(dir: string, sizeBytes: number): string | undefined {
  const { status, stderr } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeBytes}`, 'tmpfs', dir]);
  return status === 0 ? undefined : String(stderr);
}

function unmountLazily(dir: string): void {
  spawnSync('umount', ['--lazy', dir]);
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
