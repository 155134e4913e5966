/** Configurations for the findings of `rangeway doctor`. */

import type { Diagnosis } from '../../../src/cli/doctor/diagnosis.ts';
import { checkConfig } from '../../../src/config/load.ts';
import type { Config } from '../../../src/config/schema.ts';

/** Returns a configuration with these options and one route. Throws where it is not valid. */
export function examinedConfig(options: object = {}): Config {
  const checked = checkConfig({ routes: [{ origin: 'http://127.0.0.1:3000' }], ...options }, '/etc/rangeway');
  if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
  return checked.config;
}

/** Returns each finding as one line: `level topic [where] what → advice`. */
export function linesOf(findings: readonly Diagnosis[]): string[] {
  return findings.map(({ level, topic, where, what, advice }) =>
    [
      level,
      topic,
      ...(where === undefined ? [] : [`[${where}]`]),
      what,
      ...(advice === undefined ? [] : ['→', advice]),
    ].join(' '),
  );
}
