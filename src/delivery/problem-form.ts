/** In which form a client gets an error of our own (RFC 9110 §12.5.1). */

import { fieldValue, withoutFields } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';
import type { Problem } from '../http/problem.ts';
import { parseAccept, weightOf } from '../semantics/accept.ts';
import { type ErrorPage, type ErrorPages, noErrorPages } from './error-page.ts';

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

function formatProblemText({ status, title, detail }: Problem): string {
  return `${status} ${title}\n${detail}\n`;
}

function withContent(response: ProxyResponse, contentType: string, bytes: Uint8Array): ProxyResponse {
  return {
    ...response,
    fields: [['content-type', contentType], ...withoutFields(response.fields, replacedFields)],
    body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] },
  };
}
