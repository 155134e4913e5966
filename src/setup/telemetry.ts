/** The log and the metrics of a process, which get all events from one function. */

import type { Store } from '../store/store.ts';
import type { ProcessRole } from '../telemetry/counters.ts';
import type { Emit } from '../telemetry/events.ts';
import { createFleetFormat, createMetrics, formatMetrics } from '../telemetry/metrics.ts';
import { listOriginsOf } from './operations.ts';
import { version } from './package-files.ts';
import type { Site } from './site.ts';
import { systemClock } from './system.ts';

/** The parts of a server that are read for the metrics. */
export interface Measured {
  readonly store: Pick<Store, 'readUsage'>;
  /** The active site. */
  readonly site: Pick<Site, 'routes'>;
}

/** The log and the metrics of a process. */
export interface Telemetry {
  /** Takes all events: logs and counts them. */
  readonly emit: Emit;
  /** Returns the metrics of this process, as plain data that other processes can merge. */
  read(): Promise<readonly object[]>;
  /** Returns the metrics of this process in the text format of Prometheus. */
  format(): Promise<string>;
  /** For a supervisor: merges the metrics of its workers with its own, in the text format of Prometheus. */
  merge(readings: readonly (readonly object[])[]): Promise<string>;
  /** Sets the server that is measured from now on. */
  measure(server: Measured): void;
}

/** Options of telemetry. */
export interface TelemetryOptions {
  /** Gets all events, too. */
  readonly log: Emit;
  /** Returns how many lines the log has dropped. */
  readonly readDroppedLines: () => number;
  readonly role: ProcessRole;
}

/** Begins to count events. */
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
