/** The primary cache key: what a stored response is an answer to. */

import { onceForEach } from '../http/once-for-each.ts';
import { type QuerySelection, selectParameters } from '../semantics/query.ts';
import type { Route, RouteCaching } from './route.ts';
import { normaliseTarget, type Target } from './target.ts';

/** What the key of a target in its normal form is made of: where the response comes from, and the target URI. */
export interface CacheKeyParts {
  /** Keeps apart what different origins answer for one URI: see `originScope`. */
  readonly originScope: string;
  readonly scheme: 'http' | 'https';
  /** Empty for a request without one. */
  readonly authority: string;
  readonly path: string;
  /** The part of it that counts. */
  readonly query: string;
}

/** The keys of a target. */
export interface TargetKeys {
  /** What its responses are stored under: another one for each spelling of the target. */
  readonly key: string;
  /** What the target has in its normal form: the same for all spellings. */
  readonly normalKey: string;
}

/** What of a route is in the keys of its responses. */
export type ScopedRoute = Pick<Route, 'originUrl' | 'match' | 'stripPathPrefix' | 'host' | 'toOrigin'> & {
  readonly cache: Pick<RouteCaching, 'key'>;
};

/**
 * A key for a target URI at an origin (RFC 9111 §2; the method is not in it, only GET is stored). It reads as scope, space,
 * URI. Total, and never the same for different parts, whatever is in them: only `path` and `query` are told apart by the
 * first `?` of both.
 */
export function cacheKey({ originScope, scheme, authority, path, query }: CacheKeyParts): string {
  return `${escaped(originScope, /[% ]/g)} ${scheme}://${escaped(authority, /[^\w.:[\]~-]/g)}${rooted(path)}${query}`;
}

/**
 * The keys of a target as it was sent. Two spellings of one URI (`/~a`, `/%7Ea`, `/b/../a`) reach the origin as they are, and an origin
 * may tell them apart, so each has a key of its own (RFC 9111 §2). All of them begin with the key of the normal form, so that who
 * removes a resource by the beginning of its URL removes all its spellings. A spelling that is not normal follows after `#`,
 * which no target holds.
 */
export function targetKeys(
  route: ScopedRoute,
  scheme: 'http' | 'https',
  authority: string,
  { path, query }: Target,
): TargetKeys {
  const selection = route.cache.key.query;
  const normal = normaliseTarget(path + query);
  const counted = selectParameters(query, selection);
  const normalCounted = selectParameters(normal.query, selection);
  const parts = { originScope: originScope(route), scheme, authority };
  const normalKey = cacheKey({ ...parts, path: normal.path, query: normalCounted });
  const isNormal = path === normal.path && counted === normalCounted;
  return { key: isNormal ? normalKey : `${normalKey}#${path}${counted}`, normalKey };
}

/**
 * Names all that decides what an origin is asked for a URI: its URL, the prefix that is stripped, the Host that it sees, and
 * the fields that the operator adds or takes out; and which parameters the URI has lost, because it then stands for several.
 * A store outlives a configuration; where one of these changes, nothing stored before is reused.
 */
export const originScope = onceForEach((route: ScopedRoute): string => {
  const { host, match, originUrl, stripPathPrefix } = route;
  const facts: string[] = [];
  if (stripPathPrefix) facts.push(`strip=${match.pathPrefix}`);
  if (host !== 'origin') facts.push(host === 'keep' ? 'keep-host' : `host=${host.name.toLowerCase()}`);
  if (route.toOrigin !== undefined) facts.push(`fields=${route.toOrigin.scope}`);
  // The last one, because a name may hold anything.
  if (route.cache.key.query !== 'all') facts.push(`query=${formatSelection(route.cache.key.query)}`);
  return originUrl.href + facts.map((fact) => `#${fact}`).join('');
});

function formatSelection(selection: QuerySelection): string {
  if (typeof selection === 'string') return selection;
  const [kind, names] = 'keep' in selection ? ['keep', selection.keep] : ['ignore', selection.ignore];
  return kind + JSON.stringify(names.toSorted());
}

/** The two parts that a key reads as: the scope, escaped as it stands there, and the URI as it was sent. */
export function splitKey(key: string): { readonly scope: string; readonly uri: string } {
  const space = key.indexOf(' ');
  const [uri = '', spelling] = key.slice(space + 1).split('#', 2);
  const [place = ''] = /^\w*:\/\/[^/ ]*/.exec(uri) ?? [];
  return { scope: key.slice(0, Math.max(0, space)), uri: spelling === undefined ? uri : place + spelling };
}

/** A path that is no path (`*`) must not run into the authority. */
function rooted(path: string): string {
  return path.startsWith('/') ? path : ` ${path}`;
}

function escaped(part: string, reserved: RegExp): string {
  return part.replace(reserved, (character) => `%${character.charCodeAt(0).toString(16)};`);
}
