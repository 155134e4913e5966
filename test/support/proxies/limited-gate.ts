/** A gate that only limits requests. */

import { plainPresentation } from '../../../src/guard/fields/presentation.ts';
import { createGate, type Gate } from '../../../src/guard/gate.ts';
import { type AllowanceRules, createAllowances } from '../../../src/guard/limits/allowances.ts';
import type { Clock } from '../../../src/http/clock.ts';
import { noLimits, openAccess } from './open-gate.ts';

/** Creates a gate with these limits only. By default its clock stands still. */
export function createLimitedGate(rules: Partial<AllowanceRules>, clock: Partial<Clock> = {}): Gate {
  const allowances = createAllowances({ ...noLimits, ...rules }, { now: () => 0, after: () => () => {}, ...clock });
  return createGate({ access: openAccess, allowances, presentation: plainPresentation });
}
