/** What the response to a HEAD tells of stored responses to GET (RFC 9111 §4.3.5). */

import { freshened } from '../semantics/freshen.ts';
import { decideHeadEffect } from '../semantics/head.ts';
import { withoutOriginEcho } from '../semantics/origin-echo.ts';
import { decideStoring, isForOneClient } from '../semantics/storing.ts';
import type { StoredEntry } from '../store/store.ts';
import { isFor } from './asker.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Flights } from './flights.ts';
import type { Inquiry } from './inquiry.ts';
import type { Received } from './open-generation.ts';
import { withTags } from './tags.ts';
import { tellOfCookie } from './telling-of-cookies.ts';

/** Freshens or invalidates what is stored for the same variant, and is not newer than the HEAD. */
export async function learnFromHead(
  context: ExchangeContext,
  flights: Flights,
  inquiry: Inquiry,
  received: Received,
): Promise<void> {
  const { response } = received;
  const isForOthers = !isForOneClient(inquiry.originFields, response.fields, inquiry.policy);
  if (response.status !== 200 || !isForOthers) return;
  using since = flights.watch(inquiry.key);
  const concerned = (await context.store.find(inquiry.key)).filter(
    (entry) => entry.pinnedUntil === undefined && !isNewer(entry, received) && isFor(entry.metadata, inquiry),
  );
  for (const entry of concerned) {
    // It has been purged meanwhile, and what is learnt was asked for before.
    if (since.concerns(entry.metadata.tags)) return;
    const metadata = learnt(entry, inquiry, received);
    if (metadata === undefined) continue;
    const updated = await flights.storing(() => context.store.replaceMetadata(entry, metadata));
    if (updated === undefined) continue;
    flights.freshen(updated);
    if (updated.metadata.isInvalid !== true)
      tellOfCookie(context, inquiry.key, response.fields, updated.metadata.fields);
  }
}

/** Whether an entry may have come, or been validated, since the HEAD was sent; one from the future tells nothing. */
function isNewer({ metadata }: StoredEntry, { requestAt, responseAt }: Received): boolean {
  return metadata.responseAt >= requestAt && metadata.responseAt <= responseAt;
}

/** What is known of an entry after the HEAD; undefined where that is nothing new, or nothing that may be stored. */
function learnt(
  { metadata, sizeBytes }: StoredEntry,
  inquiry: Inquiry,
  { response, requestAt, responseAt }: Received,
): StoredEntry['metadata'] | undefined {
  const { originFields, policy } = inquiry;
  const effect = decideHeadEffect(metadata, sizeBytes, response.fields);
  if (effect === 'invalidate') return { ...metadata, isInvalid: true };
  if (effect === 'none') return undefined;
  const newer = { fields: withoutOriginEcho(originFields, response.fields) };
  const fresh = withTags(freshened(metadata, newer, requestAt, responseAt, policy), inquiry);
  const decision = decideStoring({ request: { method: 'GET', fields: originFields }, response: fresh, policy });
  return decision.kind === 'store' ? fresh : undefined;
}
