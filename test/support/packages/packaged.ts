/** Tests of packages: each needs the programs that build them, and is skipped, or fails, as `itWith` says, where one is missing. */

import { itWith } from '../processes/programs.ts';

/** The programs that build the packages. */
export const buildPrograms = ['git', 'npm', 'tar', 'strip', 'dpkg-deb'];

/** Declares a test of a package, which also needs these programs. */
export function itPackaged(programs: readonly string[], name: string, test: () => Promise<void>): void {
  itWith([...buildPrograms, ...programs], name, test);
}
