/** A file at an origin with ranges, over the fake origin: it answers Range and If-Range as it should, or as a test twists it. */

import type { Span } from '../../../src/bytes/span.ts';
import { fieldValue } from '../../../src/http/fields.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { parseRange, selectRanges } from '../../../src/semantics/range.ts';
import { patternBytes } from '../values/pattern-body.ts';
import type { FakeExchange, FakeOrigin } from './fake-origin.ts';

/** The file as it is now. */
export interface OriginFile {
  readonly sizeBytes: number;
  /** Names its bytes; see pattern-body. */
  readonly seed: number;
  readonly fields: Readonly<Record<string, string>>;
  /** Whether the origin obeys Range. */
  readonly hasRanges: boolean;
}

/** A response, before it is sent. */
export interface Reply {
  readonly status: number;
  readonly fields: Readonly<Record<string, string>>;
  /** The bytes of the file that the body holds. */
  readonly span: Span;
  readonly seed: number;
  /** Whether the last chunk tells the end of the body, and no Content-Length. */
  readonly isChunked?: boolean;
}

/** Makes something else of an honest reply. */
export type Twist = (honest: Reply) => Reply;

/** A response whose head was sent. */
export interface Transfer {
  readonly exchange: FakeExchange;
  /** Sends the bytes up to an offset of the file (exclusive); resolves when they have been read. */
  sendTo(offset: number): Promise<void>;
  /** Sends the rest and ends the body. */
  finish(): void;
  /** Sends the bytes up to an offset and breaks off. */
  cutAt(offset: number, error?: ProxyError): void;
}

/** An origin with one file. */
export interface RangeOrigin {
  file: OriginFile;
  /** What was asked for, in order: `whole`, or the Range and, where there is one, its condition: `bytes=0-9 if "v1"`. */
  readonly asked: readonly string[];
  /** Takes the next request. The function that it gives sends the head. */
  take(twist?: Twist): Promise<() => Transfer>;
  /** Takes the next request and sends the head. */
  begin(twist?: Twist): Promise<Transfer>;
  /** Takes the next request and answers it. */
  give(twist?: Twist): Promise<Transfer>;
  /** Answers all requests from now on; a test takes none any more. */
  serve(twist?: Twist): void;
}

const standard: OriginFile = {
  sizeBytes: 10_000,
  seed: 0,
  fields: { 'cache-control': 'max-age=60', etag: '"v1"' },
  hasRanges: true,
};

/** Puts a file at the origin: 10,000 bytes with the strong validator `"v1"`, fresh for a minute, unless something else is said. */
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

/** RFC 9110 §14.2, for one range. */
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

/** The reply as a part: a 206 of these bytes. */
export function withSpan(reply: Reply, span: Span, sizeBytes: number): Reply {
  return { ...withContentRange(reply, `${span.start}-${span.end - 1}/${sizeBytes}`), status: 206, span };
}

/** The reply with this Content-Range, without its unit. */
export function withContentRange(reply: Reply, value: string): Reply {
  return { ...reply, fields: { ...reply.fields, 'content-range': `bytes ${value}` } };
}

/** The reply without a field. */
export function without({ fields, ...reply }: Reply, name: string): Reply {
  const { [name]: _, ...rest } = fields;
  return { ...reply, fields: rest };
}

/** The reply with another entity tag. */
export function retagged(reply: Reply, etag: string): Reply {
  return { ...reply, fields: { ...reply.fields, etag } };
}

/** The whole, whatever was asked for. */
export function asWhole(reply: Reply, sizeBytes: number): Reply {
  return { ...without(reply, 'content-range'), status: 200, span: { start: 0, end: sizeBytes } };
}

/** A 416, whatever was asked for. */
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
