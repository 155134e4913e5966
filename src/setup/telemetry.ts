/** Log and metrics of a process behind one place where everything is told. */

import type { Store } from '../store/store.ts';
import type { ProcessRole } from '../telemetry/counters.ts';
import type { Emit } from '../telemetry/events.ts';
import { createFleetFormat, createMetrics, formatMetrics } from '../telemetry/metrics.ts';
import { listOriginsOf } from './operations.ts';
import type { Site } from './site.ts';
import { systemClock, version } from './system.ts';

/** What of a server is looked at when metrics are read. */
export interface Measured {
  readonly store: Pick<Store, 'readUsage'>;
  /** What serves now. */
  readonly site: Pick<Site, 'routes'>;
}

/** What a process tells of itself. */
export interface Telemetry {
  /** Where everything is told: logged, and counted. */
  readonly emit: Emit;
  /** What is counted in this process, as plain data that other processes can put together. */
  read(): Promise<readonly object[]>;
  /** The same in the text format of Prometheus. */
  format(): Promise<string>;
  /** For a supervisor: what its workers have counted, and itself, in the text format of Prometheus. */
  merge(readings: readonly (readonly object[])[]): Promise<string>;
  /** Says what is measured from now on. */
  measure(server: Measured): void;
}

/** What telemetry is opened with. */
export interface TelemetryOptions {
  /** Told everything too. */
  readonly log: Emit;
  /** How many lines the log has dropped. */
  readonly readDroppedLines: () => number;
  readonly role: ProcessRole;
}

/** Begins to count. */
export function openTelemetry({ log, readDroppedLines, role }: TelemetryOptions): Telemetry {
  const metrics = createMetrics({ version, role, now: systemClock.now, readDroppedLines });
  const mergeAll = createFleetFormat();
  return {
    emit(event) {
      metrics.emit(event);
      log(event);
    },
    read: () => metrics.read(),
    format: async () => await formatMetrics(await metrics.read()),
    merge: async (readings) => await mergeAll([await metrics.read(), ...readings]),
    measure(server) {
      metrics.attach({
        readStore: () => server.store.readUsage(),
        listOrigins: () => server.site.routes.flatMap((route) => listOriginsOf(route, 0)),
      });
    },
  };
}
