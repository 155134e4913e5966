/**
 * The road of a hit: a plain head for which memory has a whole and fresh response is answered here, in one direction and in one
 * tick. The rules are those of the whole road (proxy.ts). Where a rule needs more than the head and the stored response, the
 * request takes the whole road.
 */

import type { Span } from './bytes/span.ts';
import { hitStatus } from './cache/answers.ts';
import { bytesAtOnce } from './cache/block-bytes.ts';
import type { CachePolicy } from './cache/inquiry.ts';
import { requestEvent } from './delivery/request-event.ts';
import { ReuseFields } from './delivery/response-fields.ts';
import { type RangeRules, selectDelivery } from './delivery/selection.ts';
import { clientName } from './guard/client-name.ts';
import type { OpenGate } from './guard/gate.ts';
import { plainAddress } from './guard/peers.ts';
import { type Fields, fieldValue } from './http/fields.ts';
import type { Delivery, Hit, HitRoad, Peer, PlainHead, PlainOrigin } from './http/message.ts';
import { onceForEach } from './http/once-for-each.ts';
import type { StoredResponse } from './http/stored-response.ts';
import type { ProxyContext } from './proxy.ts';
import { createPlainRouter, policyOf } from './routing/inquiry.ts';
import type { Route } from './routing/route.ts';
import { formatCacheStatus } from './semantics/cache-status.ts';
import { formatContentRange } from './semantics/content-range.ts';
import { isAnonymous } from './semantics/identity.ts';
import { isForAll, reuseTerms } from './semantics/reuse.ts';
import { matchesNominated } from './semantics/vary.ts';
import type { StoredEntry } from './store/store.ts';
import type { BegunEvent } from './telemetry/events.ts';

/** A longer body goes out in pieces, at the client's pace; in bytes. */
const mostBytes = 1024 * 1024;

const noFields: Fields = [];
const noChunks: readonly Uint8Array[] = [];
const begun: BegunEvent = { kind: 'begun', what: 'request' };

/** What a route does to its hits, where a hit needs no more. */
interface HitRules {
  readonly route: Route;
  readonly gate: OpenGate;
  readonly policy: CachePolicy;
  readonly ranges: RangeRules;
}

/** The client of a connection. */
interface Client {
  readonly address: string;
  /** Its name in the limits. */
  readonly name: string;
  /** Whether it speaks for others (RFC 7239), so that its fields have to be read. */
  readonly isProxy: boolean;
}

/** What a hit needs from the proxy. */
export interface HitContext extends ProxyContext {
  /** The fields of a stored response as they are passed on: the same array for the same one. */
  readonly forward: (fields: Fields) => Fields;
}

/** Creates the road. */
export function createHitRoad(context: HitContext): HitRoad {
  const { router, gateOf, trust, cache, forward } = context;
  const findKey = createPlainRouter(router);
  const rulesOf = onceForEach((route: Route) => ({ rules: hitRules(route, gateOf(route).open) }));
  const clientOf = onceForEach((peer: Peer): Client => {
    const address = plainAddress(peer.address);
    return { address, name: clientName(address), isProxy: trust.isTrusted(address) };
  });
  const preparedOf = onceForEach((_stored: StoredResponse): { last: PreparedHit | undefined } => ({ last: undefined }));

  return (head, from) => {
    const client = clientOf(from.peer);
    if (client.isProxy) return undefined;
    const found = findKey(from.scheme, head.authority, head.target);
    if (found === undefined) return undefined;
    const { rules } = rulesOf(found.route);
    if (rules === undefined) return undefined;
    const entries = cache.peek(found.key);
    const entry = entries?.[0];
    if (entry === undefined || entries?.length !== 1) return undefined;
    const kept = preparedOf(entry.metadata);
    if (kept.last?.rules !== rules) kept.last = new PreparedHit(entry.metadata, rules, forward, from.receivedAt);
    const prepared = kept.last;
    if (!entry.isComplete || entry.pinnedUntil !== undefined || !prepared.isFor(head, from.receivedAt)) return undefined;
    const asked = { head, from, client, entry, prepared, context };
    const selected = select(asked);
    return selected && new MemoryHit(selected, asked);
  };
}

/** The rules of a route, where none of them needs more of a request than its plain head. */
function hitRules(route: Route, gate: OpenGate | undefined): HitRules | undefined {
  const policy = policyOf(route);
  const { fields, cookies, queryParameters } = policy.bypass;
  const isPlain =
    policy.isEnabled && policy.key.fields.length + policy.key.cookies.length === 0 && policy.key.query === 'all';
  const hasBypass = fields.length + cookies.length + queryParameters.length > 0;
  if (gate === undefined || !isPlain || hasBypass) return undefined;
  return { route, gate, policy, ranges: { ...route.ranges, lengthWaitMs: route.lengthWaitMs } };
}

/** What follows from a stored response and the rules of its route alone. */
class PreparedHit {
  readonly rules: HitRules;
  readonly fields: ReuseFields;
  readonly #stored: StoredResponse;
  /** Until when it is fresh, and since when it ages; epoch milliseconds. */
  readonly #freshUntil: number;
  readonly #bornAt: number;
  readonly #isForAll: boolean;
  /** The text of Cache-Status for the last second that was asked for. */
  #ttlSeconds = -1;
  #cacheStatus = '';

  constructor(stored: StoredResponse, rules: HitRules, forward: (fields: Fields) => Fields, now: number) {
    const { policy } = rules;
    const terms = reuseTerms({ requestFields: noFields, hasRange: false, stored, now, policy });
    const mayReuse = terms.ban === undefined && stored.isInvalid !== true && stored.expiredAt === undefined;
    const isWhole = stored.status === 200 && stored.fragment === undefined && stored.selected === undefined;
    this.rules = rules;
    this.fields = new ReuseFields(stored, { forward, sendsDigest: policy.wantsDigest });
    this.#stored = stored;
    this.#freshUntil = mayReuse && isWhole && isByEncodingAlone(stored) ? now + terms.ttlMs : 0;
    this.#bornAt = now - terms.age.ageMs;
    this.#isForAll = isForAll(stored, policy);
  }

