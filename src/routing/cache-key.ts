/**
 * Makes the primary cache key of a request, and the keys and key prefixes of the stored responses that an operator names: by a
 * URL, the beginning of URLs, or a host.
 */

import type { KeyPattern } from '../cache/fleet.ts';
import { memoizeByObject } from '../http/collections.ts';
import { spellingTag } from '../semantics/invalidation.ts';
import { type QuerySelection, selectParameters } from '../semantics/query.ts';
import { redact } from '../telemetry/redact.ts';
import type { Route, RouteCaching } from './router.ts';
import { normaliseAuthority, normaliseTarget, splitTarget, type Target } from './target.ts';

/** The parts of the key of a normalised target: where the response comes from, and the target URI. */
export interface CacheKeyParts {
  /** Distinguishes the responses of different origins for one URI: see `originScope`. */
  readonly originScope: string;
  readonly scheme: 'http' | 'https';
  /** Empty for a request without an authority. */
  readonly authority: string;
  readonly path: string;
  /** The part of the query that counts. */
  readonly query: string;
}

/** The keys of a target. */
interface TargetKeys {
  /** The key of its responses: different for each spelling of the target. */
  readonly key: string;
  /** The key of its normal form: the same for all spellings. */
  readonly normalKey: string;
}

/** The parts of a route that are in the keys of its responses. */
export type ScopedRoute = Pick<Route, 'originUrl' | 'match' | 'stripPathPrefix' | 'host' | 'toOrigin'> & {
  readonly cache: Pick<RouteCaching, 'key'>;
};

/**
 * Returns the key for a target URI at an origin (RFC 9111 §2): scope, space, URI. The method is not in it, because only GET is
 * stored. Never throws. Different parts never give the same key, whatever they contain; only `path` and `query` are told apart
 * by the first `?` of both.
 */
export function cacheKey({ originScope, scheme, authority, path, query }: CacheKeyParts): string {
  return `${escaped(originScope, /[% ]/g)} ${scheme}://${escaped(authority, /[^\w.:[\]~-]/g)}${rooted(path)}${query}`;
}

/**
 * Returns the keys of a target as it was sent. Spellings of one URI (`/~a`, `/%7Ea`, `/b/../~a`) reach the origin as they are,
 * and an origin may distinguish them, so each has its own key (RFC 9111 §2). All of them begin with the key of the normal form:
 * removing a resource by the beginning of its URL removes all its spellings. A spelling that is not normal follows after `#`,
 * which no target contains.
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
 * Returns a text that names everything that decides what an origin is asked for a URI: its URL, the prefix that is stripped,
 * the Host that it gets, and the fields that the operator adds or removes. Also the selection of query parameters, because a
 * URI without some of them stands for several. A store outlives a configuration: when one of these changes, nothing that was
 * stored before is reused.
 */
export const originScope = memoizeByObject((route: ScopedRoute): string => {
  const { host, match, originUrl, stripPathPrefix } = route;
  const facts: string[] = [];
  if (stripPathPrefix) facts.push(`strip=${match.pathPrefix}`);
  if (host !== 'origin') facts.push(host === 'keep' ? 'keep-host' : `host=${host.name.toLowerCase()}`);
  if (route.toOrigin !== undefined) facts.push(`fields=${route.toOrigin.scope}`);
  // The selection comes last, because a parameter name may contain any text.
  if (route.cache.key.query !== 'all') facts.push(`query=${formatSelection(route.cache.key.query)}`);
  return originUrl.href + facts.map((fact) => `#${fact}`).join('');
});

function formatSelection(selection: QuerySelection): string {
  if (typeof selection === 'string') return selection;
  const [kind, names] = 'keep' in selection ? ['keep', selection.keep] : ['ignore', selection.ignore];
  return kind + JSON.stringify(names.toSorted());
}

/** Splits a key into its scope, escaped as in the key, and the URI as it was sent. */
export function splitKey(key: string): { readonly scope: string; readonly uri: string } {
  const space = key.indexOf(' ');
  const [uri = '', spelling] = key.slice(space + 1).split('#', 2);
  const [place = ''] = /^\w*:\/\/[^/ ]*/.exec(uri) ?? [];
  return { scope: key.slice(0, Math.max(0, space)), uri: spelling === undefined ? uri : place + spelling };
}

/** A target that is not a path (`*`) must not run into the authority. */
function rooted(path: string): string {
  return path.startsWith('/') ? path : ` ${path}`;
}

function escaped(part: string, reserved: RegExp): string {
  return part.replace(reserved, (character) => `%${character.charCodeAt(0).toString(16)};`);
}

/** The parts of a URL that name a resource whatever the scheme: the normalised authority, and the target as written. */
export interface ResourceUrl {
  readonly authority: string;
  readonly target: string;
}

/**
 * A resource may be stored under either scheme: a TLS terminator in front of this proxy may state the scheme or not. Removing
 * the resource removes both.
 */
const schemes = ['http', 'https'] as const;

