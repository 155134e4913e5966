/** Tries in a store's directory what the store does there, and reads the facts of its disk. Leaves nothing behind. */

import { constants, readFileSync } from 'node:fs';
import * as promises from 'node:fs/promises';
import { lstat, mkdtemp, open, opendir, realpath, rename, rm, stat, statfs, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { openFile, systemCode } from '../../store/disk/bodies/file-system.ts';
import { lockDirectory } from '../../store/disk/index/directory-lock.ts';
import { StoreFault } from '../../store/store.ts';
import type { StoreFacts, TrialStep } from './store.ts';

/** How long stored files are counted. */
const countingMs = 2_000;

/** Reads the facts of a directory. `elapsed` returns milliseconds of a clock that never goes back. Never rejects. */
export async function gatherStore(dir: string, elapsed: () => number): Promise<StoreFacts> {
  const found = await stat(dir).catch(() => undefined);
  const triedIn = await nearestDirectory(dir);
  const isInUse = found !== undefined && (await isLocked(dir));
  const trial = await tryDirectory(triedIn, elapsed);
  const { bsize, blocks, bavail, files, ffree } = await statfs(triedIn).catch(() => noDisk);
  return {
    dir,
    mode: found?.mode,
    triedIn,
    fileSystem: await fileSystemOf(triedIn),
    totalBytes: bsize * blocks,
    freeBytes: bsize * bavail,
    files,
    freeFiles: ffree,
    usedBytes: found === undefined ? 0 : await countBytes(dir, elapsed),
    trial,
    isInUse,
  };
}

const noDisk = { bsize: 0, blocks: 0, bavail: 0, files: 0, ffree: 0 };

/** Resolves with the path itself where it exists, whatever it is, otherwise with its nearest existing parent. */
async function nearestDirectory(path: string): Promise<string> {
  const parent = dirname(path);
  if (parent === path || (await lstat(path).catch(() => undefined)) !== undefined) return path;
  return await nearestDirectory(parent);
}

/** Checks whether another process has the store open. A directory that no store was in is not locked, because that creates files. */
async function isLocked(dir: string): Promise<boolean> {
  if ((await stat(join(dir, 'owner.lock')).catch(() => undefined)) === undefined) return false;
  try {
    (await lockDirectory(dir)).release();
    return false;
  } catch (error) {
    return error instanceof StoreFault && error.reason === 'in_use';
  }
}

async function tryDirectory(parent: string, elapsed: () => number): Promise<StoreFacts['trial']> {
  let step: TrialStep = 'create';
  let dir: string | undefined;
  try {
    dir = await mkdtemp(join(parent, '.rangeway-doctor-'));
    const [written, renamed, link] = ['written', 'renamed', 'link'].map((name) => join(dir ?? '', name)) as [
      string,
      string,
      string,
    ];
    step = 'write';
    const file = await open(written, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
    let syncMs: number;
    try {
      await file.writeFile('rangeway');
      step = 'sync';
      const startedAt = elapsed();
      await file.sync();
      syncMs = elapsed() - startedAt;
    } finally {
      await file.close();
    }
    step = 'rename';
    await rename(written, renamed);
    await (await openFile(promises, renamed, 'write')).close();
    step = 'no-follow';
    await symlink(renamed, link);
    if (await opens(link)) return { kind: 'failed', step, code: '', reason: 'a link was opened' };
    step = 'index';
    tryIndex(join(dir, 'index.sqlite'));
    return { kind: 'ok', syncMs };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: 'failed', step, code: systemCode(error) ?? '', reason };
  } finally {
    if (dir !== undefined) await rm(dir, { recursive: true, force: true }).catch(() => undefined);
  }
}

async function opens(link: string): Promise<boolean> {
  try {
    await (await openFile(promises, link, 'read')).close();
    return true;
  } catch (error) {
    if (systemCode(error) !== 'ELOOP') throw error;
    return false;
  }
}

function tryIndex(path: string): void {
  const database = new DatabaseSync(path);
  try {
    const { journal_mode: mode } = database.prepare('PRAGMA journal_mode = WAL').get() ?? {};
    if (mode !== 'wal') throw new Error(`the journal mode is ${mode}, not wal`);
    database.exec('CREATE TABLE trial (word TEXT) STRICT; INSERT INTO trial VALUES (1)');
  } finally {
    database.close();
  }
}

/** Sums the room that files take, with those in subdirectories. Resolves with undefined where they cannot be counted in short time. */
async function countBytes(dir: string, elapsed: () => number): Promise<number | undefined> {
  const endsAt = elapsed() + countingMs;
  let bytes = 0;
  try {
    for await (const entry of await opendir(dir, { recursive: true, bufferSize: 512 })) {
      if (elapsed() > endsAt) return undefined;
      // A running server may have removed the file meanwhile.
      const found = await lstat(join(entry.parentPath, entry.name)).catch(() => undefined);
      if (found?.isFile() === true) bytes += found.blocks * 512;
    }
    return bytes;
  } catch {
    return undefined;
  }
}

/** Returns the file system that a path is on: the last one of those that are mounted nearest to it. */
async function fileSystemOf(path: string): Promise<StoreFacts['fileSystem']> {
  const real = await realpath(path).catch(() => path);
  try {
    return findMount(readFileSync('/proc/self/mountinfo', 'utf8'), real);
  } catch {
    return undefined;
  }
}

/** Finds the mount of a path in the text of /proc/self/mountinfo (proc_pid_mountinfo(5)). */
export function findMount(mountInfo: string, path: string): StoreFacts['fileSystem'] {
  let nearest: StoreFacts['fileSystem'];
  for (const line of mountInfo.split('\n')) {
    const [, escaped, type] = /^\d+ \d+ \S+ \S+ (\S+) .*? - (\S+) /.exec(line) ?? [];
    if (escaped === undefined || type === undefined) continue;
    const mountPoint = escaped.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    );
    const isAbove = path === mountPoint || path.startsWith(mountPoint === '/' ? '/' : `${mountPoint}/`);
    // A later mount at the same place hides the earlier one.
    if (isAbove && mountPoint.length >= (nearest?.mountPoint.length ?? 0)) nearest = { type, mountPoint };
  }
  return nearest;
}
