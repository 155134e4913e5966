/** Which processes may hold a store's directory at the same time, and how a lock ends. */

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { joinDirectory, lockDirectory, withIndexLock } from '../../src/store/disk/index/directory-lock.ts';
import { openTestStore, temporaryDirectory } from '../support/stores/disk-store.ts';

const program = fileURLToPath(new URL('../support/processes/lock-holder.ts', import.meta.url));

/** Starts another process that holds the directory; it is killed when the test ends. */
async function holdElsewhere(dir: string, how: Holder): Promise<ChildProcess> {
  const child = spawn(process.execPath, [program, dir, how], { stdio: ['ignore', 'pipe', 'inherit'] });
  const gone = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await gone;
  });
  await once(child.stdout, 'data');
  return child;
}

type Holder = 'owner' | 'member' | 'store';

/** Locks the directory in this process; returns a function that releases it. */
async function take(dir: string, how: Holder): Promise<() => void> {
  if (how === 'owner') return (await lockDirectory(dir)).release;
  if (how === 'member') return joinDirectory(dir).release;
  const { store } = await openTestStore({ dir });
  return () => void store.close();
}

describe.each(['this process', 'another process'])('while %s holds the directory', (where) => {
  const rows: readonly [Holder, Holder, 'refused' | 'taken'][] = [
    ['owner', 'owner', 'refused'],
    ['owner', 'store', 'refused'],
    ['owner', 'member', 'taken'],
    ['store', 'owner', 'refused'],
    ['store', 'store', 'refused'],
    ['member', 'member', 'taken'],
  ];
  it.each(rows)('as %s, a second lock as %s is %s', async (first, second, want) => {
    const dir = await temporaryDirectory();
    if (where === 'this process') onTestFinished(await take(dir, first));
    else await holdElsewhere(dir, first);
    const taking = take(dir, second);
    if (want === 'taken') {
      (await taking)();
    } else {
      await expect(taking).rejects.toMatchObject({
        name: 'StoreFault',
        reason: 'in_use',
        message: `The directory ${dir} is in use by another process. Choose another one with --dir.`,
      });
    }
  });
});

it.each(['owner', 'store'] as const)('a lock as %s ends with its process, even when that is killed', async (how) => {
  const dir = await temporaryDirectory();
  const holder = await holdElsewhere(dir, how);
  await expect(lockDirectory(dir)).rejects.toMatchObject({ reason: 'in_use' });
  const gone = once(holder, 'exit');
  holder.kill('SIGKILL');
  await gone;
  const lock = await lockDirectory(dir);
  await expect(lockDirectory(dir)).rejects.toMatchObject({ reason: 'in_use' });
  lock.release();
  lock.release();
  (await lockDirectory(dir)).release();
});

// The locks of processes are listed in /proc.
it.runIf(process.platform === 'linux')('an owner waits until the members of an earlier owner have ended', async () => {
  const dir = await temporaryDirectory();
  const member = await holdElsewhere(dir, 'member');
  const [owned, killed] = [join(dir, 'owner.lock'), join(dir, 'killed')];
  // The wait blocks the event loop, so another process has to kill the member, once this one is owner and waits.
  const isOwned = `grep -q "WRITE ${process.pid} .*:$(stat -c %i ${owned} 2>/dev/null) " /proc/locks`;
  const script = `until ${isOwned}; do :; done; touch ${killed}; kill -9 ${member.pid}`;
  const killer = spawn('sh', ['-c', script], { stdio: 'ignore' });
  const gone = once(killer, 'exit');
  const lock = await lockDirectory(dir);
  expect(existsSync(killed)).toBe(true);
  lock.release();
  await gone;
});

it('the index lock is released when its function returns or throws, also for an owner', async () => {
  const dir = await temporaryDirectory();
  const lock = await lockDirectory(dir);
  using _member = joinDirectory(dir);
  const order: string[] = [];
  withIndexLock(dir, () => order.push('one'));
  expect(() =>
    withIndexLock(dir, () => {
      throw new RangeError('ours');
    }),
  ).toThrow(RangeError);
  expect(withIndexLock(dir, () => order.push('two'))).toBe(2);
  lock.release();
});

it('the lock files are for their user alone, and no other files are created', async () => {
  const dir = join(await temporaryDirectory(), 'new');
  using _owner = await lockDirectory(dir);
  using _member = joinDirectory(dir);
  expect((await readdir(dir)).sort()).toEqual(['members.lock', 'owner.lock']);
  for (const path of [dir, join(dir, 'owner.lock'), join(dir, 'members.lock')]) {
    expect(((await stat(path)).mode & 0o077).toString(8)).toBe('0');
  }
});

it('a lock file that cannot be opened is an io fault', async () => {
  const dir = await temporaryDirectory();
  await mkdir(join(dir, 'owner.lock'));
  await expect(lockDirectory(dir)).rejects.toMatchObject({
    reason: 'io',
    message: expect.stringContaining(`The store in ${dir} cannot be opened`),
  });
});
