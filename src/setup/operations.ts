/**
 * Creates the operations of the admin API (`admin/operations.ts`) from the parts of a process. Describes the active configuration
 * without secrets.
 */

import { byAge, composeActivity, mostFills, mostHottestRead } from '../admin/activity.ts';
import {
  type ActivityTotals,
  type DecisionSearch,
  type FillStatus,
  type HotTarget,
  type LogLevel,
  OperationFault,
  type Operations,
  type OriginStatus,
  type Readiness,
  type RecordedDecision,
  type StoreFigures,
  type StoreOperations,
  type WorkerOperations,
} from '../admin/operations.ts';
import { createStoreOperations } from '../admin/store-operations.ts';
import { type AddressRange, formatListenPlace, type ListenPlace } from '../config/address.ts';
import type { Config } from '../config/schema.ts';
import type { SecretSource } from '../config/secret-source.ts';
import type { MemberState } from '../origin/group/origin-group.ts';
import { splitKey } from '../routing/cache-key.ts';
import type { Route } from '../routing/router.ts';
import type { StoreUsage } from '../store/store.ts';
import { redact } from '../telemetry/redact.ts';
import type { Server } from './server.ts';
import type { Site } from './site.ts';
import { systemClock } from './system.ts';

/** The fills of a process. */
interface Fills {
  list(): readonly Omit<FillStatus, 'worker'>[];
  /** Stops a fill. Returns whether it was running here. */
  cancel(id: string): boolean | Promise<boolean>;
}

/** The part of the log that operators can read and change. */
export interface LogSetting {
  readLevel(): LogLevel;
  setLevel(level: LogLevel): void;
  /** Returns the number of lines that were dropped so far. */
  readDroppedLines?(): number;
}

/** The metrics of a process. */
interface Counted {
  /** As prom-client returns them for merging (`getMetricsAsJSON`). */
  read(): Promise<readonly object[]>;
  /** In the text format of Prometheus. */
  format(): Promise<string>;
  /** As `read`, without the metrics about the process. */
  readOwn(): readonly object[];
  total(): ActivityTotals;
  readDecisions(search: DecisionSearch, limit: number): readonly RecordedDecision[];
  /** The URIs that were requested most; counted only while this is called every few seconds. */
  readHottest(limit: number): readonly HotTarget[];
}

/** The parts of a serving process that operations use. */
export interface ServingParts {
  /** The active site. */
  readonly site: Pick<Site, 'config' | 'routes'>;
  readonly store: StoreOperations & Pick<WorkerOperations, 'readUses' | 'inspectHere'>;
  readonly fills: Fills;
  readonly readUsage: () => StoreUsage;
  /** Why requests should be sent to other machines, for people; undefined where there is no reason. */
  readonly unreadyReason?: string | undefined;
}

/** The parts that the operations of one process are made of. */
interface ProcessParts {
  /** The number of the process among those that serve, from 1 on. */
  readonly worker: number;
  /** Undefined while it starts. */
  readonly serving: () => ServingParts | undefined;
  /** Undefined where nothing is logged. */
  readonly log: LogSetting | undefined;
  readonly counted: Counted;
}

/** The further parts of a process that is a server by itself. */
export interface ServerParts extends ProcessParts {
  readonly pid: number;
  readonly isStopping: () => boolean;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The addresses that clients connect to. */
  readonly addresses: () => readonly string[];
  /** Undefined where the configuration has no source to read again. Rejects with its problems. */
  readonly reload: (() => Promise<void>) | undefined;
}

/** Creates the operations of one of several workers. */
export function createWorkerOperations(parts: ProcessParts): StoreOperations & WorkerOperations {
  const { worker, log, counted } = parts;
  const serving = (): ServingParts => {
    const now = parts.serving();
    if (now === undefined) throw new OperationFault('unavailable', 'The server is starting.');
    return now;
  };
  return {
    listEntries: async (...given) => await serving().store.listEntries(...given),
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
    readDecisions: async (search, limit) => counted.readDecisions(search, limit),
    readUses: async (generations) => await serving().store.readUses(generations),
    inspectHere: async (...given) => await serving().store.inspectHere(...given),
    setLogLevel: async (level) => {
      if (log === undefined) throw new OperationFault('unavailable', 'Nothing is logged here.');
      log.setLevel(level);
    },
    readMetrics: () => counted.read(),
    readActivity: async () => {
      const { site, fills, readUsage } = serving();
      const running = fills
        .list()
        .map((fill) => ({ ...fill, worker }))
        .sort(byAge);
      return {
        metrics: counted.readOwn(),
        store: figuresOf(readUsage(), site.config.store.type === 'redis'),
        origins: site.routes.flatMap((route) => listOriginsOf(route, worker)),
        fills: running.slice(0, mostFills),
        fillCount: running.length,
        hottest: counted.readHottest(mostHottestRead),
      };
    },
  };
}

