/**
 * What becomes of a body that has arrived whole: a new generation, a confirmation of the stored one, or nothing where it was
 * invalidated or is older than what is stored. Publishes a generation that is there in part.
 */

import type { StoredResponse } from '../../http/stored-response.ts';
import type { EntryWriter, NewEntry, Store, StoredEntry } from '../../store/store.ts';
import { hasStrongTag } from '../inquiry.ts';

/**
 * So many variants and parts of one key are kept. Each request looks through those of its key, and whoever varies what
 * Vary names could have more and more of them stored.
 */
const MAX_ENTRIES = 200;

/**
 * So many of them are for requests with a certain identity, so that a client with ever new fields does not push out what is for
 * all others.
 */
const MAX_BOUND_ENTRIES = 100;

/** A body whose last byte has come. */
export interface WholeBody {
  readonly sizeBytes: number;
  /** Its SHA-256, hexadecimal, where it was wanted. */
  readonly digest: string | undefined;
}

/** A generation that was written and is not findable as a whole yet. */
export interface WrittenGeneration {
  readonly writer: Pick<EntryWriter, 'generation' | 'commit'>;
  readonly place: Pick<NewEntry, 'key' | 'variant'>;
  readonly stored: StoredResponse;
  /** The generation that these bytes may turn out to be. */
  readonly previous: StoredEntry | undefined;
  /** How long a complete generation that it replaces is kept for those who resume with its validator. */
  readonly pinSeconds: number;
  /** Whether it has been invalidated since it was asked for. */
  readonly isRevoked: () => boolean;
}

/**
 * Commits what was written, or confirms the generation that has the same bytes already. What was invalidated meanwhile,
 * or is older than what another fill has stored, is not kept. Throws `StoreFault`.
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
  if (before.length >= MAX_BOUND_ENTRIES) await dropOldest(store, entry.key);
  // The writing took its time: the invalidation that came during it found nothing to remove.
  if (written.isRevoked()) {
    await store.removeEntry(entry);
    return 'relayed';
  }
  return confirmed === undefined ? 'stored' : 'same';
}

/** Publishes what is written in part, unless it may not be kept; see `commit`. Throws `StoreFault`. */
export async function publish(
  store: Store,
  written: WrittenGeneration & { readonly writer: Pick<EntryWriter, 'publish'> },
  now: number,
): Promise<void> {
  const before = await store.find(written.place.key);
  if (written.isRevoked() || isSuperseded(before, written, now)) return;
  await written.writer.publish(written.stored, pinUntil(written, now));
  if (before.length >= MAX_BOUND_ENTRIES) await dropOldest(store, written.place.key);
  if (!written.isRevoked()) return;
  const entries = await store.find(written.place.key);
  const own = entries.find((entry) => entry.generation === written.writer.generation);
  if (own !== undefined) await store.removeEntry(own);
}

/**
 * Whether a response that arrived later has been stored: of several, the most recent one counts (RFC 9111 §4). One from
 * the future was stored before the clock was set back, and tells nothing.
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

/** Removes what was stored first of a key that has too much under it. */
async function dropOldest(store: Store, key: string): Promise<void> {
  const entries = (await store.find(key)).filter(({ pinnedUntil }) => pinnedUntil === undefined);
  const isBound = ({ metadata: { identity } }: StoredEntry) => identity !== undefined && identity.digest !== '';
  const tooMany = entries.filter(isBound).slice(MAX_BOUND_ENTRIES);
  const kept = entries.filter((entry) => !tooMany.includes(entry));
  for (const entry of [...tooMany, ...kept.slice(MAX_ENTRIES)]) await store.removeEntry(entry);
}

/** The stored generation with fresh metadata, if its bytes are the same. */
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
