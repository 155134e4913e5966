/** Builds the dashboard for tests, where it is not built or older than its source. */

import { execFileSync } from 'node:child_process';
import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { projectDirectory } from '../support/processes/rangeway-process.ts';

/** The directory that the admin listener serves. */
export const builtDirectory = join(projectDirectory, 'dist/dashboard');

/** Builds the dashboard if need be. */
export function ensureBuilt(): void {
  const builtAt = statSync(join(builtDirectory, 'index.html'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = globSync(
    ['dashboard/**/*', 'src/cli/**/*-text.ts', 'src/cli/text-sections.ts', 'package-lock.json'],
    {
      cwd: projectDirectory,
    },
  );
  const isOld = sources.some((source) => statSync(join(projectDirectory, source)).mtimeMs > builtAt);
  if (!isOld) return;
  // In a process of its own: the test runner's NODE_ENV would make another build than that of users.
  const { NODE_ENV: _testing, ...env } = process.env;
  execFileSync(process.execPath, [join(projectDirectory, 'dashboard/prepare.js')], { cwd: projectDirectory, env });
}
