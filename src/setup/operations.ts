/** What those who run a server can have one process do: from the parts of the process to the operations. */

import {
  type FillStatus,
  type LogLevel,
  OperationFault,
  type Operations,
  type OriginStatus,
  type Readiness,
  type StoreOperations,
  type WorkerOperations,
} from '../admin/operations.ts';
import type { Route } from '../routing/route.ts';
import { describeConfig } from './config-view.ts';
import type { Site } from './site.ts';

/** The transfers of a process. */
export interface Fills {
  list(): readonly Omit<FillStatus, 'worker'>[];
  /** Ends one; tells whether there was one. */
  cancel(id: string): boolean | Promise<boolean>;
}

/** A log, as far as those who run the server look at it. */
export interface LogSetting {
  readLevel(): LogLevel;
  setLevel(level: LogLevel): void;
  /** How many lines were dropped so far. */
  readDroppedLines?(): number;
}

/** What is counted in a process. */
export interface Counted {
  /** As prom-client writes it to be put together. */
  read(): Promise<readonly object[]>;
  /** In the text format of Prometheus. */
  format(): Promise<string>;
}

/** A process that serves, as far as operations are about it. */
export interface ServingParts {
  /** What serves now. */
  readonly site: Pick<Site, 'config' | 'routes'>;
  readonly store: StoreOperations;
  readonly fills: Fills;
}

/** What the operations of one process are made of. */
export interface ProcessParts {
  /** The number of the process among those that serve, from 1 on. */
  readonly worker: number;
  /** Undefined while it starts. */
  readonly serving: () => ServingParts | undefined;
  /** Undefined where nothing is logged. */
  readonly log: LogSetting | undefined;
  readonly counted: Counted;
}

/** What a process that is a server by itself has besides. */
export interface ServerParts extends ProcessParts {
  readonly pid: number;
  readonly isStopping: () => boolean;
  /** The addresses that clients connect to. */
  readonly addresses: () => readonly string[];
  /** Undefined where the configuration comes from nowhere that it could be read again. Rejects with what is wrong with it. */
  readonly reload: (() => Promise<void>) | undefined;
}

/** What one of several workers can be asked for. */
export function createWorkerOperations(parts: ProcessParts): StoreOperations & WorkerOperations {
  const { worker, log, counted } = parts;
  const serving = (): ServingParts => {
    const now = parts.serving();
    if (now === undefined) throw new OperationFault('unavailable', 'The server is starting.');
    return now;
  };
  return {
    listEntries: async (search, limit, after) => await serving().store.listEntries(search, limit, after),
    inspectEntry: async (key, generation) => await serving().store.inspectEntry(key, generation),
    purge: async (order) => await serving().store.purge(order),
    warm: async (order) => await serving().store.warm(order),
    explain: async (order) => await serving().store.explain(order),
    listFills: async () =>
      serving()
        .fills.list()
        .map((fill) => ({ ...fill, worker })),
    cancelFill: async (id) => await serving().fills.cancel(id),
    listOrigins: async () => serving().site.routes.flatMap((route) => listOriginsOf(route, worker)),
    setLogLevel: async (level) => {
      if (log === undefined) throw new OperationFault('unavailable', 'Nothing is logged here.');
      log.setLevel(level);
    },
    readMetrics: () => counted.read(),
  };
}

/** What a server of one process can be asked for. */
export function createOperations(parts: ServerParts): Operations {
  const { pid, worker, log, counted, reload } = parts;
  const { readMetrics: _readMetrics, ...operations } = createWorkerOperations(parts);
  const readReadiness = (): Readiness => {
    const state = parts.isStopping() ? 'stopping' : parts.serving() === undefined ? 'starting' : 'serving';
    const isReady = state === 'serving';
    return {
      isReady,
      reason: isReady ? undefined : `The server is ${state}.`,
      workers: [{ id: worker, pid, state }],
      addresses: parts.addresses(),
    };
  };
  return {
    ...operations,
    readReadiness: async () => readReadiness(),
    readConfig: async () => {
      const serving = parts.serving();
      if (serving === undefined) throw new OperationFault('unavailable', 'The server is starting.');
      return describeConfig(serving.site.config);
    },
    readLogLevel: async () => log?.readLevel() ?? 'silent',
    reload: async () => {
      if (reload === undefined) throw new OperationFault('unavailable', 'There is no file to read again.');
      await reload();
    },
    formatMetrics: () => counted.format(),
  };
}

/** The origins of a route, and what this process knows of them. */
export function listOriginsOf(route: Route, worker: number): OriginStatus[] {
  const ranges = route.rangeAbility.known;
  const members = route.listOrigins?.() ?? [{ url: route.originUrl, health: 'well' as const }];
  return members.map(({ url, health }) => ({ route: route.name, url: url.href, worker, health, ranges }));
}
