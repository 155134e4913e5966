/** What is refused before it becomes a request: one row per form of malformed, ambiguous or excessive bytes. */

import { describe, expect, it } from 'vitest';
import { type ErrorCode, errorKinds } from '../../src/http/proxy-error.ts';
import { expectRefusal } from '../support/expect-refusal.ts';
import { openListener, testLimits, textResponse } from '../support/open-listener.ts';

type Row = readonly [name: string, bytes: string, code: ErrorCode];

const chunkedPost = 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n';

const requestLines: readonly Row[] = [
  ['HTTP/0.9', 'GET /\r\n\r\n', 'malformed_request'],
  ['HTTP/0.9 by name', 'GET / HTTP/0.9\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['HTTP/1.2', 'GET / HTTP/1.2\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['HTTP/2.0 as text', 'GET / HTTP/2.0\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'malformed_request'],
  ['a protocol in lower case', 'GET / http/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['a space after the version', 'GET / HTTP/1.1 \r\nHost: a\r\n\r\n', 'malformed_request'],
  ['bare LF after the request line', 'GET / HTTP/1.1\nHost: a\n\n', 'malformed_request'],
  ['a space before the method', ' GET / HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['garbage', 'garbage\r\n\r\n', 'malformed_request'],
  ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 'malformed_request'],
  ['a method in lower case', 'get / HTTP/1.1\r\nHost: a\r\n\r\n', 'method_refused'],
  ['a method of no registry', 'FETCH / HTTP/1.1\r\nHost: a\r\n\r\n', 'method_refused'],
  ['a method of RTSP', 'DESCRIBE / RTSP/1.0\r\nHost: a\r\n\r\n', 'method_refused'],
  ['TRACE', 'TRACE / HTTP/1.1\r\nHost: a\r\n\r\n', 'method_refused'],
  ['CONNECT', 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n', 'method_refused'],
  ['CONNECT with a body', 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc', 'method_refused'],
];

const targets: readonly Row[] = [
  ['a raw space', 'GET /a b HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['a tab', 'GET /a\tb HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['a byte over 0x7f', 'GET /\xe4 HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['DEL', 'GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['NUL', 'GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['a fragment', 'GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['a relative path', 'GET a/b HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['asterisk without OPTIONS', 'GET * HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['authority-form without CONNECT', 'GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['absolute-form of another scheme', 'GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['absolute-form of https on a plain connection', 'GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['absolute-form without a host', 'GET http:///a HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['absolute-form with a port only', 'GET http://:80/a HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['absolute-form with user information', 'GET http://u:p@a/ HTTP/1.1\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['a byte too much', `GET /${'t'.repeat(testLimits.targetBytes)} HTTP/1.1\r\nHost: a\r\n\r\n`, 'target_too_long'],
  ['over the limit of the parser', `GET /${'t'.repeat(9_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, 'target_too_long'],
];

const hosts: readonly Row[] = [
  ['no Host in HTTP/1.1', 'GET / HTTP/1.1\r\n\r\n', 'malformed_request'],
  ['no Host beside absolute-form', 'GET http://a/ HTTP/1.1\r\n\r\n', 'malformed_request'],
  ['Host twice', 'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n', 'malformed_request'],
  ['the same Host twice', 'GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['Host twice in HTTP/1.0', 'GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n', 'malformed_request'],
  ['an empty Host', 'GET / HTTP/1.1\r\nHost:\r\n\r\n', 'malformed_request'],
  ['a space in Host', 'GET / HTTP/1.1\r\nHost: a b\r\n\r\n', 'malformed_request'],
  ['a path in Host', 'GET / HTTP/1.1\r\nHost: a/b\r\n\r\n', 'malformed_request'],
  ['user information in Host', 'GET / HTTP/1.1\r\nHost: u@a\r\n\r\n', 'malformed_request'],
  ['a port that is no number', 'GET / HTTP/1.1\r\nHost: a:b\r\n\r\n', 'malformed_request'],
  ['a port over 65535', 'GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n', 'malformed_request'],
  ['an address that is none', 'GET / HTTP/1.1\r\nHost: [::1::]\r\n\r\n', 'malformed_request'],
  ['obs-text in Host', 'GET / HTTP/1.1\r\nHost: a\xe4\r\n\r\n', 'malformed_request'],
];

const fieldSections: readonly Row[] = [
  ['obs-fold', 'GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n', 'malformed_request'],
  ['a line that starts with white space', 'GET / HTTP/1.1\r\n X: a\r\nHost: a\r\n\r\n', 'malformed_request'],
  ['a space before the colon', 'GET / HTTP/1.1\r\nHost: a\r\nX : a\r\n\r\n', 'malformed_request'],
  ['a tab before the colon', 'GET / HTTP/1.1\r\nHost: a\r\nX\t: a\r\n\r\n', 'malformed_request'],
  ['no colon', 'GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n', 'malformed_request'],
  ['no name', 'GET / HTTP/1.1\r\nHost: a\r\n: a\r\n\r\n', 'malformed_request'],
  ['a name that is no token', 'GET / HTTP/1.1\r\nHost: a\r\nX@Y: a\r\n\r\n', 'malformed_request'],
  ['bare CR in a value', 'GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n', 'malformed_request'],
  ['bare LF after a value', 'GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n', 'malformed_request'],
  ['NUL in a value', 'GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n', 'malformed_request'],
  ['a control character in a value', 'GET / HTTP/1.1\r\nHost: a\r\nX: a\x01b\r\n\r\n', 'malformed_request'],
  ['one line too large', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'v'.repeat(4_200)}\r\n\r\n`, 'fields_too_large'],
  ['lines too large together', `GET / HTTP/1.1\r\nHost: a\r\n${'X: 12345678\r\n'.repeat(350)}\r\n`, 'fields_too_large'],
  ['many lines within the size', `GET / HTTP/1.1\r\nHost: a\r\n${'X: a\r\n'.repeat(50)}\r\n`, 'fields_too_large'],
  ['over the limit of the parser', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'v'.repeat(60_000)}\r\n\r\n`, 'fields_too_large'],
];

const framings: readonly Row[] = [
  [
    'CL.TE',
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG`,
    'malformed_request',
  ],
  ['TE.CL', `${chunkedPost}Content-Length: 4\r\n\r\n5c\r\nGPOST / HTTP/1.1\r\n`, 'malformed_request'],
  ['TE.TE with a coding that is none', `${chunkedPost}Transfer-Encoding: x\r\n\r\n0\r\n\r\n`, 'malformed_request'],
  ['chunked twice', `${chunkedPost}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`, 'malformed_request'],
  [
    'chunked, chunked',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n',
    'malformed_request',
  ],
  [
    'gzip, chunked',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'malformed_request',
  ],
  [
    'chunked, gzip',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n',
    'malformed_request',
  ],
  ['gzip', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n', 'malformed_request'],
  ['identity', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n', 'malformed_request'],
  ['xchunked', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n', 'malformed_request'],
  ['"chunked"', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n', 'malformed_request'],
  ['chunked;a=b', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n', 'malformed_request'],
  [
    'vertical tab before chunked',
    'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n',
    'malformed_request',
  ],
  ['an empty Transfer-Encoding', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n', 'malformed_request'],
  [
    'Transfer-Encoding in HTTP/1.0',
    'POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'malformed_request',
  ],
  [
    'a coding on a GET',
    'GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'malformed_request',
  ],
  [
    'Content-Length twice',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc',
    'malformed_request',
  ],
  [
    'the same Content-Length twice',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc',
    'malformed_request',
  ],
  ['a list in Content-Length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc', 'malformed_request'],
  ['+3', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc', 'malformed_request'],
  ['-3', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -3\r\n\r\nabc', 'malformed_request'],
  ['0x3', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n\r\nabc', 'malformed_request'],
  ['3.0', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3.0\r\n\r\nabc', 'malformed_request'],
  ['3 3', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3 3\r\n\r\nabc', 'malformed_request'],
  ['an empty Content-Length', 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n', 'malformed_request'],
  [
    'more bytes than can be counted',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9007199254740993\r\n\r\n',
    'malformed_request',
  ],
  [
    'more than 64 bits',
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551619\r\n\r\nabc',
    'malformed_request',
  ],
];

const groups: readonly (readonly [string, readonly Row[]])[] = [
  ['request lines', requestLines],
  ['targets', targets],
  ['hosts', hosts],
  ['field sections', fieldSections],
  ['framing', framings],
];

describe.each(groups)('refused %s', (_group, rows) => {
  it.each(rows)('%s', async (_name, bytes, code) => {
    await using listener = await openListener(() => textResponse('handled'));
    await using client = await listener.connect();
    client.send(bytes);
    const response = await client.response();
    expect(await client.rest()).toBe('');
    expectRefusal(response, code);
    expect(listener.requests).toEqual([]);
    expect(listener.events).toEqual([
      expect.objectContaining({ kind: 'refusal', peer: '127.0.0.1', status: errorKinds[code].status, error: code }),
    ]);
  });
});
