/**
 * The road of a hit: a plain head for which memory has a whole and fresh response is answered here, in one direction and in one
 * tick. The rules are those of the whole road (proxy.ts). Where a rule needs more than the head and the stored response, the
 * request takes the whole road.
 */

import type { Span } from './bytes/span.ts';
import { hitStatus } from './cache/answers.ts';
import { bytesAtOnce } from './cache/block-bytes.ts';
import type { Cache } from './cache/cache.ts';
import type { CachePolicy } from './cache/inquiry.ts';
import { ReuseFields } from './delivery/response-fields.ts';
import { type RangeRules, selectDelivery } from './delivery/selection.ts';
import type { AdmissionContext } from './guard/admit.ts';
import { clientName } from './guard/client-name.ts';
import type { OpenGate } from './guard/gate.ts';
import { plainAddress } from './guard/peers.ts';
import { type Fields, fieldValue } from './http/fields.ts';
import type { Delivery, Hit, HitRoad, KeptFields, PlainHead, PlainSource } from './http/message.ts';
import { onceForEach } from './http/once-for-each.ts';
import type { StoredResponse } from './http/stored-response.ts';
import { createPlainRouter, policyOf } from './routing/inquiry.ts';
import type { Route } from './routing/route.ts';
import { formatCacheStatus } from './semantics/cache-status.ts';
import { formatContentRange } from './semantics/content-range.ts';
import { isAnonymous } from './semantics/identity.ts';
import { isForAll, reuseTerms } from './semantics/reuse.ts';
import { matchesNominated } from './semantics/vary.ts';
import type { StoredEntry } from './store/store.ts';
import type { BegunEvent, Emit } from './telemetry/events.ts';

/** A longer body goes out in pieces, at the client's pace; in bytes. */
const mostBytes = 1024 * 1024;

const noFields: Fields = [];
const noChunks: readonly Uint8Array[] = [];
const begun: BegunEvent = { kind: 'begun', what: 'request' };

/** What the road needs from the proxy. */
export interface HitContext extends Pick<AdmissionContext, 'router' | 'gateOf' | 'trust'> {
  readonly cache: Pick<Cache, 'store'>;
  readonly emit: Emit;
  /** The fields of a stored response as they are passed on: the same array for the same one. */
  readonly forward: (fields: Fields) => Fields;
}

/** Creates the road. */
export function createHitRoad(context: HitContext): HitRoad {
  const { store } = context.cache;
  const findKey = createPlainRouter(context.router, (route) => hitRules(route, context.gateOf(route).open));
  const preparedOf = onceForEach((_stored: StoredResponse): { last: PreparedHit | undefined } => ({ last: undefined }));
  return (head, source, receivedAt) => {
    const known = source.known instanceof Client ? source.known : undefined;
    const client = known?.context === context ? known : new Client(context, source);
    if (client.isProxy) return undefined;
    const found = findKey(source.scheme, head.authority, head.target);
    if (found?.rules === undefined) return undefined;
    const entries = store.peek(found.key);
    const entry = entries?.[0];
    if (entry === undefined || entries?.length !== 1 || !entry.isComplete || entry.pinnedUntil !== undefined)
      return undefined;
    const kept = preparedOf(entry.metadata);
    if (kept.last?.rules !== found.rules) {
      kept.last = new PreparedHit(entry.metadata, found.rules, context.forward, receivedAt);
    }
    const prepared = kept.last;
    return prepared.isFor(head, receivedAt) ? selectHit({ head, client, receivedAt, entry, prepared }) : undefined;
  };
}

/** The client at the other end of a connection. */
class Client {
  readonly context: HitContext;
  readonly source: PlainSource;
  /** Its name in the limits. */
  readonly name: string;
  /** Whether it speaks for others (RFC 7239), so that its fields have to be read. */
  readonly isProxy: boolean;

  constructor(context: HitContext, source: PlainSource) {
    const address = plainAddress(source.peer.address);
    this.context = context;
    this.source = source;
    this.name = clientName(address);
    this.isProxy = context.trust.isTrusted(address);
    source.known = this;
  }
}

