/**
 * The fast path of a hit: answers a plain head in one tick when memory has a complete, fresh response. It applies the same rules
 * as the full path (proxy.ts). Where a rule needs more than the head and the stored response, the request takes the full path.
 */

import type { Span } from './bytes/span.ts';
import { hitStatus } from './cache/answers/answers.ts';
import type { Cache } from './cache/cache.ts';
import type { CachePolicy } from './cache/inquiry.ts';
import { bytesInSameTick } from './cache/read/read-ahead.ts';
import { AT_ONCE_BYTES, MovableSpan, SENT_FROM_FILE_BYTES, SENT_FROM_MEMORY_BYTES } from './delivery/pieces.ts';
import { type ReuseFieldTerms, type ReuseKind, reuseFields } from './delivery/response-fields.ts';
import {
  frameParts,
  type PartialSelection,
  pickSelectable,
  type RangeRules,
  type Selectable,
  selectDelivery,
} from './delivery/selection.ts';
import type { AdmissionContext } from './guard/admit.ts';
import { clientName, plainAddress } from './guard/client.ts';
import { forwardedRequestFields } from './guard/fields/forwarding.ts';
import type { HitGate } from './guard/gate.ts';
import { memoizeByText } from './http/collections.ts';
import { type Fields, fieldValue } from './http/fields.ts';
import {
  type BodyStream,
  CachedFields,
  type Delivery,
  type Hit,
  type HitRoad,
  type MovableBytes,
  type PlainHead,
  type PlainSource,
  type ProxyRequest,
} from './http/message.ts';
import type { StoredResponse } from './http/stored-response.ts';
import type { RoutePrefetch } from './prefetch/prefetch.ts';
import { createInquiry, createPlainRouter, policyOf, routeRequest } from './routing/inquiry.ts';
import type { Route } from './routing/router.ts';
import { formatCacheStatus } from './semantics/cache-status.ts';
import { isConnectionCredentials } from './semantics/connection-auth.ts';
import { mayAddLength } from './semantics/head-length.ts';
import { isAnonymous } from './semantics/identity.ts';
import { formatContentRange, hasOtherUnit } from './semantics/range.ts';
import { isForAll, reuseTerms } from './semantics/reuse.ts';
import { matchesNominated } from './semantics/vary.ts';
import type { StoredEntry } from './store/store.ts';
import type { Emit, StartEvent } from './telemetry/events.ts';

const noFields: Fields = [];
const noChunks: readonly Uint8Array[] = [];
const begun: StartEvent = { kind: 'begun', what: 'request' };

/** The parts of the proxy that the fast path uses. */
export interface HitContext extends Pick<AdmissionContext, 'router' | 'gateOf' | 'trust' | 'pseudonym'> {
  readonly cache: Pick<Cache, 'store' | 'present'>;
  readonly emit: Emit;
  /** The prefetches of the routes that have any. */
  readonly prefetchOf: ReadonlyMap<Route, RoutePrefetch>;
  /** Returns `size` random bytes, for multipart boundaries. */
  readonly random: (size: number) => Uint8Array;
  /** Returns the fields to pass on, for the fields of a stored response. The same argument gives the same array. */
  readonly forward: (fields: Fields) => Fields;
}

/** Creates the fast path. */
export function createHitRoad(context: HitContext): HitRoad {
  const { store } = context.cache;
  const findKey = createPlainRouter(context.router, (route) => hitRules(route, context.gateOf(route).hits, context));
  return (head, source, receivedAt) => {
    try {
      const known = source.known instanceof Client ? source.known : undefined;
      const client = known?.context === context ? known : new Client(context, source);
      if (client.isProxy) return undefined;
      const found = findKey(source.scheme, head.authority, head.target);
      if (found?.rules === undefined) return undefined;
      const entries = store.peek(found.key);
      const entry = entries?.[0];
      if (entry === undefined || entries?.length !== 1 || !entry.isComplete || entry.pinnedUntil !== undefined)
        return undefined;
      let prepared = entry.knownByHits as PreparedHit | undefined;
      if (prepared?.rules !== found.rules) {
        prepared = new PreparedHit(entry, found.rules);
        entry.knownByHits = prepared;
      }
      const passed = client.pass(found.rules.gate, head);
      if (passed === undefined || !prepared.isFor(head, receivedAt)) return undefined;
      return selectHit({ head, client, user: passed.user, receivedAt, entry, prepared });
    } catch {
      // The full path meets the same fault and answers it.
      return undefined;
    }
  };
}

