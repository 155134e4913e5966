/**
 * Makes error responses: problem details (RFC 9457), Proxy-Status (RFC 9209), and the form that the client prefers
 * (RFC 9110 §12.5.1): JSON, text, or an error page of the operator. Also the 412 and the 416 for a representation.
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
 * The fields of every error of our own: it is for this request only, its form may depend on Accept, and its media type must not
 * be guessed from its bytes.
 */
const ownFields: Fields = [
  ['cache-control', 'no-store'],
  ['vary', 'Accept'],
  ['x-content-type-options', 'nosniff'],
];

/**
 * Creates a response of our own with problem details in JSON, the form for clients whose preferences are unknown. `detail` is a
 * sentence for people and reveals nothing that only operators should know.
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
 * Creates the response for a failed request. Proxy-Status names the error type only: its parameters for the next hop, its
 * protocol and details (RFC 9209 §2.1) would reveal to strangers what is behind this proxy.
 */
export function errorResponse(error: ProxyError): ProxyResponse {
  const { proxyStatus, sentence, status } = errorKinds[error.code];
  const fields: Fields = [['proxy-status', `rangeway; error=${proxyStatus}`], ...error.fields];
  const response = problemResponse(status, sentence, fields);
  return error.code === 'http1_required' ? { ...response, requiresHttp1: true } : response;
}

/** The form of an error response; JSON is the form that it is created in. */
type ProblemForm = { readonly kind: 'page'; readonly page: ErrorPage } | { readonly kind: 'json' | 'text' };

const replacedFields: ReadonlySet<string> = new Set(['content-type']);

/**
 * Converts an error of our own to the form that its client prefers; its status and all other fields stay. Returns any other
 * response unchanged, above all an error from the origin.
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
 * Selects the form with the highest weight; of equal weights the page, then JSON. Plain text also serves clients that name
 * HTML: it reads the same in a browser, and has no markup to get wrong. A client that accepts none of the forms gets JSON,
 * which says more than a 406.
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

/** An error page, held in memory. */
export interface ErrorPage {
  /** In lower case, without parameters. */
  readonly mediaType: string;
  readonly contentType: string;
  readonly bytes: Uint8Array;
}

/** Returns the page for a status; undefined where there is none. */
export type ErrorPages = (status: number) => ErrorPage | undefined;

export const noErrorPages: ErrorPages = () => undefined;

/** Creates the pages of a route from pages by status (`502`) and by class (`5xx`); a status takes precedence over its class. */
export function createErrorPages(pages: ReadonlyMap<string, ErrorPage>): ErrorPages {
  return (status) => pages.get(String(status)) ?? pages.get(`${Math.floor(status / 100)}xx`);
}

/** Creates a 412 (RFC 9110 §15.5.13). */
export function preconditionFailed({ status }: Pick<AnswerFacts, 'status'>): ProxyResponse {
  return problemResponse(412, 'A condition of the request does not hold for the current representation.', [
    ['cache-status', formatCacheStatus(status)],
  ]);
}

/** Creates a 416 with the length of the whole, so that a client that resumes can see that it has all bytes (RFC 9110 §15.5.17). */
export function rangeNotSatisfiable(sizeBytes: number, { status }: Pick<AnswerFacts, 'status'>): ProxyResponse {
  return problemResponse(416, `No requested range lies within the ${sizeBytes} bytes of the representation.`, [
    ['content-range', formatUnsatisfiedRange(sizeBytes)],
    ['accept-ranges', 'bytes'],
    ['cache-status', formatCacheStatus(status)],
  ]);
}
