/** Errors as responses: problem details (RFC 9457) and Proxy-Status (RFC 9209). */

import type { Fields } from '../http/fields.ts';
import type { ProxyResponse } from '../http/message.ts';
import { errorKinds, type ProxyError } from '../http/proxy-error.ts';

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
