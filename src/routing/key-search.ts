/** From what an operator names, a URL, the beginning of some, or a host, to the keys that responses for it are stored under. */

import type { KeyPattern } from '../cache/key-pattern.ts';
import { spellingTag } from '../semantics/cache-tags.ts';
import { selectParameters } from '../semantics/query.ts';
import { normaliseAuthority } from './authority.ts';
import { cacheKey, originScope, type ScopedRoute, targetKeys } from './cache-key.ts';
import { normaliseTarget, splitTarget } from './target.ts';

/** What of a URL names a resource whatever the scheme: the authority in its normal form, and the target as it is written. */
export interface Place {
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
export function parsePlace(url: string): Place | undefined {
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
export interface ResourceNames {
  /** Of the URL in its normal form. */
  readonly keys: readonly string[];
  /** Those that the store knows all other spellings by. */
  readonly tags: readonly string[];
}

/**
 * The names of a resource by these routes, each once. `/a~`, `/a%7e` and `/b/../a~` are one resource (RFC 9110 §4.2.3), each spelling
 * of it stored by itself.
 */
export function namesOfResource(place: Place, routes: readonly ScopedRoute[]): ResourceNames {
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
export function prefixesOf({ authority, target }: Place, routes: readonly ScopedRoute[]): readonly string[] {
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
