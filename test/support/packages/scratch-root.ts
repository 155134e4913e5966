/**
 * Root file systems for tests of packages: a copy of this system whose changes are lost (an overlay), and a directory as a container
 * has it. Both need root on Linux. Disposing unmounts everything; so does the end of the process.
 */

import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProgramResult, runProgram } from '../processes/programs.ts';

/** A directory that can be the root of a process. */
export interface ScratchRoot extends AsyncDisposable {
  readonly dir: string;
  /** Runs a command of the root in it, without input, with a short environment. */
  run(...command: readonly string[]): Promise<ProgramResult>;
}

/** Mounts a copy of this system. Its changes are kept in memory. Other file systems, such as `/proc`, are not in it. */
export async function openSystemCopy(): Promise<ScratchRoot> {
  const place = await mkdtemp(join(tmpdir(), 'rangeway-root-'));
  mount('-t', 'tmpfs', '-o', 'size=1g', 'tmpfs', place);
  const dir = join(place, 'root');
  for (const name of ['upper', 'work', 'root']) mkdirSync(join(place, name));
  const layers = `lowerdir=/,upperdir=${join(place, 'upper')},workdir=${join(place, 'work')}`;
  try {
    mount('-t', 'overlay', '-o', layers, 'overlay', dir);
    mount('--bind', '/dev', join(dir, 'dev'));
    mount('-t', 'proc', 'proc', join(dir, 'proc'));
  } catch (error) {
    await release(place, [place]);
    throw error;
  }
  return rootAt(dir, place, [join(dir, 'proc'), join(dir, 'dev'), dir, place]);
}

/** Makes a directory read-only, except for the file systems that are mounted at these paths in it. */
export async function sealRoot(dir: string, mounts: readonly (readonly string[])[]): Promise<ScratchRoot> {
  mount('--bind', dir, dir);
  const mounted = [dir];
  try {
    for (const [path = '', ...args] of mounts) {
      mount(...args, join(dir, path));
      mounted.unshift(join(dir, path));
    }
    mount('-o', 'remount,bind,ro', dir);
  } catch (error) {
    await release(dir, mounted);
    throw error;
  }
  return rootAt(dir, dir, mounted);
}

function rootAt(dir: string, place: string, mounted: readonly string[]): ScratchRoot {
  const unmountAll = () => unmount(mounted);
  process.once('exit', unmountAll);
  return {
    dir,
    run: (...command) =>
      runProgram('chroot', [dir, '/usr/bin/env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', ...command], '/'),
    async [Symbol.asyncDispose]() {
      process.off('exit', unmountAll);
      await release(place, mounted);
    },
  };
}

async function release(place: string, mounted: readonly string[]): Promise<void> {
  unmount(mounted);
  await rm(place, { recursive: true, force: true });
}

function mount(...args: readonly string[]): void {
  execFileSync('mount', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

/** Unmounts in this order, even what is in use. */
function unmount(mounted: readonly string[]): void {
  for (const path of mounted) execFileSync('umount', ['--lazy', path], { stdio: 'ignore' });
}
