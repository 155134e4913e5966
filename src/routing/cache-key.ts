/**
 * The primary cache key of a request; and the keys that responses are stored under for what an operator names: a URL, the beginning
 * of URLs, or a host.
 */

import type { KeyPattern } from '../cache/fleet.ts';
import { onceForEach } from '../http/collections.ts';
import { spellingTag } from '../semantics/invalidation.ts';
import { type QuerySelection, selectParameters } from '../semantics/query.ts';
import type { Route, RouteCaching } from './router.ts';
import { normaliseAuthority, normaliseTarget, splitTarget, type Target } from './target.ts';

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
interface TargetKeys {
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

/** What of a URL names a resource whatever the scheme: the authority in its normal form, and the target as it is written. */
export interface ResourceUrl {
  readonly authority: string;
  readonly target: string;
}

/**
 * A resource may be stored as one of either scheme, as a TLS terminator before us tells, or does not tell; who wants it gone
 * wants it gone from both.
 */
const schemes = ['http', 'https'] as const;

/**
 * Reads a URL as a client's request for it would be read. Names outside of ASCII and signs that a request cannot hold are
 * encoded as browsers do; a fragment is left out. Undefined where it is no http or https URL, or has user information.
 */
export function parseResourceUrl(url: string): ResourceUrl | undefined {
  const [, scheme = '', written = '', rest = ''] = /^(https?):\/\/([^/?#]*)([^#]*)/i.exec(url.trim()) ?? [];
  const authority = readAuthority(written, scheme.toLowerCase() === 'https' ? 'https' : 'http');
  if (authority === undefined) return undefined;
  const target = encodeTarget(rest);
  return { authority, target: target.startsWith('/') ? target : `/${target}` };
}

function encodeTarget(text: string): string {
  return text.toWellFormed().replace(/[^\x21-\x7e]/gu, encodeURIComponent);
}

/** What the responses of a resource are found by, in whatever spelling of its URL they were asked for. */
interface ResourceNames {
  /** Of the URL in its normal form. */
  readonly keys: readonly string[];
  /** Those that the store knows all other spellings by. */
  readonly tags: readonly string[];
}

/**
 * The names of a resource by these routes, each once. `/a~`, `/a%7e` and `/b/../a~` are one resource (RFC 9110 §4.2.3), each spelling
 * of it stored by itself.
 */
export function namesOfResource(place: ResourceUrl, routes: readonly ScopedRoute[]): ResourceNames {
  const target = splitTarget(place.target);
  const keys = under(routes, place.authority, (_scope, name, route) =>
    schemes.map((scheme) => targetKeys(route, scheme, name, target).normalKey),
  );
  return { keys, tags: keys.map(spellingTag) };
}

/**
 * What the keys of all resources begin with whose URI begins like this one. The target is a text of any end: `/a` is for
 * `/ab` too, `/a/` only for what is below; it counts in its normal form, as do the URLs that were asked for; and what a route leaves out of a query is in no key.
 */
export function prefixesOf({ authority, target }: ResourceUrl, routes: readonly ScopedRoute[]): readonly string[] {
  // The last segment is only begun: dots at its end remove nothing.
  const { path, query } = normaliseTarget(`${target}x`);
  return under(routes, authority, (scope, name) =>
    schemes.map((scheme) => cacheKey({ originScope: scope, scheme, authority: name, path, query }).slice(0, -1)),
  );
}

/**
 * The keys of a path with its query, in either scheme and under whatever authority clients have asked for it; with `isPrefix`
 * those of all targets that begin so, as for `prefixesOf`.
 */
export function patternsOf(target: string, routes: readonly ScopedRoute[], isPrefix: boolean): readonly KeyPattern[] {
  const { path, query } = normaliseTarget(isPrefix ? `${target}x` : target);
  return routes.flatMap((route) => {
    const counted = isPrefix ? query : selectParameters(query, route.cache.key.query);
    return schemes.map((scheme) => {
      const key = cacheKey({ originScope: originScope(route), scheme, authority: '', path, query: counted });
      const end = key.length - (isPrefix ? 1 : 0);
      const rest = (path + counted).length - (isPrefix ? 1 : 0);
      return { start: key.slice(0, end - rest), rest: key.slice(end - rest, end), isPrefix };
    });
  });
}

/** The target of a path as a request would have it, signs that a request cannot hold encoded; undefined for other text. */
export function parsePath(text: string): string | undefined {
  return text.startsWith('/') ? encodeTarget(text.replace(/#.*$/s, '')) : undefined;
}

/**
 * What the keys of all resources of a host begin with: of all its ports where none is named, of that one otherwise. Undefined
 * for what is no host.
 */
export function prefixesOfHost(text: string, routes: readonly ScopedRoute[]): readonly string[] | undefined {
  const written = text.trim();
  const hasPort = /:\d*$/.test(written.replace(/^\[[^\]]*\]/, ''));
  const authority = readAuthority(written, 'http');
  if (authority === undefined) return undefined;
  const root = { path: '/', query: '' };
  if (!hasPort) {
    return under(routes, authority, (originScope, name) =>
      schemes.flatMap((scheme) => [
        cacheKey({ ...root, originScope, scheme, authority: name }),
        cacheKey({ ...root, originScope, scheme, authority: `${name}:` }).slice(0, -1),
      ]),
    );
  }
  // The port counts as it is written: 80 is the one that http leaves out, 443 that of https.
  return schemes.flatMap((scheme) =>
    under(routes, readAuthority(written, scheme) ?? authority, (originScope, name) => [
      cacheKey({ ...root, originScope, scheme, authority: name }),
    ]),
  );
}

/** An authority in its normal form (RFC 3986 §6.2), one that is not of ASCII encoded (RFC 5891). */
function readAuthority(written: string, scheme: 'http' | 'https'): string | undefined {
  if (/^[\x21-\x7e]*$/.test(written)) return normaliseAuthority(written, scheme);
  const url = `${scheme}://${written}/`;
  return /[@/?#\\]/.test(written) || !URL.canParse(url) ? undefined : normaliseAuthority(new URL(url).host, scheme);
}

/** What is written for these routes and the spellings of an authority, each once. */
function under(
  routes: readonly ScopedRoute[],
  authority: string,
  write: (scope: string, authority: string, route: ScopedRoute) => readonly string[],
): readonly string[] {
  const keys = spellings(authority).flatMap((name) =>
    routes.flatMap((route) => write(originScope(route), name, route)),
  );
  return [...new Set(keys)];
}

/** Routes take a name with the dot of the root at its end for the same as without; keys keep them apart. */
function spellings(authority: string): readonly string[] {
  const [, host = '', port = ''] = /^(.*?)\.?(:\d+)?$/.exec(authority) ?? [];
  return host === '' || host.endsWith(']') ? [authority] : [host + port, `${host}.${port}`];
}
