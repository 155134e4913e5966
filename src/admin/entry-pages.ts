/** The entries of several keys, prefixes and tags, page by page. */

import { hasPattern, type KeyPattern } from '../cache/key-pattern.ts';
import type { PurgeChoice } from '../cache/purge.ts';
import type { EntryChoice, EntryPage, Store } from '../store/store.ts';
import { OperationFault } from './operations.ts';

/** The most entries of one page. */
export const maxPageSize = 1000;

/** Where the entries of a page are: those of a key, or those that the store lists. */
type Source =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'pattern'; readonly pattern: KeyPattern }
  | EntryChoice;

/** Where a page begins: in which source, and where in it. */
interface Place {
  readonly at: number;
  readonly after: string | undefined;
}

/**
 * The next `limit` entries of a choice, from where `after` says, the `next` of the page before. Throws `OperationFault`
 * `invalid` for a limit that is no number from 1 to `maxPageSize`, and for a place that is none.
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
  let place: Place | undefined = after === undefined ? { at: 0, after: undefined } : readPlace(after);
  while (place !== undefined && entries.length < limit) {
    const source: Source | undefined = sources[place.at];
    if (source === undefined) return { entries, next: undefined };
    const page: EntryPage = await listSource(store, source, limit - entries.length, place.after);
    entries.push(...page.entries);
    place = page.next === undefined ? { at: place.at + 1, after: undefined } : { at: place.at, after: page.next };
  }
  const isOver = place === undefined || place.at >= sources.length;
  return { entries, next: isOver ? undefined : formatPlace(place) };
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

function formatPlace({ at, after }: Place): string {
  return Buffer.from(JSON.stringify([at, after ?? null])).toString('base64url');
}

function readPlace(text: string): Place {
  try {
    const [at, after] = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    const isPlace = Number.isSafeInteger(at) && at >= 0 && (after === null || typeof after === 'string');
    if (isPlace) return { at, after: after ?? undefined };
  } catch {
    // It is none either.
  }
  throw noPlace();
}

function noPlace(): OperationFault {
  return new OperationFault('invalid', 'the place that the page is to begin at is not one that was told before');
}
