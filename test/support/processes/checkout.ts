/** Copies of the checkout, for builds and for tests of changed sources. */

import { execFile } from 'node:child_process';
import { linkSync, mkdirSync, readdirSync, readlinkSync, symlinkSync } from 'node:fs';
import { cp, mkdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { projectDirectory } from './rangeway-process.ts';

const run = promisify(execFile);

/** Copies all files that Git does not ignore, as they are now, into a new directory. `node_modules` is a link to the checkout's. */
export async function copyCheckout(to: string): Promise<void> {
  const { stdout } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: projectDirectory,
  });
  for (const name of stdout.split('\0').filter((each) => each !== '')) {
    await mkdir(dirname(join(to, name)), { recursive: true });
    // A file that Git knows may have been deleted.
    await cp(join(projectDirectory, name), join(to, name)).catch(() => undefined);
  }
  await symlink(join(projectDirectory, 'node_modules'), join(to, 'node_modules'));
}

/** Copies a copy, with hard links: a file of the new one must be replaced, and not written to. */
export function linkCopy(from: string, to: string): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkCopy(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else linkSync(source, target);
  }
}
