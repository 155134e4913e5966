/** Makes answers of what the store and the origin gave, each with its Cache-Status (RFC 9211). */

import type { BodyStream } from '../../http/message.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { CacheStatus, ForwardReason } from '../../semantics/cache-status.ts';
import { currentAgeMs, type FreshnessPolicy, freshnessLifetime, isOriginFailure } from '../../semantics/freshness.ts';
import type { StoredEntry } from '../../store/store.ts';
import { type Answer, type Relay, type Representation, withResponse } from '../answer.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';

/** What the answers of one request have in common. */
export interface AnswerContext {
  /** Makes a stored entry readable. */
  readonly present: (entry: StoredEntry) => Representation;
  readonly policy: FreshnessPolicy;
  readonly now: number;
  readonly forwardReason: ForwardReason;
  /** Whether another request's flight brought it. */
  readonly isJoined: boolean;
}

const noBytes = () => 0;

/** Of a stored entry that is used as it is. */
export function hitStatus(ttlMs: number): CacheStatus {
  return { hit: true, ttlSeconds: Math.floor(ttlMs / 1000) };
}

/** Of a generation that is being put together. */
export function generationStatus(
  { originStatus }: Pick<OpenGeneration, 'originStatus'>,
  fwd: ForwardReason,
  isJoined: boolean,
): CacheStatus {
  return { fwd, fwdStatus: originStatus, stored: true, ...(isJoined ? { collapsed: true } : {}) };
}

/** Of a stored generation that is there in part: a hit where it holds all that is wanted. */
export function partialStatus(isPresent: boolean, ttlMs: number): CacheStatus {
  return isPresent ? hitStatus(ttlMs) : { fwd: 'partial', stored: true };
}

/** Of a response that is passed on, as far as it is known before it has come. */
export function relayStatus(fwd: ForwardReason, reason: string): CacheStatus {
  return { fwd, ...(reason === fwd ? {} : { detail: reason }) };
}

/** A stored entry, used as it is. */
export function hitAnswer(entry: StoredEntry, ttlMs: number, { present }: Pick<AnswerContext, 'present'>): Answer {
  return {
    kind: 'representation',
    representation: present(entry),
    isReuse: true,
    outcome: ttlMs < 0 ? 'stale' : 'hit',
    reason: undefined,
    collapsed: false,
    status: hitStatus(ttlMs),
    originBytes: noBytes,
  };
}

/** A generation that is being put together from what the origin sends. */
export function generationAnswer(
  generation: OpenGeneration,
  representation: Representation,
  { isJoined, forwardReason }: Pick<AnswerContext, 'isJoined' | 'forwardReason'>,
): Answer {
  return {
    kind: 'representation',
    representation,
    isReuse: isJoined,
    outcome: 'miss',
    reason: forwardReason,
    collapsed: isJoined,
    status: generationStatus(generation, forwardReason, isJoined),
    originBytes: isJoined ? noBytes : () => generation.received,
  };
}

/** A stored generation that is there in part: a hit where it holds all that is wanted. */
export function partialAnswer(
  generation: OpenGeneration,
  representation: Representation,
  isPresent: boolean,
  ttlMs: number,
): Answer {
  const before = generation.received;
  return {
    kind: 'representation',
    representation,
    isReuse: true,
    outcome: isPresent ? (ttlMs < 0 ? 'stale' : 'hit') : 'miss',
    reason: isPresent ? undefined : 'partial',
    collapsed: false,
    status: partialStatus(isPresent, ttlMs),
    originBytes: () => generation.received - before,
  };
}

/** The answer with an entry that is there in part, with the bytes of the generation that brings the rest: `partial`. */
export function completedAnswer(answer: Answer, partial: Answer): Answer {
  if (partial.kind !== 'representation' || answer.kind !== 'representation') return partial;
  const representation = withResponse(partial.representation, answer.representation.response);
  return { ...answer, representation, originBytes: partial.originBytes };
}

/** A stored entry that a 304 has validated. */
export function revalidatedAnswer(entry: StoredEntry, context: AnswerContext): Answer {
  return {
    kind: 'representation',
    representation: context.present(entry),
    isReuse: true,
    outcome: 'revalidated',
    reason: context.forwardReason,
    collapsed: context.isJoined,
    status: {
      fwd: context.forwardReason,
      fwdStatus: 304,
      stored: true,
      ttlSeconds: ttlSeconds(entry, context),
      ...(context.isJoined ? { collapsed: true } : {}),
    },
    originBytes: noBytes,
  };
}

/** A stored entry that is served although it is stale, because the origin failed, by an error or a status (RFC 9111 §4.2.4). */
export function staleAnswer(entry: StoredEntry, failure: ProxyError | number, context: AnswerContext): Answer {
  return {
    kind: 'representation',
    representation: context.present(entry),
    isReuse: true,
    outcome: 'stale',
    reason: typeof failure === 'number' ? `status-${failure}` : failure.code,
    collapsed: context.isJoined,
    status: {
      fwd: context.forwardReason,
      ...(typeof failure === 'number' ? { fwdStatus: failure } : { detail: failure.code }),
      ttlSeconds: ttlSeconds(entry, context),
      ...(context.isJoined ? { collapsed: true } : {}),
    },
    originBytes: noBytes,
  };
}

/** The status by which the origin has failed where it was asked for an answer (RFC 5861 §4); undefined where it has not. */
export function failedStatus({ status: { fwdStatus } }: Pick<Answer, 'status'>): number | undefined {
  return fwdStatus !== undefined && isOriginFailure(fwdStatus) ? fwdStatus : undefined;
}

/** A response that is passed on and not stored; `reason` says why. Or one that is stored on its way, as it is. */
export function relayAnswer(relay: Relay, forwardReason: ForwardReason, reason: string, isStored = false): Answer {
  const body = new CountedBody(relay.response.body);
  return {
    kind: 'relay',
    relay: { ...relay, response: { ...relay.response, body } },
    outcome: isStored ? 'miss' : 'uncacheable',
    reason,
    collapsed: false,
    status: { ...relayStatus(forwardReason, reason), fwdStatus: relay.response.status, stored: isStored },
    originBytes: () => body.bytesRead,
  };
}

function ttlSeconds(entry: StoredEntry, { policy, now }: AnswerContext): number {
  const { lifetimeMs } = freshnessLifetime(entry.metadata, policy);
  return Math.floor((lifetimeMs - currentAgeMs(entry.metadata, now)) / 1000);
}

/** A body and how many bytes of it have been read; closing and failing stay as they are. */
class CountedBody implements BodyStream {
  readonly trailers: BodyStream['trailers'];
  readonly #body: BodyStream;
  #bytesRead = 0;

  constructor(body: BodyStream) {
    this.#body = body;
    this.trailers = body.trailers;
  }

  get bytesRead(): number {
    return this.#bytesRead;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void> {
    for await (const chunk of this.#body) {
      this.#bytesRead += chunk.length;
      yield chunk;
    }
  }

  close(): void {
    this.#body.close();
  }
}