/**
 * Parses a URL as a client's request for it would be read. Non-ASCII names and characters that a request cannot contain are
 * encoded as browsers do; a fragment is dropped. Undefined where it is not an http or https URL, or has user information.
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

/** The names by which the responses of a resource are found, in all spellings of its URL. */
interface ResourceNames {
  /** The keys of the URL in its normal form. */
  readonly keys: readonly string[];
  /** The tags by which the store knows all other spellings. */
  readonly tags: readonly string[];
}

/**
 * Returns the names of a resource on these routes, each once. `/a~`, `/a%7e` and `/b/../a~` are one resource (RFC 9110 §4.2.3),
 * but each spelling of it is stored by itself.
 */
export function namesOfResource(place: ResourceUrl, routes: readonly ScopedRoute[]): ResourceNames {
  const target = splitTarget(place.target);
  const keys = collect(routes, place.authority, (_scope, name, route) =>
    schemes.map((scheme) => targetKeys(route, scheme, name, target).normalKey),
  );
  return { keys, tags: keys.map(spellingTag) };
}

/**
 * Returns the key prefixes of all resources whose URI begins like this one. The target may end anywhere: `/a` covers `/ab` too,
 * `/a/` only what is below. It is compared in normal form, as are the URLs of stored responses. Query parameters that a route
 * ignores are in no key.
 */
export function prefixesOf({ authority, target }: ResourceUrl, routes: readonly ScopedRoute[]): readonly string[] {
  // The last segment may be incomplete, so dots at its end must not remove a segment.
  const { path, query } = normaliseTarget(`${target}x`);
  return collect(routes, authority, (scope, name) =>
    schemes.map((scheme) => cacheKey({ originScope: scope, scheme, authority: name, path, query }).slice(0, -1)),
  );
}

/**
 * Returns the key patterns of a path with its query, in either scheme and under any authority; with `isPrefix`, those of all
 * targets that begin like it, as in `prefixesOf`.
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

/** Whether a URL is one that was shown with its secrets redacted; browsers encode the brackets. */
const redactedMark = /(?:\[|%5b)redacted(?:\]|%5d)/i;

/**
 * Returns the key patterns of a URL that was shown with redacted secrets, as in a log or a list: they match the keys of all
 * resources that are shown like it. None for another URL.
 */
export function redactedPatternsOf(place: ResourceUrl, routes: readonly ScopedRoute[]): readonly KeyPattern[] {
  if (!redactedMark.test(place.target)) return [];
  return namesOfResource(place, routes).keys.map((key) => {
    const redacted = redact(key);
    const at = redacted.search(redactedMark);
    return { start: at < 0 ? key : redacted.slice(0, at), rest: '', isPrefix: false, redacted };
  });
}

/**
 * Parses a path as a request target. Characters that a request cannot contain are encoded; a fragment is dropped. Undefined
 * where the text does not begin with `/`.
 */
export function parsePath(text: string): string | undefined {
  return text.startsWith('/') ? encodeTarget(text.replace(/#.*$/s, '')) : undefined;
}

/**
 * Returns the key prefixes of all resources of a host: of all its ports where none is named, otherwise of that port. Undefined
 * for an invalid host.
 */
export function prefixesOfHost(text: string, routes: readonly ScopedRoute[]): readonly string[] | undefined {
  const written = text.trim();
  const hasPort = /:\d*$/.test(written.replace(/^\[[^\]]*\]/, ''));
  const authority = readAuthority(written, 'http');
  if (authority === undefined) return undefined;
  const root = { path: '/', query: '' };
  if (!hasPort) {
    return collect(routes, authority, (originScope, name) =>
      schemes.flatMap((scheme) => [
        cacheKey({ ...root, originScope, scheme, authority: name }),
        cacheKey({ ...root, originScope, scheme, authority: `${name}:` }).slice(0, -1),
      ]),
    );
  }
  // The port counts as written: keys with http omit port 80, keys with https omit 443.
  return schemes.flatMap((scheme) =>
    collect(routes, readAuthority(written, scheme) ?? authority, (originScope, name) => [
      cacheKey({ ...root, originScope, scheme, authority: name }),
    ]),
  );
}

/** An authority in its normal form (RFC 3986 §6.2); a non-ASCII one is encoded (RFC 5891). */
function readAuthority(written: string, scheme: 'http' | 'https'): string | undefined {
  if (/^[\x21-\x7e]*$/.test(written)) return normaliseAuthority(written, scheme);
  const url = `${scheme}://${written}/`;
  return /[@/?#\\]/.test(written) || !URL.canParse(url) ? undefined : normaliseAuthority(new URL(url).host, scheme);
}

/** Collects what `write` returns for these routes and the spellings of an authority, each once. */
function collect(
  routes: readonly ScopedRoute[],
  authority: string,
  write: (scope: string, authority: string, route: ScopedRoute) => readonly string[],
): readonly string[] {
  const keys = spellings(authority).flatMap((name) =>
    routes.flatMap((route) => write(originScope(route), name, route)),
  );
  return [...new Set(keys)];
}

/** The authority with and without a final dot of the host. Routes treat both alike; keys distinguish them. */
function spellings(authority: string): readonly string[] {
  const [, host = '', port = ''] = /^(.*?)\.?(:\d+)?$/.exec(authority) ?? [];
  return host === '' || host.endsWith(']') ? [authority] : [host + port, `${host}.${port}`];
}
