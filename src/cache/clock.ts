/** Time as it is passed in. */

export type { Clock } from '../http/clock.ts';
