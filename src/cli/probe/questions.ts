/**
 * Asks an origin what it can do, with few requests. Only the heads of responses are read. The exception is a body that the
 * connection delimits: its beginning is read, to see how the connection ends.
 */

import { type Fields, hasField } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Framing, Origin } from '../../origin/origin.ts';
import { refusesWhole } from '../../origin/range-ability.ts';
import { conditionalFields } from '../../semantics/validator.ts';

/** The head of a response. */
export interface ProbeAnswer {
  readonly kind: 'answer';
  /** The fields that were sent. */
  readonly asked: Fields;
  readonly status: number;
  readonly fields: Fields;
  /** The protocol version as Via writes it. */
  readonly version: string;
  readonly framing: Framing;
  /** Length of the body; undefined where its framing does not state it. */
  readonly sizeBytes: number | undefined;
  /** As `OriginResponse.mended`. */
  readonly mended?: readonly string[] | undefined;
  /** Error code with which a close-delimited body broke off; undefined where the bytes that were read did not break off. */
  readonly brokenBy?: string | undefined;
  /** Epoch milliseconds. */
  readonly requestAt: number;
  readonly responseAt: number;
}

/** Why there was no response. */
export interface Failure {
  readonly kind: 'failure';
  /** A code of the table in http/proxy-error; `detail` explains it to people. */
  readonly code: string;
  readonly detail: string;
}

/** The outcome of one request. */
export type Reply = ProbeAnswer | Failure;

/** The outcomes of all requests; undefined where a request would have made no sense. */
export interface Observations {
  /** GET, without Range, conditions and Accept-Encoding. */
  readonly whole: ProbeAnswer;
  readonly head?: Reply;
  /** `Range: bytes=0-0` and `bytes=-1`. */
  readonly firstByte?: Reply;
  readonly lastByte?: Reply;
  /** Conditional GET with the validators of `whole`. */
  readonly conditional?: Reply;
  /** A range with an If-Range that does not match: the origin must send the whole. */
  readonly otherVersion?: Reply;
  /** GET that accepts compressed content. */
  readonly encoded?: Reply;
  /** A range, accepting compressed content, where the whole was compressed. */
  readonly encodedPart?: Reply;
  /** GET over HTTP/2, where there is TLS. */
  readonly http2?: Reply;
}

/** The origin to ask, and the request to vary. */
export interface ProbeRequest {
  readonly origin: Origin;
  /** The same origin, over HTTP/2 where it supports that; undefined without TLS. */
  readonly http2Origin: Origin | undefined;
  /** Origin-form: path and query. */
  readonly target: string;
  /** The fields of every request, Host among them; names in lower case. */
  readonly fields: Fields;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Aborts all requests. */
  readonly signal: AbortSignal;
  /** Gets the method and the added fields of each request before it is sent. */
  readonly onAsk?: (method: string, added: Fields) => void;
}

const firstByteOnly: Fields = [['range', 'bytes=0-0']];

/** Validators that match no version of any origin. */
const NO_VERSION = '"rangeway-probe"';
const LONG_AGO = 'Thu, 01 Jan 1970 00:00:01 GMT';

/** The number of requests at most; one of them is for TLS only. */
export const mostQuestions = (isEncrypted: boolean): number => (isEncrypted ? 9 : 8);

/** Sends the requests one after the other. Resolves with the failure where the first one is not answered. Never rejects. */
export async function observeOrigin(inquiry: ProbeRequest): Promise<Observations | Failure> {
  const whole = await askOrigin(inquiry, 'GET', [], true);
  if (whole.kind === 'failure') return whole;
  const http2 = inquiry.http2Origin && (await askOrigin({ ...inquiry, origin: inquiry.http2Origin }, 'GET'));
  const h2 = http2 === undefined ? {} : { http2 };
  // An origin may give parts only. Further requests show nothing about any other error, or a redirect.
  if (refusesWhole(whole.status)) return { whole, ...h2, firstByte: await askOrigin(inquiry, 'GET', firstByteOnly) };
  if (whole.status !== 200) return { whole, ...h2 };
  const head = await askOrigin(inquiry, 'HEAD');
  const encoded = await askOrigin(inquiry, 'GET', [['accept-encoding', 'gzip, br']]);
  const conditional = await askConditional(inquiry, whole);
  const ranges = await askRanges(inquiry);
  return {
    whole,
    ...h2,
    head,
    encoded,
    ...conditional,
    ...ranges,
    ...(await askEncodedPart(inquiry, encoded, ranges)),
  };
}

