/** What the connections of one server have in common. */

import type { Handler } from '../../http/message.ts';
import type { Emit } from '../../telemetry/events.ts';
import type { Pace } from '../pace.ts';
import type { HeadParser } from './head-parser.ts';
import type { DateLine } from './head-text.ts';
import type { Joint } from './joint.ts';
import type { Patience } from './patience.ts';
import type { HeadLimits } from './request-head.ts';

/** What requests are read with, and responses written. */
export interface Ground {
  readonly emit: Emit;
  /** Tells the time in epoch milliseconds. */
  readonly now: () => number;
  readonly limits: HeadLimits;
  readonly patience: Patience;
  /** How fast bodies of requests must come. */
  readonly uploadPace: Pace;
  readonly joint: Joint;
  readonly dateLine: DateLine;
  /** What a connection that goes on says of itself. */
  readonly keepAlive: string;
  /** What clients speak. */
  readonly scheme: 'http' | 'https';
  readonly handler: Handler;
  readonly pace: Pace;
  /** Reads heads that come in one piece. */
  readonly parser: HeadParser;
}
