/** What a delivery works with. */

import type { Clock } from '../cache/clock.ts';
import type { RangeRules } from './selection.ts';

/** The rules of the route, and what is passed in. */
export interface DeliveryContext {
  readonly rules: RangeRules;
  readonly clock: Clock;
  /** Random bytes, for boundaries. */
  readonly random: (size: number) => Uint8Array;
}
