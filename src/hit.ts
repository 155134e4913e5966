/**
 * The road of a hit: a plain head for which memory has a whole and fresh response is answered here, in one direction and in one
 * tick. The rules are those of the whole road (proxy.ts). Where a rule needs more than the head and the stored response, the
 * request takes the whole road.
 */

import type { Span } from './bytes/span.ts';
import { hitStatus } from './cache/answers/answers.ts';
import type { Cache } from './cache/cache.ts';
import type { CachePolicy } from './cache/inquiry.ts';
import { bytesAtOnce } from './cache/read/read-ahead.ts';
import { AT_ONCE_BYTES, MovableSpan, SENT_FROM_FILE_BYTES, SENT_FROM_MEMORY_BYTES } from './delivery/pieces.ts';
import { PresentedFields, ReuseFields, type ReuseKind } from './delivery/response-fields.ts';
import { frameParts, type PartialSelection, type RangeRules, selectDelivery } from './delivery/selection.ts';
import type { AdmissionContext } from './guard/admit.ts';
import { clientName, plainAddress } from './guard/client.ts';
import { forwardedRequestFields } from './guard/fields/forwarding.ts';
import type { HitGate } from './guard/gate.ts';
import { onceForEach } from './http/collections.ts';
import { type Fields, fieldValue } from './http/fields.ts';
import type {
  BodyStream,
  Delivery,
  Hit,
  HitRoad,
  KeptFields,
  MovableBytes,
  PlainHead,
  PlainSource,
  ProxyRequest,
} from './http/message.ts';
import type { StoredResponse } from './http/stored-response.ts';
import { createInquiry, createPlainRouter, policyOf, routeRequest } from './routing/inquiry.ts';
import type { Route } from './routing/router.ts';
import { formatCacheStatus } from './semantics/cache-status.ts';
import { isAnonymous } from './semantics/identity.ts';
import { formatContentRange } from './semantics/range.ts';
import { isForAll, reuseTerms } from './semantics/reuse.ts';
import { matchesNominated } from './semantics/vary.ts';
import type { StoredEntry } from './store/store.ts';
import type { BegunEvent, Emit } from './telemetry/events.ts';

const noFields: Fields = [];
const noChunks: readonly Uint8Array[] = [];
const begun: BegunEvent = { kind: 'begun', what: 'request' };

/** What the road needs from the proxy. */
export interface HitContext extends Pick<AdmissionContext, 'router' | 'gateOf' | 'trust' | 'pseudonym'> {
  readonly cache: Pick<Cache, 'store' | 'present'>;
  readonly emit: Emit;
  /** Random bytes, for boundaries. */
  readonly random: (size: number) => Uint8Array;
  /** The fields of a stored response as they are passed on: the same array for the same one. */
  readonly forward: (fields: Fields) => Fields;
}

/** Creates the road. */
export function createHitRoad(context: HitContext): HitRoad {
  const { store } = context.cache;
  const findKey = createPlainRouter(context.router, (route) => hitRules(route, context.gateOf(route).hits));
  const preparedOf = onceForEach((_stored: StoredResponse): { last: PreparedHit | undefined } => ({ last: undefined }));
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
      const kept = preparedOf(entry.metadata);
      if (kept.last?.rules !== found.rules) {
        kept.last = new PreparedHit(entry.metadata, found.rules, context.forward);
      }
      const prepared = kept.last;
      const passed = client.pass(found.rules.gate, head);
      if (passed === undefined || !prepared.isFor(head, receivedAt)) return undefined;
      return selectHit({ head, client, user: passed.user, receivedAt, entry, prepared });
    } catch {
      // The whole road meets the same fault, and answers it.
      return undefined;
    }
  };
}

/** The client at the other end of a connection. */
class Client {
  readonly context: HitContext;
  readonly source: PlainSource;
  /** Its name in the limits. */
  readonly name: string;
  readonly address: string;
  /** The address where the peer's is another text: an IPv4 address in the form of IPv6. */
  readonly otherAddress: string | undefined;
  /** Whether it speaks for others (RFC 7239), so that its fields have to be read. */
  readonly isProxy: boolean;
  /** The credentials that were shown last, at which gate, and what came of it. */
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

