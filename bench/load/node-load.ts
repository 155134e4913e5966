/** Load by a Node process, where wrk is missing, reads too slowly, or cannot send the requests. */

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type CoreList, pinned } from '../cores.ts';
import type { LoadGenerator, LoadResult } from './load.ts';

const run = promisify(execFile);
const program = fileURLToPath(new URL('node-load-process.ts', import.meta.url));

/** Creates the generator, on these cores. */
export function nodeGenerator(cores: CoreList | undefined): LoadGenerator {
  return {
    name: 'node',
    async run(port, plan) {
      const command = [process.execPath, program, String(port), JSON.stringify(plan)];
      const [taskset = '', ...args] = pinned(plan.cores ?? cores, command);
      const { stdout } = await run(taskset, args);
      return JSON.parse(stdout) as LoadResult;
    },
  };
}
