/** Which way a request goes once it is known what is stored for it: decided, and nothing done. */

import { isOnlyIfCached } from './asked.ts';
import type { Inquiry } from './inquiry.ts';
import type { Plan } from './plan.ts';

/** A plan that needs the origin. */
export type FetchPlan = Extract<Plan, { kind: 'revalidate' | 'fill' }>;

/** A plan that the store answers. */
export type StoredPlan = Exclude<Plan, FetchPlan>;

/** The way of a request. */
export type Course =
  | { readonly kind: 'stored'; readonly plan: StoredPlan }
  /** Nothing stored may be used, and the client wants nothing else (RFC 9111 §5.2.1.7). */
  | { readonly kind: 'refuse' }
  /** To the origin, and back without being stored. */
  | { readonly kind: 'pass'; readonly plan: FetchPlan; readonly reason: 'unshared' | 'few-uses' }
  | { readonly kind: 'fetch'; readonly plan: FetchPlan };

/** What is known of a key besides what is stored; asked for where it counts only. */
export interface KeyFacts {
  /** Whether the last response turned out not to be for sharing. */
  isUnshared(): boolean;
  /** How often it was asked for lately, this request included. */
  uses(): number;
}

/** Decides. */
export function decideCourse(plan: Plan, inquiry: Inquiry, facts: KeyFacts): Course {
  if (plan.kind === 'hit' || plan.kind === 'fragment') return { kind: 'stored', plan };
  if (isOnlyIfCached(inquiry)) return { kind: 'refuse' };
  if (plan.kind === 'fill' && facts.isUnshared()) return { kind: 'pass', plan, reason: 'unshared' };
  if (plan.kind === 'fill' && !isAdmitted(inquiry, facts)) return { kind: 'pass', plan, reason: 'few-uses' };
  return { kind: 'fetch', plan };
}

/** Whether a key was asked for often enough to be stored. */
function isAdmitted({ request, policy }: Inquiry, facts: KeyFacts): boolean {
  return policy.storeAfterUses <= 1 || request.method !== 'GET' || facts.uses() >= policy.storeAfterUses;
}