  /** Whether it may pass a gate: see `HitGate.pass`. Credentials that it shows again are not checked again. */
  pass(gate: HitGate, { credentials }: PlainHead): Passed | undefined {
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

/** What a route does to its hits. */
interface HitRules {
  readonly route: Route;
  readonly gate: HitGate;
  readonly policy: CachePolicy;
  readonly ranges: RangeRules;
}

/** The rules of a route; undefined where one of them needs more of a request than its plain head. */
function hitRules(route: Route, gate: HitGate | undefined): HitRules | undefined {
  const policy = policyOf(route);
  const { bypass, key } = policy;
  const bypasses = bypass.fields.length + bypass.cookies.length + bypass.queryParameters.length;
  const isPlain =
    policy.isEnabled && bypasses === 0 && key.fields.length + key.cookies.length === 0 && key.query === 'all';
  if (gate === undefined || !isPlain) return undefined;
  return { route, gate, policy, ranges: { ...route.ranges, lengthWaitMs: route.lengthWaitMs } };
}

/** So many forms of the fields of one stored response are kept, for pages of so many origins. */
const mostPresented = 8;

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
  #presented: Map<string, KeptFields> | undefined;

  constructor(stored: StoredResponse, rules: HitRules, forward: (fields: Fields) => Fields) {
    const { policy } = rules;
    // Ages from then on, also where the clock was set back meanwhile.
    const now = stored.responseAt;
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

  /** The fields of one kind of response, as the client is to get them. */
  fieldsFor(kind: ReuseKind, { method, origin }: PlainHead, { scheme }: PlainSource): KeptFields {
    const { present, isSingledOut } = this.rules.gate;
    const plain = this.fields.of(kind);
    if (present === undefined) return plain;
    // Clients may invent any number of origins: those that the operator has not named are as none.
    const named = origin !== undefined && isSingledOut(origin) ? origin : undefined;
    const name = `${kind} ${scheme} ${named ?? ''}`;
    const known = this.#presented?.get(name);
    if (known !== undefined) return known;
    const fields: Fields = named === undefined ? noFields : [['origin', named]];
    const presented = new PresentedFields(present({ method, scheme, fields }, plain.lines()));
    if (this.#presented === undefined || this.#presented.size >= mostPresented) this.#presented = new Map();
    this.#presented.set(name, presented);
    return presented;
  }

  /** Whether a request is answered with it (RFC 9111 §4). */
  isFor(head: PlainHead, now: number): boolean {
    const { nominated, responseAt, identity } = this.stored;
    // Where the clock was set back, the whole road decides.
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
  readonly user: string | undefined;
  readonly receivedAt: number;
  readonly entry: StoredEntry;
  readonly prepared: PreparedHit;
}

/** What of the stored response a request gets. */
interface Selected {
  readonly status: 200 | 206 | 304;
  readonly kind: ReuseKind;
  readonly contentRange?: string;
  /** Of several parts. */
  readonly contentType?: string;
  readonly sizeBytes?: number;
  readonly chunks: readonly Uint8Array[];
  /** Whether some of the chunks may have to be given back. */
  readonly isLent?: boolean;
  /** The bytes that the system sends from a file, in place of chunks. */
  readonly file?: Span;
}

const notModified: Selected = { status: 304, kind: 'notModified', chunks: noChunks };

/** The hit; undefined where bytes have to be waited for, or the gate has to refuse the request. */
function selectHit(found: Found): Hit | undefined {
  const selected = select(found);
  if (selected === undefined) return undefined;
  const { count } = found.prepared.rules.gate;
  const limits = count === undefined ? noFields : count(found.client.name);
  return limits && new MemoryHit(found, selected, limits);
}

/** Evaluates preconditions and Range, in the order of RFC 9110 §13.2.2, and takes the bytes from memory. */
function select(found: Found): Selected | undefined {
  const { head, receivedAt, entry, prepared } = found;
  const { metadata, sizeBytes } = entry;
  if (head.selecting.length > 0) {
    const request = { method: head.method, fields: head.selecting };
    const selection = selectDelivery(request, metadata, sizeBytes, prepared.rules.ranges, receivedAt);
    if (selection.kind === 'not-modified') return notModified;
    if (selection.kind === 'partial') {
      const [span] = selection.spans;
      if (selection.spans.length > 1) return selectParts(found, selection);
      return span && selectSpan(found, span, formatContentRange(span, sizeBytes));
    }
    if (selection.kind !== 'whole') return undefined;
  }
  if (head.method === 'HEAD') return { status: 200, kind: 'head', sizeBytes, chunks: noChunks };
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
  // Behind a gate that takes credentials away the whole road has to read what the system leaves.
  if (isMovable && prepared.rules.gate.pass !== undefined) return undefined;
  if (isMovable) return selectedSpan(contentRange, { sizeBytes, chunks: noChunks, file: span });
  const isLent = block === undefined;
  const chunks = isLent
    ? readAtOnce(entry, blockSizeBytes, span)
    : [block.subarray(start - blockStart, end - blockStart)];
  if (chunks === undefined) return undefined;
  return selectedSpan(contentRange, { sizeBytes, chunks, isLent });
}

function selectedSpan(contentRange: string | undefined, content: Omit<Selected, 'status' | 'kind'>): Selected {
  return contentRange === undefined
    ? { status: 200, kind: 'whole', ...content }
    : { status: 206, kind: 'partial', contentRange, ...content };
}

/** Bytes of several blocks, or of one that has to be read; undefined where that takes longer than this tick. */
function readAtOnce(entry: StoredEntry, blockSizeBytes: number, span: Span): readonly Uint8Array[] | undefined {
  return span.end - span.start > AT_ONCE_BYTES ? undefined : bytesAtOnce(entry, blockSizeBytes, span);
}

/** Several parts; undefined where the operator's rules may have a say in their Content-Type, or the whole is to be sent. */
function selectParts({ entry, client, prepared }: Found, selection: PartialSelection): Selected | undefined {
  const { cache, random } = client.context;
  if (prepared.rules.gate.present !== undefined) return undefined;
  const framing = frameParts(selection, entry.metadata, random);
  if (framing === undefined || framing.sizeBytes > AT_ONCE_BYTES) return undefined;
  const chunks: Uint8Array[] = [];
  for (const [at, span] of selection.spans.entries()) {
    const part = bytesAtOnce(entry, cache.store.blockSizeBytes, span);
    if (part === undefined) return undefined;
    chunks.push(framing.heads[at] ?? new Uint8Array(), ...part);
  }
  chunks.push(framing.tail);
  const { contentType, sizeBytes } = framing;
  return { status: 206, kind: 'multipart', contentType, sizeBytes, chunks };
}

/** A class, because there is one for every hit. */
class MemoryHit implements Hit {
  readonly status: number;
  readonly fields: KeptFields;
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
    const ttlMs = prepared.freshUntil - receivedAt;
    const ttlSeconds = Math.floor(ttlMs / 1000);
    if (prepared.ttlSeconds !== ttlSeconds) {
      prepared.ttlSeconds = ttlSeconds;
      prepared.cacheStatus = formatCacheStatus(hitStatus(ttlMs));
    }
    this.status = selected.status;
    this.fields = prepared.fieldsFor(selected.kind, head, client.source);
    this.contentRange = selected.contentRange;
    this.more = selected.contentType === undefined ? limits : [['content-type', selected.contentType], ...limits];
    this.sizeBytes = selected.sizeBytes;
    this.chunks = selected.chunks;
    // RFC 9111 §5.1.
    this.ageSeconds = Math.floor((receivedAt - prepared.bornAt) / 1000);
    this.cacheStatus = prepared.cacheStatus;
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
      status: this.status,
      range: head.selecting.length === 0 ? undefined : fieldValue(head.selecting, 'range'),
      bytesSent,
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

/** Bytes of an entry that the system sends from its file. What it leaves is read as on the whole road. */
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
