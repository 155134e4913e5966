/** Which form of an error a client gets. */

import { describe, expect, it } from 'vitest';
import {
  createErrorPages,
  type ErrorPage,
  errorResponse,
  presentProblem,
  selectProblemForm,
} from '../../src/delivery/problem.ts';
import type { ProxyResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';

const page = (mediaType: string): ErrorPage => ({ mediaType, contentType: mediaType, bytes: Buffer.from(mediaType) });
const html = page('text/html');
const json = page('application/json');

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';
const image = 'image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8';

type Row = readonly [accept: string | undefined, page: ErrorPage | undefined, form: 'json' | 'text' | 'page'];

const rows: readonly Row[] = [
  [undefined, undefined, 'json'],
  ['', undefined, 'json'],
  ['*/*', undefined, 'json'],
  ['application/*', undefined, 'json'],
  ['application/json', undefined, 'json'],
  ['application/problem+json', undefined, 'json'],
  ['application/problem+json, text/plain', undefined, 'json'],
  ['application/json, text/plain, */*', undefined, 'json'],
  [image, undefined, 'json'],
  ['image/png', undefined, 'json'],
  ['text/plain;q=0', undefined, 'json'],
  ['*/*;q=0', undefined, 'json'],
  ['text/html;q=0.5, application/json', undefined, 'json'],
  ['text/plain', undefined, 'text'],
  ['text/*', undefined, 'text'],
  ['text/plain, */*;q=0.1', undefined, 'text'],
  ['text/plain, application/json;q=0.9', undefined, 'text'],
  ['text/plain;q=0.1', undefined, 'text'],
  ['text/html', undefined, 'text'],
  [browser, undefined, 'text'],
  [undefined, html, 'page'],
  ['*/*', html, 'page'],
  [browser, html, 'page'],
  ['text/*', html, 'page'],
  ['text/html;q=0.5, application/json;q=0.4', html, 'page'],
  ['text/html;q=0.4, application/json;q=0.5', html, 'json'],
  ['application/json', html, 'json'],
  ['application/json, */*;q=0.5', html, 'json'],
  ['text/plain', html, 'text'],
  ['text/plain, */*;q=0.5', html, 'text'],
  ['text/html;q=0, */*', html, 'json'],
  ['image/png', html, 'json'],
  ['application/json', json, 'page'],
  ['application/problem+json', json, 'json'],
  [browser, json, 'text'],
];

describe('the form of an error', () => {
  it.each(rows)('Accept: %s, page: %o → %s', (accept, errorPage, form) => {
    expect(selectProblemForm(accept, errorPage).kind).toBe(form);
  });
});

describe('an error in its form', () => {
  const error = errorResponse(new ProxyError('rate_limited', { fields: [['retry-after', '7']] }));
  const pages = createErrorPages(
    new Map([
      ['429', html],
      ['4xx', page('text/plain')],
    ]),
  );

  function sent(accept: string, response: ProxyResponse, errorPages = pages) {
    const { status, fields, body } = presentProblem({ fields: [['accept', accept]] }, response, errorPages);
    const text = body.kind === 'bytes' ? Buffer.concat(body.chunks).toString() : '';
    expect(body).toMatchObject({ sizeBytes: Buffer.byteLength(text) });
    return { status, fields: new Map(fields), text };
  }

  it.each([
    ['application/json', 'application/problem+json', /^\{"title":"Too Many Requests","status":429,"detail":".+"\}\n$/],
    ['text/plain', 'text/plain; charset=utf-8', /^429 Too Many Requests\nToo many requests in a short time\.\n$/],
    ['text/html', 'text/html', /^text\/html$/],
  ])('%s is %s, with all other fields of the error', (accept, type, text) => {
    const { status, fields, text: got } = sent(accept, error);
    expect(status).toBe(429);
    expect(got).toMatch(text);
    expect(Object.fromEntries(fields)).toEqual({ ...Object.fromEntries(error.fields), 'content-type': type });
  });

  it('is the page of its own status, else that of its class', () => {
    expect(sent('*/*', error).text).toBe('text/html');
    expect(sent('*/*', errorResponse(new ProxyError('no_route'))).text).toBe('text/plain');
    expect(sent('*/*', errorResponse(new ProxyError('origin_reset'))).text).toMatch(/^\{/);
  });

  it('is never a response of the origin, which stays unchanged', () => {
    const body = { kind: 'bytes', sizeBytes: 4, chunks: [Buffer.from('sent')] } as const;
    const response = { status: 429, fields: [['content-type', 'x/y']], body } as const;
    expect(presentProblem({ fields: [['accept', 'text/plain']] }, response, pages)).toBe(response);
  });
});
