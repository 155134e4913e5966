/** A small file system in memory, which a test can fill. It needs root on Linux and the right to mount. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

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
export function mayMount(): boolean {
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
