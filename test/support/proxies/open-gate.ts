/** The parts of a gate that refuses and limits nothing. */

import { createAccess } from '../../../src/guard/access/access.ts';
import { type AllowanceRules, createAllowances } from '../../../src/guard/limits/allowances.ts';

/** Access rules that let every request pass. */
export const openAccess = createAccess({ allow: undefined, deny: undefined, credentials: undefined });

/** Rules without limits. */
export const noLimits: AllowanceRules = {
  bodyBytes: undefined,
  requestsPerClient: 0,
  tunnelsPerClient: 0,
  tunnelIdleTimeoutMs: 0,
  rate: undefined,
  fills: 0,
  fillsPerClient: 0,
  amplification: undefined,
};

/** Allowances without limits. */
export const boundlessAllowances = createAllowances(noLimits, { now: () => 0, after: () => () => {} });