/** The client at the other end of a connection. */
class Client {
  readonly context: HitContext;
  readonly source: PlainSource;
  /** The name that limits count this client under. */
  readonly name: string;
  readonly address: string;
  /** The client's address where it is written differently from the peer's (an IPv4 address mapped to IPv6); else undefined. */
  readonly otherAddress: string | undefined;
  /** Whether the peer is a trusted proxy: then forwarding fields (RFC 7239) name the client, and the full path reads them. */
  readonly isProxy: boolean;
  /** The gate and the credentials of the last check, and its result (`#passed`). */
  #gate: HitGate | undefined;
  #credentials = '';
  #passed: Passed | undefined;

  constructor(context: HitContext, source: PlainSource) {
    const address = plainAddress(source.peer.address);
    this.context = context;
    this.source = source;
    this.address = address;
    this.name = clientName(address);
    this.otherAddress = address === source.peer.address ? undefined : address;
    this.isProxy = context.trust.isTrusted(address);
    source.known = this;
  }

  /**
   * Checks whether the client may pass a gate: see `HitGate.pass`. Repeated credentials are not checked again. Those that authenticate
   * a connection are for the origin.
   */
  pass(gate: HitGate, { credentials }: PlainHead): Passed | undefined {
    if (credentials.some(isConnectionCredentials)) return undefined;
    if (gate.pass === undefined) return anybody;
    const text = credentials.flat().join(' ');
    if (this.#gate === gate && text === this.#credentials) return this.#passed;
    this.#gate = gate;
    this.#credentials = text;
    this.#passed = gate.pass(this, credentials);
    return this.#passed;
  }
}

interface Passed {
  readonly user: string | undefined;
}

const anybody: Passed = { user: undefined };

/** The rules of a route for its hits. */
interface HitRules extends ReuseFieldTerms {
  readonly route: Route;
  readonly gate: HitGate;
  readonly policy: CachePolicy;
  readonly ranges: RangeRules;
  /** Undefined where nothing is prefetched. */
  readonly prefetch: RoutePrefetch | undefined;
}

/** Returns the rules of a route; undefined where one of them needs more than the plain head of a request. */
function hitRules(route: Route, gate: HitGate | undefined, { forward, prefetchOf }: HitContext): HitRules | undefined {
  const policy = policyOf(route);
  const { bypass, key } = policy;
  const bypasses = bypass.fields.length + bypass.cookies.length + bypass.queryParameters.length;
  const isPlain =
    policy.isEnabled && bypasses === 0 && key.fields.length + key.cookies.length === 0 && key.query === 'all';
  if (gate === undefined || !isPlain) return undefined;
  const ranges = { ...route.ranges, lengthWaitMs: route.lengthWaitMs };
  const prefetch = prefetchOf.get(route);
  return { route, gate, policy, ranges, forward, sendsDigest: policy.wantsDigest, prefetch };
}

/** Maximum number of other field sets (per kind, scheme and web origin) that one stored response keeps. */
const mostOthers = 8;

/**
 * The facts that depend only on a stored response and the rules of its route, computed once for all its hits; and the fields of its
 * hits with the whole body. There is one for each entry in memory that was hit, so it keeps nothing of the response that memory has
 * in a smaller form.
 */
class PreparedHit extends CachedFields {
  readonly rules: HitRules;
  /** Epoch milliseconds. */
  readonly responseAt: number;
  /** Its age then, and how long it stays fresh from then on, in milliseconds; `freshMs` is 0 where hits may not reuse the response. */
  readonly ageMs: number;
  readonly freshMs: number;
  readonly #entry: StoredEntry;
  readonly #nominated: StoredResponse['nominated'];
  readonly #isForAll: boolean;
  #selectable: Selectable | undefined;
  #tellsLength: boolean | undefined;
  #others: Map<string, CachedFields> | undefined;

