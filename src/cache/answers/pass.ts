/**
 * Passes requests to the origin as they are, and applies the effects on stored responses: an unsafe method invalidates (RFC 9111
 * §4.4), a response to HEAD freshens or invalidates (§4.3.5), a response to POST may answer a later GET (RFC 9110 §9.3.3).
 */

import { type BoundClient, bindConnection } from '../../http/client-connection.ts';
import { type Fields, fieldLines, hasField, withField, withoutFields } from '../../http/fields.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { OriginResponse } from '../../origin/origin.ts';
import { readCacheControl } from '../../semantics/cache-control.ts';
import type { ForwardReason } from '../../semantics/cache-status.ts';
import {
  hasConnectionCredentials,
  isConnectionBinding,
  isConnectionChallenge,
  ownerOf,
} from '../../semantics/connection-auth.ts';
import { decideHeadEffect, freshened } from '../../semantics/freshen.ts';
import { freshnessLifetime, isExplicit } from '../../semantics/freshness.ts';
import { mayAddLength } from '../../semantics/head-length.ts';
import { resolveOwn } from '../../semantics/invalidation.ts';
import { isMethodOverride, isSafeMethod } from '../../semantics/method.ts';
import { statesPart } from '../../semantics/range.ts';
import { decideReuse } from '../../semantics/reuse.ts';
import { isForOneClient } from '../../semantics/storing.ts';
import { compareVersions } from '../../semantics/validator.ts';
import { withoutOriginEcho } from '../../semantics/vary.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { Answer, Relay } from '../answer.ts';
import type { WaiterResult } from '../collapse/flight.ts';
import type { Flights } from '../collapse/flights.ts';
import type { ExchangeContext } from '../context.ts';
import { onPostedResponse } from '../fetch/exchange.ts';
import { type Received, responseTags, warnOfSetCookie, withTags } from '../fetch/open-generation.ts';
import { expireLate } from '../fill/commit.ts';
import { doubtWhole, isWholeStatus, noteDoubted, type WholeDoubt } from '../fill/fetch-decision.ts';
import {
  changedInquiry,
  chargeTo,
  decideStoringFor,
  type Inquiry,
  isAskedOnce,
  passedFields,
  rangeSpecs,
} from '../inquiry.ts';
import { invalidate } from '../invalidate/invalidate.ts';
import { mayBeServedTo, RequestMatcher } from '../lookup/lookup.ts';
import { generationAnswer, relayAnswer, withMoreFields } from './answers.ts';

/** Passes requests on, and updates stored responses by the result. */
export class Pass {
  readonly #context: ExchangeContext;
  readonly #flights: Flights;

  constructor(context: ExchangeContext, flights: Flights) {
    this.#context = context;
    this.#flights = flights;
  }

  /** Passes a request on as it is. Rejects with `ProxyError`. */
  async pass(inquiry: Inquiry, forwardReason: ForwardReason, reason: string): Promise<Answer> {
    const { method, signal } = inquiry.request;
    if (method === 'POST' && forwardReason === 'method') return await this.#post(inquiry);
    const received = await this.#ask(inquiry, signal);
    this.#note(inquiry, reason, received);
    // A response to HEAD is about what a GET has stored, unless the route or a range in another unit says otherwise.
    const isHead = method === 'HEAD' && forwardReason !== 'bypass' && !reason.startsWith('range-');
    const isDone = await this.#takeEffect(inquiry, isHead, received);
    const relay = { ...received, evaluated: true };
    const completed = isHead ? await this.#completeHead(inquiry, relay) : relay;
    return withEffect(relayAnswer(completed, forwardReason, reason), isDone);
  }

  /** Adds a known Content-Length to the response to a HEAD, and whether the response to a GET may be stored. */
  async #completeHead(inquiry: Inquiry, relay: Received & Relay): Promise<Relay> {
    const { response, responseAt } = relay;
    const sizeBytes = await findLength(this.#context, this.#flights, inquiry, relay);
    const fields =
      sizeBytes === undefined ? response.fields : withField(response.fields, 'content-length', String(sizeBytes));
    const decision = decideStoringFor(inquiry, { ...response, responseAt });
    return { ...relay, response: { ...response, fields }, isStorable: decision.kind === 'store' };
  }

