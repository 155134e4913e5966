/**
 * Preloaded into the executable (`--import`): at each SIGUSR2 the process collects garbage, and writes a line with the remaining
 * bytes to standard error: `live 1 {"heapUsed":…,"external":…}`.
 */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as (options: object) => void;
/** The last resort of V8: it also frees what a usual collection leaves for a later one, such as code that has not run for a while. */
const collect = () => gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });

let reports = 0;
process.on('SIGUSR2', () => {
  collect();
  // Objects with finalizers become garbage only after the first collection.
  setImmediate(() => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    reports += 1;
    process.stderr.write(`live ${reports} ${JSON.stringify({ heapUsed, external })}\n`);
  });
});
