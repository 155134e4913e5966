/**
 * Stored responses in the admin API: which entries a search selects, how they are listed page by page, and how they are described.
 * Secrets in variants and fields are left out.
 */

import { hash } from 'node:crypto';
import { type Span, type SpanSet, spanOfBlock, spanSize } from '../bytes/span.ts';
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
  redactedPatternsOf,
  type ScopedRoute,
  splitKey,
} from '../routing/cache-key.ts';
import { normaliseAuthority } from '../routing/target.ts';
import { groupTag, isSpellingTag, isTag, maxTagLength, storedTag, tagOfStored } from '../semantics/invalidation.ts';
import { effectiveEntityTag } from '../semantics/validator.ts';
import { compareRanks, hasFallingRanks, hasText, lowerCase } from '../store/entry-rules.ts';
import type { EntryChoice, EntryOrder, EntryPage, EntryRank, RankedEntry, Store, StoredEntry } from '../store/store.ts';
import {
  type EntryDetails,
  type EntryInProcess,
  type EntrySearch,
  type EntryStatus,
  OperationFault,
} from './operations.ts';

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
      return choosePath(search.url, routes, false) ?? { ...nothing, ...chooseUrl(placeOfUrl(search.url), routes) };
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

/** A URL that a list has shown with redacted secrets selects all that are shown like it, so that no secret need be shown. */
function chooseUrl(place: ResourceUrl, routes: readonly ScopedRoute[]): Omit<PurgeChoice, 'prefixes'> {
  const patterns = redactedPatternsOf(place, routes);
  return { ...namesOfResource(place, routes), ...(patterns.length === 0 ? {} : { patterns }) };
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
  choice: PurgeChoice,
  limit: number,
  after: string | undefined,
): Promise<EntryPage> {
  checkLimit(limit);
  const sources = sourcesOf(choice);
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

function checkLimit(limit: number): void {
  if (Number.isInteger(limit) && limit >= 1 && limit <= maxPageSize) return;
  throw new OperationFault('invalid', `expected a limit from 1 to ${maxPageSize}, got ${limit}`);
}

function sourcesOf({ keys, prefixes, tags, patterns = [] }: PurgeChoice): readonly Source[] {
  return [
    ...keys.map((key) => ({ kind: 'key', key }) as const),
    ...prefixes.map((prefix) => ({ kind: 'prefix', prefix }) as const),
    ...tags.map((tag) => ({ kind: 'tag', tag }) as const),
    ...patterns.map((pattern) => ({ kind: 'pattern', pattern }) as const),
  ];
}

/**
 * Returns at most `limit` entries of a choice in an order, from `after` on, which is the `next` of the previous page. Rejects as
 * `listEntries` does; an `after` of another order is invalid.
 */
export async function listRankedEntries(
  store: Pick<Store, 'listRanked'>,
  choice: PurgeChoice,
  order: EntryOrder,
  limit: number,
  after: string | undefined,
): Promise<EntryPage> {
  checkLimit(limit);
  const place = after === undefined ? undefined : readRankCursor(after, order);
  // Each source continues behind the same place, so that their pages can be merged.
  const lists = await Promise.all(
    sourcesOf(choice).map((source) => listRankedSource(store, source, order, limit, place)),
  );
  const isFalling = hasFallingRanks(order);
  const merged = new Map(lists.flatMap(({ entries }) => entries.map((ranked) => [ranked.generation, ranked])));
  const all = [...merged.values()].sort((one, other) => compareRanks(one, other, isFalling));
  const entries = all.slice(0, limit);
  const last = entries.at(-1);
  const hasMore = last !== undefined && (all.length > limit || lists.some(({ hasMore: more }) => more));
  return { entries: entries.map(({ entry }) => entry), next: hasMore ? formatRankCursor(last, order) : undefined };
}

interface RankedSource {
  readonly entries: readonly RankedEntry[];
  readonly hasMore: boolean;
}

/** Returns the next `limit` entries of a source: fewer only where there are no more. */
async function listRankedSource(
  store: Pick<Store, 'listRanked'>,
  source: Source,
  order: EntryOrder,
  limit: number,
  after: EntryRank | undefined,
): Promise<RankedSource> {
  const { choice, isWanted, contains } = narrow(source, order);
  const entries: RankedEntry[] = [];
  let place = after;
  for (;;) {
    const page = await store.listRanked(choice, { ...order, contains }, limit, place);
    entries.push(...page.entries.filter(({ entry: { key } }) => isWanted(key)));
    place = page.next;
    if (place === undefined || entries.length >= limit) break;
  }
  return { entries: entries.slice(0, limit), hasMore: place !== undefined || entries.length > limit };
}

/** The choice that a store lists for a source, the text that keys must have, and which of its entries are of the source. */
interface NarrowSource {
  readonly choice: EntryChoice;
  readonly contains: string | undefined;
  readonly isWanted: (key: string) => boolean;
}

function narrow(source: Source, { contains }: EntryOrder): NarrowSource {
  if (source.kind === 'key') {
    const { key } = source;
    return { choice: { kind: 'prefix', prefix: key }, contains, isWanted: (found) => found === key };
  }
  if (source.kind !== 'pattern') return { choice: source, contains, isWanted: () => true };
  const { pattern } = source;
  const text = lowerCase(contains ?? '');
  if (pattern.redacted !== undefined) {
    const choice = { kind: 'prefix', prefix: pattern.start } as const;
    return { choice, contains, isWanted: (key) => hasPattern(key, pattern) };
  }
  return {
    choice: { kind: 'prefix', prefix: pattern.start },
    // The path is in the key, so that the store leaves out nearly all other entries.
    contains: pattern.rest,
    isWanted: (key) => hasPattern(key, pattern) && hasText(key, text),
  };
}

/** Formats a place in a ranked list as the cursor of an order. */
export function formatRankCursor({ rank, generation }: EntryRank, { by, isDescending }: EntryOrder): string {
  return Buffer.from(JSON.stringify([by, isDescending, rank, generation])).toString('base64url');
}

/** Reads a cursor of `formatRankCursor`. Throws `OperationFault` `invalid` for another text, and for the cursor of another order. */
export function readRankCursor(text: string, { by, isDescending }: EntryOrder): EntryRank {
  try {
    const [ofBy, ofDirection, rank, generation] = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    const isRank = typeof rank === (by === 'key' ? 'string' : 'number');
    if (ofBy === by && ofDirection === isDescending && isRank && typeof generation === 'string') {
      return { rank, generation };
    }
  } catch {
    // Invalid, too.
  }
  throw noPlace();
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

/** Describes an entry in short, with what its store knows of it besides. */
export function describeEntry(
  entry: StoredEntry,
  { presentBytes, usedAt }: Pick<EntryStatus, 'presentBytes' | 'usedAt'>,
): EntryStatus {
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
    presentBytes,
    isComplete,
    isInvalid: isInvalid === true || expiredAt !== undefined,
    pinnedUntil,
    responseAt,
    usedAt,
    etag: effectiveEntityTag(metadata),
    lastModified: fieldValue(fields, 'last-modified'),
    tags: tags.filter((tag) => !isSpellingTag(tag)).map(readableTag),
  };
}

/** What a store and a process know of an entry besides the entry itself. */
export interface EntryFacts extends EntryInProcess {
  /** The indexes of the blocks that are stored. */
  readonly present: SpanSet;
  readonly usedAt: number | undefined;
}

/** Describes an entry with all details. */
export function detailEntry(
  entry: StoredEntry,
  { present: blocks, usedAt, hot, arriving }: EntryFacts,
  blockSizeBytes: number,
): EntryDetails {
  const { metadata, sizeBytes } = entry;
  const present = bytesOfBlocks(blocks, blockSizeBytes, sizeBytes);
  return {
    ...describeEntry(entry, { presentBytes: bytesInSpans(present), usedAt }),
    fields: metadata.fields.map(withoutSecret),
    nominated: [...metadata.nominated, ...(metadata.selected ?? [])].map(([name, value]) => [
      name,
      value === null ? null : withoutSecret([name, value])[1],
    ]),
    present,
    hot: commonSpans(present, hot),
    arriving,
  };
}

/** Converts spans of blocks to spans of bytes. */
export function bytesOfBlocks(blocks: SpanSet, blockSizeBytes: number, sizeBytes: number): readonly Span[] {
  return [...blocks].map(({ start, end }) => ({
    start: start * blockSizeBytes,
    end: spanOfBlock(end - 1, blockSizeBytes, sizeBytes).end,
  }));
}

/** Returns the sum of the sizes of spans. */
export function bytesInSpans(spans: readonly Span[]): number {
  return spans.reduce((sum, span) => sum + spanSize(span), 0);
}

/** Returns the bytes that are in a span of both lists, which are in order. */
export function commonSpans(some: readonly Span[], others: readonly Span[]): readonly Span[] {
  return some.flatMap((one) =>
    others.flatMap((other) => {
      const common = { start: Math.max(one.start, other.start), end: Math.min(one.end, other.end) };
      return common.start < common.end ? [common] : [];
    }),
  );
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
