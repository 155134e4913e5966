/** Which way a request goes once it is known what is stored for it: decided, and nothing done. */

import { isOnlyIfCached, isPlain } from './asked.ts';
import type { Inquiry } from './inquiry.ts';
import type { Plan } from './plan.ts';
import type { Unshared } from './unshared-keys.ts';

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
  /** Where `isAlone`, nobody is waited for: the last response was for its client alone, and others may be for all. */
  | { readonly kind: 'fetch'; readonly plan: FetchPlan; readonly isAlone: boolean };

/** What is known of a key besides what is stored; asked for where it counts only. */
export interface KeyFacts {
  /** Why the last response turned out not to be for sharing, if it did. */
  unshared(): Unshared | undefined;
  /** How often it was asked for lately, this request included. */
  uses(): number;
}

/** Decides. */
export function decideCourse(plan: Plan, inquiry: Inquiry, facts: KeyFacts): Course {
  if (plan.kind === 'hit' || plan.kind === 'fragment') return { kind: 'stored', plan };
  if (isOnlyIfCached(inquiry)) return { kind: 'refuse' };
  const unshared = plan.kind === 'fill' ? facts.unshared() : undefined;
  const isAlone = unshared === 'personal' && isPlain(inquiry);
  if (unshared !== undefined && !isAlone) return { kind: 'pass', plan, reason: 'unshared' };
  if (plan.kind === 'fill' && !isAdmitted(inquiry, facts)) return { kind: 'pass', plan, reason: 'few-uses' };
  return { kind: 'fetch', plan, isAlone };
}

/** Whether a key was asked for often enough to be stored. */
function isAdmitted({ request, policy }: Inquiry, facts: KeyFacts): boolean {
  return policy.storeAfterUses <= 1 || request.method !== 'GET' || facts.uses() >= policy.storeAfterUses;
}
