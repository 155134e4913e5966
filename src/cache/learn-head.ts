/** What the response to a HEAD tells of stored responses to GET (RFC 9111 §4.3.5). */

import { hasField } from '../http/fields.ts';
import { freshened } from '../semantics/freshen.ts';
import { decideHeadEffect } from '../semantics/head.ts';
import { withoutOriginEcho } from '../semantics/origin-echo.ts';
import { decideReuse } from '../semantics/reuse.ts';
import { decideStoring, isForOneClient } from '../semantics/storing.ts';
import { compareVersions } from '../semantics/validator.ts';
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

/**
 * The length of the same representation, where the origin has not told it with the HEAD and it is known here: of what is stored or
 * being fetched under the same strong validator (RFC 9110 §8.6, §8.8.1), or is what a Range would be cut out of now. Undefined
 * otherwise.
 */
export async function findLength(
  { store }: Pick<ExchangeContext, 'store'>,
  flights: Flights,
  inquiry: Inquiry,
  { response, responseAt }: Received,
): Promise<number | undefined> {
  const { fields, status } = response;
  if (status !== 200 || hasField(fields, 'content-length')) return undefined;
  if (isForOneClient(inquiry.originFields, fields, inquiry.policy)) return undefined;
  const fetched = flights.of(inquiry.key).flatMap(({ generation }) => generation ?? []);
  const known = [
    ...fetched.map(({ response: metadata, sizeBytes }) => ({ metadata, sizeBytes })),
    ...(await store.find(inquiry.key)),
  ];
  const same = known.find(({ metadata, sizeBytes }) => {
    if (sizeBytes === undefined || !isFor(metadata, inquiry)) return false;
    if (compareVersions(metadata, { fields, responseAt }, responseAt) === 'same') return true;
    const asked = { requestFields: inquiry.originFields, hasRange: true, policy: inquiry.policy };
    const reuse = decideReuse({ ...asked, stored: metadata, now: responseAt });
    return reuse.kind === 'fresh' && decideHeadEffect(metadata, sizeBytes, fields) === 'freshen';
  });
  return same?.metadata.fragment?.wholeBytes ?? same?.sizeBytes;
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
