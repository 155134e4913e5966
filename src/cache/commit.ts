/** What becomes of a body that has arrived whole: a new generation, a confirmation of the stored one, or nothing. */

import type { StoredResponse } from '../http/stored-response.ts';
import type { EntryWriter, NewEntry, Store, StoredEntry } from '../store/store.ts';
import type { WholeBody } from './fill.ts';

/** A generation that was written and is not findable yet. */
export interface Written {
  readonly writer: EntryWriter;
  readonly place: Pick<NewEntry, 'key' | 'variant'>;
  readonly stored: StoredResponse;
  /** The tag that a body gets that no stored one has the bytes of. */
  readonly ownEntityTag: string;
  /** The generation that these bytes may turn out to be. */
  readonly previous: StoredEntry | undefined;
  /** Whether it has been invalidated since it was asked for. */
  readonly isRevoked: () => boolean;
}

/**
 * Commits what was written, or confirms the generation that has the same bytes already. What was invalidated meanwhile,
 * or is older than what another fill has stored, is not kept. Throws `StoreFault`.
 */
export async function commit(
  store: Store,
  written: Written,
  body: WholeBody,
  now: number,
): Promise<'stored' | 'same' | 'relayed'> {
  if (written.isRevoked() || (await isSuperseded(store, written, now))) return 'relayed';
  const confirmed = await confirm(store, written, body);
  const entry = confirmed ?? (await putInPlace(written, body));
  // The writing took its time: the invalidation that came during it found nothing to remove.
  if (written.isRevoked()) {
    await store.removeEntry(entry);
    return 'relayed';
  }
  return confirmed === undefined ? 'stored' : 'same';
}

/**
 * Whether a response that arrived later has been stored: of several, the most recent one counts (RFC 9111 §4). One from
 * the future was stored before the clock was set back, and tells nothing.
 */
async function isSuperseded(store: Store, { place, stored }: Written, now: number): Promise<boolean> {
  const entries = await store.find(place.key);
  const current = entries.find((entry) => entry.variant === place.variant);
  return current !== undefined && current.metadata.responseAt > stored.responseAt && current.metadata.responseAt <= now;
}

/** The stored generation with fresh metadata, if its bytes are the same. */
async function confirm(
  store: Store,
  { stored, previous }: Written,
  { digest }: WholeBody,
): Promise<StoredEntry | undefined> {
  if (digest === undefined || digest !== previous?.metadata.bodyDigest) return undefined;
  const { ownEntityTag } = previous.metadata;
  const tag = ownEntityTag === undefined ? {} : { ownEntityTag };
  return await store.replaceMetadata(previous, { ...stored, bodyDigest: digest, ...tag });
}

function putInPlace({ writer, stored, ownEntityTag }: Written, { sizeBytes, digest }: WholeBody): Promise<StoredEntry> {
  const metadata = digest === undefined ? stored : { ...stored, ownEntityTag, bodyDigest: digest };
  return writer.commit({ metadata, sizeBytes });
}
