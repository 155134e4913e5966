/** What is refused before it becomes a request: one row per form of malformed, ambiguous or excessive bytes. */

import { describe, expect, it } from 'vitest';
import { errorKinds } from '../../src/http/proxy-error.ts';
import { openListener, testLimits, textResponse } from '../support/open-listener.ts';
import { type RawResponse, rawValues } from '../support/raw-client.ts';

type Code = keyof typeof errorKinds;
type Row = readonly [name: string, bytes: string, code: Code];

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

function expectRefusal(response: RawResponse | undefined, code: Code): void {
  const { status, sentence } = errorKinds[code];
  expect(response?.status).toBe(status);
  if (response === undefined) return;
  expect(JSON.parse(response.body.toString())).toMatchObject({ status, detail: sentence });
  expect(rawValues(response, 'content-type')).toEqual(['application/problem+json']);
  expect(rawValues(response, 'connection')).toEqual(['close']);
  expect(rawValues(response, 'date')).toHaveLength(1);
}

type BrokenBody = readonly [name: string, body: string];
const brokenBodies: readonly BrokenBody[] = [
  ['a chunk size that is no number', 'xyz\r\n\r\n'],
  ['a chunk size with a sign', '-1\r\n\r\n'],
  ['a chunk size with a prefix', '0x3\r\nabc\r\n0\r\n\r\n'],
  ['a chunk size with white space', '3 \r\nabc\r\n0\r\n\r\n'],
  ['a chunk size of 17 digits', 'fffffffffffffffff\r\nabc\r\n0\r\n\r\n'],
  ['an empty chunk size', '\r\nabc\r\n0\r\n\r\n'],
  ['bare LF after a chunk size', '3\nabc\r\n0\r\n\r\n'],
  ['bare LF after a chunk', '3\r\nabc\n0\r\n\r\n'],
  ['a chunk longer than its size', '3\r\nabcd\r\n0\r\n\r\n'],
  ['bare LF in a chunk extension', '3;a\nb\r\nabc\r\n0\r\n\r\n'],
  ['chunk extensions without end', `3;${'x'.repeat(20_000)}\r\nabc\r\n0\r\n\r\n`],
  ['a space before the colon of a trailer', '3\r\nabc\r\n0\r\nX : y\r\n\r\n'],
];

describe('a chunked body that goes wrong', () => {
  it.each(brokenBodies)('%s: breaks off, and the connection ends', async (_name, body) => {
    const thrown: unknown[] = [];
    await using listener = await openListener(async (request) => {
      try {
        for await (const _chunk of request.body ?? []);
      } catch (error) {
        thrown.push(error);
      }
      return textResponse('', { status: 400 });
    });
    await using client = await listener.connect();
    client.send(`${chunkedPost}\r\n${body}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n`);
    const response = await client.response();
    expect(await client.rest()).toBe('');
    expect(response?.status).toBe(400);
    expect(thrown).toEqual([expect.objectContaining({ code: 'malformed_request' })]);
    expect(listener.requests.map(({ target }) => target)).toEqual(['/']);
  });
});

describe('a refusal among pipelined requests', () => {
  it('comes after the responses before it, and nothing after it is read', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async ({ target }) => {
      await release.promise;
      return textResponse(target);
    });
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n');
    await expect.poll(() => listener.events.length).toBe(1);
    release.resolve();
    expect((await client.response())?.body.toString()).toBe('/1');
    expectRefusal(await client.response(), 'malformed_request');
    expect(await client.rest()).toBe('');
    expect(listener.requests.map(({ target }) => target)).toEqual(['/1']);
  });

  it('comes after them where the parser refuses', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async ({ target }) => {
      await release.promise;
      return textResponse(target);
    });
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nX : y\r\n\r\n');
    await expect.poll(() => listener.events.length).toBe(1);
    release.resolve();
    expect((await client.response())?.body.toString()).toBe('/1');
    expectRefusal(await client.response(), 'malformed_request');
    expect(await client.rest()).toBe('');
  });

  it('leaves a response alone that is on its way', async () => {
    const release = Promise.withResolvers<void>();
    async function* halves(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('first ');
      await release.promise;
      yield Buffer.from('second');
    }
    await using listener = await openListener(() => ({
      ...textResponse(''),
      body: { kind: 'stream', sizeBytes: 12, stream: Object.assign(halves(), { close: () => {} }) },
    }));
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.head())?.status).toBe(200);
    expect((await client.take(6)).toString()).toBe('first ');
    client.send('garbage\r\n\r\n');
    await expect.poll(() => listener.events.length).toBe(1);
    release.resolve();
    expect((await client.take(6)).toString()).toBe('second');
    expectRefusal(await client.response(), 'malformed_request');
  });

  it('what follows a request that was the last gets no answer', async () => {
    await using listener = await openListener(({ target }) => textResponse(target));
    await using client = await listener.connect();
    client.send('GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.response())?.body.toString()).toBe('/1');
    expect(await client.rest()).toBe('');
    expect(listener.events).toEqual([]);
    expect(listener.requests).toHaveLength(1);
  });
});

describe('a client that goes on sending after its refusal', () => {
  it('still gets to read it', async () => {
    await using listener = await openListener(() => textResponse('handled'));
    await using client = await listener.connect();
    client.send(`GET / HTTP/1.1\r\nHost: a\r\nX: ${'v'.repeat(60_000)}`);
    await expect.poll(() => listener.events.length).toBe(1);
    for (let count = 0; count < 64; count += 1) client.send('v'.repeat(16_384));
    expectRefusal(await client.response(), 'fields_too_large');
  });
});
