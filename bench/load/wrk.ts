/** Load by wrk. It reads every byte, 8 KiB at a time, and parses every answer. */

import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type CoreList, pinned } from '../cores.ts';
import { BenchFault } from '../fault.ts';
import { bodyBytesOf, type LoadGenerator, type LoadPlan, type LoadResult } from './load.ts';
import { wrkScript } from './wrk-script.ts';

const run = promisify(execFile);

/** No head of an answer is longer, in bytes. */
const longestHeadBytes = 2048;

/** Where wrk is, where its scripts may be written, and on which cores it runs. */
export interface WrkPlace {
  readonly program: string;
  readonly scratch: string;
  readonly cores: CoreList | undefined;
}

/** The generator. One thread for each core. */
export function wrkGenerator({ program, scratch, cores }: WrkPlace): LoadGenerator {
  return {
    name: 'wrk',
    async run(port, plan) {
      if (plan.ratePerSecond !== undefined) throw new BenchFault('wrk sends as fast as it can, and no slower');
      const script = join(scratch, 'load.lua');
      await writeFile(script, wrkScript(port, plan.request));
      const { connections, seconds, request } = plan;
      const path = 'file' in request ? request.file.path : '/';
      const options = [
        `-t${Math.max(1, plan.cores?.length ?? 1)}`,
        `-c${connections}`,
        `-d${Math.ceil(seconds)}s`,
        '--timeout',
        '60s',
        '-s',
        script,
      ];
      const url = `${plan.over === undefined ? 'http' : 'https'}://127.0.0.1:${port}${path}`;
      const [command = '', ...args] = pinned(plan.cores ?? cores, [program, ...options, url]);
      const { stdout } = await run(command, args);
      return checked(plan, JSON.parse(stdout.slice(stdout.lastIndexOf('{'))) as LoadResult);
    },
  };
}

/** wrk takes any 2xx and 3xx for a success: a whole file in place of a range shows in the bytes. */
function checked({ request, connections }: LoadPlan, result: LoadResult): LoadResult {
  const bodyBytes = bodyBytesOf(request);
  const most = (result.requests + connections) * (bodyBytes + longestHeadBytes);
  const isPlausible = result.bytes >= result.requests * bodyBytes && result.bytes <= most;
  return isPlausible ? result : { ...result, failures: result.failures + 1 };
}
