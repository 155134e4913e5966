/** Fake operations of a server: they record their calls, and return fixed values. */

import type {
  Activity,
  EntryDetails,
  EntryStatus,
  Operations,
  RequestDecision,
} from '../../../src/admin/operations.ts';

/** One call: name and arguments. */
export type OperationCall = readonly [name: keyof Operations, ...values: readonly unknown[]];

export const someEntry: EntryStatus = {
  key: 'http://origin.test\nhttp://files.example/film.mp4',
  uri: 'http://files.example/film.mp4',
  scope: 'http://origin.test',
  variant: '',
  generation: 'g-1',
  status: 200,
  contentType: 'video/mp4',
  sizeBytes: 5_000_000_000,
  presentBytes: 524_288,
  isComplete: false,
  isInvalid: false,
  pinnedUntil: undefined,
  responseAt: 1_700_000_000_000,
  usedAt: 1_700_000_060_000,
  etag: '"v1"',
  lastModified: undefined,
  tags: ['film', 'group:x'],
};

export const someDetails: EntryDetails = {
  ...someEntry,
  fields: [
    ['content-type', 'video/mp4'],
    ['vary', 'Accept-Language'],
  ],
  nominated: [['accept-language', null]],
  present: [
    { start: 0, end: 262_144 },
    { start: 1_048_576, end: 1_310_720 },
  ],
  hot: [{ start: 0, end: 262_144 }],
  arriving: [{ start: 262_144, end: 1_048_576, fillId: '1-7' }],
};

export const someActivity: Activity = {
  at: 1_700_000_001_000,
  startedAt: 1_700_000_000_000,
  isReady: true,
  workers: [{ id: 1, pid: 11, state: 'serving' }],
  requests: { hit: 4, stale: 0, revalidated: 1, miss: 2, uncacheable: 0, none: 0, failed: 1, inFlight: 3 },
  bytes: { sent: 1000, fromOrigin: 300 },
  latency: { boundsMs: [1, 2.5], counts: [5, 2, 1] },
  connectionsOpen: 2,
  store: { entries: 1, memoryBytes: 10, memoryLimitBytes: 100, diskBytes: null, diskLimitBytes: null, isShared: false },
  origins: [],
  fills: [],
  fillCount: 0,
  hottest: [{ uri: 'http://files.example/film.mp4', hits: 4, bytes: 900 }],
};

export const someDecision: RequestDecision = {
  at: 1_700_000_000_000,
  worker: 2,
  method: 'GET',
  uri: someEntry.uri,
  range: 'bytes=0-1',
  status: 206,
  outcome: 'miss',
  reason: 'uri-miss',
  collapsed: false,
  originBytes: 262_144,
  sentBytes: 2,
  headMs: 12,
  durationMs: 13,
  apartBy: undefined,
  error: undefined,
  traceId: undefined,
};

/** Creates operations with these overrides; the others return the values of an idle server. */
export function fakeOperations(overrides: Partial<Operations> = {}): {
  readonly operations: Operations;
  readonly calls: OperationCall[];
} {
  const calls: OperationCall[] = [];
  const idle: Operations = {
    listEntries: async () => ({ entries: [someEntry], next: 'page 2' }),
    inspectEntry: async () => someDetails,
    purge: async () => ({ entries: 2 }),
    warm: async ({ urls }) =>
      urls.map((url) => ({ url, status: 200, cacheStatus: 'rangeway; fwd=miss', bytes: 10, error: undefined })),
    explain: async () => ({ kind: 'answered', status: 404, detail: 'There is nothing here.' }),
    listFills: async () => [
      {
        id: '1-7',
        key: someEntry.key,
        uri: someEntry.uri,
        generation: 'g-1',
        worker: 1,
        sizeBytes: undefined,
        receivedBytes: 100,
        readers: 2,
        startedAt: 1_700_000_000_000,
      },
    ],
    cancelFill: async () => true,
    listOrigins: async () => [
      {
        route: 'files',
        url: 'http://origin.test/',
        worker: 1,
        health: 'resting',
        ranges: 'unknown',
        requests: { streams: 3, fills: 1, unanswered: 0, waiting: 2 },
      },
    ],
    readDecisions: async () => [someDecision, { at: 2, worker: 1, event: 'purged', detail: 'An operator removed it.' }],
    setLogLevel: async () => {},
    readReadiness: async () => ({
      isReady: true,
      reason: undefined,
      workers: [
        { id: 1, pid: 11, state: 'serving' },
        { id: 2, pid: 12, state: 'starting' },
      ],
      addresses: ['http://127.0.0.1:8080'],
    }),
    readConfig: async () => ({ routes: [] }),
    readLogLevel: async () => 'info',
    reload: async () => {},
    readActivity: async () => someActivity,
    formatMetrics: async () => '# HELP a b\na 1\n',
  };
  const operations = new Proxy(
    { ...idle, ...overrides },
    {
      get(target, name: keyof Operations) {
        const operation = target[name] as (...values: unknown[]) => unknown;
        return (...values: unknown[]) => {
          calls.push([name, ...values]);
          return operation(...values);
        };
      },
    },
  );
  return { operations, calls };
}
