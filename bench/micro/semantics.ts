/** The rules of RFC 9110 and RFC 9111 for a request with a stored response. */

import { formatCacheStatus } from '../../src/semantics/cache-status.ts';
import { ageSeconds, freshnessLifetime } from '../../src/semantics/freshness.ts';
import { evaluatePreconditions } from '../../src/semantics/precondition.ts';
import { decideReuse } from '../../src/semantics/reuse.ts';
import { matchesVariant } from '../../src/semantics/vary.ts';
import type { MicroCase } from '../micro-case.ts';
import { now, policy, requestFields, stored } from '../micro-sample.ts';

const plain = { method: 'GET', fields: requestFields };
const resumed = { method: 'GET', fields: [...requestFields, ['if-range', '"5e0be100-40000000"'] as const] };
const known = { method: 'GET', fields: [...requestFields, ['if-none-match', '"a", "5e0be100-40000000"'] as const] };
const reuse = { requestFields, hasRange: true, stored, policy };

export const cases: readonly MicroCase[] = [
  { name: 'evaluatePreconditions, Range alone', call: () => evaluatePreconditions(plain, stored, now) },
  { name: 'evaluatePreconditions, If-Range', call: () => evaluatePreconditions(resumed, stored, now) },
  { name: 'evaluatePreconditions, If-None-Match', call: () => evaluatePreconditions(known, stored, now) },
  { name: 'freshnessLifetime', call: () => freshnessLifetime(stored, policy) },
  { name: 'ageSeconds', call: (turn) => ageSeconds(stored, now + turn) },
  { name: 'decideReuse', call: (turn) => decideReuse({ ...reuse, now: now + (turn & 1023) }) },
  { name: 'matchesVariant', call: () => matchesVariant(stored, requestFields, policy.key) },
  { name: 'formatCacheStatus, a hit', call: (turn) => formatCacheStatus({ hit: true, ttlSeconds: turn & 1023 }) },
  { name: 'formatCacheStatus, a miss', call: () => formatCacheStatus({ fwd: 'uri-miss', stored: true }) },
];
