/** Copies of the checkout, for builds and for tests of changed sources. */

import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, symlinkSync } from 'node:fs';
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

/**
 * Copies a copy, except for one file, in which the new one is to differ: of links to everything that does not lead to this file.
 * Programs that follow links before they look for other files, as Node does by default, see the first copy there.
 */
export function linkCopy(from: string, to: string, file: string): void {
  const [first = '', ...rest] = file.split('/');
  mkdirSync(to);
  for (const name of readdirSync(from)) {
    if (name !== first) symlinkSync(join(from, name), join(to, name));
    else if (rest.length > 0) linkCopy(join(from, name), join(to, name), rest.join('/'));
  }
}
