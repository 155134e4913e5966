/**
 * Commits a body that has arrived whole: as a new generation, or as a confirmation of the stored one. Drops it where it was
 * invalidated, or is older than the stored response. Also publishes a generation that is present in part.
 */

import type { StoredResponse } from '../../http/stored-response.ts';
import type { EntryWriter, NewEntry, Store, StoredEntry } from '../../store/store.ts';
import { hasStrongTag } from '../inquiry.ts';

/**
 * Maximum number of variants and fragments of one key. Each request searches all entries of its key, and a client that keeps
 * changing the fields that Vary names could otherwise have more and more of them stored.
 */
const MAX_ENTRIES = 200;

/** Maximum number of them that are bound to an identity, so that a client with ever new identities does not push out the others. */
const MAX_BOUND_ENTRIES = 100;

/** A body whose last byte has arrived. */
export interface WholeBody {
  readonly sizeBytes: number;
  /** Its SHA-256, hexadecimal; undefined where it was not wanted. */
  readonly digest: string | undefined;
}

/** A generation whose bytes are written, and that is not committed yet. */
export interface WrittenGeneration {
  readonly writer: Pick<EntryWriter, 'generation' | 'commit'>;
  readonly place: Pick<NewEntry, 'key' | 'variant'>;
  readonly stored: StoredResponse;
  /** The stored generation that may have the same bytes. */
  readonly previous: StoredEntry | undefined;
  /** How long a complete generation that it replaces stays pinned for clients that resume with its validator. */
  readonly pinSeconds: number;
  /** Whether it has been invalidated since its request was sent. */
  readonly isRevoked: () => boolean;
  /** When it was expired since its request was sent, in epoch milliseconds. */
  readonly expiredAt: () => number | undefined;
}

/**
 * Commits a written generation (`stored`), or confirms the stored one that has the same bytes (`same`). Keeps nothing where the
 * generation was invalidated meanwhile, or another fill has stored a newer response (`relayed`). `now` is in epoch milliseconds.
 * Throws `StoreFault`.
 */
export async function commit(
  store: Store,
  written: WrittenGeneration,
  body: WholeBody,
  now: number,
): Promise<'stored' | 'same' | 'relayed'> {
  const before = await store.find(written.place.key);
  if (written.isRevoked() || isSuperseded(before, written, now)) return 'relayed';
  const confirmed = await confirm(store, written, body);
  const entry = confirmed ?? (await putInPlace(written, body, now));
  if (before.length >= MAX_BOUND_ENTRIES) {
    // As they were found before: to read all again costs more than the rest of a miss.
    await dropLeastUsed(store, [entry, ...before.filter(({ variant }) => variant !== entry.variant)]);
  }
  // An invalidation during the write found nothing to remove.
  if (written.isRevoked()) {
    await store.removeEntry(entry);
    return 'relayed';
  }
  await expireLate(store, entry, written.expiredAt());
  return confirmed === undefined ? 'stored' : 'same';
}

/** Publishes a generation in part, unless it must not be kept (see `commit`). Throws `StoreFault`. */
export async function publish(
  store: Store,
  written: WrittenGeneration & { readonly writer: Pick<EntryWriter, 'publish'> },
  now: number,
): Promise<void> {
  const before = await store.find(written.place.key);
  if (written.isRevoked() || isSuperseded(before, written, now)) return;
  await written.writer.publish(written.stored, pinUntil(written, now));
  if (before.length >= MAX_BOUND_ENTRIES) await dropLeastUsed(store, await store.find(written.place.key));
  const expiredAt = written.expiredAt();
  if (!written.isRevoked() && expiredAt === written.stored.expiredAt) return;
  const { generation } = written.writer;
  const own = (await store.find(written.place.key)).find((entry) => entry.generation === generation);
  // A store that cannot read now finds nothing either.
  if (own === undefined || written.isRevoked()) await store.removeEntry({ ...written.place, generation });
  else await expireLate(store, own, expiredAt);
}

/**
 * Expires an entry that was expired while its metadata were being stored. A purge of this process waits for that, but another one may
 * have gone on without a process that was suspended: its entry may come to be found after the purge. Returns the entry as it is stored;
 * undefined where it is gone.
 */
export async function expireLate(
  store: Pick<Store, 'replaceMetadata'>,
  entry: StoredEntry,
  expiredAt: number | undefined,
): Promise<StoredEntry | undefined> {
  const metadata = expiredLate(entry.metadata, expiredAt);
  return metadata === entry.metadata ? entry : await store.replaceMetadata(entry, metadata);
}

/** Returns metadata as they are after an expiry of which they do not know: one that is later than their request. */
export function expiredLate(metadata: StoredResponse, expiredAt: number | undefined): StoredResponse {
  const isLate = expiredAt !== undefined && metadata.expiredAt === undefined && metadata.requestAt <= expiredAt;
  return isLate ? { ...metadata, expiredAt } : metadata;
}

/**
 * Whether a response that arrived later is stored already: the most recent one counts (RFC 9111 §4). A stored response from the
 * future does not count: it was stored before the clock was set back.
 */
function isSuperseded(
  entries: readonly StoredEntry[],
  { writer, place, stored }: WrittenGeneration,
  now: number,
): boolean {
  const current = entries.find((entry) => entry.variant === place.variant && entry.pinnedUntil === undefined);
  if (current === undefined || current.generation === writer.generation) return false;
  return current.metadata.responseAt > stored.responseAt && current.metadata.responseAt <= now;
}

/** Removes the entries of a key beyond the bound, those that were not used for longest. `found` has all of them, the last committed first. */
async function dropLeastUsed(store: Store, found: readonly StoredEntry[]): Promise<void> {
  const entries = found
    .filter(({ pinnedUntil }) => pinnedUntil === undefined)
    .map((entry) => ({ entry, at: Math.max(store.usedAt(entry.generation) ?? 0, entry.metadata.responseAt) }))
    .sort((one, other) => other.at - one.at)
    .map(({ entry }) => entry);
  const isBound = ({ metadata: { identity } }: StoredEntry) => identity !== undefined && identity.digest !== '';
  const tooMany = entries.filter(isBound).slice(MAX_BOUND_ENTRIES);
  const others = entries.filter((entry) => !tooMany.includes(entry));
  for (const entry of [...tooMany, ...others.slice(MAX_ENTRIES)]) await store.removeEntry(entry);
}

/** Replaces the metadata of the stored generation if its bytes are the same, and returns its entry; undefined otherwise. */
async function confirm(
  store: Store,
  { stored, previous }: WrittenGeneration,
  { digest }: WholeBody,
): Promise<StoredEntry | undefined> {
  if (digest === undefined || digest !== previous?.metadata.bodyDigest) return undefined;
  const { ownEntityTag } = previous.metadata;
  const isKept = ownEntityTag !== undefined && !hasStrongTag(stored);
  const { ownEntityTag: _, ...fresh } = stored;
  return await store.replaceMetadata(previous, { ...fresh, bodyDigest: digest, ...(isKept ? { ownEntityTag } : {}) });
}

function putInPlace(written: WrittenGeneration, { sizeBytes, digest }: WholeBody, now: number): Promise<StoredEntry> {
  const { writer, stored } = written;
  const metadata = digest === undefined ? stored : { ...stored, bodyDigest: digest };
  return writer.commit({ metadata, sizeBytes, pinPreviousUntil: pinUntil(written, now) });
}

function pinUntil({ pinSeconds }: WrittenGeneration, now: number): number | undefined {
  return pinSeconds > 0 ? now + pinSeconds * 1000 : undefined;
}
