/** One conversation with the origin about a key: asks for the whole, or validates what is stored, and decides what becomes of the response. */

import { type Fields, hasField } from '../http/fields.ts';
import { ProxyError, toProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import { freshened, furtherFields, isNamedBy, mayFreshen, validityFields } from '../semantics/freshen.ts';
import { originEcho, withoutOriginEcho } from '../semantics/origin-echo.ts';
import { conditionalFields } from '../semantics/revalidation.ts';
import { isOriginFailure } from '../semantics/staleness.ts';
import { decideStoring, isForAuthorized, personalFields } from '../semantics/storing.ts';
import { type StoredEntry, StoreFault } from '../store/store.ts';
import { ask, askWhetherCurrent } from './ask.ts';
import { isFor, withIdentity } from './asker.ts';
import type { ExchangeContext } from './exchange-context.ts';
import type { Clearance, Landing } from './flight.ts';
import { isFragment } from './fragments.ts';
import type { Inquiry } from './inquiry.ts';
import { askForPart } from './land-part.ts';
import { landWhole } from './land-whole.ts';
import { type Received, reopenGeneration } from './open-generation.ts';
import { withTags } from './tags.ts';
import { tellOfCookie } from './telling-of-cookies.ts';

/** An entry that is to be validated. */
export interface Candidate {
  readonly entry: StoredEntry;
  /** Until when it may be served if the origin fails, in epoch milliseconds; 0 for never. */
  readonly serveStaleUntil: number;
}

/** Asks the origin and lands. Never rejects. */
export async function exchange(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  clearance: Clearance,
): Promise<Landing> {
  try {
    return await converse(context, inquiry, candidate, clearance);
  } catch (thrown) {
    return { kind: 'failed', failure: toProxyError(thrown), client: inquiry.client };
  }
}

/** Opens a stored generation that is there in part, and lands with it. Never rejects. */
export async function reopenStored(
  context: ExchangeContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  clearance: Clearance,
): Promise<Landing> {
  const { store } = context;
  try {
    const writer = await store.resume(entry);
    if (writer === undefined) throw new ProxyError('bytes_gone', { detail: 'the generation is not current any more' });
    // It may have been freshened since it was found.
    const current = (await store.find(inquiry.key)).find(({ generation }) => generation === entry.generation);
    return { kind: 'generation', generation: reopenGeneration(context, inquiry, current ?? entry, writer, clearance) };
  } catch (thrown) {
    if (thrown instanceof StoreFault) return { kind: 'unusable', reason: 'store-unavailable' };
    return { kind: 'failed', failure: toProxyError(thrown), client: inquiry.client };
  }
}

async function converse(
  context: ExchangeContext,
  inquiry: Inquiry,
  candidate: Candidate | undefined,
  clearance: Clearance,
): Promise<Landing> {
  const landed = candidate === undefined ? await askForPart(context, inquiry, clearance) : undefined;
  if (landed !== undefined) return landed;
  const conditions = candidate === undefined ? [] : conditionalFields(candidate.entry.metadata);
  const received = await (conditions.length > 0 ? askWhetherCurrent : ask)(context, inquiry, conditions, clearance);
  const { body, status } = received.response;
  if (isOriginFailure(status) && candidate !== undefined && received.responseAt < candidate.serveStaleUntil) {
    body.close();
    return { kind: 'failed', failure: status, client: inquiry.client };
  }
  if (status !== 304 || candidate === undefined || conditions.length === 0) {
    return await landWhole(context, inquiry, candidate?.entry, received, clearance);
  }
  body.close();
  const landing = await freshen(context, inquiry, candidate.entry, received, clearance);
  if (landing !== undefined) return landing;
  const again = await ask(context, inquiry, [], clearance);
  return await landWhole(context, inquiry, candidate.entry, again, clearance);
}

/**
 * RFC 9111 §4.3.4. Undefined when the 304 is not about this entry, or the entry is gone. Of a 304 that is for those alone who
 * send the same Authorization, the others get nothing but that the entry is current (§3.5); and what it says of the page that
 * asked is for that page.
 */
async function freshen(
  context: ExchangeContext,
  inquiry: Inquiry,
  entry: StoredEntry,
  { response, requestAt, responseAt }: Received,
  clearance: Clearance,
): Promise<Landing | undefined> {
  const { key, originFields, policy } = inquiry;
  const { fields } = response;
  if (!mayFreshen(entry.metadata, fields)) return undefined;
  const merge = (stored: StoredResponse, newer: Fields) => {
    const { expiredAt = stored.expiredAt } = clearance;
    const known = expiredAt === undefined ? stored : { ...stored, expiredAt };
    return withTags(freshened(known, { fields: newer }, requestAt, responseAt, policy), inquiry);
  };
  const isForAll = !isForAuthorized(originFields, merge(entry.metadata, fields).fields, policy);
  const told = isForAll ? withoutOriginEcho(originFields, fields) : validityFields(fields, policy);
  const metadata = withIdentity(merge(entry.metadata, told), inquiry);
  if (!mayKeep(metadata, inquiry, clearance)) {
    if (isForAll) await context.store.removeEntry(entry);
    return undefined;
  }
  tellOfCookie(context, key, fields, metadata.fields);
  const fresh = await clearance.storing(() => context.store.replaceMetadata(entry, metadata));
  if (fresh === undefined) return undefined;
  const alike: StoredEntry[] = [];
  for (const other of await findAlike(context, inquiry, entry, fields)) {
    const merged = merge(other.metadata, told);
    const updated = mayKeep(merged, inquiry, clearance)
      ? await clearance.storing(() => context.store.replaceMetadata(other, merged))
      : undefined;
    if (updated !== undefined) alike.push(updated);
  }
  const personal = isForAll
    ? [...personalFields(fields, metadata.fields, policy), ...originEcho(originFields, fields)]
    : furtherFields(fields, policy);
  return { kind: 'revalidated', entry: fresh, alike, personal };
}

/**
 * Whether a freshened response may stay: the 304 may have taken back what allowed it to be stored. What this request said
 * is no matter of the entry.
 */
function mayKeep(metadata: StoredResponse, { policy }: Inquiry, clearance: Clearance): boolean {
  const decision = decideStoring({ request: { method: 'GET', fields: [] }, response: metadata, policy });
  return decision.kind === 'store' && !clearance.isRevokedFor(metadata.tags);
}

/** The other entries that could have been chosen for the request, and that the strong tag of a 304 names (RFC 9111 §4.3.4). */
async function findAlike(
  { store }: ExchangeContext,
  inquiry: Inquiry,
  { generation }: StoredEntry,
  notModified: Fields,
): Promise<readonly StoredEntry[]> {
  if (!hasField(notModified, 'etag')) return [];
  return (await store.find(inquiry.key)).filter(
    (other) =>
      other.generation !== generation &&
      other.pinnedUntil === undefined &&
      !isFragment(other.metadata) &&
      isFor(other.metadata, inquiry) &&
      isNamedBy(other.metadata, notModified),
  );
}