/** What a route does to its hits. */
interface HitRules {
  readonly route: Route;
  readonly gate: OpenGate;
  readonly policy: CachePolicy;
  readonly ranges: RangeRules;
}

/** The rules of a route; undefined where one of them needs more of a request than its plain head. */
function hitRules(route: Route, gate: OpenGate | undefined): HitRules | undefined {
  const policy = policyOf(route);
  const { bypass, key } = policy;
  const bypasses = bypass.fields.length + bypass.cookies.length + bypass.queryParameters.length;
  const isPlain =
    policy.isEnabled && bypasses === 0 && key.fields.length + key.cookies.length === 0 && key.query === 'all';
  if (gate === undefined || !isPlain) return undefined;
  return { route, gate, policy, ranges: { ...route.ranges, lengthWaitMs: route.lengthWaitMs } };
}

/** What follows from a stored response and the rules of its route alone. */
class PreparedHit {
  readonly rules: HitRules;
  readonly stored: StoredResponse;
  readonly fields: ReuseFields;
  /** Until when it is fresh, and since when it ages; epoch milliseconds. Until 0 where it may not be reused as it is. */
  readonly freshUntil: number;
  readonly bornAt: number;
  readonly isForAll: boolean;
  /** The text of Cache-Status, and for how many seconds that are left it was made. */
  ttlSeconds = -1;
  cacheStatus = '';

  constructor(stored: StoredResponse, rules: HitRules, forward: (fields: Fields) => Fields, now: number) {
    const { policy } = rules;
    const terms = reuseTerms({ requestFields: noFields, hasRange: false, stored, now, policy });
    const mayReuse = terms.ban === undefined && stored.isInvalid !== true && stored.expiredAt === undefined;
    const isWhole = stored.status === 200 && stored.fragment === undefined && stored.selected === undefined;
    this.rules = rules;
    this.stored = stored;
    this.fields = new ReuseFields(stored, { forward, sendsDigest: policy.wantsDigest });
    this.freshUntil = mayReuse && isWhole && variesByEncodingAtMost(stored) ? now + terms.ttlMs : 0;
    this.bornAt = now - terms.age.ageMs;
    this.isForAll = isForAll(stored, policy);
  }

  /** Whether a request is answered with it (RFC 9111 §4). */
  isFor(head: PlainHead, now: number): boolean {
    const { nominated, responseAt, identity } = this.stored;
    // A clock that was set back makes nothing younger.
    if (now >= this.freshUntil || now < responseAt) return false;
    if (nominated.length > 0 && !matchesNominated(nominated, encodingField(head))) return false;
    if (this.isForAll) return true;
    const { identityFields } = this.rules.policy;
    return (
      identity?.digest === '' && identityFields.include.length === 0 && isAnonymous(head.readFields(), identityFields)
    );
  }
}

function variesByEncodingAtMost({ nominated }: StoredResponse): boolean {
  return nominated.every(([name]) => name === 'accept-encoding');
}

function encodingField({ acceptEncoding }: PlainHead): Fields {
  return acceptEncoding === undefined ? noFields : [['accept-encoding', acceptEncoding]];
}

/** A request and what was found for it. */
interface Found {
  readonly head: PlainHead;
  readonly client: Client;
  readonly receivedAt: number;
  readonly entry: StoredEntry;
  readonly prepared: PreparedHit;
}

