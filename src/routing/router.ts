/** Finds the route of a request, and the target that its origin is asked for. */

import { basePathOf } from '../origin/place.ts';
import { hostOf } from './authority.ts';
import type { Route } from './route.ts';
import { normaliseTarget, withUpperDigits } from './target.ts';

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
