/** Which generator loads which workload. */

import type { Cores } from '../cores.ts';
import { findProgram } from '../programs.ts';
import type { LoadGenerator } from './load.ts';
import { nodeGenerator } from './node-load.ts';
import { wrkGenerator } from './wrk.ts';

/** What a workload needs most: requests at a high rate, or big bodies read fast. */
export type LoadNature = 'rate' | 'volume';

/** Chooses for each workload. */
export type GeneratorChoice = (nature: LoadNature) => LoadGenerator;

/**
 * wrk asks at the highest rate; our own reads big bodies in fewer steps. Throws where the wanted one is not installed.
 * `scratch` is a folder for scripts.
 */
export function chooseGenerators(
  wanted: 'auto' | 'wrk' | 'node',
  { cores, scratch }: { readonly cores: Cores | undefined; readonly scratch: string },
): GeneratorChoice {
  const node = nodeGenerator(cores?.load);
  const program = findProgram('wrk');
  const wrk = program === undefined ? undefined : wrkGenerator({ program, scratch, core: cores?.load });
  if (wanted === 'wrk' && wrk === undefined) throw new Error('wrk is not installed (apt-get install wrk)');
  return (nature) => {
    if (wanted === 'node' || wrk === undefined) return node;
    return wanted === 'wrk' || nature === 'rate' ? wrk : node;
  };
}
