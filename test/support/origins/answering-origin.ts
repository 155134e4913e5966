/** An origin without sockets that answers at once: with the whole body, with the requested range, or with a 304. */

import { type Field, type Fields, fieldValue } from '../../../src/http/fields.ts';
import type { BodyStream } from '../../../src/http/message.ts';
import type { Origin, OriginRequest, OriginResponse } from '../../../src/origin/origin.ts';
import { evaluatePreconditions } from '../../../src/semantics/precondition.ts';
import { formatContentRange, formatUnsatisfiedRange, parseRange, selectRanges } from '../../../src/semantics/range.ts';

export interface AnsweringOriginOptions {
  /** The body of every resource. */
  readonly bytes: Uint8Array;
  /** The fields of a resource, by its path. */
  readonly fieldsOf: (path: string) => Readonly<Record<string, string>>;
  /** Whether it obeys Range. */
  readonly hasRanges: boolean;
  /** Each request is appended here. */
  readonly asked: OriginRequest[];
}

/** Late enough for every Last-Modified to be strong (RFC 9110 §8.8.2.2). */
const answersAt = Date.UTC(2026, 0, 1);

export function createAnsweringOrigin({ bytes, fieldsOf, hasRanges, asked }: AnsweringOriginOptions): Origin {
  return {
    fetch: async (request) => {
      asked.push(request);
      const fields = Object.entries(fieldsOf(request.target)).map(([name, value]): Field => [name, value]);
      if (request.method !== 'GET' && request.method !== 'HEAD') return respond(200, fields, new Uint8Array());
      const selected = { status: 200, fields, responseAt: answersAt };
      const outcome = evaluatePreconditions(request, selected, answersAt);
      if (outcome.kind === 'not-modified') return respond(304, fields, undefined);
      if (outcome.kind === 'precondition-failed') return respond(412, [], new Uint8Array());
      const range =
        hasRanges && outcome.range === 'apply'
          ? parseRange(fieldValue(request.fields, 'range') ?? '', { maxRanges: 1 })
          : undefined;
      if (range?.kind !== 'set') return respond(200, fields, bytes, request.method);
      const ranges = selectRanges(range.specs, bytes.length, { coalesceGapBytes: 0 });
      const [span] = ranges.kind === 'partial' ? ranges.spans : [];
      if (span === undefined)
        return respond(416, [['content-range', formatUnsatisfiedRange(bytes.length)]], new Uint8Array());
      const part: Fields = [...fields, ['content-range', formatContentRange(span, bytes.length)]];
      return respond(206, part, bytes.slice(span.start, span.end));
    },
    close: async () => {},
  };
}

function respond(status: number, fields: Fields, bytes: Uint8Array | undefined, method = 'GET'): OriginResponse {
  const sizeBytes = bytes?.length;
  const length: Fields = sizeBytes === undefined ? [] : [['content-length', String(sizeBytes)]];
  const isSent = bytes !== undefined && bytes.length > 0 && method !== 'HEAD';
  return {
    status,
    fields: [...fields, ...length],
    version: '1.1',
    framing: isSent ? 'length' : 'none',
    sizeBytes,
    body: bodyOf(isSent ? bytes : undefined),
  };
}

function bodyOf(bytes: Uint8Array | undefined): BodyStream {
  return {
    async *[Symbol.asyncIterator]() {
      if (bytes !== undefined) yield bytes;
    },
    close: () => {},
  };
}
