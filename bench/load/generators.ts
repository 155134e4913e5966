/** Chooses the load generator of each workload. */

import type { Cores } from '../cores.ts';
import { findProgram } from '../programs.ts';
import type { Workload } from '../workloads/workload.ts';
import { h2loadGenerator } from './h2load.ts';
import type { LoadGenerator } from './load.ts';
import { nodeGenerator } from './node-load.ts';
import { wrkGenerator } from './wrk.ts';

/** Returns the generator for a workload; undefined where the workload needs h2load and it is not installed. */
export type GeneratorChoice = (
  workload: Pick<Workload, 'bodyBytes' | 'isSecure' | 'over' | 'isOurs'>,
) => LoadGenerator | undefined;

/** Largest body for which wrk is chosen. wrk reads 8 KiB at a time; the Node generator takes half of wrk's time for a body of 1 MiB. */
const wrkBodyBytes = 16 * 1024;

/**
 * Finds the installed generators, and returns the choice among them. With `auto`, wrk loads small bodies, because its
 * figures are widely known. `scratch` is a folder for wrk's scripts. Throws where wrk is wanted and not installed.
 */
export function chooseGenerators(
  wanted: 'auto' | 'wrk' | 'node',
  { cores, scratch }: { readonly cores: Cores | undefined; readonly scratch: string },
): GeneratorChoice {
  const node = nodeGenerator(cores?.load);
  const program = findProgram('wrk');
  const wrk = program === undefined ? undefined : wrkGenerator({ program, scratch, cores: cores?.load });
  if (wanted === 'wrk' && wrk === undefined) throw new Error('wrk is not installed (apt-get install wrk)');
  const h2load = findProgram('h2load');
  const secure = h2load === undefined ? undefined : h2loadGenerator(h2load, cores?.load);
  return ({ bodyBytes, isSecure, over, isOurs }) => {
    if (isSecure === true) return secure;
    if (over === 'http2' || isOurs === true) return node;
    if (wanted === 'node' || wrk === undefined) return node;
    return wanted === 'wrk' || bodyBytes <= wrkBodyBytes ? wrk : node;
  };
}
