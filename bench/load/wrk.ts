/** Load by wrk, which reads every byte, 8 KiB at a time, and parses every response. */

import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type CoreList, pinned } from '../cores.ts';
import { BenchFault } from '../fault.ts';
import { bodyBytesOf, type LoadGenerator, type LoadPlan, type LoadResult } from './load.ts';
import { wrkScript } from './wrk-script.ts';

const run = promisify(execFile);

/** Maximum length of a response head, in bytes. */
const longestHeadBytes = 2048;

/** The path of wrk, the folder for its scripts, and its cores. */
export interface WrkPlace {
  readonly program: string;
  readonly scratch: string;
  readonly cores: CoreList | undefined;
}

/** Creates the generator. It uses a thread for each core that a plan names, otherwise one. */
export function wrkGenerator({ program, scratch, cores }: WrkPlace): LoadGenerator {
  return {
    name: 'wrk',
    async run(port, plan) {
      if (plan.ratePerSecond !== undefined) throw new BenchFault('wrk cannot send at a fixed rate');
      if (plan.host !== undefined) throw new BenchFault('wrk sends the address of the proxy as Host');
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

/** Adds a failure where the number of bytes is implausible: wrk counts any 2xx and 3xx as success, also a 200 for a range. */
function checked({ request, connections }: LoadPlan, result: LoadResult): LoadResult {
  const bodyBytes = bodyBytesOf(request);
  const most = (result.requests + connections) * (bodyBytes + longestHeadBytes);
  const isPlausible = result.bytes >= result.requests * bodyBytes && result.bytes <= most;
  return isPlausible ? result : { ...result, failures: result.failures + 1 };
}
