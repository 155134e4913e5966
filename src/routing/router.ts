/**
 * A route: the operator's settings for a set of requests. Finds the route of a request, and the target that its origin is asked
 * for. Read this file first, then `inquiry.ts`.
 */

import type { CachePolicy, FillPolicy } from '../cache/inquiry.ts';
import type { BoundClient } from '../http/client-connection.ts';
import { memoizeByObject } from '../http/collections.ts';
import type { Fields } from '../http/fields.ts';
import type { Hold, MemberState } from '../origin/group/origin-group.ts';
import { basePathOf, hostOfOrigin, type Origin } from '../origin/origin.ts';
import type { RangeAbility } from '../origin/range-ability.ts';
import type { ReferenceRules } from '../semantics/references.ts';
import { hostOf, isAddressOrLoopback, normaliseTarget, withUpperDigits } from './target.ts';

/** Which requests a route serves. */
export interface RouteMatch {
  /**
   * Host names without ports, in any letter case: exact, or `*.example.org` for every name that ends in `.example.org`, with
   * any number of labels (not for `example.org` itself). Empty: every host, and requests without a host.
   */
  readonly hosts: readonly string[];
  /** Whole segments: `/media` covers `/media` and everything below it, `/media/` only what is below it, `/` everything. */
  readonly pathPrefix: string;
}

/** The Host that the origin gets: its own, the client's, or a fixed name. */
type HostPolicy = 'origin' | 'keep' | { readonly name: string };

/** The operator's rules for the fields that an origin gets. */
export interface OriginFieldRules {
  /**
   * Names of the fields that are removed from every request, also those of `constant`; in lower case, and with hyphens for all
   * signs other than letters and digits, as old gateways read names.
   */
  readonly removed: ReadonlySet<string>;
  /** Beginnings of names: the fields of such names are removed from every request, too, except those of `constant`. */
  readonly removedFamilies?: readonly string[] | undefined;
  /** Names of further fields that are removed where the response is shared (GET, HEAD). */
  readonly removedFromShared: ReadonlySet<string>;
  /** Fields that are added to each request, secrets included. The cache does not see them. */
  readonly constant: Fields;
  /** Names these rules in the keys of responses: different for different rules, without secrets. */
  readonly scope: string;
}

/** How the responses of a route are stored and reused. */
export interface RouteCaching
  extends Omit<CachePolicy, 'isEnabled' | 'wantsDigest' | 'fill' | 'closeDelimited' | 'maxRanges'> {
  /** Whether responses are stored and reused; otherwise all are relayed. */
  readonly enabled: boolean;
  /** Whether each stored body is hashed, and its digest sent with responses made from it (RFC 9530 §3). */
  readonly digest: boolean;
  /**
   * Whether the origin gets a client's Accept-Encoding as it was sent, or reduced to one of eight values, so that Vary gives
   * fewer variants, or `identity`, so that HEAD, GET and ranges are all about the same bytes.
   */
  readonly acceptEncoding: 'asSent' | 'normalise' | 'identity';
}

/** How the next segments of a playlist that is played are prefetched. */
export interface PrefetchRules {
  /** How many segments after the one that a client asks for. */
  readonly segments: number;
  /** The most bytes of one segment. */
  readonly segmentBytes: number;
  /** How many prefetches of the route run at a time. */
  readonly concurrent: number;
  /** The exchanges of the route with its origins, those of clients too. */
  readonly load: { readonly running: number };
  /** How many exchanges the origins take at a time. Prefetches begin only while less than half of them run. */
  readonly mostExchanges: number;
}

