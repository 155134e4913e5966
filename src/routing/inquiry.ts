/**
 * Finds the route of a request, and makes the inquiry that the cache answers. Recent results are remembered by their text, in a
 * bounded number.
 */

import type { CachePolicy, Inquiry } from '../cache/inquiry.ts';
import { memoizeByObject, RecentResults } from '../http/collections.ts';
import type { Fields } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { targetKeys } from './cache-key.ts';
import { isNameOfServer, originTarget, prefixOf, type Route, type Router } from './router.ts';
import {
  hasHiddenDotDot,
  hasOneReading,
  mayLeavePrefix,
  normaliseAuthority,
  normaliseTarget,
  pathReadings,
  plainTarget,
  splitTarget,
  type Target,
} from './target.ts';

/** The destination of a request. */
export interface Routed {
  readonly route: Route;
  readonly scheme: ProxyRequest['scheme'];
  /** Normalised; empty for a request without an authority. */
  readonly authority: string;
  /** As the client sent it. */
  readonly target: Target;
}

/** The destination of a request, as the client sent it. */
type Destination = Pick<ProxyRequest, 'scheme' | 'authority' | 'target'>;

/**
 * Finds the route of a request; returns the remembered result of an equal request where there is one. Throws `ProxyError`:
 * `malformed_request` for an invalid authority, a target with a fragment, or a path that some origins may read as one of
 * another route; `no_route` where no route serves it; `misdirected` where the route refuses names that are not known as its own.
 */
export function routeRequest(destination: Destination, router: Router): Routed {
  const remembered = rememberedBy(router);
  const { scheme, authority, target } = destination;
  // The length marks the end of the authority, whatever it contains.
  const text = `${scheme} ${authority.length} ${authority}${target}`;
  const known = remembered.find(text);
  if (known !== undefined) return known;
  const routed = findRoute(destination, router);
  remembered.keep(text, routed);
  return routed;
}

/** At least this many results are remembered for each router. */
const KEPT_ROUTES = 1024;

const rememberedBy = memoizeByObject((_router: Router) => new RecentResults<Routed>(KEPT_ROUTES));

/** The rules of the route of a plain target, and the key of its responses. */
interface KeyedRules<Rules> {
  readonly rules: Rules;
  readonly key: string;
}

/** Finds the rules and the key; undefined where `routeRequest` must decide. */
type PlainRouter<Rules> = (
  scheme: ProxyRequest['scheme'],
  authority: string,
  target: string,
) => KeyedRules<Rules> | undefined;

/** The rules of a route, and the prefix of the keys of all its plain targets under one authority. */
interface Place<Rules> {
  readonly rules: Rules;
  readonly prefix: string;
}

/** What is remembered of an authority as clients write it. */
interface KnownAuthority<Rules> {
  /** Normalised. */
  readonly authority: string;
  /** Of the route that serves every path of the authority; undefined where there is none. */
  readonly only: Place<Rules> | undefined;
  readonly places: Map<Route, Place<Rules>>;
}

/** The number of authorities that are remembered at a time: clients may invent any number. */
const mostAuthorities = 1024;

/**
 * Creates a router of plain targets. Every reader interprets a plain target as it is written. It is its own normal form, so the
 * keys of a route differ in the target alone. `rulesOf` is called once for each route.
 */
export function createPlainRouter<Rules>(router: Router, rulesOf: (route: Route) => Rules): PlainRouter<Rules> {
  const rules = memoizeByObject((route: Route) => ({ of: rulesOf(route) }));
  const known = { http: new Map<string, KnownAuthority<Rules>>(), https: new Map<string, KnownAuthority<Rules>>() };
  const placeOf = (route: Route, scheme: ProxyRequest['scheme'], authority: string): Place<Rules> => ({
    rules: rules(route).of,
    prefix: targetKeys(route, scheme, authority, { path: '/', query: '' }).key.slice(0, -1),
  });
  const learn = (scheme: ProxyRequest['scheme'], sent: string): KnownAuthority<Rules> | undefined => {
    const authority = normaliseAuthority(sent, scheme);
    if (authority === undefined) return undefined;
    const route = router.only?.(authority);
    const found = { authority, only: route && placeOf(route, scheme, authority), places: new Map() };
    if (known[scheme].size >= mostAuthorities) known[scheme].clear();
    known[scheme].set(sent, found);
    return found;
  };
  const choose = ({ authority, places }: KnownAuthority<Rules>, scheme: ProxyRequest['scheme'], target: string) => {
    const route = router(authority, splitTarget(target).path);
    let place = route && places.get(route);
    if (route !== undefined && place === undefined) {
      place = placeOf(route, scheme, authority);
      places.set(route, place);
    }
    return place;
  };
  return (scheme, sent, target) => {
    if (!plainTarget.test(target)) return undefined;
    const authority = known[scheme].get(sent) ?? learn(scheme, sent);
    const place = authority && (authority.only ?? choose(authority, scheme, target));
    return place && { rules: place.rules, key: place.prefix + target };
  };
}

