/** From a request to its route, and to the question that the cache is asked. */

import type { CachePolicy, Inquiry } from '../cache/inquiry.ts';
import type { ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { selectParameters } from '../semantics/query.ts';
import { normaliseAuthority } from './authority.ts';
import { cacheKey, originScope } from './cache-key.ts';
import type { Route } from './route.ts';
import { originTarget, type Router } from './router.ts';
import { hidesStepUp, lenientPath, normaliseTarget, type Target } from './target.ts';

/** Where a request goes. */
export interface Routed {
  readonly route: Route;
  /** Normalised; empty for a request without one. */
  readonly authority: string;
  readonly target: Target;
}

/**
 * Finds the route of a request. Throws `ProxyError`: `malformed_request` for an authority that is none, or a path of which the
 * origin may take another way than routing; `no_route`.
 */
export function routeRequest(request: Pick<ProxyRequest, 'scheme' | 'authority' | 'target'>, router: Router): Routed {
  const authority = request.authority === '' ? '' : normaliseAuthority(request.authority, request.scheme);
  if (authority === undefined) throw new ProxyError('malformed_request', { detail: 'the authority is not valid' });
  const target = normaliseTarget(request.target);
  if (hidesStepUp(target.path)) throw new ProxyError('malformed_request', { detail: 'the path hides a step up' });
  const route = router(authority, target.path);
  if (route === undefined) throw new ProxyError('no_route');
  // What guards a path has to guard it however it is written.
  const lenient = lenientPath(target.path);
  if (lenient !== target.path && router(authority, lenient) !== route) {
    throw new ProxyError('malformed_request', { detail: 'the path may be one of another route' });
  }
  return { route, authority, target };
}

/** The question to the cache; `forwarding` is what goes to the origin, which way, and what comes back before the final response. */
export function createInquiry(
  request: ProxyRequest,
  { route, authority, target }: Routed,
  router: Router,
  forwarding: Pick<Inquiry, 'origin' | 'client' | 'originFields' | 'onInterim'>,
): Inquiry {
  const keyIn = (owner: Route, { path, query }: Target) =>
    cacheKey({
      originScope: originScope(owner),
      scheme: request.scheme,
      authority,
      path,
      query: selectParameters(query, owner.cache.key.query),
    });
  return {
    request,
    key: keyIn(route, target),
    uriOrigin: `${request.scheme}://${authority}`,
    keyOf: (other) => {
      const normal = normaliseTarget(other);
      const owner = router(authority, normal.path);
      return owner === undefined ? undefined : keyIn(owner, normal);
    },
    policy: policyOf(route),
    rangeAbility: route.rangeAbility,
    originTarget: originTarget(route, target.path, target.query),
    ...forwarding,
  };
}

/** Made once for each route, not for each request. */
const policies = new WeakMap<Route, CachePolicy>();

function policyOf(route: Route): CachePolicy {
  const known = policies.get(route);
  if (known !== undefined) return known;
  const { cache, fill, closeDelimited } = route;
  const { enabled, digest, acceptEncoding: _forTheOrigin, ...kept } = cache;
  const policy = { ...kept, isEnabled: enabled, wantsDigest: digest, fill, closeDelimited };
  policies.set(route, policy);
  return policy;
}