/** One route: which requests it serves, from which origin, and by which rules. */
export interface Route {
  /** For logs. */
  readonly name: string;
  readonly match: RouteMatch;
  /** Whether the origin gets the path without `match.pathPrefix`. */
  readonly stripPathPrefix: boolean;
  /** The URL of the origin, of the first one of several; its path is put before every path. `unix:` and a path: a socket. */
  readonly originUrl: URL;
  readonly origin: Origin;
  /** Chooses an origin for a tunnel, which does not use `origin`. Undefined where there is only one origin. */
  readonly holdOrigin?: ((owner: BoundClient | undefined) => Hold) | undefined;
  /** Returns the state of its origins; undefined where their state is not tracked. */
  readonly listOrigins?: (() => readonly MemberState[]) | undefined;
  /** For tunnels: how an `https:` origin is verified, and the client certificate that it is shown. */
  readonly tls: {
    /** PEM certificates that are trusted instead of the system's. */
    readonly ca: string | undefined;
    readonly rejectUnauthorized: boolean;
    /** The client certificate and its key, in PEM. */
    readonly cert?: string | undefined;
    readonly key?: string | undefined;
  };
  /** For tunnels: how long an origin may take to be connected to, and then to answer. Undefined: the default times. */
  readonly timeouts?: { readonly connectMs: number; readonly answerMs: number } | undefined;
  readonly host: HostPolicy;
  /**
   * Whether it serves only names that are known to be those of this server: a page of any site can be reached by a name that was
   * made to point at a loopback address (DNS rebinding), and would use credentials that the route adds.
   */
  readonly refusesOtherNames?: boolean;
  /** Undefined where the operator has no rules for these fields. */
  readonly toOrigin?: OriginFieldRules | undefined;
  readonly cache: RouteCaching;
  readonly ranges: {
    /** The most ranges in one request; a Range field with more is ignored (RFC 9110 §14.2). */
    readonly maxRanges: number;
    /** Ranges with fewer bytes than this between them are sent as one part (RFC 9110 §15.3.7.2). */
    readonly coalesceGapBytes: number;
  };
  /** What is known about the origin's support for ranges. */
  readonly rangeSupport: RangeAbility;
  /** Which fills are started, and which go on. */
  readonly fill: FillPolicy;
  /** How the next segments of playlists are prefetched; undefined where none are. */
  readonly prefetch?: PrefetchRules | undefined;
  /** How long `bytes=0-` waits for a length that the origin has not stated, before the whole is sent; in milliseconds. */
  readonly lengthWaitMs: number;
  /** Whether a body that ends with its connection is stored, though it may be truncated (RFC 9112 §8). */
  readonly closeDelimited: 'relay' | 'store';
}

/**
 * Finds the route for a normalised authority (empty for none) and one reading of a path (see `pathReadings`); undefined when no
 * route serves them.
 */
export interface Router {
  (authority: string, path: string): Route | undefined;
  /** Returns the route that serves every path of an authority; undefined where none does. */
  readonly only?: (authority: string) => Route | undefined;
  /** Checks whether a route names the host of an authority. */
  readonly hasName?: (authority: string) => boolean;
}

/** A route under one of its hosts. */
interface Candidate {
  readonly route: Route;
  /** Lower case; `*.example.org` is stored as `.example.org`, every host as an empty text. */
  readonly host: string;
  readonly hostKind: 'exact' | 'suffix' | 'any';
  readonly prefix: string;
  /** The prefix as the operator wrote it, which clients may send; usually the same. */
  readonly writtenPrefix: string;
}

const hostKinds: readonly Candidate['hostKind'][] = ['exact', 'suffix', 'any'];

/**
 * Creates the router. The route of a request is the one with the most exact host (the name itself, then the longest wildcard,
 * then every host), and among these the one with the longest path prefix. Of equal ones the first in the list counts.
 */
export function createRouter(routes: readonly Route[]): Router {
  const candidates = routes.flatMap(candidatesOf).sort(compareCandidates);
  const route = (authority: string, path: string): Route | undefined => {
    const host = hostName(authority);
    return candidates.find((candidate) => hasHost(candidate, host) && hasEitherPrefix(path, candidate))?.route;
  };
  const only = (authority: string): Route | undefined => {
    const host = hostName(authority);
    const first = candidates.find((candidate) => hasHost(candidate, host));
    return first?.prefix === '/' ? first.route : undefined;
  };
  const named = candidates.filter(({ hostKind }) => hostKind !== 'any');
  const hasName = (authority: string) => named.some((candidate) => hasHost(candidate, hostName(authority)));
  return Object.assign(route, { only, hasName });
}

/**
 * Checks whether a route knows that a normalised authority is a name of this server: one of its hosts, a loopback name, or an
 * address, none of which the owner of another name can make point here.
 */
export function isNameOfServer(route: Pick<Route, 'match'>, authority: string): boolean {
  const host = hostName(authority);
  return isAddressOrLoopback(host) || (route.match.hosts.length > 0 && namedBy(route, host));
}

function namedBy({ match }: Pick<Route, 'match'>, host: string): boolean {
  return match.hosts.some((each) => {
    const name = each.toLowerCase();
    return name !== '*' && (name.startsWith('*.') ? isUnder(host, name.slice(1)) : host === name);
  });
}

function isUnder(host: string, suffix: string): boolean {
  return host.endsWith(suffix) && host.length > suffix.length;
}

