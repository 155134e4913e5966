/** Finds the route of a request, and the target that its origin is asked for. */

import { basePathOf } from '../origin/place.ts';
import { hostOf } from './authority.ts';
import type { Route } from './route.ts';
import { normaliseTarget } from './target.ts';

/** Finds the route for a normalised authority (empty for none) and a normalised path; undefined when no route serves them. */
export type Router = (authority: string, path: string) => Route | undefined;

/** A route under one of its hosts. */
interface Candidate {
  readonly route: Route;
  /** Lower case; `*.example.org` stands as `.example.org`, every host as an empty text. */
  readonly host: string;
  readonly hostKind: 'exact' | 'suffix' | 'any';
  readonly prefix: string;
}

const hostKinds: readonly Candidate['hostKind'][] = ['exact', 'suffix', 'any'];

/**
 * The route of a request is the one that names its host most exactly (the name itself, then the longest wildcard, then every
 * host), and among these the one with the longest path prefix. Where two match alike the first one in the list is taken.
 */
export function createRouter(routes: readonly Route[]): Router {
  const candidates = routes.flatMap(candidatesOf).sort(compareCandidates);
  return (authority, path) => {
    // With a dot at its end a name is the same one to an origin (RFC 1034 §3.1).
    const host = hostOf(authority).replace(/\.$/, '');
    return candidates.find((candidate) => hasHost(candidate, host) && hasPrefix(path, candidate.prefix))?.route;
  };
}

/**
 * The target that the origin is asked for (origin-form): the path without the route's prefix if that is stripped, below the
 * path of the origin's URL, and the query as it is. `path` is normalised and matches the route.
 */
export function originTarget(route: Route, path: string, query: string): string {
  if (!path.startsWith('/')) return path;
  const below = route.stripPathPrefix ? path.slice(withoutFinalSlash(prefixOf(route)).length) : path;
  return `${basePathOf(route.originUrl)}${below.startsWith('/') ? below : `/${below}`}${query}`;
}

function candidatesOf(route: Route): Candidate[] {
  const hosts = route.match.hosts.length === 0 ? ['*'] : route.match.hosts;
  return hosts.map((name) => {
    const prefix = prefixOf(route);
    if (name === '*') return { route, host: '', hostKind: 'any', prefix };
    const host = name.toLowerCase();
    return host.startsWith('*.')
      ? { route, host: host.slice(1), hostKind: 'suffix', prefix }
      : { route, host, hostKind: 'exact', prefix };
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

function hasPrefix(path: string, prefix: string): boolean {
  if (prefix === '/' || path === prefix) return true;
  return path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`);
}

/** The prefix in the form that paths have. */
function prefixOf(route: Route): string {
  return normaliseTarget(route.match.pathPrefix).path;
}

function withoutFinalSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path;
}
