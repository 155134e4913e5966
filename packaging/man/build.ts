/** Writes the manual page to dist/man/rangeway.1. `npm run build` calls it. */

import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createProcessIo } from '../../src/cli/io.ts';
import { createProgram } from '../../src/cli/program.ts';
import { version } from '../../src/setup/package-files.ts';
import { checkout } from '../checkout.ts';
import { formatManPage } from './man-page.ts';

const file = join(checkout, 'dist/man/rangeway.1');
await mkdir(dirname(file), { recursive: true });
await writeFile(
  file,
  formatManPage(
    createProgram(createProcessIo(), () => undefined),
    version,
  ),
);
