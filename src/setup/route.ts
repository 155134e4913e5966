/** From the configuration to a route with its origin. */

import { readFile } from 'node:fs/promises';
import type { FillPolicy } from '../cache/fill-policy.ts';
import type { RouteConfig } from '../config/schema.ts';
import { createRangeAbility } from '../origin/range-ability.ts';
import { createRetryingOrigin } from '../origin/retrying-origin.ts';
import { createUndiciOrigin } from '../origin/undici-origin.ts';
import type { Route } from '../routing/route.ts';
import type { Emit } from '../telemetry/events.ts';
import { seconds, systemClock } from './system.ts';

/** How long an origin that gave no parts is not asked for any. */
const FORGET_ABILITY_MS = 10 * 60 * 1000;

/** A transfer that will be there within this time is waited for. */
const SEEK_AHEAD_MS = 500;

/** Creates a route. Rejects with Node's error when a file of it cannot be read. */
export async function createRoute(config: RouteConfig, emit: Emit): Promise<Route> {
  const { origin: originConfig, match } = config;
  const name = config.name ?? `${match?.hosts?.join(',') ?? '*'}${match?.pathPrefix ?? '/'}`;
  const url = new URL(originConfig.url);
  const ca = originConfig.caFile === undefined ? undefined : await readFile(originConfig.caFile, 'utf8');
  const tls = { ca, rejectUnauthorized: !originConfig.insecureTls };
  const origin = createUndiciOrigin({
    url: originConfig.url,
    connectTimeoutMs: seconds(originConfig.connectTimeoutSeconds),
    headersTimeoutMs: seconds(originConfig.headersTimeoutSeconds),
    bodyTimeoutMs: seconds(originConfig.bodyTimeoutSeconds),
    connections: originConfig.connections,
    keepAliveTimeoutMs: seconds(originConfig.keepAliveTimeoutSeconds),
    tls,
  });
  return {
    name,
    match: { hosts: match?.hosts ?? [], pathPrefix: match?.pathPrefix ?? '/' },
    stripPathPrefix: config.stripPathPrefix,
    originUrl: url,
    origin: createRetryingOrigin(origin),
    tls,
    host:
      originConfig.host === 'origin' || originConfig.host === 'keep' ? originConfig.host : { name: originConfig.host },
    cache: config.cache,
    ranges: config.ranges,
    rangeAbility: createRangeAbility({
      mode: originConfig.ranges,
      now: systemClock.now,
      forgetAfterMs: FORGET_ABILITY_MS,
      onDistrust: (reason) =>
        emit({ kind: 'origin', route: name, message: 'the origin is not asked for parts for a while', detail: reason }),
    }),
    fill: fillPolicy(config),
    lengthWaitMs: seconds(config.fill.lengthWaitSeconds),
    closeDelimited: originConfig.closeDelimited,
  };
}

function fillPolicy({ fill, origin }: RouteConfig): FillPolicy {
  const { onAbort, finishMaxLeftBytes, finishMaxSizeBytes, complete, completeBelowBytes, resumeAttempts } = fill;
  return {
    onAbort,
    finishMaxLeftBytes: finishMaxLeftBytes ?? Number.POSITIVE_INFINITY,
    finishMaxSizeBytes: finishMaxSizeBytes ?? Number.POSITIVE_INFINITY,
    complete: complete === 'whenSmaller' ? { smallerThanBytes: completeBelowBytes } : complete,
    seekAheadBytes: origin.seekAheadBytes,
    seekAheadMs: SEEK_AHEAD_MS,
    resumeAttempts,
  };
}
