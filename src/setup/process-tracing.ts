/** The traces of this process. */

import { openTracing, type Tracing } from '../telemetry/tracing.ts';
import { version } from './version.ts';

/** Undefined where no SDK of OpenTelemetry is registered: it is loaded before the program, by `node --import`. */
export function openProcessTracing(): Tracing | undefined {
  return openTracing(version);
}
