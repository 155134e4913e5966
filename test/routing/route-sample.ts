/** Routes for tests: everything of every host from one origin, or what the given members make of it. */

import type { Origin } from '../../src/origin/origin.ts';
import { createRangeAbility } from '../../src/origin/range-ability.ts';
import type { Route, RouteMatch } from '../../src/routing/router.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { quietFillPolicy } from '../support/proxies/quiet-fill-policy.ts';

const unusedOrigin: Origin = {
  fetch: () => Promise.reject(new Error('This origin is not asked.')),
  close: () => Promise.resolve(),
};

/** A route; its match may be given in part. */
export function routeWith(given: Partial<Omit<Route, 'match'>> & { match?: Partial<RouteMatch> } = {}): Route {
  return {
    name: 'route',
    stripPathPrefix: false,
    originUrl: new URL('http://origin.test'),
    origin: unusedOrigin,
    tls: { ca: undefined, rejectUnauthorized: true },
    host: 'origin',
    cache: defaultCaching,
    ranges: { maxRanges: 100, coalesceGapBytes: 80 },
    rangeAbility: createRangeAbility({ mode: 'never', now: () => 0, forgetAfterMs: 0, onDistrust: () => {} }),
    fill: quietFillPolicy,
    lengthWaitMs: 10_000,
    closeDelimited: 'store',
    ...given,
    match: { hosts: [], pathPrefix: '/', ...given.match },
  };
}