  constructor(entry: StoredEntry, rules: HitRules) {
    super();
    const { policy } = rules;
    const stored = entry.metadata;
    // The age counts from here, even where the clock was set back since.
    const now = stored.responseAt;
    const terms = reuseTerms({ requestFields: noFields, hasRange: false, stored, now, policy });
    const mayReuse = terms.ban === undefined && stored.isInvalid !== true && stored.expiredAt === undefined;
    const isWhole = stored.status === 200 && stored.fragment === undefined && stored.selected === undefined;
    const isShared = isForAll(stored, policy);
    const mayServe = isShared || (stored.identity?.digest === '' && policy.identityFields.include.length === 0);
    this.rules = rules;
    this.responseAt = now;
    this.ageMs = terms.age.ageMs;
    this.freshMs = mayReuse && isWhole && mayServe && variesByEncodingAtMost(stored) ? terms.ttlMs : 0;
    this.#entry = entry;
    this.#nominated = sharedNominated(JSON.stringify(stored.nominated));
    this.#isForAll = isShared;
  }

  get storedText(): string | undefined {
    return this.#entry.fieldText;
  }

  lines(): Fields {
    return reuseFields(this.#entry.metadata, 'whole', this.rules);
  }

  /** What conditions and ranges depend on. */
  get selectable(): Selectable {
    this.#selectable ??= pickSelectable(this.#entry.metadata);
    return this.#selectable;
  }

  /** Whether a HEAD gets the length. */
  get tellsLength(): boolean {
    this.#tellsLength ??= mayAddLength(this.#entry.metadata.fields);
    return this.#tellsLength;
  }

  /** Returns the fields of one kind of response, as the client gets them. */
  fieldsFor(kind: ReuseKind, { method, origin }: PlainHead, { scheme }: PlainSource): CachedFields {
    const { present, isSingledOut } = this.rules.gate;
    if (present === undefined && kind === 'whole') return this;
    // Clients can invent any number of origins. An origin that the operator has not configured is treated as absent.
    const named = present !== undefined && origin !== undefined && isSingledOut(origin) ? origin : undefined;
    const name = present === undefined ? kind : `${kind} ${scheme} ${named ?? ''}`;
    const known = this.#others?.get(name);
    if (known !== undefined) return known;
    const entry = this.#entry;
    const requestFields: Fields = named === undefined ? noFields : [['origin', named]];
    const fields = new OtherFields(entry, () => {
      const lines = reuseFields(entry.metadata, kind, this.rules);
      return present === undefined ? lines : present({ method, scheme, fields: requestFields }, lines);
    });
    if (this.#others === undefined || this.#others.size >= mostOthers) this.#others = new Map();
    this.#others.set(name, fields);
    return fields;
  }

  /** Checks whether the stored response may answer a request (RFC 9111 §4). `now` in epoch milliseconds. */
  isFor(head: PlainHead, now: number): boolean {
    const sinceMs = now - this.responseAt;
    // Where the clock was set back, the full path decides.
    if (sinceMs >= this.freshMs || sinceMs < 0) return false;
    if (this.#nominated.length > 0 && !matchesNominated(this.#nominated, encodingField(head, this.rules))) return false;
    return this.#isForAll || isAnonymous(head.readFields(), this.rules.policy.identityFields);
  }
}

/** The fields of hits of one kind that do not have the whole body, or that the gate changes. */
class OtherFields extends CachedFields {
  readonly lines: () => Fields;
  readonly #entry: StoredEntry;

  constructor(entry: StoredEntry, lines: () => Fields) {
    super();
    this.lines = lines;
    this.#entry = entry;
  }

  get storedText(): string | undefined {
    return this.#entry.fieldText;
  }
}

/** Most stored responses nominate one of a few values of Accept-Encoding: they share them. */
const sharedNominated = memoizeByText(256, (text) => JSON.parse(text) as StoredResponse['nominated']);

function variesByEncodingAtMost({ nominated }: StoredResponse): boolean {
  return nominated.every(([name]) => name === 'accept-encoding');
}

/** The Cache-Status of hits by their ttl in seconds: at any time, hits have few different ones. */
class HitStatusTexts {
  readonly #ttlSeconds = new Float64Array(1024).fill(Number.NaN);
  readonly #texts: string[] = new Array<string>(1024).fill('');

  /** Returns the value for a response that stays fresh for `ttlMs` milliseconds. */
  at(ttlMs: number): string {
    const ttlSeconds = Math.floor(ttlMs / 1000);
    const at = ttlSeconds & 1023;
    if (this.#ttlSeconds[at] !== ttlSeconds) {
      this.#ttlSeconds[at] = ttlSeconds;
      this.#texts[at] = formatCacheStatus(hitStatus(ttlMs));
    }
    return this.#texts[at] as string;
  }
}

const statusTexts = new HitStatusTexts();

const noCoding: Fields = [['accept-encoding', 'identity']];

/** The Accept-Encoding by which variants are chosen. "normalise" is left to the full path, unless the client sends the normal form. */
function encodingField({ acceptEncoding }: PlainHead, { route }: HitRules): Fields {
  if (route.cache.acceptEncoding === 'identity') return noCoding;
  return acceptEncoding === undefined ? noFields : [['accept-encoding', acceptEncoding]];
}

/** A request, its client, and the stored response that answers it. */
interface Found {
  readonly head: PlainHead;
  readonly client: Client;
  readonly user: string | undefined;
  readonly receivedAt: number;
  readonly entry: StoredEntry;
  readonly prepared: PreparedHit;
}

/** The status and the bytes of the stored response that a request gets. */
interface Selected {
  readonly status: 200 | 206 | 304;
  readonly kind: ReuseKind;
  readonly contentRange?: string;
  /** Set for multipart/byteranges only. */
  readonly contentType?: string;
  readonly sizeBytes?: number;
  readonly chunks: readonly Uint8Array[];
  /** Whether `chunks` may contain lent buffers, to be given back. */
  readonly isLent?: boolean;
  /** The span that the kernel sends from a file (sendfile), in place of `chunks`. */
  readonly file?: Span;
}

const notModified: Selected = { status: 304, kind: 'notModified', chunks: noChunks };

/** Makes the hit; undefined where its bytes are not available in this tick, or the gate has to refuse the request. */
function selectHit(found: Found): Hit | undefined {
  const selected = select(found);
  if (selected === undefined) return undefined;
  const { gate, prefetch } = found.prepared.rules;
  const { count } = gate;
  const limits = count === undefined ? noFields : count(found.client.name);
  if (limits === undefined) return undefined;
  if (prefetch !== undefined) prefetch.noteHit(found.head, found.client.source.scheme, found.client.name, found.entry);
  return new MemoryHit(found, selected, limits);
}

/** Evaluates preconditions and Range in the order of RFC 9110 §13.2.2, and selects the bytes. Undefined where the full path has to. */
function select(found: Found): Selected | undefined {
  const { head, receivedAt, entry, prepared } = found;
  const { sizeBytes } = entry;
  if (head.selecting.length > 0) {
    if (hasOtherUnit(head.selecting)) return undefined;
    const request = { method: head.method, fields: head.selecting };
    const selection = selectDelivery(request, prepared.selectable, sizeBytes, prepared.rules.ranges, receivedAt);
    if (selection.kind === 'not-modified') return notModified;
    if (selection.kind === 'partial') {
      const [span] = selection.spans;
      if (selection.spans.length > 1) return selectParts(found, selection);
      return span && selectSpan(found, span, formatContentRange(span, sizeBytes));
    }
    if (selection.kind !== 'whole') return undefined;
  }
  if (head.method === 'HEAD') {
    return prepared.tellsLength ? { status: 200, kind: 'head', sizeBytes, chunks: noChunks } : undefined;
  }
  return selectSpan(found, { start: 0, end: sizeBytes }, undefined);
}

function selectSpan(
  { entry, client, prepared }: Found,
  span: Span,
  contentRange: string | undefined,
): Selected | undefined {
  const { start, end } = span;
  const { blockSizeBytes } = client.context.cache.store;
  const sizeBytes = end - start;
  const index = Math.floor(start / blockSizeBytes);
  const blockStart = index * blockSizeBytes;
  const mayMove = sizeBytes >= SENT_FROM_FILE_BYTES && client.source.takesMovable;
  const isInBlock = sizeBytes > 0 && end <= blockStart + blockSizeBytes;
  const block = isInBlock && !(mayMove && sizeBytes >= SENT_FROM_MEMORY_BYTES) ? entry.peekBlock(index) : undefined;
  const isMovable =
    block === undefined && mayMove && sizeBytes <= AT_ONCE_BYTES && entry.canMove?.(start, end) === true;
  // A gate with credentials may strip them from the request. `StoredSpan.rest` does not, so the full path has to.
  if (isMovable && prepared.rules.gate.pass !== undefined) return undefined;
  if (isMovable) return selectedSpan(contentRange, { sizeBytes, chunks: noChunks, file: span });
  const isLent = block === undefined;
  const chunks = isLent
    ? readAtOnce(entry, blockSizeBytes, span)
    : [sizeBytes === block.length ? block : block.subarray(start - blockStart, end - blockStart)];
  if (chunks === undefined) return undefined;
  return selectedSpan(contentRange, { sizeBytes, chunks, isLent });
}

function selectedSpan(contentRange: string | undefined, content: Omit<Selected, 'status' | 'kind'>): Selected {
  return contentRange === undefined
    ? { status: 200, kind: 'whole', ...content }
    : { status: 206, kind: 'partial', contentRange, ...content };
}

/** Returns the bytes of several blocks, or of a block that has to be read; undefined where that takes longer than this tick. */
function readAtOnce(entry: StoredEntry, blockSizeBytes: number, span: Span): readonly Uint8Array[] | undefined {
  return span.end - span.start > AT_ONCE_BYTES ? undefined : bytesInSameTick(entry, blockSizeBytes, span);
}

/**
 * Selects several parts. Undefined where the gate may change their Content-Type, where the whole is sent instead, or where the
 * bytes are not available in this tick.
 */
function selectParts({ entry, client, prepared }: Found, selection: PartialSelection): Selected | undefined {
  const { cache, random } = client.context;
  if (prepared.rules.gate.present !== undefined) return undefined;
  const framing = frameParts(selection, prepared.selectable, random);
  if (framing === undefined || framing.sizeBytes > AT_ONCE_BYTES) return undefined;
  const chunks: Uint8Array[] = [];
  for (const [at, span] of selection.spans.entries()) {
    const part = bytesInSameTick(entry, cache.store.blockSizeBytes, span);
    if (part === undefined) return undefined;
    chunks.push(framing.heads[at] ?? new Uint8Array(), ...part);
  }
  chunks.push(framing.tail);
  const { contentType, sizeBytes } = framing;
  return { status: 206, kind: 'multipart', contentType, sizeBytes, chunks };
}

/** The response of a hit. A class, because one is created per hit. */
class MemoryHit implements Hit {
  readonly status: number;
  readonly fields: CachedFields;
  readonly contentRange: string | undefined;
  readonly more: Fields;
  readonly sizeBytes: number | undefined;
  readonly chunks: readonly Uint8Array[];
  readonly ageSeconds: number;
  readonly cacheStatus: string;
  readonly #found: Found;
  readonly #selected: Selected;
  readonly file: Hit['file'];
  #isAtOnce = true;

  constructor(found: Found, selected: Selected, limits: Fields) {
    const { prepared, receivedAt, head, client } = found;
    this.status = selected.status;
    this.fields = prepared.fieldsFor(selected.kind, head, client.source);
    this.contentRange = selected.contentRange;
    this.more = selected.contentType === undefined ? limits : [['content-type', selected.contentType], ...limits];
    this.sizeBytes = selected.sizeBytes;
    this.chunks = selected.chunks;
    const sinceMs = receivedAt - prepared.responseAt;
    // Age: RFC 9111 §5.1.
    this.ageSeconds = Math.floor((sinceMs + prepared.ageMs) / 1000);
    this.cacheStatus = statusTexts.at(prepared.freshMs - sinceMs);
    this.#found = found;
    this.#selected = selected;
    const { file } = selected;
    const movable: Hit['file'] = file && ((owner) => new StoredSpan(found, file, owner));
    this.file = movable;
  }

  begin(): void {
    this.#isAtOnce = false;
    this.#found.client.context.emit(begun);
  }

  giveBack(): void {
    const { entry } = this.#found;
    if (this.#selected.isLent === true) for (const chunk of this.chunks) entry.giveBack?.(chunk);
  }

  onDelivered({ bytesSent, complete, error }: Delivery, endedAt: number): void {
    const { head, client, user, prepared, receivedAt } = this.#found;
    const { scheme, peer } = client.source;
    const { route, gate } = prepared.rules;
    if (gate.share?.isOwed === true) gate.share.repay(client.name, bytesSent);
    client.context.emit({
      kind: 'request',
      method: head.method,
      scheme,
      authority: head.authority,
      target: head.target,
      version: head.version,
      peer: peer.address,
      client: client.otherAddress,
      user,
      route: route.name,
      key: this.#found.entry.key,
      status: this.status,
      range: head.selecting.length === 0 ? undefined : fieldValue(head.selecting, 'range'),
      bytesSent,
      reportedBytes: 0,
      complete,
      isMultipart: this.#selected.kind === 'multipart',
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

/** A span of an entry that the kernel sends from the file. The bytes that it does not take are read as on the full path. */
class StoredSpan implements MovableBytes {
  readonly #found: Found;
  readonly #span: Span;
  readonly #owner: { readonly signal: AbortSignal };

  constructor(found: Found, span: Span, owner: { readonly signal: AbortSignal }) {
    this.#found = found;
    this.#span = span;
    this.#owner = owner;
  }

  moveTo(socket: number, head: Uint8Array): number {
    return this.#found.entry.move?.(socket, head, this.#span.start, this.#span.end) ?? 0;
  }

  rest(offset: number): Promise<BodyStream> {
    const { head, client, receivedAt, entry } = this.#found;
    const { context, source } = client;
    const { method, authority, target, version } = head;
    const request: ProxyRequest = {
      method,
      scheme: source.scheme,
      authority,
      target,
      version,
      fields: head.readFields(),
      body: undefined,
      bodySizeBytes: undefined,
      peer: source.peer,
      receivedAt,
      takesMovable: source.takesMovable,
      signal: this.#owner.signal,
      sendInterim: () => {},
    };
    const routed = routeRequest(request, context.router);
    const { route } = routed;
    const forwardedFor = { address: client.address, forwardedFor: [] };
    const inquiry = createInquiry(request, routed, context.router, {
      origin: context.gateOf(route).lend(routed, client.name).origin,
      client: client.name,
      originFields: () => forwardedRequestFields(request, forwardedFor, route, context.pseudonym),
      onInterim: () => {},
    });
    const representation = context.cache.present(entry, inquiry);
    return new MovableSpan(representation, this.#span, request).rest(offset);
  }
}