function findRoute(destination: Destination, router: Router): Routed {
  const routed = findAnyRoute(destination, router);
  const { route, authority } = routed;
  const isKnown = !route.refusesOtherNames || authority === '' || isNameOfServer(route, authority);
  if (isKnown || router.hasName?.(authority)) return routed;
  const detail = `route ${route.name} adds credentials, and no route names ${authority}: add it to match.hosts`;
  throw new ProxyError('misdirected', { detail });
}

function findAnyRoute(destination: Destination, router: Router): Routed {
  const { scheme } = destination;
  const authority = destination.authority === '' ? '' : normaliseAuthority(destination.authority, scheme);
  if (authority === undefined) throw new ProxyError('malformed_request', { detail: 'the authority is not valid' });
  // A listener lets no fragment pass; a program that embeds the handler may.
  if (destination.target.includes('#')) throw malformed('the target has a fragment');
  const target = splitTarget(destination.target);
  const { path } = target;
  if (hasOneReading(path)) {
    const route = router(authority, path);
    if (route === undefined) throw new ProxyError('no_route');
    return { route, scheme, authority, target };
  }
  if (hasHiddenDotDot(path)) throw malformed('the path hides a ".." segment');
  // The origin gets the path as it is. However the origin reads it, the rules of the same route must apply.
  const [route, ...others] = pathReadings(path).map((reading) => router(authority, reading));
  if (route === undefined) throw new ProxyError('no_route');
  if (others.some((other) => other !== route)) throw malformed('the path may be read as one of another route');
  if (mayLeavePrefix(path, prefixOf(route))) throw malformed('the path may be read as one outside its route');
  return { route, scheme, authority, target };
}

function malformed(detail: string): ProxyError {
  return new ProxyError('malformed_request', { detail });
}

/** The names of a destination for the cache and the origin: the same for all its requests. */
const namesOf = memoizeByObject(({ route, scheme, authority, target }: Routed) => ({
  ...targetKeys(route, scheme, authority, target),
  uriOrigin: `${scheme}://${authority}`,
  originTarget: originTarget(route, target.path, target.query),
}));

/** How a request reaches the origin, and where interim responses go. */
interface Forwarding extends Pick<Inquiry, 'origin' | 'client' | 'onInterim'> {
  /** Makes the fields for the origin. Called only when they are needed, as most requests never reach the origin. */
  readonly originFields: () => Fields;
}

/** Creates the inquiry of a request. */
export function createInquiry(request: ProxyRequest, routed: Routed, router: Router, forwarding: Forwarding): Inquiry {
  return new RoutedInquiry(request, routed, router, forwarding);
}

/** A class, because there is one object for every request, and because `originFields` are made when they are first read. */
class RoutedInquiry implements Inquiry {
  readonly request: ProxyRequest;
  readonly key: string;
  readonly normalKey: string;
  readonly uriOrigin: string;
  readonly keysOf: Inquiry['keysOf'];
  readonly policy: CachePolicy;
  readonly origin: Inquiry['origin'];
  readonly client: string;
  readonly originTarget: string;
  readonly onInterim: Inquiry['onInterim'];
  readonly #makeFields: () => Fields;
  readonly #ranges: Route['rangeSupport'];
  #originFields: Fields | undefined;
  #rangeSupport: Inquiry['rangeSupport'] | undefined;

  constructor(
    request: ProxyRequest,
    routed: Routed,
    router: Router,
    { origin, client, originFields, onInterim }: Forwarding,
  ) {
    const { route, scheme, authority } = routed;
    const { key, normalKey, uriOrigin, originTarget: target } = namesOf(routed);
    this.request = request;
    this.key = key;
    this.normalKey = normalKey;
    this.uriOrigin = uriOrigin;
    const keysOf = (other: string) => {
      const owner = router(authority, normaliseTarget(other).path);
      return owner === undefined ? undefined : targetKeys(owner, scheme, authority, splitTarget(other));
    };
    // A variable first: a function written in an assignment to a property is in the old generation at once (see
    // docs/performance.md).
    this.keysOf = keysOf;
    this.policy = policyOf(route);
    this.origin = origin;
    this.client = client;
    this.#ranges = route.rangeSupport;
    this.originTarget = target;
    this.onInterim = onInterim;
    this.#makeFields = originFields;
  }

  get originFields(): Fields {
    this.#originFields ??= this.#makeFields();
    return this.#originFields;
  }

  get rangeSupport(): Inquiry['rangeSupport'] {
    this.#rangeSupport ??= this.#ranges.of(this.key);
    return this.#rangeSupport;
  }
}

/** Returns the cache policy of a route: made once for each route, not for each request. */
export const policyOf = memoizeByObject(({ cache, fill, closeDelimited, ranges }: Route): CachePolicy => {
  const { enabled, digest, acceptEncoding: _forTheOrigin, ...kept } = cache;
  return { ...kept, isEnabled: enabled, wantsDigest: digest, fill, closeDelimited, maxRanges: ranges.maxRanges };
});
