/**
 * Stored responses in the admin API: which entries a search selects, how they are listed page by page, and how they are described.
 * Secrets in variants and fields are left out.
 */

import { hash } from 'node:crypto';
import { type SpanSet, spanOfBlock, spanSize } from '../bytes/span.ts';
import { hasPattern, type KeyPattern } from '../cache/fleet.ts';
import type { PurgeChoice } from '../cache/invalidate/purge.ts';
import { type Field, fieldValue } from '../http/fields.ts';
import {
  namesOfResource,
  parsePath,
  parseResourceUrl,
  patternsOf,
  prefixesOf,
  prefixesOfHost,
  type ResourceUrl,
  type ScopedRoute,
  splitKey,
} from '../routing/cache-key.ts';
import { normaliseAuthority } from '../routing/target.ts';
import { groupTag, isSpellingTag, isTag, maxTagLength, storedTag, tagOfStored } from '../semantics/invalidation.ts';
import { effectiveEntityTag } from '../semantics/validator.ts';
import type { EntryChoice, EntryPage, Store, StoredEntry } from '../store/store.ts';
import { type EntryDetails, type EntrySearch, type EntryStatus, OperationFault } from './operations.ts';

/**
 * Resolves a search under the active routes. A URL or prefix selects both schemes (`namesOfResource`, `prefixesOf`). Where there is
 * one route, a path alone selects that path under any authority. Throws `OperationFault` `invalid`.
 */
export function resolveSearch(search: EntrySearch, routes: readonly ScopedRoute[]): PurgeChoice {
  const nothing: PurgeChoice = { keys: [], prefixes: [], tags: [] };
  switch (search.kind) {
    case 'all':
      return { ...nothing, prefixes: [''] };
    case 'url':
      return (
        choosePath(search.url, routes, false) ?? { ...nothing, ...namesOfResource(placeOfUrl(search.url), routes) }
      );
    case 'prefix':
      return (
        choosePath(search.url, routes, true) ?? { ...nothing, prefixes: prefixesOf(placeOfUrl(search.url), routes) }
      );
    case 'host':
      return { ...nothing, prefixes: prefixesOfHost(search.host, routes) ?? refuseHost(search.host) };
    case 'tag':
      return { ...nothing, tags: [storedTag(readTag(search.tag))] };
    case 'group':
      return { ...nothing, tags: [groupTag(readOrigin(search.origin), search.group)] };
  }
}

function placeOfUrl(url: string): ResourceUrl {
  const place = parseResourceUrl(url);
  if (place !== undefined) return place;
  const given = JSON.stringify(url);
  if (/^[\w.-]+(?::\d+)?(?:\/|$)/.test(url))
    throw invalid(`expected a whole URL such as "https://${url}", got ${given}`);
  throw invalid(`expected an http or https URL such as "https://example.org/path", got ${given}`);
}

/** Resolves a path alone; undefined for other text. Throws `OperationFault` `invalid`. */
function choosePath(text: string, routes: readonly ScopedRoute[], isPrefix: boolean): PurgeChoice | undefined {
  const target = parsePath(text);
  if (target === undefined) return undefined;
  refusePathOfMany(text, routes);
  return { keys: [], prefixes: [], tags: [], patterns: patternsOf(target, routes, isPrefix) };
}

/** Throws `OperationFault` `invalid` for a path alone, unless there is exactly one route. */
export function refusePathOfMany(path: string, routes: readonly unknown[]): void {
  if (routes.length === 1) return;
  throw invalid(
    `a path alone is enough where there is one route, and there are ${routes.length}: expected a whole URL such as "https://example.org${path}"`,
  );
}

function refuseHost(host: string): never {
  throw invalid(`expected a host such as "example.org" or "example.org:8080", got ${JSON.stringify(host)}`);
}

/** Converts a tag as fields contain it: one character for each byte, UTF-8 outside of ASCII. Throws `OperationFault` `invalid`. */
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

/** Maximum number of entries in a page. */
const maxPageSize = 1000;

/** The source of the entries of a page: a key, a pattern of keys, or a choice that the store lists. */
type Source =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'pattern'; readonly pattern: KeyPattern }
  | EntryChoice;

/** Where a page begins: the index of its source, and the place in that source. */
interface PagePlace {
  readonly at: number;
  readonly after: string | undefined;
}

/**
 * Returns at most `limit` entries of a choice, from `after` on, which is the `next` of the previous page. Rejects with
 * `OperationFault` `invalid` for a limit that is no whole number from 1 to `maxPageSize`, and for an `after` that is invalid.
 */
