/** Answers as one process tells them to another one: what can be told at once, without their bytes. */

import type { Answer, AnswerFacts } from '../cache/answer.ts';
import type { HeldAnswer } from '../cache/fleet.ts';
import type { Relay } from '../cache/representation.ts';
import type { Fields } from '../http/fields.ts';
import { type ErrorCode, errorKinds, ProxyError } from '../http/proxy-error.ts';
import type { StoredResponse } from '../http/stored-response.ts';
import type { OriginResponse } from '../origin/origin.ts';

/** What an answer tells of how it came about; what it has cost is told with its bytes. */
export type ToldFacts = Omit<AnswerFacts, 'originBytes'>;

/** A response that is passed on, without its body. */
export type ToldRelay = Omit<Relay, 'response'> & {
  readonly response: Omit<OriginResponse, 'body'>;
  readonly hasTrailers: boolean;
};

/** What is told of an answer. Plain data. */
export type ToldAnswer =
  /** Whoever asks is to ask for the lease again. */
  | { readonly kind: 'none' }
  | (Omit<HeldAnswer, 'answer'> &
      (
        | { readonly kind: 'own-way' }
        | {
            readonly kind: 'representation';
            readonly facts: ToldFacts;
            readonly isReuse: boolean;
            readonly response: StoredResponse;
            readonly generation: string | undefined;
            readonly sizeBytes: number | undefined;
          }
        | { readonly kind: 'relay'; readonly facts: ToldFacts; readonly relay: ToldRelay }
      ));

/** Tells of an answer. */
export function describeAnswer(held: HeldAnswer | undefined): ToldAnswer {
  if (held === undefined) return { kind: 'none' };
  const { answer, ...learned } = held;
  if (answer === undefined) return { ...learned, kind: 'own-way' };
  const facts = factsOf(answer);
  if (answer.kind === 'relay') return { ...learned, kind: 'relay', facts, relay: describeRelay(answer.relay) };
  const { response, generation, sizeBytes } = answer.representation;
  return { ...learned, kind: 'representation', facts, isReuse: answer.isReuse, response, generation, sizeBytes };
}

function factsOf({ outcome, reason, apartBy, collapsed, status }: Answer): ToldFacts {
  return { outcome, reason, apartBy, collapsed, status };
}

function describeRelay({ response, requestAt, responseAt, evaluated, isStorable }: Relay): ToldRelay {
  const { status, fields, version, framing, sizeBytes, body } = response;
  const head = { status, fields, version, framing, sizeBytes };
  return { response: head, requestAt, responseAt, evaluated, isStorable, hasTrailers: body.trailers !== undefined };
}

/** A failure as it is told. Plain data. */
export interface ToldFailure {
  readonly code: string;
  readonly detail: string | undefined;
  readonly fields: Fields;
}

/** Tells of a failure. */
export function describeFailure({ code, detail, fields }: ProxyError): ToldFailure {
  return { code, detail, fields };
}

/** The failure again. */
export function reviveFailure({ code, detail, fields }: ToldFailure): ProxyError {
  const isKnown = Object.hasOwn(errorKinds, code);
  const options = { fields, ...(detail === undefined ? {} : { detail }) };
  return new ProxyError(isKnown ? (code as ErrorCode) : 'internal', options);
}
