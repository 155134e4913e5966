/** Makes answers from stored entries, generations and origin responses, each with its Cache-Status (RFC 9211). */

import type { Span } from '../../bytes/span.ts';
import { type Fields, withoutFields } from '../../http/fields.ts';
import { ObservedBody } from '../../http/observed-body.ts';
import type { ProxyError } from '../../http/proxy-error.ts';
import type { StoredResponse } from '../../http/stored-response.ts';
import type { CacheStatus, ForwardReason } from '../../semantics/cache-status.ts';
import { currentAgeMs, type FreshnessPolicy, freshnessLifetime, isOriginFailure } from '../../semantics/freshness.ts';
import type { StoredEntry } from '../../store/store.ts';
import type { Answer, ByteReader, Relay, Representation } from '../answer.ts';
import type { OpenGeneration } from '../fill/arrived-generation.ts';

/** The common inputs of the answers to one request. */
export interface AnswerContext {
  /** Returns a stored entry as a representation. */
  readonly present: (entry: StoredEntry) => Representation;
  readonly policy: FreshnessPolicy;
  readonly now: number;
  readonly forwardReason: ForwardReason;
  /** Whether the response came from a flight of another request. */
  readonly isJoined: boolean;
}

const noBytes = () => 0;

/** Returns the Cache-Status of a stored entry that is used as it is; `ttlMs` is its remaining lifetime. */
export function hitStatus(ttlMs: number): CacheStatus {
  return { hit: true, ttlSeconds: Math.floor(ttlMs / 1000) };
}

/** Returns the Cache-Status of a generation that is being filled. */
export function generationStatus(
  { originStatus }: Pick<OpenGeneration, 'originStatus'>,
  fwd: ForwardReason,
  isJoined: boolean,
): CacheStatus {
  return { fwd, fwdStatus: originStatus, stored: true, ...(isJoined ? { collapsed: true } : {}) };
}

/** Returns the Cache-Status of a partly stored generation: a hit where it has all requested bytes (`isPresent`). */
export function partialStatus(isPresent: boolean, ttlMs: number): CacheStatus {
  return isPresent ? hitStatus(ttlMs) : { fwd: 'partial', stored: true };
}

/** Returns the Cache-Status of a pass, as far as it is known before the origin has answered. */
export function relayStatus(fwd: ForwardReason, reason: string): CacheStatus {
  return { fwd, ...(reason === fwd ? {} : { detail: reason }) };
}

/** Answers with a stored entry as it is; stale where `ttlMs` is negative. */
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

/** Answers with a generation that is being filled from the origin, or was filled for another request. */
export function generationAnswer(
  generation: Pick<OpenGeneration, 'originStatus' | 'received'>,
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

/** Answers with a partly stored generation: a hit where it has all requested bytes (`isPresent`). */
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

/** Returns the answer with the bytes of `partial`, the generation that fetches the rest of the partly stored entry. */
export function completedAnswer(answer: Answer, partial: Answer): Answer {
  if (partial.kind !== 'representation' || answer.kind !== 'representation') return partial;
  const representation = withResponse(partial.representation, answer.representation.response);
  return { ...answer, representation, originBytes: partial.originBytes };
}

/** Answers with a stored entry, or an arriving generation, that the origin has validated by a response of `status`. */
export function revalidatedAnswer(
  metadata: StoredResponse,
  representation: Representation,
  status: number,
  context: Pick<AnswerContext, 'forwardReason' | 'isJoined' | 'policy' | 'now'>,
): Answer {
  return {
    kind: 'representation',
    representation,
    isReuse: true,
    outcome: 'revalidated',
    reason: context.forwardReason,
    collapsed: context.isJoined,
    status: {
      fwd: context.forwardReason,
      fwdStatus: status,
      stored: true,
      ttlSeconds: ttlSeconds(metadata, context),
      ...(context.isJoined ? { collapsed: true } : {}),
    },
    originBytes: noBytes,
  };
}

/** Answers with a stale entry, because the origin failed: by an error, or by this status (RFC 9111 §4.2.4). */
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
      ttlSeconds: ttlSeconds(entry.metadata, context),
      ...(context.isJoined ? { collapsed: true } : {}),
    },
    originBytes: noBytes,
  };
}

/** Returns the origin's status if that status means that the origin failed (RFC 5861 §4); otherwise undefined. */
export function failedStatus({ status: { fwdStatus } }: Pick<Answer, 'status'>): number | undefined {
  return fwdStatus !== undefined && isOriginFailure(fwdStatus) ? fwdStatus : undefined;
}

/** Answers with a response that is passed on; `reason` says why. It is not stored, or stored as it passes (`isStored`). */
export function relayAnswer(relay: Relay, forwardReason: ForwardReason, reason: string, isStored = false): Answer {
  const body = ObservedBody.of(relay.response.body);
  return {
    kind: 'relay',
    relay: { ...relay, response: { ...relay.response, body } },
    outcome: isStored ? 'miss' : 'uncacheable',
    reason,
    collapsed: false,
    status: { ...relayStatus(forwardReason, reason), fwdStatus: relay.response.status, stored: isStored },
    originBytes: () => body.readBytes,
  };
}

function ttlSeconds(response: StoredResponse, { policy, now }: Pick<AnswerContext, 'policy' | 'now'>): number {
  const { lifetimeMs } = freshnessLifetime(response, policy);
  return Math.floor((lifetimeMs - currentAgeMs(response, now)) / 1000);
}

/** Returns the representation with another head: one that was freshened since the representation was made. */
function withResponse(representation: Representation, response: StoredResponse): Representation {
  return new UnderResponse(representation, response);
}

class UnderResponse implements Representation {
  readonly response: StoredResponse;
  readonly generation: string | undefined;
  readonly #representation: Representation;

  constructor(representation: Representation, response: StoredResponse) {
    this.response = response;
    this.generation = representation.generation;
    this.#representation = representation;
  }

  get sizeBytes(): number | undefined {
    return this.#representation.sizeBytes;
  }

  peek(offset: number, end: number): Uint8Array | undefined {
    return this.#representation.peek(offset, end);
  }

  peekKept(offset: number, end: number): Uint8Array | undefined {
    return this.#representation.peekKept?.(offset, end);
  }

  canMove(span: Span): boolean {
    return this.#representation.canMove?.(span) === true;
  }

  move(socket: number, head: Uint8Array, span: Span): number {
    return this.#representation.move?.(socket, head, span) ?? 0;
  }

  giveBack(chunks: readonly Uint8Array[]): void {
    this.#representation.giveBack?.(chunks);
  }

  open(spans: readonly Span[], signal: AbortSignal): Promise<ByteReader> {
    return this.#representation.open(spans, signal);
  }

  whenPresent(end: number, signal: AbortSignal): Promise<boolean> {
    return this.#representation.whenPresent(end, signal);
  }

  close(): void {
    this.#representation.close();
  }
}

/** Returns the representation with more fields in its head; they replace the fields of the same names. */
export function withMoreFields(representation: Representation, more: Fields): Representation {
  if (more.length === 0) return representation;
  const { response } = representation;
  const names = new Set(more.map(([name]) => name));
  return withResponse(representation, { ...response, fields: [...withoutFields(response.fields, names), ...more] });
}