/** Returns how references of the origins of a route relate to those of its clients. */
export const referenceRules = memoizeByObject(
  (route: Pick<Route, 'match' | 'originUrl' | 'stripPathPrefix' | 'listOrigins'>): ReferenceRules => {
    const { originUrl, stripPathPrefix, listOrigins } = route;
    const urls = [originUrl, ...(listOrigins?.() ?? []).map(({ url }) => url)];
    return {
      scheme: originUrl.protocol === 'https:' ? 'https' : 'http',
      names: new Set(urls.flatMap(namesOfOrigin)),
      basePath: basePathOf(originUrl),
      prefix: stripPathPrefix ? withoutFinalSlash(prefixOf(route)) : '',
    };
  },
);

/** The URI origins of an origin. An application at a loopback address often knows itself as localhost, and the other way round. */
function namesOfOrigin(url: URL): readonly string[] {
  const scheme = url.protocol === 'https:' ? 'https' : 'http';
  const host = hostOfOrigin(url);
  const name = hostOf(host);
  const others =
    url.hostname === 'localhost' ? ['127.0.0.1', '[::1]'] : /^(?:127\.|\[::1\]$)/.test(name) ? ['localhost'] : [];
  return [name, ...others].map((each) => `${scheme}://${each}${host.slice(name.length)}`);
}

/** A name with a final dot is the same host (RFC 1034 §3.1). */
function hostName(authority: string): string {
  return hostOf(authority).replace(/\.$/, '');
}

/**
 * Returns the target that the origin is asked for (origin-form): the path without the route's prefix if that is stripped, below
 * the path of the origin's URL, and the query. Each byte of them is as the client sent it (RFC 9110 §7.7). `path` must match
 * the route.
 */
export function originTarget(route: Route, path: string, query: string): string {
  if (!path.startsWith('/')) return path;
  const below = route.stripPathPrefix ? path.slice(withoutFinalSlash(sentPrefix(route, path)).length) : path;
  return `${basePathOf(route.originUrl)}${below.startsWith('/') ? below : `/${below}`}${query}`;
}

/** The prefix of a route in normal form. */
export function prefixOf(route: Pick<Route, 'match'>): string {
  return normaliseTarget(route.match.pathPrefix).path;
}

/** The prefix that a path begins with, in the form that it has in the path. */
function sentPrefix(route: Route, path: string): string {
  const prefix = prefixOf(route);
  return hasPrefix(withUpperDigits(path), prefix) ? prefix : writtenPrefixOf(route);
}

/** A prefix with dot segments counts in its normal form only. */
function writtenPrefixOf(route: Route): string {
  const { pathPrefix } = route.match;
  return hasDotSegment(pathPrefix) ? prefixOf(route) : withUpperDigits(pathPrefix);
}

function hasDotSegment(path: string): boolean {
  return /\/(?:\.|%2e){1,2}(?:\/|$)/i.test(path);
}

function candidatesOf(route: Route): Candidate[] {
  const hosts = route.match.hosts.length === 0 ? ['*'] : route.match.hosts;
  return hosts.map((name) => {
    const prefixes = { prefix: prefixOf(route), writtenPrefix: writtenPrefixOf(route) };
    if (name === '*') return { route, host: '', hostKind: 'any', ...prefixes };
    const host = name.toLowerCase();
    return host.startsWith('*.')
      ? { route, host: host.slice(1), hostKind: 'suffix', ...prefixes }
      : { route, host, hostKind: 'exact', ...prefixes };
  });
}

/** Negative when `a` is to be tried before `b`. */
function compareCandidates(a: Candidate, b: Candidate): number {
  return (
    hostKinds.indexOf(a.hostKind) - hostKinds.indexOf(b.hostKind) ||
    b.host.length - a.host.length ||
    b.prefix.length - a.prefix.length
  );
}

function hasHost(candidate: Candidate, host: string): boolean {
  switch (candidate.hostKind) {
    case 'exact':
      return host === candidate.host;
    case 'suffix':
      return isUnder(host, candidate.host);
    case 'any':
      return true;
  }
}

function hasEitherPrefix(path: string, { prefix, writtenPrefix }: Candidate): boolean {
  return hasPrefix(path, prefix) || (writtenPrefix !== prefix && hasPrefix(path, writtenPrefix));
}

function hasPrefix(path: string, prefix: string): boolean {
  if (prefix === '/' || path === prefix) return true;
  return path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`);
}

function withoutFinalSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path;
}
