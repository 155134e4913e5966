/** From what those who run a server say is meant to the keys and tags of the store. */

import type { PurgeChoice } from '../cache/purge.ts';
import { normaliseAuthority } from '../routing/authority.ts';
import type { ScopedRoute } from '../routing/cache-key.ts';
import {
  namesOfResource,
  type Place,
  parsePath,
  parsePlace,
  patternsOf,
  prefixesOf,
  prefixesOfHost,
} from '../routing/key-search.ts';
import { groupTag } from '../semantics/cache-groups.ts';
import { isTag, maxTagLength, storedTag } from '../semantics/cache-tags.ts';
import { type EntrySearch, OperationFault } from './operations.ts';

/**
 * What a search means under the routes that serve now. A URL and a prefix are those of either scheme; see `namesOfResource` and
 * `prefixesOf`. Where there is one route, a path alone is that path under whatever authority clients have asked for it.
 * Throws `OperationFault` `invalid`.
 */
export function resolveSearch(search: EntrySearch, routes: readonly ScopedRoute[]): PurgeChoice {
  const nothing: PurgeChoice = { keys: [], prefixes: [], tags: [] };
  switch (search.kind) {
    case 'all':
      return { ...nothing, prefixes: [''] };
    case 'url':
      return choosePath(search.url, routes, false) ?? { ...nothing, ...namesOfResource(readPlace(search.url), routes) };
    case 'prefix':
      return (
        choosePath(search.url, routes, true) ?? { ...nothing, prefixes: prefixesOf(readPlace(search.url), routes) }
      );
    case 'host':
      return { ...nothing, prefixes: prefixesOfHost(search.host, routes) ?? refuseHost(search.host) };
    case 'tag':
      return { ...nothing, tags: [storedTag(readTag(search.tag))] };
    case 'group':
      return { ...nothing, tags: [groupTag(readOrigin(search.origin), search.group)] };
  }
}

function readPlace(url: string): Place {
  const place = parsePlace(url);
  if (place !== undefined) return place;
  const given = JSON.stringify(url);
  if (/^[\w.-]+(?::\d+)?(?:\/|$)/.test(url))
    throw invalid(`expected a whole URL such as "https://${url}", got ${given}`);
  throw invalid(`expected an http or https URL such as "https://example.org/path", got ${given}`);
}

/** Undefined for what is no path alone. */
function choosePath(text: string, routes: readonly ScopedRoute[], isPrefix: boolean): PurgeChoice | undefined {
  const target = parsePath(text);
  if (target === undefined) return undefined;
  refusePathOfMany(text, routes);
  return { keys: [], prefixes: [], tags: [], patterns: patternsOf(target, routes, isPrefix) };
}

/** Throws `OperationFault` `invalid` for a path alone, unless there is one route that it can be of. */
export function refusePathOfMany(path: string, routes: readonly unknown[]): void {
  if (routes.length === 1) return;
  throw invalid(
    `a path alone is enough where there is one route, and there are ${routes.length}: expected a whole URL such as "https://example.org${path}"`,
  );
}

function refuseHost(host: string): never {
  throw invalid(`expected a host such as "example.org" or "example.org:8080", got ${JSON.stringify(host)}`);
}

/** Fields hold bytes, one to a character: a tag outside of ASCII is in them as UTF-8. */
function readTag(text: string): string {
  const tag = Buffer.from(text, 'utf8').toString('latin1');
  if (!isTag(tag)) throw invalid(`expected a tag of 1 to ${maxTagLength} bytes, got ${tag.length}`);
  return tag;
}

function readOrigin(text: string): string {
  const [, scheme, written = ''] = /^(https?):\/\/([^/?#]*)\/?$/.exec(text.trim().toLowerCase()) ?? [];
  const authority = scheme === 'http' || scheme === 'https' ? normaliseAuthority(written, scheme) : undefined;
  if (authority !== undefined) return `${scheme}://${authority}`;
  throw invalid(`expected scheme and host such as "https://example.org", got ${JSON.stringify(text)}`);
}

function invalid(message: string): OperationFault {
  return new OperationFault('invalid', message);
}
