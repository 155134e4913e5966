/** From the configuration to a route with its origin. */

import type { FillPolicy } from '../cache/fill-policy.ts';
import type { RouteConfig } from '../config/schema.ts';
import type { OriginGroup } from '../origin/origin-group.ts';
import { createOriginWithFields } from '../origin/origin-with-fields.ts';
import { createRangeAbility } from '../origin/range-ability.ts';
import type { Route } from '../routing/route.ts';
import type { Emit } from '../telemetry/events.ts';
import { cacheBeside } from './access.ts';
import type { Heir } from './inheritance.ts';
import { createRouteOrigins } from './origin.ts';
import { readOriginFieldRules } from './origin-fields.ts';
import { seconds, systemClock } from './system.ts';

/** How long an origin that gave no parts is not asked for any. */
const FORGET_ABILITY_MS = 10 * 60 * 1000;

/** A transfer that will be there within this time is waited for. */
const SEEK_AHEAD_MS = 500;

/** A route, and what it is made of that it has to be told to give back. */
export interface OpenedRoute {
  readonly route: Route;
  readonly origins: OriginGroup;
}

/** Creates a route. Rejects when a file of it cannot be read or used. */
export async function createRoute(config: RouteConfig, emit: Emit, heir: Heir): Promise<OpenedRoute> {
  const { origin: originConfig, match } = config;
  const name = config.name ?? `${match?.hosts?.join(',') ?? '*'}${match?.pathPrefix ?? '/'}`;
  const toOrigin = await readOriginFieldRules(config);
  const origins = await createRouteOrigins(originConfig, name, emit, heir);
  const { url, alternatives, ranges } = originConfig;
  const rangeAbility = heir.take('range ability', [name, url, alternatives, ranges], () =>
    createRangeAbility({
      mode: ranges,
      now: systemClock.now,
      forgetAfterMs: FORGET_ABILITY_MS,
      onDistrust: (reason) =>
        emit({ kind: 'origin', route: name, message: 'the origin is not asked for parts for a while', detail: reason }),
    }),
  );
  const route: Route = {
    name,
    match: { hosts: match?.hosts ?? [], pathPrefix: match?.pathPrefix ?? '/' },
    stripPathPrefix: config.stripPathPrefix,
    ...origins,
    origin: createOriginWithFields(origins.origin, toOrigin?.constant ?? []),
    toOrigin,
    cache: cacheBeside(config),
    ranges: config.ranges,
    rangeAbility,
    fill: fillPolicy(config),
    lengthWaitMs: seconds(config.fill.lengthWaitSeconds),
    closeDelimited: originConfig.closeDelimited,
  };
  return { route, origins: origins.origin };
}

function fillPolicy({ fill, origin }: RouteConfig): FillPolicy {
  const { onAbort, finishMaxLeftBytes, finishMaxSizeBytes, finishMaxPerClient, complete, completeBelowBytes } = fill;
  return {
    onAbort,
    finishMaxLeftBytes: finishMaxLeftBytes ?? Number.POSITIVE_INFINITY,
    finishMaxSizeBytes: finishMaxSizeBytes ?? Number.POSITIVE_INFINITY,
    finishMaxPerClient,
    complete: complete === 'whenSmaller' ? { smallerThanBytes: completeBelowBytes } : complete,
    seekAheadBytes: origin.seekAheadBytes,
    seekAheadMs: SEEK_AHEAD_MS,
    openRanges: fill.openRanges,
    headLength: fill.headLength,
    resumeAttempts: fill.resumeAttempts,
  };
}
