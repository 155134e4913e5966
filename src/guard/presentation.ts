/** What responses are given on their way to the client, whoever made them. */

import type { Field, Fields } from '../http/fields.ts';
import type { Body, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { type Cors, isCorsField } from './cors.ts';
import type { FieldChange } from './field-rules.ts';
import type { SecurityFields } from './security-fields.ts';

/** What of a request decides how its response is presented. */
export type PresentedRequest = Pick<ProxyRequest, 'method' | 'scheme' | 'fields'>;

/** The rules of one route. */
export interface Presentation {
  /** The answer to a preflight request (CORS), where this is one that is answered here. */
  answerPreflight(request: ProxyRequest): ProxyResponse | undefined;
  present(request: PresentedRequest, response: ProxyResponse): ProxyResponse;
  /** Whether a response keeps what it has of these fields, and is given none of them. */
  leaves(names: readonly string[]): boolean;
  /** The fields of an interim response: it is given nothing, and loses what a response loses. */
  presentInterim(fields: Fields): Fields;
}

/** Gives responses nothing. */
export const plainPresentation: Presentation = {
  answerPreflight: () => undefined,
  present: (_request, response) => response,
  leaves: () => true,
  presentInterim: (fields) => fields,
};

/** What a presentation is made of; each part only where the operator wants it. */
export interface PresentationParts {
  readonly cors: Cors | undefined;
  readonly security: SecurityFields | undefined;
  readonly change: FieldChange | undefined;
}

/** Creates the rules of a route. The operator's rules for single fields come last, and so have the last word. */
export function createPresentation({ cors, security, change }: PresentationParts): Presentation {
  if (cors === undefined && security === undefined && change === undefined) return plainPresentation;
  return {
    answerPreflight: (request) => cors?.answerPreflight(request),
    present(request, response) {
      let { fields } = response;
      if (cors !== undefined) fields = cors.present(request, fields);
      if (security !== undefined) fields = security(request, fields);
      if (change === undefined) return { ...response, fields };
      return { ...response, fields: change.apply(fields), body: withoutTrailers(response.body, change) };
    },
    leaves(names) {
      const fields = names.map((name): Field => [name, '1']);
      const changed = change?.apply(fields) ?? fields;
      return changed.filter(([name]) => names.includes(name)).length === names.length;
    },
    presentInterim(fields) {
      const own = cors === undefined ? fields : fields.filter(([name]) => !isCorsField(name));
      return change === undefined ? own : change.strip(own);
    },
  };
}

/** What is taken out of a head is not to come after its body either. */
function withoutTrailers(body: Body, change: FieldChange): Body {
  if (body.kind !== 'stream' || body.stream.trailers === undefined) return body;
  const { stream } = body;
  const { take } = stream;
  const stripped = {
    take: take && (() => take.call(stream)),
    [Symbol.asyncIterator]: () => stream[Symbol.asyncIterator](),
    trailers: () => change.strip(stream.trailers?.() ?? []),
    close: () => stream.close(),
  };
  return { ...body, stream: stripped };
}
