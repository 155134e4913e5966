/** The log and the metrics of a process, which get all events from one function. */

import type { Store } from '../store/store.ts';
import type { ProcessRole } from '../telemetry/counters.ts';
import { type DecisionChoice, type DecisionRecord, Decisions, type KeyEventRecord } from '../telemetry/decisions.ts';
import type { Emit } from '../telemetry/events.ts';
import { HottestTargets, type TargetCount } from '../telemetry/hottest.ts';
import { createFleetMetrics, createMetrics, formatMetrics } from '../telemetry/metrics.ts';
import { type CounterTotals, sumTotals } from '../telemetry/totals.ts';
import { Watch } from '../telemetry/watch.ts';
import { listOriginsOf } from './operations.ts';
import { version } from './package-files.ts';
import type { Site } from './site.ts';
import { backgroundClock, systemClock } from './system.ts';

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
  /** Returns our own metrics of this process, as `read` does, without those about the process. */
  readOwn(): readonly object[];
  /** Adds up the metrics of this process. */
  total(): CounterTotals;
  /** For a supervisor: adds up the metrics of its workers (`readOwn`) and its own. */
  totalOf(readings: readonly (readonly object[])[]): Promise<CounterTotals>;
  /** Returns the URIs that were requested most; they are counted only while this is called every few seconds. */
  readHottest(limit: number): readonly TargetCount[];
  /** Returns what happened to the last requests, or to those of a key or a URI, the newest first. */
  readDecisions(choice: DecisionChoice, limit: number): readonly (DecisionRecord | KeyEventRecord)[];
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

/** Single requests are observed for this long after the last look of a viewer, in milliseconds. */
const watchedMs = 10_000;

/** Begins to count events. */
export function openTelemetry({ log, readDroppedLines, role }: TelemetryOptions): Telemetry {
  const metrics = createMetrics({ version, role, now: systemClock.now, readDroppedLines });
  const fleet = createFleetMetrics();
  const hottest = new HottestTargets(backgroundClock);
  const { after } = backgroundClock;
  const decisions = new Decisions({ worker: role.kind === 'worker' ? role.id : 1, now: systemClock.now, after });
  // Known here, so that a plain hit that no viewer watches is only counted and logged.
  let isWatched = false;
  const viewers = new Watch({
    lastsMs: watchedMs,
    after,
    onEnd: () => {
      isWatched = false;
    },
  });
  const look = (): void => {
    isWatched = true;
    viewers.look();
  };
  return {
    emit(event) {
      metrics.emit(event);
      if (isWatched && event.kind === 'request') hottest.count(event);
      if (isWatched || event.kind !== 'request' || event.outcome !== 'hit' || event.error !== undefined) {
        decisions.note(event);
      }
      log(event);
    },
    read: () => metrics.read(),
    format: async () => await formatMetrics(await metrics.read()),
    merge: async (readings) => await fleet.format([await metrics.read(), ...readings]),
    readOwn: () => metrics.readOwn(),
    total: () => sumTotals(metrics.readOwn()),
    totalOf: async (readings) => sumTotals(await fleet.combine([metrics.readOwn(), ...readings])),
    readHottest(limit) {
      // A viewer of the activity may look at single requests next.
      look();
      decisions.look();
      return hottest.read(limit);
    },
    readDecisions(choice, limit) {
      look();
      return decisions.read(choice, limit);
    },
    measure(server) {
      metrics.attach({
        readStore: () => server.store.readUsage(),
        listOrigins: () => server.site.routes.flatMap((route) => listOriginsOf(route, 0)),
      });
    },
  };
}
