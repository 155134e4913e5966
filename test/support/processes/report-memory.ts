/**
 * Loaded before the executable (`--import`): for each SIGUSR2 the process collects its garbage and writes a line on standard error
 * that says what is left: `live 1 {"heapUsed":…,"external":…}`.
 */

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

let reports = 0;
process.on('SIGUSR2', () => {
  collect();
  // What was waiting for finalizers is garbage only now.
  setImmediate(() => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    reports += 1;
    process.stderr.write(`live ${reports} ${JSON.stringify({ heapUsed, external })}\n`);
  });
});