  /** Passes a POST on. Stores its response if it may answer a later GET (RFC 9110 §9.3.3) and was not invalidated meanwhile. */
  async #post(inquiry: Inquiry): Promise<Answer> {
    using before = this.#flights.recordInvalidations(inquiry.key);
    const tether = createFollowingSignal(inquiry.request.signal);
    const received = await this.#ask(inquiry, tether.signal);
    const posted = selectPosted(inquiry, received);
    const tags = responseTags(received.response.fields, inquiry);
    const isOutdated = before.isRevokedFor(tags);
    const effect = this.#takeEffect(inquiry, false, received);
    // Watching starts after the POST's own invalidation, which must not count.
    using since = this.#flights.recordInvalidations(inquiry.key);
    const isDone = await effect;
    // With the lease, requests of other processes can join the flight. Without it, the response is stored all the same.
    const asked = posted && this.#context.fleet.acquire(inquiry.key, tether.signal);
    const right = asked instanceof Promise ? await asked.catch(() => undefined) : asked;
    try {
      if (posted === undefined || isOutdated || since.isRevokedFor(tags)) {
        return withEffect(relayAnswer({ ...received, evaluated: true }, 'method', 'method'), isDone);
      }
      // The fill goes on when the client leaves.
      tether.release();
      const flight = this.#flights.start(
        inquiry.key,
        posted.policy.fill,
        (clearance) => onPostedResponse(this.#context, posted, received, clearance),
        { leader: new RequestMatcher(posted) },
      );
      return withEffect(answerPosted(await flight.lead(inquiry)), isDone);
    } finally {
      if (right?.kind === 'ours') right.lease.release();
    }
  }

  /** Notes why a GET was not stored. `unshared` is left out: the reason behind it was noted before. */
  #note({ request, key }: Inquiry, reason: string, { response, responseAt }: Received): void {
    if (request.method !== 'GET' || reason === 'unshared') return;
    this.#context.notStoredReasons.note(key, { reason, status: response.status, at: responseAt });
  }

  async #ask(inquiry: Inquiry, signal: AbortSignal): Promise<Received> {
    const { request, originTarget, origin, onInterim } = inquiry;
    if (!isSafeMethod(request.method) && this.#context.fleet.refusesUnsafe?.() === true) {
      throw new ProxyError('others_unreachable', { fields: [['retry-after', '1']] });
    }
    const requestAt = this.#context.clock.now();
    const charged = chargeTo(inquiry);
    const ask = (fields: Fields) =>
      origin.fetch({
        owner: ownerFor(inquiry),
        method: request.method,
        target: originTarget,
        fields,
        body: request.body,
        bodySizeBytes: request.bodySizeBytes,
        signal,
        onInterim,
        charged,
      });
    const passed = await ask(passedFields(inquiry));
    const doubt = doubtPassed(inquiry, passed);
    if (doubt !== undefined) passed.body.close();
    const response = doubt ? await ask(withoutFields(inquiry.originFields, rangeFields)) : asPart(request, passed);
    if (doubt !== undefined) noteDoubted(inquiry.rangeSupport, doubt, response);
    return { response, requestAt, responseAt: this.#context.clock.now(), charged };
  }

  /**
   * Invalidates after an unsafe method (RFC 9111 §4.4); updates the stored response to GET after a HEAD (§4.3.5). Returns whether the
   * invalidation holds in all processes.
   */
  async #takeEffect(inquiry: Inquiry, isHead: boolean, received: Received): Promise<boolean> {
    const { method } = inquiry.request;
    try {
      if (isHead) await learnFromHead(this.#context, this.#flights, inquiry, received);
      if (isSafeMethod(method)) return true;
      return await invalidate(this.#context, this.#flights, inquiry, received.response);
    } catch (thrown) {
      received.response.body.close();
      throw thrown;
    }
  }
}

/** Says in Cache-Status (RFC 9211 §2.7) where what an unsafe method invalidates may still be served by other processes. */
function withEffect(answer: Answer, isDone: boolean): Answer {
  return isDone ? answer : { ...answer, status: { ...answer.status, detail: 'invalidation-pending' } };
}

const rangeFields = new Set(['range', 'if-range']);

