/**
 * Builds the packages once, before the tests of them. They are built in a copy of the checkout, which is removed before the tests:
 * so they cannot read files of it, and `dist` of the checkout stays as it is.
 */

import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import { copyCheckout } from '../processes/checkout.ts';
import { findProgram } from '../processes/programs.ts';
import { buildPrograms } from './packaged.ts';

const run = promisify(execFile);

declare module 'vitest' {
  interface ProvidedContext {
    /**
     * The directory with the packages: `rangeway`, `LICENSES.txt`, `rangeway.deb` and `rangeway.tgz`. Every user can read it. Empty
     * where a program for the build is missing; then `itPackaged` skips the tests.
     */
    packages: string;
  }
}

/** Builds the packages. Returns the function that removes them. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  if (buildPrograms.some((program) => findProgram(program) === undefined)) {
    project.provide('packages', '');
    return async () => undefined;
  }
  const packages = await mkdtemp(join(tmpdir(), 'rangeway-packages-'));
  const remove = () => rm(packages, { recursive: true, force: true });
  try {
    await chmod(packages, 0o755);
    await build(join(packages, 'checkout'), packages);
  } catch (error) {
    await remove();
    throw error;
  }
  project.provide('packages', packages);
  return remove;
}

async function build(copy: string, out: string): Promise<void> {
  await copyCheckout(copy);
  const environment = { ...process.env, DEBFULLNAME: 'Rangeway', DEBEMAIL: 'packages@rangeway.dev' };
  // This runs the build, as `npm publish` does.
  await run('npm', ['pack', '--silent'], { cwd: copy });
  await run(process.execPath, ['packaging/debian/build.ts', '--quick'], { cwd: copy, env: environment });
  for (const [directory, pattern, name] of [
    ['.', /^rangeway-.*\.tgz$/, 'rangeway.tgz'],
    ['dist/bin', /^rangeway$/, 'rangeway'],
    ['dist/bin', /^LICENSES\.txt$/, 'LICENSES.txt'],
    ['dist/deb', /\.deb$/, 'rangeway.deb'],
  ] as const) {
    const found = (await readdir(join(copy, directory))).filter((each) => pattern.test(each));
    if (found.length !== 1) throw new Error(`${pattern} is there ${found.length} times in ${directory}`);
    await rename(join(copy, directory, found[0] ?? ''), join(out, name));
  }
  await rm(copy, { recursive: true });
}
