/** PURGE requests: who may remove by them what is stored, and what they mean. */

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

/** By what a request may say what is to be removed. */
export type PurgeKind = 'url' | 'prefix' | 'tag';

/** Who may purge on a route. */
export interface PurgeRules {
  /** Whether a client with this address may; an empty one stands for the peers of Unix sockets. */
  readonly isNamed: PeerList;
  readonly kinds: ReadonlySet<PurgeKind>;
}

/** What a request is to purge, and whose it is. */
export interface RequestedPurge {
  readonly order: CachePurge;
  /** What it is about, for the log. */
  readonly subject: string;
  readonly peer: string;
}

/** The method. Others that some caches know, such as BAN, are none that the parsers of Node read. */
const purgeMethod = 'PURGE';

/** By this field a request says how it is to be done: `soft`, `prefix`, or both. */
const purgeField = 'rangeway-purge';
const options: ReadonlySet<string> = new Set(['soft', 'prefix']);

/**
 * What a request that has passed is to purge; undefined where it is for the origin. It is about its own URL, in either scheme,
 * in all spellings (`/a~`, `/a%7e`) and in all variants, as far as its route stores it; with `Rangeway-Purge: prefix` about all URLs that begin so; with
 * Surrogate-Key or Cache-Tag about all that has one of these tags, of whatever route. Throws `ProxyError`:
 * `client_forbidden`, `malformed_request`.
 */
export function selectPurge(
  request: ProxyRequest,
  client: Client,
  { route, authority, target }: Routed,
  rules: PurgeRules | undefined,
): RequestedPurge | undefined {
  if (rules === undefined || request.method !== purgeMethod) return undefined;
  if (!isNamed(request, client, rules)) throw new ProxyError('client_forbidden', { detail: 'it may not purge here' });
  const { mode, isPrefix } = readOptions(request.fields);
  const kind = selectKind(request.fields, isPrefix);
  if (!rules.kinds.has(kind)) throw new ProxyError('client_forbidden', { detail: `nobody may purge by ${kind} here` });
  const peer = client.address === '' ? 'unix' : client.address;
  const nothing = { keys: [], prefixes: [], tags: [], mode };
  if (kind === 'tag') {
    const tags = parseTags(request.fields);
    if (tags.length === 0) throw malformed('it names no tag');
    return { order: { ...nothing, tags: tags.map(storedTag) }, subject: describeTags(tags), peer };
  }
  const sent = target.path + target.query;
  const subject = `${isPrefix ? 'all URLs that begin with ' : ''}${request.scheme}://${authority}${sent}`;
  const chosen = isPrefix
    ? { prefixes: prefixesOf({ authority, target: normalForm(sent) }, [route]) }
    : namesOfResource({ authority, target: sent }, [route]);
  return { order: { ...nothing, ...chosen }, subject, peer };
}

/** Purges, and answers how much that was: nothing that was there to be purged is no failure of it. */
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

/** How many tags of a request the log names. */
const TOLD_TAGS = 10;

function describeTags(tags: readonly string[]): string {
  const more = tags.length - TOLD_TAGS;
  const named = tags.slice(0, TOLD_TAGS).map((tag) => JSON.stringify(tag));
  return `with a tag of ${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/**
 * The client is the peer, or who a trusted proxy says that it is. Where fields show that the peer speaks for somebody, and
 * nobody is trusted to say for whom, it is nobody who may purge: a proxy before us may have passed on what it should not. Nor
 * is it the page in a browser of one who may, which tells where it is from (Fetch §3.2).
 */
function isNamed({ fields, peer }: ProxyRequest, { address, forwardedFor }: Client, rules: PurgeRules): boolean {
  if (forwardedFor.length === 0 && isForwarded(fields)) return false;
  if (hasField(fields, 'origin') || hasField(fields, 'sec-fetch-site')) return false;
  if (address !== '') return rules.isNamed(address);
  return peer.address === '' && forwardedFor.length === 0 && rules.isNamed('');
}

function readOptions(fields: Fields): { readonly mode: 'hard' | 'soft'; readonly isPrefix: boolean } {
  const given = fieldLines(fields, purgeField).flatMap(listMembers);
  // Who means less than is understood would lose more than was meant.
  if (!given.every((option) => options.has(option))) throw malformed('Rangeway-Purge holds neither soft nor prefix');
  return { mode: given.includes('soft') ? 'soft' : 'hard', isPrefix: given.includes('prefix') };
}

function selectKind(fields: Fields, isPrefix: boolean): PurgeKind {
  if (!hasTagField(fields)) return isPrefix ? 'prefix' : 'url';
  if (isPrefix) throw malformed('it is about tags and about a prefix');
  return 'tag';
}

/** A request names a whole URL: dots at its end are a segment, and not the beginning of a name. */
function normalForm(target: string): string {
  const { path, query } = normaliseTarget(target);
  return path + query;
}

function malformed(detail: string): ProxyError {
  return new ProxyError('malformed_request', { detail });
}