/**
 * Why a 200 or 203 to the Range of a client may be the part: the range must not be cut out of it, and the whole is asked for. Undefined
 * where nothing speaks for it, and where a request has content, which cannot be sent again.
 */
function doubtPassed(inquiry: Inquiry, response: OriginResponse): WholeDoubt | undefined {
  const [spec, ...more] = rangeSpecs(inquiry);
  if (spec === undefined || more.length > 0 || inquiry.request.body !== undefined) return undefined;
  const mayGiveParts = inquiry.rangeSupport.mayDisguiseParts && !isAskedOnce(inquiry);
  if (!isWholeStatus(response.status)) return undefined;
  const doubt = doubtWhole(spec, response, undefined, mayGiveParts);
  return doubt?.isStated === true ? undefined : doubt;
}

/** Returns a part that the origin sends as the whole, to a request with Range, as the 206 that it is. Nothing may be cut out of it. */
function asPart({ method, fields }: Inquiry['request'], response: OriginResponse): OriginResponse {
  const isWhole = isWholeStatus(response.status);
  const isPart =
    isWhole && method === 'GET' && hasField(fields, 'range') && statesPart(response.fields, response.sizeBytes);
  return isPart ? { ...response, status: 206 } : response;
}

/** See `ownerOf`. Throws `http1_required` over HTTP/2, where many requests share the client's connection. */
function ownerFor({ request, client }: Inquiry): BoundClient | undefined {
  const { connection, fields, version } = request;
  if (connection === undefined && version === '2' && hasConnectionCredentials(fields)) {
    throw new ProxyError('http1_required');
  }
  return ownerOf(fields, connection, client);
}

/**
 * Binds the client's connection where a response shows that the origin authenticates connections: the client's next requests get
 * connections to origins of their own. Returns the response. Throws `http1_required` for a challenge that cannot be met over HTTP/2.
 */
export function boundByResponse({ request, client }: Inquiry, response: OriginResponse): OriginResponse {
  const { fields, body } = response;
  if (!isConnectionBinding(fields)) return response;
  if (request.connection !== undefined) bindConnection(request.connection, client);
  else if (request.version === '2' && isConnectionChallenge(fields)) {
    body.close();
    throw new ProxyError('http1_required');
  }
  return response;
}

/**
 * Creates a signal that is aborted with another one, for the same reason, until it is released. It must be released in the end,
 * because the other signal holds a reference to it.
 */
function createFollowingSignal(followed: AbortSignal): { readonly signal: AbortSignal; release(): void } {
  const own = new AbortController();
  const follow = () => own.abort(followed.reason);
  if (followed.aborted) follow();
  else followed.addEventListener('abort', follow, { once: true });
  return { signal: own.signal, release: () => followed.removeEventListener('abort', follow) };
}

function answerPosted(arrival: WaiterResult): Answer {
  switch (arrival.kind) {
    case 'generation': {
      const representation = withMoreFields(arrival.representation, arrival.personal ?? []);
      return generationAnswer(arrival.generation, representation, { forwardReason: 'method', isJoined: false });
    }
    case 'relay':
      return relayAnswer({ ...arrival.relay, evaluated: true }, 'method', arrival.reason);
    default:
      throw arrival.kind === 'failed' && arrival.failure instanceof ProxyError
        ? arrival.failure
        : new ProxyError('internal', { detail: `a response to POST became ${arrival.kind}` });
  }
}

/** Request fields that describe the content of the POST; a GET has no content. */
const contentFields = new Set(['content-encoding', 'content-language', 'content-location', 'content-type']);

/**
 * Returns the inquiry of a GET that the response to a POST answers too: the response is a 200, may be stored, and has explicit
 * freshness and a Content-Location that names the target (RFC 9110 §9.3.3). Undefined otherwise, also for a POST with a
 * method-override field. A broken transfer is not resumed: no client has requested the resource by GET.
 */
