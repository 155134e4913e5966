/**
 * Asks an origin what it can do, by as few requests as that takes. Of what it sends the heads are read, and of a body that ends
 * with its connection the beginning, for how that ends.
 */

import { type Fields, hasField } from '../../http/fields.ts';
import type { BodyStream } from '../../http/message.ts';
import { ProxyError } from '../../http/proxy-error.ts';
import type { Framing, Origin } from '../../origin/origin.ts';
import { conditionalFields } from '../../semantics/validator.ts';

/** The head of a response. */
export interface Answer {
  readonly kind: 'answer';
  /** The fields that were sent. */
  readonly asked: Fields;
  readonly status: number;
  readonly fields: Fields;
  /** The protocol version as Via writes it. */
  readonly version: string;
  readonly framing: Framing;
  /** Of the body, where its framing tells it. */
  readonly sizeBytes: number | undefined;
  /** The error code that a body broke off with which ends with its connection; undefined where it did not, as far as it was read. */
  readonly brokenBy?: string | undefined;
  /** Epoch milliseconds. */
  readonly requestAt: number;
  readonly responseAt: number;
}

/** Why there was no response. */
export interface Failure {
  readonly kind: 'failure';
  /** A code of the table in http/proxy-error, and for people what is behind it. */
  readonly code: string;
  readonly detail: string;
}

/** What came of one request. */
export type Reply = Answer | Failure;

/** What came of all; undefined is what there was no sense in asking. */
export interface Observations {
  /** GET, without anything that selects or converts. */
  readonly whole: Answer;
  readonly head?: Reply;
  /** `Range: bytes=0-0` and `bytes=-1`. */
  readonly firstByte?: Reply;
  readonly lastByte?: Reply;
  /** GET on condition that it has changed, by the validators that it sent. */
  readonly conditional?: Reply;
  /** A range of another version than it has (If-Range): what comes must be the whole. */
  readonly otherVersion?: Reply;
  /** GET that accepts compressed content. */
  readonly encoded?: Reply;
  /** GET over HTTP/2, where there is TLS. */
  readonly http2?: Reply;
}

/** Whom to ask, and for what. */
export interface Inquiry {
  readonly origin: Origin;
  /** The same origin, spoken to over HTTP/2 where it has it; undefined where there is no TLS. */
  readonly http2Origin: Origin | undefined;
  /** Origin-form: path and query. */
  readonly target: string;
  /** What every request has, in lower case, Host among it. */
  readonly fields: Fields;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Ends everything. */
  readonly signal: AbortSignal;
}

/** The validators of versions that no origin has. */
const NO_VERSION = '"rangeway-probe"';
const LONG_AGO = 'Thu, 01 Jan 1970 00:00:01 GMT';

/** Asks one after the other. Resolves with the failure where not even the first request is answered; never rejects. */
export async function observeOrigin(inquiry: Inquiry): Promise<Observations | Failure> {
  const whole = await ask(inquiry, 'GET', [], true);
  if (whole.kind === 'failure') return whole;
  const http2 = inquiry.http2Origin && (await ask({ ...inquiry, origin: inquiry.http2Origin }, 'GET'));
  const told = http2 === undefined ? {} : { http2 };
  // Of an error or a redirect there is nothing more to learn.
  if (whole.status !== 200) return { whole, ...told };
  const head = await ask(inquiry, 'HEAD');
  const encoded = await ask(inquiry, 'GET', [['accept-encoding', 'gzip, br']]);
  return { whole, ...told, head, encoded, ...(await askConditional(inquiry, whole)), ...(await askRanges(inquiry)) };
}

async function askConditional(inquiry: Inquiry, whole: Answer): Promise<Pick<Observations, 'conditional'>> {
  const conditions = conditionalFields(whole);
  return conditions.length === 0 ? {} : { conditional: await ask(inquiry, 'GET', conditions) };
}

async function askRanges(inquiry: Inquiry): Promise<Pick<Observations, 'firstByte' | 'lastByte' | 'otherVersion'>> {
  const firstByte = await ask(inquiry, 'GET', [['range', 'bytes=0-0']]);
  if (firstByte.kind === 'failure' || firstByte.status !== 206) return { firstByte };
  const lastByte = await ask(inquiry, 'GET', [['range', 'bytes=-1']]);
  const otherVersion = await ask(inquiry, 'GET', [
    ['range', 'bytes=0-0'],
    ['if-range', otherVersionOf(firstByte)],
  ]);
  return { firstByte, lastByte, otherVersion };
}

/** Of the kind that the origin sends itself: some know dates only. */
function otherVersionOf({ fields }: Answer): string {
  const isDated = !hasField(fields, 'etag') && hasField(fields, 'last-modified');
  return isDated ? LONG_AGO : NO_VERSION;
}

/** `isEndRead`: see `brokenBy`. */
async function ask(inquiry: Inquiry, method: 'GET' | 'HEAD', added: Fields = [], isEndRead = false): Promise<Reply> {
  const { origin, target, fields, now, signal } = inquiry;
  const asked = [...fields, ...added];
  const requestAt = now();
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

/** No more than this is read of a body for its end. */
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