/** Evaluates preconditions and Range, in the order of RFC 9110 §13.2.2, and takes the bytes from memory. */
function selectHit(found: Found): Hit | undefined {
  const { head, receivedAt, entry, prepared, client } = found;
  const { metadata, sizeBytes } = entry;
  const { fields, rules } = prepared;
  let span: Span = { start: 0, end: sizeBytes };
  let contentRange: string | undefined;
  if (head.selecting.length > 0) {
    const request = { method: head.method, fields: head.selecting };
    const selection = selectDelivery(request, metadata, sizeBytes, rules.ranges, receivedAt);
    if (selection.kind === 'not-modified')
      return new MemoryHit(found, 304, fields.notModified, undefined, undefined, noChunks);
    if (selection.kind === 'partial' && selection.spans.length === 1) {
      [span = span] = selection.spans;
      contentRange = formatContentRange(span, sizeBytes);
    } else if (selection.kind !== 'whole') return undefined;
  }
  if (head.method === 'HEAD') return new MemoryHit(found, 200, fields.head, undefined, sizeBytes, noChunks);
  const { start, end } = span;
  const { blockSizeBytes } = client.context.cache.store;
  const index = Math.floor(start / blockSizeBytes);
  const blockStart = index * blockSizeBytes;
  const block = end > start && end <= blockStart + blockSizeBytes ? entry.peekBlock(index) : undefined;
  const isLent = block === undefined;
  const chunks = isLent
    ? readAtOnce(entry, blockSizeBytes, span)
    : [block.subarray(start - blockStart, end - blockStart)];
  if (chunks === undefined) return undefined;
  return contentRange === undefined
    ? new MemoryHit(found, 200, fields.whole, undefined, end - start, chunks, isLent)
    : new MemoryHit(found, 206, fields.partial, contentRange, end - start, chunks, isLent);
}

/** Bytes of several blocks, or of one that has to be read; undefined where that takes longer than this tick. */
function readAtOnce(entry: StoredEntry, blockSizeBytes: number, span: Span): readonly Uint8Array[] | undefined {
  return span.end - span.start > mostBytes ? undefined : bytesAtOnce(entry, blockSizeBytes, span);
}

/** A class, because there is one for every hit. */
class MemoryHit implements Hit {
  readonly status: number;
  readonly fields: KeptFields;
  readonly contentRange: string | undefined;
  readonly sizeBytes: number | undefined;
  readonly chunks: readonly Uint8Array[];
  readonly ageSeconds: number;
  readonly cacheStatus: string;
  readonly #found: Found;
  /** Whether some of the chunks may have to be given back. */
  readonly #isLent: boolean;
  #isAtOnce = true;

  constructor(
    found: Found,
    status: number,
    fields: KeptFields,
    contentRange: string | undefined,
    sizeBytes: number | undefined,
    chunks: readonly Uint8Array[],
    isLent = false,
  ) {
    const { prepared, receivedAt } = found;
    const ttlMs = prepared.freshUntil - receivedAt;
    const ttlSeconds = Math.floor(ttlMs / 1000);
    if (prepared.ttlSeconds !== ttlSeconds) {
      prepared.ttlSeconds = ttlSeconds;
      prepared.cacheStatus = formatCacheStatus(hitStatus(ttlMs));
    }
    this.status = status;
    this.fields = fields;
    this.contentRange = contentRange;
    this.sizeBytes = sizeBytes;
    this.chunks = chunks;
    // RFC 9111 §5.1.
    this.ageSeconds = Math.floor((receivedAt - prepared.bornAt) / 1000);
    this.cacheStatus = prepared.cacheStatus;
    this.#found = found;
    this.#isLent = isLent;
  }

  begin(): void {
    this.#isAtOnce = false;
    this.#found.client.context.emit(begun);
  }

  giveBack(): void {
    const { entry } = this.#found;
    if (this.#isLent && entry.giveBack !== undefined) for (const chunk of this.chunks) entry.giveBack(chunk);
  }

  onDelivered({ bytesSent, complete, error }: Delivery, endedAt: number): void {
    const { head, client, prepared, receivedAt } = this.#found;
    const { scheme, peer } = client.source;
    const { route, gate } = prepared.rules;
    if (gate.isOwed) gate.repay(client.name, bytesSent);
    client.context.emit({
      kind: 'request',
      method: head.method,
      scheme,
      authority: head.authority,
      target: head.target,
      version: head.version,
      peer: peer.address,
      client: undefined,
      user: undefined,
      route: route.name,
      status: this.status,
      range: head.selecting.length === 0 ? undefined : fieldValue(head.selecting, 'range'),
      bytesSent,
      complete,
      isMultipart: false,
      outcome: 'hit',
      reason: undefined,
      apartBy: undefined,
      collapsed: false,
      originBytes: 0,
      headMs: 0,
      durationMs: endedAt - receivedAt,
      error: error?.code,
      errorDetail: error?.detail,
      isAtOnce: this.#isAtOnce,
    });
  }
}
