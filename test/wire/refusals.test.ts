/** All fields of a refusal. Which bytes are refused is tested in `test/hostile`. */

import { describe, expect, it } from 'vitest';
import type { Field } from '../../src/http/fields.ts';
import { type ErrorCode, errorKinds } from '../../src/http/proxy-error.ts';
import { openListener, testLimits, testNow, textResponse, usually } from '../support/proxies/open-listener.ts';

type Row = readonly [code: ErrorCode, bytes: string, fields: readonly Field[]];

const allow: Field = ['Allow', 'GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE'];
const { targetBytes, fieldsBytes, maxFieldCount } = testLimits;

const rows: readonly Row[] = [
  ['malformed_request', 'GET / HTTP/1.1\r\nHost: a b\r\n\r\n', []],
  ['malformed_request', 'GET / HTTP/1.1\r\nHost : a\r\n\r\n', []],
  ['malformed_request', '\x16\x03\x01\x02\0', []],
  ['method_refused', 'get / HTTP/1.1\r\nHost: a\r\n\r\n', []],
  ['method_not_allowed', 'TRACE / HTTP/1.1\r\nHost: a\r\n\r\n', [allow]],
  ['method_not_allowed', 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n', [allow]],
  ['expectation_failed', 'PUT / HTTP/1.1\r\nHost: a\r\nExpect: y\r\nContent-Length: 3\r\n\r\nabc', []],
  ['target_too_long', `GET /${'t'.repeat(targetBytes)} HTTP/1.1\r\nHost: a\r\n\r\n`, []],
  ['target_too_long', `GET /${'t'.repeat(targetBytes + fieldsBytes)} HTTP/1.1\r\nHost: a\r\n\r\n`, []],
  ['fields_too_large', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'v'.repeat(fieldsBytes)}\r\n\r\n`, []],
  ['fields_too_large', `GET / HTTP/1.1\r\nHost: a\r\n${'X: a\r\n'.repeat(maxFieldCount)}\r\n`, []],
  ['fields_too_large', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'v'.repeat(60_000)}\r\n\r\n`, []],
];

describe('a refusal', () => {
  it.each(rows)('%s: %j', async (code, bytes, fields) => {
    const { status, sentence, proxyStatus } = errorKinds[code];
    await using listener = await openListener(() => textResponse('handled'));
    await using client = await listener.connect();
    client.send(bytes);
    const response = await client.response();
    const { title, ...problem } = JSON.parse(response?.body.toString() ?? '');
    expect(problem).toEqual({ status, detail: sentence });
    expect(response?.status).toBe(status);
    expect(response?.lines).toEqual([
      ['Content-Type', 'application/problem+json'],
      ['Cache-Control', 'no-store'],
      ['Vary', 'Accept'],
      ['X-Content-Type-Options', 'nosniff'],
      ['Proxy-Status', `rangeway; error=${proxyStatus}`],
      ...fields,
      ['Date', new Date(testNow).toUTCString()],
      ['Content-Length', String(response?.body.length)],
      ['Connection', 'close'],
    ]);
    expect(await client.rest()).toBe('');
    expect(listener.requests).toEqual([]);
    expect(listener.events).toEqual([
      expect.objectContaining({ kind: 'refusal', peer: usually.address, status, error: code }),
    ]);
  });

  it('of a HEAD request has no body', async () => {
    await using listener = await openListener(() => textResponse('handled'));
    await using client = await listener.connect();
    client.send('HEAD / HTTP/1.1\r\nHost: a b\r\n\r\n');
    expect((await client.response('HEAD'))?.status).toBe(400);
    expect(await client.rest()).toBe('');
  });
});