export async function listEntries(
  store: Pick<Store, 'find' | 'list'>,
  { keys, prefixes, tags, patterns = [] }: PurgeChoice,
  limit: number,
  after: string | undefined,
): Promise<EntryPage> {
  if (!Number.isInteger(limit) || limit < 1 || limit > maxPageSize) {
    throw new OperationFault('invalid', `expected a limit from 1 to ${maxPageSize}, got ${limit}`);
  }
  const sources: readonly Source[] = [
    ...keys.map((key) => ({ kind: 'key', key }) as const),
    ...prefixes.map((prefix) => ({ kind: 'prefix', prefix }) as const),
    ...tags.map((tag) => ({ kind: 'tag', tag }) as const),
    ...patterns.map((pattern) => ({ kind: 'pattern', pattern }) as const),
  ];
  const entries: EntryPage['entries'][number][] = [];
  let place: PagePlace | undefined = after === undefined ? { at: 0, after: undefined } : readPagePlace(after);
  while (place !== undefined && entries.length < limit) {
    const source: Source | undefined = sources[place.at];
    if (source === undefined) return { entries, next: undefined };
    const page: EntryPage = await listSource(store, source, limit - entries.length, place.after);
    entries.push(...page.entries);
    place = page.next === undefined ? { at: place.at + 1, after: undefined } : { at: place.at, after: page.next };
  }
  const isOver = place === undefined || place.at >= sources.length;
  return { entries, next: isOver ? undefined : formatPagePlace(place) };
}

async function listSource(
  store: Pick<Store, 'find' | 'list'>,
  source: Source,
  limit: number,
  after: string | undefined,
): Promise<EntryPage> {
  if (source.kind === 'pattern') {
    const { pattern } = source;
    const { entries, next } = await listChoice(store, { kind: 'prefix', prefix: pattern.start }, limit, after);
    return { entries: entries.filter(({ key }) => hasPattern(key, pattern)), next };
  }
  if (source.kind !== 'key') return await listChoice(store, source, limit, after);
  if (after !== undefined && !/^\d{1,9}$/.test(after)) throw noPlace();
  const start = Number(after ?? 0);
  const entries = await store.find(source.key);
  const end = start + limit;
  return { entries: entries.slice(start, end), next: end < entries.length ? String(end) : undefined };
}

async function listChoice(
  store: Pick<Store, 'list'>,
  choice: EntryChoice,
  limit: number,
  after: string | undefined,
): Promise<EntryPage> {
  try {
    return await store.list(choice, limit, after);
  } catch (thrown) {
    throw thrown instanceof RangeError && after !== undefined ? noPlace() : thrown;
  }
}

function formatPagePlace({ at, after }: PagePlace): string {
  return Buffer.from(JSON.stringify([at, after ?? null])).toString('base64url');
}

function readPagePlace(text: string): PagePlace {
  try {
    const [at, after] = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    const isPlace = Number.isSafeInteger(at) && at >= 0 && (after === null || typeof after === 'string');
    if (isPlace) return { at, after: after ?? undefined };
  } catch {
    // Invalid, too.
  }
  throw noPlace();
}

function noPlace(): OperationFault {
  return new OperationFault('invalid', 'expected the "next" of a page as the place where the next page begins');
}

const mark = '[redacted]';

/** Parts of field names whose values may be credentials. */
const secretName = /auth(?!ority)|cookie|token|secret|passw|session|credential|signature|api-?key/;

/** Length of the hash that names a variant, in characters. The variant itself contains values that clients have sent. */
const VARIANT_LENGTH = 16;

/** Describes an entry in short. */
export function describeEntry(entry: StoredEntry): EntryStatus {
  const { key, variant, generation, metadata, sizeBytes, isComplete, pinnedUntil } = entry;
  const { status, fields, responseAt, isInvalid, expiredAt, tags = [] } = metadata;
  return {
    key,
    ...splitKey(key),
    variant: variant === '' ? '' : hash('sha256', variant, 'hex').slice(0, VARIANT_LENGTH),
    generation,
    status,
    contentType: fieldValue(fields, 'content-type'),
    sizeBytes,
    isComplete,
    isInvalid: isInvalid === true || expiredAt !== undefined,
    pinnedUntil,
    responseAt,
    etag: effectiveEntityTag(metadata),
    lastModified: fieldValue(fields, 'last-modified'),
    tags: tags.filter((tag) => !isSpellingTag(tag)).map(readableTag),
  };
}

/** Describes an entry with all details. `present` holds the indexes of the blocks that are stored. */
export function detailEntry(entry: StoredEntry, present: SpanSet, blockSizeBytes: number): EntryDetails {
  const { metadata, sizeBytes } = entry;
  const spans = [...present].map(({ start, end }) => ({
    start: start * blockSizeBytes,
    end: spanOfBlock(end - 1, blockSizeBytes, sizeBytes).end,
  }));
  return {
    ...describeEntry(entry),
    fields: metadata.fields.map(withoutSecret),
    nominated: [...metadata.nominated, ...(metadata.selected ?? [])].map(([name, value]) => [
      name,
      value === null ? null : withoutSecret([name, value])[1],
    ]),
    present: spans,
    presentBytes: spans.reduce((sum, span) => sum + spanSize(span), 0),
  };
}

/** Returns a tag as the origin writes it; for a group, with the URI origin that it belongs to. */
function readableTag(stored: string): string {
  const tag = tagOfStored(stored);
  return tag === undefined ? stored : Buffer.from(tag, 'latin1').toString('utf8');
}

/** Removes the value of a field that may be a credential. Of Set-Cookie, the name and the attributes stay. */
function withoutSecret([name, value]: Field): Field {
  if (name === 'set-cookie') return [name, value.replace(/^([^=;]*=)?[^;]*/, `$1${mark}`)];
  return secretName.test(name) ? [name, mark] : [name, value];
}
