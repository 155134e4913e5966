/** Routes for tests. By default, a route serves all paths of all hosts from one origin. */

import type { Origin } from '../../src/origin/origin.ts';
import { createRangeAbility } from '../../src/origin/range-ability.ts';
import type { Route, RouteMatch } from '../../src/routing/router.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { quietFillPolicy } from '../support/proxies/quiet-fill-policy.ts';

const unusedOrigin: Origin = {
  fetch: () => Promise.reject(new Error('This origin is not asked.')),
  close: () => Promise.resolve(),
};

/** Returns a route with these members. `match` may be partial. */
export function routeWith(overrides: Partial<Omit<Route, 'match'>> & { match?: Partial<RouteMatch> } = {}): Route {
  return {
    name: 'route',
    stripPathPrefix: false,
    originUrl: new URL('http://origin.test'),
    origin: unusedOrigin,
    tls: { ca: undefined, rejectUnauthorized: true },
    host: 'origin',
    cache: defaultCaching,
    ranges: { maxRanges: 100, coalesceGapBytes: 80 },
    rangeSupport: createRangeAbility({ mode: 'never', now: () => 0, forgetAfterMs: 0, onDistrust: () => {} }),
    fill: quietFillPolicy,
    lengthWaitMs: 10_000,
    closeDelimited: 'store',
    ...overrides,
    match: { hosts: [], pathPrefix: '/', ...overrides.match },
  };
}