function figuresOf(
  { entryCount, usedBytes, maxSizeBytes, memoryBytes, maxMemoryBytes, isWritable }: StoreUsage,
  isShared: boolean,
): StoreFigures {
  // A store in memory can always be written.
  const isOnDisk = isWritable !== undefined;
  return {
    entries: entryCount,
    memoryBytes: memoryBytes ?? 0,
    memoryLimitBytes: maxMemoryBytes ?? 0,
    diskBytes: isOnDisk ? usedBytes : null,
    diskLimitBytes: isOnDisk ? maxSizeBytes : null,
    isShared,
  };
}

/** Creates the operations of a server of one process. */
export function createOperations(parts: ServerParts): Operations {
  const { pid, worker, log, counted, reload } = parts;
  const {
    readMetrics: _readMetrics,
    readActivity: readOwn,
    readUses: _readUses,
    inspectHere: _inspectHere,
    ...operations
  } = createWorkerOperations(parts);
  const startedAt = parts.now();
  const readReadiness = (): Readiness => {
    const state = parts.isStopping() ? 'stopping' : parts.serving() === undefined ? 'starting' : 'serving';
    const reason = state === 'serving' ? parts.serving()?.unreadyReason : `The server is ${state}.`;
    return {
      isReady: reason === undefined,
      reason,
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
    readActivity: async () => {
      const readings = parts.serving() === undefined ? [] : [await readOwn()];
      const { isReady, workers } = readReadiness();
      return composeActivity({ at: parts.now(), startedAt, isReady, workers, totals: counted.total(), readings });
    },
  };
}

const noUse = { streams: 0, fills: 0, unanswered: 0, waiting: 0 };

/** Returns the origins of a route, and what this process knows of them. */
export function listOriginsOf(route: Route, worker: number): OriginStatus[] {
  const ranges = route.rangeSupport.known;
  const members: readonly MemberState[] = route.listOrigins?.() ?? [{ url: route.originUrl, health: 'well' }];
  return members.map(({ url, health, use = noUse }) => {
    return { route: route.name, url: url.href, worker, health, ranges, requests: use };
  });
}

/** Returns the parts of a server that operations use. */
export function createServingParts(server: Server): ServingParts {
  return {
    get site() {
      return server.site;
    },
    store: createStoreOperations({
      store: server.store,
      cache: server.cache,
      routes: () => server.site.routes,
      addresses: () => server.addresses,
      explain: (request) => server.site.explain(request),
      handler: () => server.site.insideHandler,
      clock: systemClock,
    }),
    readUsage: () => server.store.readUsage(),
    get unreadyReason() {
      return server.unreadyReason;
    },
    fills: {
      list: () => server.cache.listFills().map((fill) => ({ ...fill, uri: splitKey(fill.key).uri })),
      cancel: (id) => server.cache.stopFill(id),
    },
  };
}

const mark = '[redacted]';

/**
 * Returns the configuration as JSON, with all defaults. It names the sources of secrets, never secrets. The values of
 * `fields.toOrigin.set` and `add` are left out all the same, because operators do write secrets there; so is any value of an
 * unknown kind.
 */
export function describeConfig(config: Config): Record<string, unknown> {
  const { listen, routes } = config;
  return viewOfMembers({
    ...config,
    listen: listen.map(({ mode, ...rest }) => ({ ...rest, mode: mode === undefined ? undefined : formatMode(mode) })),
    routes: routes.map(({ fields: { toOrigin, toClient }, ...rest }) => ({
      ...rest,
      fields: {
        toOrigin: { ...toOrigin, set: withoutValues(toOrigin.set), add: withoutValues(toOrigin.add) },
        toClient,
      },
    })),
  });
}

function viewOf(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return redact(value);
    case 'number':
    case 'boolean':
    case 'undefined':
      return value;
    case 'object':
      if (value === null) return null;
      if (Array.isArray(value)) return value.map(viewOf);
      return Object.getPrototypeOf(value) === Object.prototype ? viewOfObject(value) : mark;
    default:
      return mark;
  }
}

function viewOfObject(value: object): unknown {
  if (isSecretSource(value)) return `${value.kind}:${value.name}`;
  if (isListenPlace(value)) return formatListenPlace(value);
  if (isAddressRange(value)) return `${value.address}/${value.prefixLength}`;
  return viewOfMembers(value);
}

function viewOfMembers(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, viewOf(inner)]));
}

function isSecretSource(value: object): value is SecretSource {
  return 'kind' in value && (value.kind === 'env' || value.kind === 'file') && 'name' in value;
}

function isListenPlace(value: object): value is ListenPlace {
  return 'kind' in value && (value.kind === 'tcp' || value.kind === 'unix' || value.kind === 'systemd');
}

function isAddressRange(value: object): value is AddressRange {
  return 'family' in value && 'prefixLength' in value;
}

function withoutValues(record: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.keys(record).map((name) => [name, mark]));
}

function formatMode(mode: number): string {
  return `0${mode.toString(8).padStart(3, '0')}`;
}
