/**
 * From a request to its route, and to the inquiry that the cache answers. Recent results are remembered by the text that led to
 * them, a bounded number of them.
 */

import type { CachePolicy, Inquiry } from '../cache/inquiry.ts';
import { onceForEach } from '../http/collections.ts';
import type { Fields } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { targetKeys } from './cache-key.ts';
import { originTarget, prefixOf, type Route, type Router } from './router.ts';
import {
  hasOneReading,
  hidesStepUp,
  normaliseAuthority,
  normaliseTarget,
  pathReadings,
  plainTarget,
  splitTarget,
  stepsOut,
  type Target,
} from './target.ts';

/** Where a request goes. */
export interface Routed {
  readonly route: Route;
  readonly scheme: ProxyRequest['scheme'];
  /** Normalised; empty for a request without one. */
  readonly authority: string;
  /** As the client sent it. */
  readonly target: Target;
}

/** What a request says of where it goes, as the client asked for it. */
type Destination = Pick<ProxyRequest, 'scheme' | 'authority' | 'target'>;

/**
 * Finds the route of a request; what was found lately for the same one, if it was. Throws `ProxyError`: `malformed_request` for an
 * authority that is none, a target with a fragment, or a path that some origin may read as one of another route; `no_route`.
 */
export function routeRequest(destination: Destination, router: Router): Routed {
  const remembered = rememberedBy(router);
  const { scheme, authority, target } = destination;
  // The length tells where the authority ends, whatever is in it.
  const text = `${scheme} ${authority.length} ${authority}${target}`;
  const known = remembered.find(text);
  if (known !== undefined) return known;
  const routed = findRoute(destination, router);
  remembered.keep(text, routed);
  return routed;
}

const rememberedBy = onceForEach((_router: Router) => new Remembered<Routed>());

/** The rules of the route of a plain target, and the key that its responses are stored under. */
interface KeyedRules<Rules> {
  readonly rules: Rules;
  readonly key: string;
}

/** Finds them; undefined where `routeRequest` has to look. */
type PlainRouter<Rules> = (
  scheme: ProxyRequest['scheme'],
  authority: string,
  target: string,
) => KeyedRules<Rules> | undefined;

/** What the keys of all plain targets of a route begin with, under one authority. */
interface Place<Rules> {
  readonly rules: Rules;
  readonly prefix: string;
}

/** What is known of an authority as clients write it. */
interface KnownAuthority<Rules> {
  /** Normalised. */
  readonly authority: string;
  /** Of the route that serves every path, where there is one. */
  readonly only: Place<Rules> | undefined;
  readonly places: Map<Route, Place<Rules>>;
}

/** So many authorities are known at a time: clients may invent any number. */
const mostAuthorities = 1024;

/**
 * Creates a router of plain targets, which each reader understands as they are written: they are their own normal form, so that the
 * keys of a route differ in the target alone. `rulesOf` is asked once for each route.
 */
export function createPlainRouter<Rules>(router: Router, rulesOf: (route: Route) => Rules): PlainRouter<Rules> {
  const rules = onceForEach((route: Route) => ({ of: rulesOf(route) }));
  const known = { http: new Map<string, KnownAuthority<Rules>>(), https: new Map<string, KnownAuthority<Rules>>() };
  const placeOf = (route: Route, scheme: ProxyRequest['scheme'], authority: string): Place<Rules> => ({
    rules: rules(route).of,
    prefix: targetKeys(route, scheme, authority, { path: '/', query: '' }).key.slice(0, -1),
  });
  const know = (scheme: ProxyRequest['scheme'], sent: string): KnownAuthority<Rules> | undefined => {
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
    const authority = known[scheme].get(sent) ?? know(scheme, sent);
    const place = authority && (authority.only ?? choose(authority, scheme, target));
    return place && { rules: place.rules, key: place.prefix + target };
  };
}

