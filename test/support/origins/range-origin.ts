/** A file with ranges at the fake origin. It answers Range and If-Range correctly, or as a test twists the reply. */

import type { Span } from '../../../src/bytes/span.ts';
import { fieldValue } from '../../../src/http/fields.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { parseRange, selectRanges } from '../../../src/semantics/range.ts';
import { patternBytes } from '../values/pattern-body.ts';
import type { FakeExchange, FakeOrigin } from './fake-origin.ts';

/** The current state of the file. */
export interface OriginFile {
  readonly sizeBytes: number;
  /** The seed of its bytes; see pattern-body. */
  readonly seed: number;
  readonly fields: Readonly<Record<string, string>>;
  /** Whether the origin obeys Range. */
  readonly hasRanges: boolean;
}

/** A response, before it is sent. */
export interface Reply {
  readonly status: number;
  readonly fields: Readonly<Record<string, string>>;
  /** The bytes of the file in the body. */
  readonly span: Span;
  readonly seed: number;
  /** Whether the body is chunked, without Content-Length. */
  readonly isChunked?: boolean;
}

/** Changes an honest reply. */
export type Twist = (honest: Reply) => Reply;

/** A running response whose head was sent. */
export interface Transfer {
  readonly exchange: FakeExchange;
  /** Sends the bytes up to an offset of the file (exclusive). Resolves when they have been read. */
  sendTo(offset: number): Promise<void>;
  /** Sends the rest and ends the body. */
  finish(): void;
  /** Sends the bytes up to an offset (exclusive), and fails. */
  cutAt(offset: number, error?: ProxyError): void;
}

/** An origin with one file. */
export interface RangeOrigin {
  file: OriginFile;
  /** The requests in order: `whole`, or Range and If-Range: `bytes=0-9 if "v1"`. */
  readonly asked: readonly string[];
  /** Takes the next request. Returns a function that sends the head. */
  take(twist?: Twist): Promise<() => Transfer>;
  /** Takes the next request and sends the head. */
  begin(twist?: Twist): Promise<Transfer>;
  /** Takes the next request, and sends the whole response. */
  give(twist?: Twist): Promise<Transfer>;
  /** Answers all requests from now on; the test must not take any more. */
  serve(twist?: Twist): void;
}

const standard: OriginFile = {
  sizeBytes: 10_000,
  seed: 0,
  fields: { 'cache-control': 'max-age=60', etag: '"v1"' },
  hasRanges: true,
};

/** Creates a file at the origin. Default: 10,000 bytes, strong validator `"v1"`, fresh for a minute, with ranges. */
export function createRangeOrigin(origin: FakeOrigin, file: Partial<OriginFile> = {}): RangeOrigin {
  const asked: string[] = [];
  const take = async (twist: Twist = (honest) => honest) => {
    const exchange = await origin.next();
    asked.push(describeAsked(exchange));
    return () => sendHead(exchange, twist(honestReply(exchange, self.file)));
  };
  const begin = async (twist?: Twist) => (await take(twist))();
  const self: RangeOrigin = {
    file: { ...standard, ...file },
    asked,
    take,
    begin,
    give: async (twist) => {
      const transfer = await begin(twist);
      transfer.finish();
      return transfer;
    },
    serve: (twist) => {
      void (async () => {
        for (;;) await self.give(twist);
      })();
    },
  };
  return self;
}

function describeAsked({ request }: FakeExchange): string {
  const ifRange = fieldValue(request.fields, 'if-range');
  const condition = ifRange === undefined ? '' : ` if ${ifRange}`;
  return `${fieldValue(request.fields, 'range') ?? 'whole'}${condition}`;
}

/** Answers as RFC 9110 §14.2 says, for one range. */
function honestReply({ request }: FakeExchange, { sizeBytes, seed, fields, hasRanges }: OriginFile): Reply {
  const whole = { status: 200, fields, span: { start: 0, end: sizeBytes }, seed };
  const range = fieldValue(request.fields, 'range');
  const ifRange = fieldValue(request.fields, 'if-range');
  const { etag = fields['last-modified'] } = fields;
  const isOther = ifRange !== undefined && ifRange !== etag;
  if (!hasRanges || range === undefined || isOther) return whole;
  const parsed = parseRange(range, { maxRanges: 1 });
  if (parsed.kind !== 'set') return whole;
  const selected = selectRanges(parsed.specs, sizeBytes, { coalesceGapBytes: 0 });
  const [span] = selected.kind === 'partial' ? selected.spans : [];
  if (span === undefined) return unsatisfied(whole, sizeBytes);
  return withSpan(whole, span, sizeBytes);
}

/** Returns the reply as a 206 with these bytes. */
export function withSpan(reply: Reply, span: Span, sizeBytes: number): Reply {
  return { ...withContentRange(reply, `${span.start}-${span.end - 1}/${sizeBytes}`), status: 206, span };
}

/** Returns the reply with this Content-Range; `value` has no unit. */
export function withContentRange(reply: Reply, value: string): Reply {
  return { ...reply, fields: { ...reply.fields, 'content-range': `bytes ${value}` } };
}

/** Returns the reply without a field. */
export function without({ fields, ...reply }: Reply, name: string): Reply {
  const { [name]: _, ...rest } = fields;
  return { ...reply, fields: rest };
}

/** Returns the reply with another entity tag. */
export function retagged(reply: Reply, etag: string): Reply {
  return { ...reply, fields: { ...reply.fields, etag } };
}

/** Returns a 200 with the whole body, whatever the request. */
export function asWhole(reply: Reply, sizeBytes: number): Reply {
  return { ...without(reply, 'content-range'), status: 200, span: { start: 0, end: sizeBytes } };
}

/** Returns a 416, whatever the request. */
export function unsatisfied(reply: Reply, sizeBytes: number): Reply {
  return { ...withContentRange(reply, `*/${sizeBytes}`), status: 416, span: { start: 0, end: 0 } };
}

function sendHead(exchange: FakeExchange, { status, fields, span, seed, isChunked = false }: Reply): Transfer {
  const length = isChunked ? {} : { 'content-length': String(span.end - span.start) };
  exchange.head({ status, fields: { ...length, ...fields } });
  let at = span.start;
  const sendTo = (offset: number) => {
    const bytes = patternBytes(at, Math.max(at, offset), seed);
    at = Math.max(at, offset);
    return bytes.length === 0 ? Promise.resolve() : exchange.send(bytes);
  };
  return {
    exchange,
    sendTo,
    finish: () => {
      void sendTo(span.end);
      exchange.end();
    },
    cutAt: (offset, error = new ProxyError('origin_reset')) => {
      void sendTo(offset);
      exchange.fail(error);
    },
  };
}
