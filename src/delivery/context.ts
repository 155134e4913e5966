/** What a delivery works with. */

import type { Clock } from '../http/clock.ts';
import type { RangeRules } from './selection.ts';

/** The rules of the route, and what is passed in. */
export interface DeliveryContext {
  readonly rules: RangeRules;
  /** Whether responses state the digest of the whole representation where it is known (RFC 9530 §3). */
  readonly sendsDigest: boolean;
  readonly clock: Clock;
  /** Random bytes, for boundaries. */
  readonly random: (size: number) => Uint8Array;
}
