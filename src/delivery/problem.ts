/**
 * Errors as responses: problem details (RFC 9457), Proxy-Status (RFC 9209), and the form that the client prefers
 * (RFC 9110 §12.5.1): JSON, text, or a page of the operator's. Also the 412 and the 416 of a representation.
 */

import type { AnswerFacts } from '../cache/answer.ts';
import { type Fields, fieldValue, withoutFields } from '../http/fields.ts';
import type { ProblemDetails, ProxyRequest, ProxyResponse } from '../http/message.ts';
import { errorKinds, type ProxyError } from '../http/proxy-error.ts';
import { parseAccept, weightOf } from '../semantics/accept.ts';
import { formatCacheStatus } from '../semantics/cache-status.ts';
import { formatUnsatisfiedRange } from '../semantics/range.ts';

const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  408: 'Request Timeout',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  414: 'URI Too Long',
  415: 'Unsupported Media Type',
  416: 'Range Not Satisfiable',
  417: 'Expectation Failed',
  421: 'Misdirected Request',
  422: 'Unprocessable Content',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  499: 'Client Closed Request',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  508: 'Loop Detected',
};

/**
 * What every error of our own says besides: it holds for this request only, and its form, which Accept may have decided,
 * is not to be guessed from its bytes.
 */
const ownFields: Fields = [
  ['cache-control', 'no-store'],
  ['vary', 'Accept'],
  ['x-content-type-options', 'nosniff'],
];

/**
 * A response of our own, as problem details in JSON: the form for those of whom nothing else is known. The detail is a
 * sentence for people and says nothing that only operators should know.
 */
export function problemResponse(status: number, detail: string, fields: Fields = []): ProxyResponse {
  const problem = { title: titles[status] ?? 'Error', status, detail };
  const bytes = Buffer.from(`${JSON.stringify(problem)}\n`);
  return {
    status,
    fields: [['content-type', 'application/problem+json'], ...ownFields, ...fields],
    body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] },
    problem,
  };
}

/**
 * A failed request's response. Proxy-Status names the kind of error and nothing else: its parameters for the next hop, its
 * protocol and details (RFC 9209 §2.1) would tell strangers what stands behind us.
 */
export function errorResponse(error: ProxyError): ProxyResponse {
  const { proxyStatus, sentence, status } = errorKinds[error.code];
  return problemResponse(status, sentence, [['proxy-status', `rangeway; error=${proxyStatus}`], ...error.fields]);
}

/** What to send instead of the JSON that an error is made with. */
type ProblemForm = { readonly kind: 'page'; readonly page: ErrorPage } | { readonly kind: 'json' | 'text' };

const replacedFields: ReadonlySet<string> = new Set(['content-type']);

/**
 * An error of our own in the form that its client prefers; status and all other fields stay. Any other response, above all
 * an error that the origin has sent, stays what it is.
 */
export function presentProblem(
  request: Pick<ProxyRequest, 'fields'>,
  response: ProxyResponse,
  pages: ErrorPages = noErrorPages,
): ProxyResponse {
  const { problem, status } = response;
  if (problem === undefined) return response;
  const form = selectProblemForm(fieldValue(request.fields, 'accept'), pages(status));
  switch (form.kind) {
    case 'json':
      return response;
    case 'text':
      return withContent(response, 'text/plain; charset=utf-8', Buffer.from(formatProblemText(problem)));
    case 'page':
      return withContent(response, form.page.contentType, form.page.bytes);
  }
}

/**
 * The form with the highest weight, and of forms with equal weights the page, then JSON. Plain text stands in for HTML too,
 * where a client names that: it reads the same in a browser, and has no markup to get wrong. A client that accepts none of
 * the forms gets JSON, which tells more than a 406 would.
 */
export function selectProblemForm(accept: string | undefined, page: ErrorPage | undefined): ProblemForm {
  const accepted = parseAccept(accept);
  const pageWeight = page === undefined ? 0 : weightOf(page.mediaType, accepted);
  const jsonWeight = Math.max(weightOf('application/problem+json', accepted), weightOf('application/json', accepted));
  const textWeight = Math.max(weightOf('text/plain', accepted), accepted.get('text/html') ?? 0);
  if (page !== undefined && pageWeight > 0 && pageWeight >= Math.max(jsonWeight, textWeight)) {
    return { kind: 'page', page };
  }
  return { kind: textWeight > jsonWeight ? 'text' : 'json' };
}

function formatProblemText({ status, title, detail }: ProblemDetails): string {
  return `${status} ${title}\n${detail}\n`;
}

function withContent(response: ProxyResponse, contentType: string, bytes: Uint8Array): ProxyResponse {
  return {
    ...response,
    fields: [['content-type', contentType], ...withoutFields(response.fields, replacedFields)],
    body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] },
  };
}

/** One page, whole in memory. */
export interface ErrorPage {
  /** In lower case, without parameters. */
  readonly mediaType: string;
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

/** The page for a status, if there is one. */
export type ErrorPages = (status: number) => ErrorPage | undefined;

/** No pages. */
export const noErrorPages: ErrorPages = () => undefined;

/** Creates the pages of a route from those by status (`502`) and by class (`5xx`); the status itself comes first. */
export function createErrorPages(pages: ReadonlyMap<string, ErrorPage>): ErrorPages {
  return (status) => pages.get(String(status)) ?? pages.get(`${Math.floor(status / 100)}xx`);
}

/** 412 (RFC 9110 §15.5.13). */
export function preconditionFailed({ status }: Pick<AnswerFacts, 'status'>): ProxyResponse {
  return problemResponse(412, 'A condition of the request does not hold for the current representation.', [
    ['cache-status', formatCacheStatus(status)],
  ]);
}

/** 416 with the length of the whole, so that a client that resumes can tell that it has all (RFC 9110 §15.5.17). */
export function rangeNotSatisfiable(sizeBytes: number, { status }: Pick<AnswerFacts, 'status'>): ProxyResponse {
  return problemResponse(416, `No requested range lies within the ${sizeBytes} bytes of the representation.`, [
    ['content-range', formatUnsatisfiedRange(sizeBytes)],
    ['accept-ranges', 'bytes'],
    ['cache-status', formatCacheStatus(status)],
  ]);
}