function findRoute(destination: Destination, router: Router): Routed {
  const { scheme } = destination;
  const authority = destination.authority === '' ? '' : normaliseAuthority(destination.authority, scheme);
  if (authority === undefined) throw new ProxyError('malformed_request', { detail: 'the authority is not valid' });
  // A listener lets none pass; what embeds the handler may.
  if (destination.target.includes('#')) throw malformed('the target has a fragment');
  const target = splitTarget(destination.target);
  const { path } = target;
  if (hasOneReading(path)) {
    const route = router(authority, path);
    if (route === undefined) throw new ProxyError('no_route');
    return { route, scheme, authority, target };
  }
  if (hidesStepUp(path)) throw malformed('the path hides a step up');
  // The origin gets the path as it is: what guards a path has to guard it however the origin reads it.
  const [route, ...others] = pathReadings(path).map((reading) => router(authority, reading));
  if (route === undefined) throw new ProxyError('no_route');
  if (others.some((other) => other !== route)) throw malformed('the path may be one of another route');
  if (stepsOut(path, prefixOf(route))) throw malformed('the path may lead out of its route');
  return { route, scheme, authority, target };
}

function malformed(detail: string): ProxyError {
  return new ProxyError('malformed_request', { detail });
}

/** How the cache and the origin name where a request goes: the same for all that go there. */
const namesOf = onceForEach(({ route, scheme, authority, target }: Routed) => ({
  ...targetKeys(route, scheme, authority, target),
  uriOrigin: `${scheme}://${authority}`,
  originTarget: originTarget(route, target.path, target.query),
}));

/** Which way a request goes to the origin, and what comes back before the final response. */
interface Forwarding extends Pick<Inquiry, 'origin' | 'client' | 'onInterim'> {
  /** Makes the fields that the origin gets: when they are first asked for, as most requests never get there. */
  readonly originFields: () => Fields;
}

/** The question to the cache. */
export function createInquiry(request: ProxyRequest, routed: Routed, router: Router, forwarding: Forwarding): Inquiry {
  return new RoutedInquiry(request, routed, router, forwarding);
}

/** A class, because there is one for every request, and because of its fields for the origin. */
class RoutedInquiry implements Inquiry {
  readonly request: ProxyRequest;
  readonly key: string;
  readonly normalKey: string;
  readonly uriOrigin: string;
  readonly keysOf: Inquiry['keysOf'];
  readonly policy: CachePolicy;
  readonly origin: Inquiry['origin'];
  readonly client: string;
  readonly rangeAbility: Inquiry['rangeAbility'];
  readonly originTarget: string;
  readonly onInterim: Inquiry['onInterim'];
  readonly #makeFields: () => Fields;
  #originFields: Fields | undefined;

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
    // Not at once: a function that is written where it is assigned to a property is old from the beginning (see docs/performance.md).
    this.keysOf = keysOf;
    this.policy = policyOf(route);
    this.origin = origin;
    this.client = client;
    this.rangeAbility = route.rangeAbility;
    this.originTarget = target;
    this.onInterim = onInterim;
    this.#makeFields = originFields;
  }

  get originFields(): Fields {
    this.#originFields ??= this.#makeFields();
    return this.#originFields;
  }
}

/** The policy of a route: made once for each route, not for each request. */
export const policyOf = onceForEach(({ cache, fill, closeDelimited }: Route): CachePolicy => {
  const { enabled, digest, acceptEncoding: _forTheOrigin, ...kept } = cache;
  return { ...kept, isEnabled: enabled, wantsDigest: digest, fill, closeDelimited };
});

/** So many are remembered at least, and twice as many at most. */
const KEPT = 1024;

/** Longer texts, in characters, are not remembered: clients may write what they want. */
const MAX_TEXT_LENGTH = 1024;

/** Two tables that take turns: what is not asked for until both were filled anew is forgotten. */
export class Remembered<V extends object> {
  #recent = new Map<string, V>();
  #earlier = new Map<string, V>();

  /** What is remembered of a text. */
  find(text: string): V | undefined {
    const recent = this.#recent.get(text);
    if (recent !== undefined) return recent;
    const earlier = this.#earlier.get(text);
    if (earlier !== undefined) this.keep(text, earlier);
    return earlier;
  }

  /** Remembers it from now on. */
  keep(text: string, result: V): void {
    if (text.length > MAX_TEXT_LENGTH) return;
    if (this.#recent.size >= KEPT) {
      this.#earlier = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(text, result);
  }
}
