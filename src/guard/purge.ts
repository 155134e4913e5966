/** PURGE requests: checks that the client may purge, and reads which stored responses it purges. */

import type { Cache } from '../cache/cache.ts';
import type { CachePurge } from '../cache/invalidate/purge.ts';
import { type Fields, fieldLines, hasField, listMembers } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import { ProxyError } from '../http/proxy-error.ts';
import { namesOfResource, prefixesOf } from '../routing/cache-key.ts';
import type { Routed } from '../routing/inquiry.ts';
import { normaliseTarget } from '../routing/target.ts';
import { hasTagField, parseTags, storedTag } from '../semantics/invalidation.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Client, PeerList } from './client.ts';
import { isForwarded } from './fields/forwarding.ts';

/** How a request selects stored responses. */
export type PurgeKind = 'url' | 'prefix' | 'tag';

/** Which clients may purge on a route, and how. */
export interface PurgeRules {
  /** Checks whether the client with this address may purge; the empty address stands for peers of Unix sockets. */
  readonly mayPurge: PeerList;
  readonly kinds: ReadonlySet<PurgeKind>;
}

/** The purge that a request orders. */
export interface RequestedPurge {
  readonly order: CachePurge;
  /** The selected responses, for the log. */
  readonly subject: string;
  /** The address of the client, or `unix`; for the log. */
  readonly peer: string;
}

/** The only method. Node's parsers refuse others that some caches know, such as BAN. */
const purgeMethod = 'PURGE';

/** The field with the options of a purge: `soft`, `prefix`, or both. */
const purgeField = 'rangeway-purge';
const options: ReadonlySet<string> = new Set(['soft', 'prefix']);

/**
 * Returns the purge that an admitted request orders; undefined where the request is for the cache or the origin. It purges the
 * request's own URL in either scheme, in all spellings (`/a~`, `/a%7e`) and in all variants, as its route stores them. With
 * `Rangeway-Purge: prefix` it purges all URLs that begin so; with Surrogate-Key or Cache-Tag all responses with one of these tags,
 * of any route. Throws `ProxyError`: `client_forbidden`, `malformed_request`.
 */
export function selectPurge(
  request: ProxyRequest,
  client: Client,
  { route, authority, target }: Routed,
  rules: PurgeRules,
): RequestedPurge | undefined {
  if (request.method !== purgeMethod) return undefined;
  if (!isNamed(request, client, rules)) throw new ProxyError('client_forbidden', { detail: 'may not purge here' });
  const { mode, isPrefix } = readOptions(request.fields);
  const kind = selectKind(request.fields, isPrefix);
  if (!rules.kinds.has(kind)) throw new ProxyError('client_forbidden', { detail: `purge by ${kind} is not allowed` });
  const peer = client.address === '' ? 'unix' : client.address;
  const empty = { keys: [], prefixes: [], tags: [], mode };
  if (kind === 'tag') {
    const tags = parseTags(request.fields);
    if (tags.length === 0) throw malformed('the request names no tag');
    return { order: { ...empty, tags: tags.map(storedTag) }, subject: describeTags(tags), peer };
  }
  const sent = target.path + target.query;
  const subject = `${isPrefix ? 'all URLs that begin with ' : ''}${request.scheme}://${authority}${sent}`;
  const chosen = isPrefix
    ? { prefixes: prefixesOf({ authority, target: normalForm(sent) }, [route]) }
    : namesOfResource({ authority, target: sent }, [route]);
  return { order: { ...empty, ...chosen }, subject, peer };
}

/** Purges, and creates the 200 with the count that `Cache.purge` returns. A count of 0 is not an error. */
export async function answerPurge(
  { order, subject, peer }: RequestedPurge,
  { cache, emit }: { readonly cache: Pick<Cache, 'purge'>; readonly emit: Emit },
): Promise<ProxyResponse> {
  const purged = await cache.purge(order);
  const verb = order.mode === 'soft' ? 'expired' : 'purged';
  emit({ kind: 'admin', level: 'info', action: 'purge', peer, message: `${verb} ${purged}: ${subject}` });
  const bytes = Buffer.from(`${JSON.stringify({ purged })}\n`);
  return {
    status: 200,
    fields: [
      ['content-type', 'application/json'],
      ['cache-control', 'no-store'],
    ],
    body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] },
  };
}

/** The number of tags of a request that are logged. */
const LOGGED_TAGS = 10;

function describeTags(tags: readonly string[]): string {
  const more = tags.length - LOGGED_TAGS;
  const named = tags.slice(0, LOGGED_TAGS).map((tag) => JSON.stringify(tag));
  return `with a tag of ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/**
 * Whether the client may purge. The client is the peer, or the client that a trusted proxy names. Where fields show that the peer
 * forwards for another client, and no trusted proxy names it, the answer is no: a proxy before us may have passed on a request
 * that it should have refused. Nor may a web page purge in the browser of an allowed client; Origin reveals it (Fetch §3.2).
 */
function isNamed({ fields, peer }: ProxyRequest, { address, forwardedFor }: Client, rules: PurgeRules): boolean {
  if (forwardedFor.length === 0 && isForwarded(fields)) return false;
  if (hasField(fields, 'origin') || hasField(fields, 'sec-fetch-site')) return false;
  if (address !== '') return rules.mayPurge(address);
  return peer.address === '' && forwardedFor.length === 0 && rules.mayPurge('');
}

function readOptions(fields: Fields): { readonly mode: 'hard' | 'soft'; readonly isPrefix: boolean } {
  const sent = fieldLines(fields, purgeField).flatMap(listMembers);
  // An unknown option may be meant to limit the purge. Ignoring it could remove more than intended.
  if (!sent.every((option) => options.has(option))) throw malformed('Rangeway-Purge has an unknown option');
  return { mode: sent.includes('soft') ? 'soft' : 'hard', isPrefix: sent.includes('prefix') };
}

function selectKind(fields: Fields, isPrefix: boolean): PurgeKind {
  if (!hasTagField(fields)) return isPrefix ? 'prefix' : 'url';
  if (isPrefix) throw malformed('the request names both tags and a prefix');
  return 'tag';
}

/** Normalises before `prefixesOf` does: a request names a whole URL, so dots at its end are a segment, not the start of a name. */
function normalForm(target: string): string {
  const { path, query } = normaliseTarget(target);
  return path + query;
}

function malformed(detail: string): ProxyError {
  return new ProxyError('malformed_request', { detail });
}
