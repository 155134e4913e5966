/** Errors as responses: problem details (RFC 9457) and Proxy-Status (RFC 9209). */

import type { Fields } from '../http/fields.ts';
import type { ProxyResponse } from '../http/message.ts';
import { errorKinds, type ProxyError } from '../http/proxy-error.ts';

const titles: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  408: 'Request Timeout',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  414: 'URI Too Long',
  416: 'Range Not Satisfiable',
  417: 'Expectation Failed',
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

/** A response of our own. The detail is a sentence for people and says nothing that only operators should know. */
export function problemResponse(status: number, detail: string, fields: Fields = []): ProxyResponse {
  const problem = { title: titles[status] ?? 'Error', status, detail };
  const bytes = Buffer.from(`${JSON.stringify(problem)}\n`);
  return {
    status,
    fields: [['content-type', 'application/problem+json'], ['cache-control', 'no-store'], ...fields],
    body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] },
  };
}

/** A failed request's response. What the client did wrong is no matter of Proxy-Status' next hop, so it names us alone. */
export function errorResponse(error: ProxyError): ProxyResponse {
  const { proxyStatus, sentence, status } = errorKinds[error.code];
  return problemResponse(status, sentence, [['proxy-status', `rangeway; error=${proxyStatus}`], ...error.fields]);
}
