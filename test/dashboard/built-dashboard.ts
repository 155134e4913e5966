/** Builds the dashboard for tests, where it is not built or older than its source. */

import { globSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'vite';
import { projectDirectory } from '../support/processes/rangeway-process.ts';

/** The directory that the admin listener serves. */
export const builtDirectory = join(projectDirectory, 'dist/dashboard');

/** Builds the dashboard if need be. */
export async function ensureBuilt(): Promise<void> {
  const builtAt = statSync(join(builtDirectory, 'index.html'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = globSync(
    ['dashboard/**/*', 'src/cli/**/*-text.ts', 'src/cli/text-sections.ts', 'package-lock.json'],
    {
      cwd: projectDirectory,
    },
  );
  const isOld = sources.some((source) => statSync(join(projectDirectory, source)).mtimeMs > builtAt);
  if (isOld) await build({ configFile: join(projectDirectory, 'dashboard/vite.config.ts'), logLevel: 'warn' });
}