async function askConditional(inquiry: ProbeRequest, whole: ProbeAnswer): Promise<Pick<Observations, 'conditional'>> {
  const conditions = conditionalFields(whole);
  return conditions.length === 0 ? {} : { conditional: await askOrigin(inquiry, 'GET', conditions) };
}

async function askRanges(
  inquiry: ProbeRequest,
): Promise<Pick<Observations, 'firstByte' | 'lastByte' | 'otherVersion'>> {
  const firstByte = await askOrigin(inquiry, 'GET', firstByteOnly);
  if (firstByte.kind === 'failure' || firstByte.status !== 206) return { firstByte };
  const lastByte = await askOrigin(inquiry, 'GET', [['range', 'bytes=-1']]);
  const otherVersion = await askOrigin(inquiry, 'GET', [
    ['range', 'bytes=0-0'],
    ['if-range', otherVersionOf(firstByte)],
  ]);
  return { firstByte, lastByte, otherVersion };
}

/** Servers that compress leave a few bytes as they are. */
const PART_OF_USE = 'bytes=0-4095';

async function askEncodedPart(
  inquiry: ProbeRequest,
  encoded: Reply,
  { firstByte }: Pick<Observations, 'firstByte'>,
): Promise<Pick<Observations, 'encodedPart'>> {
  const isCompressed = encoded.kind === 'answer' && hasField(encoded.fields, 'content-encoding');
  if (!isCompressed || firstByte?.kind !== 'answer' || firstByte.status !== 206) return {};
  return {
    encodedPart: await askOrigin(inquiry, 'GET', [
      ['range', PART_OF_USE],
      ['accept-encoding', 'gzip, br'],
    ]),
  };
}

/** Returns a validator of the kind that the origin sends: some origins compare dates only. */
function otherVersionOf({ fields }: ProbeAnswer): string {
  const isDated = !hasField(fields, 'etag') && hasField(fields, 'last-modified');
  return isDated ? LONG_AGO : NO_VERSION;
}

/**
 * Sends one request, with `added` fields besides those of the inquiry. With `isEndRead`, `brokenBy` is filled in. Never rejects; the
 * body of the response is closed.
 */
export async function askOrigin(
  inquiry: ProbeRequest,
  method: 'GET' | 'HEAD',
  added: Fields = [],
  isEndRead = false,
): Promise<Reply> {
  const { origin, target, fields, now, signal } = inquiry;
  const asked = [...fields, ...added];
  const requestAt = now();
  inquiry.onAsk?.(method, added);
  try {
    const response = await origin.fetch({ method, target, fields: asked, body: undefined, bodySizeBytes: 0, signal });
    const { status, version, framing, sizeBytes, body } = response;
    const responseAt = now();
    const brokenBy = isEndRead && framing === 'close' ? await findBreak(body) : undefined;
    body.close();
    return {
      kind: 'answer',
      asked,
      status,
      fields: response.fields,
      version,
      framing,
      sizeBytes,
      mended: response.mended,
      requestAt,
      responseAt,
      ...(brokenBy === undefined ? {} : { brokenBy }),
    };
  } catch (error) {
    if (error instanceof ProxyError)
      return { kind: 'failure', code: error.code, detail: error.detail ?? error.message };
    return { kind: 'failure', code: 'internal', detail: error instanceof Error ? error.message : String(error) };
  }
}

/** The most bytes of a body that are read to see how it ends. */
const MAX_READ_BYTES = 64 * 1024;

async function findBreak(body: BodyStream): Promise<string | undefined> {
  let readBytes = 0;
  try {
    for await (const chunk of body) {
      readBytes += chunk.length;
      if (readBytes > MAX_READ_BYTES) return undefined;
    }
    return undefined;
  } catch (error) {
    return error instanceof ProxyError ? error.code : 'internal';
  }
}
