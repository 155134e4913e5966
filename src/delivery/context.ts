/** What a delivery works with. */

import type { Clock } from '../http/clock.ts';
import type { Fields } from '../http/fields.ts';
import { onceForEach } from '../http/once-for-each.ts';
import type { RangeRules } from './selection.ts';

/** The rules of the route, and what is passed in. */
export interface DeliveryContext {
  readonly rules: RangeRules;
  /** Whether responses state the digest of the whole representation where it is known (RFC 9530 §3). */
  readonly sendsDigest: boolean;
  /** What is passed on of the fields of a stored response; the same array for the same one, which must not change. */
  readonly forward: (fields: Fields) => Fields;
  readonly clock: Clock;
  /** Random bytes, for boundaries. */
  readonly random: (size: number) => Uint8Array;
}

/** What of a route decides how its responses are delivered. */
export interface DeliveryRules {
  readonly ranges: Pick<RangeRules, 'maxRanges' | 'coalesceGapBytes'>;
  readonly lengthWaitMs: number;
  readonly cache: { readonly digest: boolean };
}

/** The context of each route, made once. */
export function createDeliveryContexts(
  parts: Omit<DeliveryContext, 'rules' | 'sendsDigest'>,
): (route: DeliveryRules) => DeliveryContext {
  return onceForEach(({ ranges, lengthWaitMs, cache }: DeliveryRules) => {
    return { ...parts, rules: { ...ranges, lengthWaitMs }, sendsDigest: cache.digest };
  });
}
