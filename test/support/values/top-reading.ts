/** A reading of the activity of a server, as `GET /api/v1/activity` answers. */

import type { TopReading } from '../../../src/cli/top/figures.ts';

/** 10 seconds after the start: 1000 hits, 100 misses, 10 without the cache; two fills, three hot entries, two origins. */
export const someReading: TopReading = {
  at: 1_000_010_000,
  startedAt: 1_000_000_000,
  isReady: true,
  workers: [
    { id: 1, pid: 11, state: 'serving' },
    { id: 2, pid: 12, state: 'starting' },
  ],
  requests: { hit: 1000, stale: 0, revalidated: 0, miss: 100, uncacheable: 0, none: 10, failed: 0, inFlight: 3 },
  bytes: { sent: 1_000_000, fromOrigin: 500_000 },
  latency: { boundsMs: [1, 10, 100], counts: [100, 10, 0, 0] },
  connectionsOpen: 7,
  store: { entries: 12, memoryBytes: 1e6, memoryLimitBytes: 128e6, diskBytes: null, diskLimitBytes: null },
  origins: [
    { route: 'media.example', url: 'http://first.example', worker: 1, health: 'well', ranges: 'yes' },
    { route: 'media.example', url: 'http://first.example', worker: 2, health: 'well', ranges: 'yes' },
    { route: 'media.example', url: 'http://second.example', worker: 1, health: 'resting', ranges: 'yes' },
  ],
  fills: [
    {
      id: '1.1',
      uri: 'http://media.example/film.mp4',
      sizeBytes: 4_000_000,
      receivedBytes: 1_000_000,
      readers: 2,
      startedAt: 1_000_005_000,
    },
    { id: '2.7', uri: 'http://media.example/live', receivedBytes: 5000, readers: 0, startedAt: 1_000_001_000 },
  ],
  fillCount: 2,
  hottest: [
    { uri: 'http://media.example/c.m4s', hits: 900, bytes: 9000 },
    { uri: 'http://media.example/a.m4s', hits: 500, bytes: 90_000 },
    { uri: 'http://media.example/映画.m4s', hits: 1, bytes: 10 },
  ],
};
