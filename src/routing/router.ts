/**
 * What a route is: what the operator decided for a set of requests. Finds the route of a request, and the target that its origin
 * is asked for. Read this file first.
 */

import type { CachePolicy, FillPolicy } from '../cache/inquiry.ts';
import type { Fields } from '../http/fields.ts';
import type { Hold, MemberState } from '../origin/group/origin-group.ts';
import { basePathOf, type Origin } from '../origin/origin.ts';
import type { RangeAbility } from '../origin/range-ability.ts';
import { hostOf, normaliseTarget, withUpperDigits } from './target.ts';

/** Which requests a route serves. */
export interface RouteMatch {
  /**
   * Host names without ports, in any case: exact, or `*.example.org` for every name that ends in `.example.org`, however
   * many labels it has (not for `example.org` itself). None at all means every host, and requests without one.
   */
  readonly hosts: readonly string[];
  /** Whole segments: `/media` is for `/media` and all below it, `/media/` for what is below only, `/` for everything. */
  readonly pathPrefix: string;
}

/** The Host that the origin sees: its own, the client's, or a name. */
type HostPolicy = 'origin' | 'keep' | { readonly name: string };

/** What the operator decided about the fields that an origin gets. */
export interface OriginFieldRules {
  /**
   * Names of the fields that are taken out of every request, those that are set among them; in lower case, and with hyphens for
   * all other signs, as old gateways read names.
   */
  readonly removed: ReadonlySet<string>;
  /** Besides, of those that are taken out where the response is shared (GET, HEAD). */
  readonly removedFromShared: ReadonlySet<string>;
  /** What each request is given on its way, secrets among it. The cache does not see it. */
  readonly constant: Fields;
  /** Names all of this in the keys of responses: another text for other rules, and nothing that tells a secret. */
  readonly scope: string;
}

/** How the responses of a route are stored and reused. */
export interface RouteCaching extends Omit<CachePolicy, 'isEnabled' | 'wantsDigest' | 'fill' | 'closeDelimited'> {
  /** Whether responses are stored and reused; if not, all is relayed. */
  readonly enabled: boolean;
  /** Whether each stored body is hashed, and its digest sent with what is made from it (RFC 9530 §3). */
  readonly digest: boolean;
  /**
   * Whether the origin gets a client's Accept-Encoding as it was sent, or reduced to one of eight values, so that Vary
   * tells no more variants apart.
   */
  readonly acceptEncoding: 'asSent' | 'normalise';
}

/** One route: which requests it serves, from which origin, and by which rules. */
export interface Route {
  /** For logs. */
  readonly name: string;
  readonly match: RouteMatch;
  /** Whether the origin gets the path without `match.pathPrefix`. */
  readonly stripPathPrefix: boolean;
  /** Where the origin is, the first one of several; its path is put before every path. `unix:` and a path: a socket. */
  readonly originUrl: URL;
  readonly origin: Origin;
  /** Chooses an origin for a tunnel, which does not go through `origin`. Undefined where there is one only. */
  readonly holdOrigin?: (() => Hold) | undefined;
  /** How its origins are; undefined where nobody keeps account of that. */
  readonly listOrigins?: (() => readonly MemberState[]) | undefined;
  /** How an `https:` origin is verified, and what it is shown; for tunnels. */
  readonly tls: {
    /** PEM certificates that are trusted instead of the system's. */
    readonly ca: string | undefined;
    readonly rejectUnauthorized: boolean;
    /** The client certificate and its key, in PEM. */
    readonly cert?: string | undefined;
    readonly key?: string | undefined;
  };
  /** How long an origin may take, for tunnels: to be connected to, and to answer then. Undefined: as long as anywhere. */
  readonly timeouts?: { readonly connectMs: number; readonly answerMs: number } | undefined;
  readonly host: HostPolicy;
  /** None where the operator has no rules for it. */
  readonly toOrigin?: OriginFieldRules | undefined;
  readonly cache: RouteCaching;
  readonly ranges: {
    /** The most ranges in one request; a Range field with more is ignored (RFC 9110 §14.2). */
    readonly maxRanges: number;
    /** Ranges with fewer bytes than this between them are sent as one part (RFC 9110 §15.3.7.2). */
    readonly coalesceGapBytes: number;
  };
  /** What is known of the origin's ranges. */
  readonly rangeAbility: RangeAbility;
  /** What becomes of transfers, and which are started. */
  readonly fill: FillPolicy;
  /** How long `bytes=0-` waits for a length that the origin does not tell beforehand, before the whole is sent as it comes. */
  readonly lengthWaitMs: number;
  /** Whether a body whose end only the end of its connection tells is stored, though it may have been cut (RFC 9112 §8). */
  readonly closeDelimited: 'relay' | 'store';
}

/**
 * Finds the route for a normalised authority (empty for none) and a path in one of its readings (see `pathReadings`); undefined when
 * no route serves them.
 */
export interface Router {
  (authority: string, path: string): Route | undefined;
  /** The route that serves every path of an authority, where one does. */
  readonly only?: (authority: string) => Route | undefined;
}

/** A route under one of its hosts. */
interface Candidate {
  readonly route: Route;
  /** Lower case; `*.example.org` stands as `.example.org`, every host as an empty text. */
  readonly host: string;
  readonly hostKind: 'exact' | 'suffix' | 'any';
  readonly prefix: string;
  /** The prefix as the operator has written it, which is what clients may send; most often the same. */
  readonly writtenPrefix: string;
}

const hostKinds: readonly Candidate['hostKind'][] = ['exact', 'suffix', 'any'];

/**
 * The route of a request is the one that names its host most exactly (the name itself, then the longest wildcard, then every
 * host), and among these the one with the longest path prefix. Where two match alike the first one in the list is taken.
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
  return Object.assign(route, { only });
}

/** With a dot at its end a name is the same one to an origin (RFC 1034 §3.1). */
function hostName(authority: string): string {
  return hostOf(authority).replace(/\.$/, '');
}

/**
 * The target that the origin is asked for (origin-form): the path without the route's prefix if that is stripped, below the
 * path of the origin's URL, and the query; each byte of them as the client has sent it (RFC 9110 §7.7). `path` matches the route.
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

/** The prefix that a path begins with, as long as it is there. */
function sentPrefix(route: Route, path: string): string {
  const prefix = prefixOf(route);
  return hasPrefix(withUpperDigits(path), prefix) ? prefix : writtenPrefixOf(route);
}

/** Dot segments in it are no prefix of anything. */
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
      return host.endsWith(candidate.host) && host.length > candidate.host.length;
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