  /** Whether a request is answered with it (RFC 9111 §4). */
  isFor(head: PlainHead, now: number): boolean {
    const { nominated, responseAt, identity } = this.#stored;
    // A clock that was set back makes nothing younger.
    if (now >= this.#freshUntil || now < responseAt) return false;
    if (nominated.length > 0 && !matchesNominated(nominated, encodingField(head))) return false;
    const { identityFields } = this.rules.policy;
    return this.#isForAll || (identity?.digest === '' && identityFields.include.length === 0 && isAnonymous(head.fields, identityFields));
  }

  /** Age (RFC 9111 §5.1). */
  ageSeconds(now: number): number {
    return Math.floor((now - this.#bornAt) / 1000);
  }

  cacheStatus(now: number): string {
    const ttlSeconds = Math.floor((this.#freshUntil - now) / 1000);
    if (ttlSeconds !== this.#ttlSeconds) {
      this.#ttlSeconds = ttlSeconds;
      this.#cacheStatus = formatCacheStatus(hitStatus(this.#freshUntil - now));
    }
    return this.#cacheStatus;
  }
}

/** Whether Vary nominates Accept-Encoding at most, which a plain head tells. */
function isByEncodingAlone({ nominated }: StoredResponse): boolean {
  return nominated.every(([name]) => name === 'accept-encoding');
}

function encodingField({ acceptEncoding }: PlainHead): Fields {
  return acceptEncoding === undefined ? noFields : [['accept-encoding', acceptEncoding]];
}

/** A request and what was found for it. */
interface Asked {
  readonly head: PlainHead;
  readonly from: PlainOrigin;
  readonly client: Client;
  readonly entry: StoredEntry;
  readonly prepared: PreparedHit;
  readonly context: HitContext;
}

/** What of the stored response a request gets. */
type Selected = Pick<Hit, 'status' | 'fields' | 'contentRange' | 'sizeBytes' | 'chunks'>;

/** Evaluates preconditions and Range, in the order of RFC 9110 §13.2.2, and takes the bytes from memory. */
function select({ head, from, entry, prepared, context }: Asked): Selected | undefined {
  const { metadata, sizeBytes } = entry;
  const { fields, rules } = prepared;
  let span: Span = { start: 0, end: sizeBytes };
  let contentRange: string | undefined;
  if (head.selecting.length > 0) {
    const request = { method: head.method, fields: head.selecting };
    const selection = selectDelivery(request, metadata, sizeBytes, rules.ranges, from.receivedAt);
    if (selection.kind === 'not-modified') {
      return { status: 304, fields: fields.notModified, contentRange, sizeBytes: undefined, chunks: noChunks };
    }
    if (selection.kind === 'partial' && selection.spans.length === 1) {
      [span = span] = selection.spans;
      contentRange = formatContentRange(span, sizeBytes);
    } else if (selection.kind !== 'whole') return undefined;
  }
  if (head.method === 'HEAD') return { status: 200, fields: fields.head, contentRange, sizeBytes, chunks: noChunks };
  const bodyBytes = span.end - span.start;
  const chunks = bodyBytes > mostBytes ? undefined : bytesAtOnce(entry, context.cache.blockSizeBytes, span);
  if (chunks === undefined) return undefined;
  return contentRange === undefined
    ? { status: 200, fields: fields.whole, contentRange, sizeBytes: bodyBytes, chunks }
    : { status: 206, fields: fields.partial, contentRange, sizeBytes: bodyBytes, chunks };
}

/** A class, because there is one for every hit. */
class MemoryHit implements Hit {
  readonly status: number;
  readonly fields: Fields;
  readonly contentRange: string | undefined;
  readonly sizeBytes: number | undefined;
  readonly chunks: readonly Uint8Array[];
  readonly ageSeconds: number;
  readonly cacheStatus: string;
  readonly #asked: Asked;

  constructor({ status, fields, contentRange, sizeBytes, chunks }: Selected, asked: Asked) {
    const { receivedAt } = asked.from;
    this.status = status;
    this.fields = fields;
    this.contentRange = contentRange;
    this.sizeBytes = sizeBytes;
    this.chunks = chunks;
    this.ageSeconds = asked.prepared.ageSeconds(receivedAt);
    this.cacheStatus = asked.prepared.cacheStatus(receivedAt);
    this.#asked = asked;
  }

  begin(): void {
    this.#asked.context.emit(begun);
  }

  giveBack(): void {
    const { entry } = this.#asked;
    for (const chunk of this.chunks) entry.giveBack?.(chunk);
  }

  onDelivered(delivery: Delivery, endedAt: number): void {
    const { head, from, client, entry, prepared, context } = this.#asked;
    const { peer, receivedAt, scheme } = from;
    const { route, gate } = prepared.rules;
    gate.repay(client.name, entry.key, delivery.bytesSent);
    const course = {
      peer: peer.address,
      client: client.address,
      user: undefined,
      route: route.name,
      range: fieldValue(head.selecting, 'range'),
      status: this.status,
      isMultipart: false,
      answer: hitFacts,
      receivedAt,
      headAt: receivedAt,
      endedAt,
    };
    const { method, authority, target, version } = head;
    context.emit(requestEvent({ method, scheme, authority, target, version }, course, delivery, undefined));
  }
}

const hitFacts = { outcome: 'hit', reason: undefined, collapsed: false, originBytes: () => 0 } as const;