function selectPosted(inquiry: Inquiry, { response, responseAt }: Received): Inquiry | undefined {
  const { request, policy, key, keysOf, originFields } = inquiry;
  if (request.method !== 'POST' || response.status !== 200) return undefined;
  if (request.fields.some(([name]) => isMethodOverride(name))) return undefined;
  const dated = { status: response.status, fields: response.fields, responseAt };
  const control = readCacheControl(dated.fields, policy);
  if (!isExplicit(freshnessLifetime(dated, policy, control).source)) return undefined;
  const named = fieldLines(dated.fields, 'content-location').map((reference) => resolveOwn(reference, request));
  if (named.length !== 1 || named[0] === undefined || keysOf(named[0])?.key !== key) return undefined;
  const fields = withoutFields(originFields, contentFields);
  if (decideStoringFor({ originFields: fields, policy }, dated).kind === 'refuse') return undefined;
  const fill = { ...policy.fill, resumeAttempts: 0 };
  return changedInquiry(inquiry, { originFields: fields, policy: { ...policy, fill } });
}

/** Freshens or invalidates the entries that match the HEAD and are not newer than it. */
async function learnFromHead(
  context: ExchangeContext,
  flights: Flights,
  inquiry: Inquiry,
  received: Received,
): Promise<void> {
  const { store, clock } = context;
  const { response } = received;
  const isForOthers = !isForOneClient(inquiry.originFields, response.fields, inquiry.policy);
  if (response.status !== 200 || !isForOthers) return;
  using since = flights.recordInvalidations(inquiry.key);
  const concerned = (await store.find(inquiry.key)).filter(
    (entry) => entry.pinnedUntil === undefined && !isNewer(entry, received) && mayBeServedTo(entry.metadata, inquiry),
  );
  for (const entry of concerned) {
    // The entry was purged after the HEAD was answered: its metadata must not come back.
    if (since.isRevokedFor(entry.metadata.tags)) continue;
    const metadata = metadataAfterHead(entry, inquiry, received);
    if (metadata === undefined) continue;
    const updated = await flights.storing(async () => {
      const replaced = await store.replaceMetadata(entry, metadata);
      const expiredAt = since.isRevokedFor(entry.metadata.tags) ? clock.now() : undefined;
      return replaced && (await expireLate(store, replaced, expiredAt));
    });
    if (updated === undefined) continue;
    flights.freshen(updated);
    if (updated.metadata.isInvalid !== true)
      warnOfSetCookie(context, inquiry.key, response.fields, updated.metadata.fields);
  }
}

/**
 * Returns the length in bytes for a HEAD whose response has no Content-Length. It is that of a stored or running generation with
 * the same strong validator (RFC 9110 §8.6, §8.8.1), or of a fresh one that does not contradict the HEAD and would answer a Range
 * now. Undefined otherwise.
 */
async function findLength(
  { store }: Pick<ExchangeContext, 'store'>,
  flights: Flights,
  inquiry: Inquiry,
  { response, responseAt }: Received,
): Promise<number | undefined> {
  const { fields, status } = response;
  if (status !== 200 || hasField(fields, 'content-length') || !mayAddLength(fields)) return undefined;
  if (isForOneClient(inquiry.originFields, fields, inquiry.policy)) return undefined;
  const fetched = flights.of(inquiry.key).flatMap(({ generation }) => generation ?? []);
  const known = [
    ...fetched.map(({ response: metadata, sizeBytes }) => ({ metadata, sizeBytes })),
    ...(await store.find(inquiry.key)),
  ];
  const same = known.find(({ metadata, sizeBytes }) => {
    if (sizeBytes === undefined || !mayBeServedTo(metadata, inquiry)) return false;
    if (compareVersions(metadata, { fields, responseAt }, responseAt) === 'same') return true;
    const asked = { requestFields: inquiry.originFields, hasRange: true, policy: inquiry.policy };
    const reuse = decideReuse({ ...asked, stored: metadata, now: responseAt });
    return reuse.kind === 'fresh' && decideHeadEffect(metadata, sizeBytes, fields) !== 'invalidate';
  });
  return same?.metadata.fragment?.wholeBytes ?? same?.sizeBytes;
}

/** Whether an entry was received or validated while the HEAD was under way. A time in the future proves nothing. */
function isNewer({ metadata }: StoredEntry, { requestAt, responseAt }: Received): boolean {
  return metadata.responseAt >= requestAt && metadata.responseAt <= responseAt;
}

/** Returns the entry's metadata after the HEAD; undefined where nothing changes, or the result may not be stored. */
function metadataAfterHead(
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
  const decision = decideStoringFor(inquiry, fresh);
  return decision.kind === 'store' ? fresh : undefined;
}
