/** Which generator loads which workload. */

import type { Cores } from '../cores.ts';
import { findProgram } from '../programs.ts';
import type { Workload } from '../workloads/workload.ts';
import { h2loadGenerator } from './h2load.ts';
import type { LoadGenerator } from './load.ts';
import { nodeGenerator } from './node-load.ts';
import { wrkGenerator } from './wrk.ts';

/** Chooses by what a workload loads with; undefined where what it takes is not installed. */
export type GeneratorChoice = (
  workload: Pick<Workload, 'bodyBytes' | 'isSecure' | 'over' | 'isOurs'>,
) => LoadGenerator | undefined;

/** Bodies up to this size are for wrk. It reads 8 KiB at a time; our own takes half its time for a body of 1 MiB. */
const wrkBodyBytes = 16 * 1024;

/**
 * wrk, where it is installed, has a name for its figures with small bodies. Throws where the wanted one is not installed.
 * `scratch` is a folder for scripts.
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
