/** Framing faults of origins, and what is read of their responses: one row per fault, over real sockets. */

import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { OriginResponse } from '../../src/origin/origin.ts';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import { asUndiciWaits } from '../support/clocks/undici-time.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { type Exchange, openScriptedOrigin, type Play } from '../support/origins/scripted-origin.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { testAuthority, testCertificate } from '../support/values/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

/** The outcome of a fetch: `head` is its status and framing or the code it throws, `body` the bytes and the code that ends them. */
interface Outcome {
  readonly head: string;
  readonly body?: string;
  /** Whether the next request uses the same connection. */
  readonly isReused: boolean;
}

type Row = [name: string, play: Play, outcome: Outcome, method?: string];

const trusting = { ca: testAuthority, rejectUnauthorized: true };
const good = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext';
const failed = (head: string): Outcome => ({ head, isReused: false });
const ill = failed('origin_ill_framed');
const tooLarge = failed('origin_head_too_large');
const kept = (head: string, body = ''): Outcome => ({ head, body, isReused: true });
const dropped = (head: string, body = ''): Outcome => ({ head, body, isReused: false });

/** Sends bytes, then FIN, RST or nothing. */
const after =
  (end: (exchange: Exchange) => unknown) =>
  (bytes: string): Play =>
  async (exchange) => {
    await exchange.send(bytes);
    await end(exchange);
  };
const thenEnd = after(({ end }) => end());
const thenEndBare = after(({ endBare }) => endBare());
const thenCut = after(({ cut }) => cut());
const thenSilence = after(({ closed }) => closed);

const head = 'HTTP/1.1 200 OK\r\n';
/** Heads that promise four or nine bytes, or chunks. */
const four = `${head}Content-Length: 4\r\n\r\n`;
const nine = `${head}Content-Length: 9\r\n\r\n`;
const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n`;
const rows: readonly Row[] = [
  ['Content-Length, whole', `${four}good`, kept('200 length 4', 'good')],
  ['Content-Length: 0', `${head}Content-Length: 0\r\n\r\n`, kept('200 length 0')],
  ['chunked, whole', `${chunked}4\r\ngood\r\n0\r\n\r\n`, kept('200 chunked', 'good')],
  ['chunked, sizes padded with spaces', `${chunked}4   \r\ngood\r\n0 \r\n\r\n`, kept('200 chunked', 'good')],
  [
    'chunked, with trailers',
    `${head}Transfer-Encoding: Chunked\r\n\r\n4\r\ngood\r\n0\r\nX: y\r\n\r\n`,
    kept('200 chunked', 'good'),
  ],
  ['close-delimited', thenEnd(`${head}\r\ngood`), dropped('200 close', 'good')],
  ['close-delimited, HTTP/1.0', thenEnd('HTTP/1.0 200 OK\r\n\r\ngood'), dropped('200 close', 'good')],
  ['close-delimited, reset', thenCut(`${head}\r\ngood`), dropped('200 close', 'good origin_reset')],
  [
    'close-delimited, reset, HTTP/1.0',
    thenCut('HTTP/1.0 200 OK\r\n\r\ngood'),
    dropped('200 close', 'good origin_reset'),
  ],
  ['close-delimited, silent', thenSilence(`${head}\r\ngood`), dropped('200 close', 'good origin_timeout')],
  ['close-delimited, close announced', thenEnd(`${head}Connection: close\r\n\r\ngood`), dropped('200 close', 'good')],
  ['close-delimited, empty', thenEnd('HTTP/1.0 200 OK\r\n\r\n'), dropped('200 close')],
  [
    'HTTP/1.0 with chunks',
    thenEnd('HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n'),
    dropped('200 chunked', 'good'),
  ],
  ['HTTP/1.0 with a length', 'HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\ngood', dropped('200 length 4', 'good')],
  ['HEAD', nine, kept('200 none'), 'HEAD'],
  ['HEAD without any length', `${head}\r\n`, dropped('200 none'), 'HEAD'],
  ['HEAD, with content', `${four}good`, dropped('200 none'), 'HEAD'],
  ['204', 'HTTP/1.1 204 No Content\r\n\r\n', kept('204 none')],
  ['204 that promises a body', 'HTTP/1.1 204 No Content\r\nContent-Length: 4\r\n\r\ngood', dropped('204 none')],
  ['304', 'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n', kept('304 none')],
  ['304 with the length of a 200', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n', dropped('304 none')],

  ['more than Content-Length', `${four}good, and more`, dropped('200 length 4', 'good')],
  ['a second response', `${four}good${good}`, dropped('200 length 4', 'good')],
  ['less than Content-Length', thenEnd(`${nine}good`), dropped('200 length 9', 'good origin_body_short')],
  [
    'less than Content-Length, close announced',
    thenEnd(`${head}Connection: close\r\nContent-Length: 9\r\n\r\ngood`),
    dropped('200 length 9', 'good origin_body_short'),
  ],
  [
    'less than Content-Length, HTTP/1.0',
    thenEnd('HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\ngood'),
    dropped('200 length 9', 'good origin_body_short'),
  ],
  ['reset in the body', thenCut(`${nine}good`), dropped('200 length 9', 'good origin_reset')],
  ['no last chunk', thenEnd(`${chunked}4\r\ngood\r\n`), dropped('200 chunked', 'good origin_body_short')],
  [
    'no last chunk, close announced',
    thenEnd(`${head}Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n`),
    dropped('200 chunked', 'good origin_body_short'),
  ],
  ['no end of the trailers', thenEnd(`${chunked}4\r\ngood\r\n0\r\n`), dropped('200 chunked', 'good origin_body_short')],
  ['chunked, reset', thenCut(`${chunked}4\r\ngood\r\n`), dropped('200 chunked', 'good origin_reset')],
  ['an invalid chunk size', `${chunked}4\r\ngood\r\nz\r\n`, dropped('200 chunked', 'good origin_ill_framed')],
  [
    'a chunk longer than its size',
    `${chunked}4\r\ngood, and more\r\n0\r\n\r\n`,
    dropped('200 chunked', 'good origin_ill_framed'),
  ],
  ['a negative chunk size', `${chunked}-4\r\ngood\r\n`, dropped('200 chunked', ' origin_ill_framed')],

  ['two lengths that differ', `${head}Content-Length: 4\r\nContent-Length: 9\r\n\r\ngood`, ill],
  ['two lengths that agree', `${head}Content-Length: 4\r\nContent-Length: 4\r\n\r\ngood`, kept('200 length 4', 'good')],
  ['white space behind a length', `${head}Content-Length: 4 \t\r\n\r\ngood`, kept('200 length 4', 'good')],
  ['a list of lengths that agree', `${head}Content-Length: 4, 4\r\n\r\ngood`, kept('200 length 4', 'good')],
  [
    'a list of lengths, and another line',
    `${head}Content-Length: 4,4\r\nX: y\r\ncontent-length:4\r\n\r\ngood`,
    kept('200 length 4', 'good'),
  ],
  ['a list of lengths that differ', `${head}Content-Length: 4, 9\r\n\r\ngood`, ill],
  ['a list of lengths, and a line that differs', `${head}Content-Length: 4, 4\r\nContent-Length: 9\r\n\r\ngood`, ill],
  ['a list of lengths with an empty member', `${head}Content-Length: 4,\r\n\r\ngood`, ill],
  ['two lengths that agree, one spelled otherwise', `${head}Content-Length: 4\r\nContent-Length: 04\r\n\r\ngood`, ill],
  [
    'identity, and a length',
    `${head}Transfer-Encoding: identity\r\nContent-Length: 4\r\n\r\ngood`,
    kept('200 length 4', 'good'),
  ],
  ['identity alone', thenEnd(`${head}Transfer-Encoding: Identity\r\n\r\ngood`), dropped('200 close', 'good')],
  [
    'identity before chunked',
    `${head}Transfer-Encoding: identity, chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n`,
    kept('200 chunked', 'good'),
  ],
  ['identity after chunked', `${head}Transfer-Encoding: chunked, identity\r\n\r\n4\r\ngood\r\n0\r\n\r\n`, ill],
  ['ICY as the protocol', thenEnd('ICY 200 OK\r\nicy-name: radio\r\n\r\ngood'), dropped('200 close', 'good')],
  ['a negative length', `${head}Content-Length: -4\r\n\r\ngood`, ill],
  ['a hexadecimal length', `${head}Content-Length: 0x4\r\n\r\ngood`, ill],
  ['an empty length', `${head}Content-Length: \r\n\r\ngood`, ill],
  ['a length past 2^53', `${head}Content-Length: 9007199254740993\r\n\r\ngood`, ill],
  ['a length past 2^64', `${head}Content-Length: 99999999999999999999\r\n\r\ngood`, ill],
  [
    'Content-Length and Transfer-Encoding',
    `${head}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n`,
    ill,
  ],
  [
    'Transfer-Encoding and Content-Length',
    `${head}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n4\r\ngood\r\n0\r\n\r\n`,
    ill,
  ],
  [
    'a transfer coding that was not requested',
    `${head}Transfer-Encoding: gzip, chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n`,
    ill,
  ],
  ['chunked twice', `${head}Transfer-Encoding: chunked, chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n`, ill],
  ['chunked not last', `${head}Transfer-Encoding: chunked, gzip\r\n\r\n4\r\ngood\r\n0\r\n\r\n`, ill],
  ['xchunked', `${head}Transfer-Encoding: xchunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n`, ill],
  ['garbage', 'SSH-2.0-OpenSSH_9.6\r\n', ill],
  ['HTTP/0.9', '<html>good</html>', ill],
  ['a status line without a status', 'HTTP/1.1 OK\r\n\r\n', ill],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\n\r\n', ill],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n', ill],
  ['status 099', 'HTTP/1.1 099 Odd\r\nContent-Length: 4\r\n\r\ngood', ill],
  ['status 600', 'HTTP/1.1 600 Odd\r\nContent-Length: 4\r\n\r\ngood', ill],
  ['HTTP/3.0', 'HTTP/3.0 200 OK\r\nContent-Length: 4\r\n\r\ngood', ill],
  ['space before the colon', `${head}Content-Length \t: 4\r\nX : y\r\n\r\ngood`, kept('200 length 4', 'good')],
  ['space in a name', `${head}Content Length: 4\r\n\r\ngood`, ill],
  ['space in place of a name', `${head}X: y\r\nContent-Length: 4\r\n : z\r\n\r\ngood`, ill],
  ['a folded line', `${head}X-Folded: a\r\n b\r\nContent-Length: 4\r\n\r\ngood`, kept('200 length 4', 'good')],
  [
    'a line folded by a tab',
    `${head}X-Folded: a\r\n\tb\r\n \r\nContent-Length: 4\r\n\r\ngood`,
    kept('200 length 4', 'good'),
  ],
  ['a folded length', `${head}Content-Length:\r\n 4\r\n\r\ngood`, kept('200 length 4', 'good')],
  ['a length folded in the middle', `${head}Content-Length: 4\r\n 4\r\n\r\ngood`, ill],
  [
    'a folded coding',
    `${head}Transfer-Encoding:\r\n\tchunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n`,
    kept('200 chunked', 'good'),
  ],
  ['a folded first line', `${head} Content-Length: 4\r\n\r\ngood`, ill],
  ['a field without a colon', `${head}Content-Length\r\n\r\ngood`, ill],
  ['an empty field name', `${head}: x\r\n\r\ngood`, ill],
  ['NUL in a value', `${head}X: a\0b\r\nContent-Length: 4\r\n\r\ngood`, ill],
  ['CR in a value', `${head}X: a\rb\r\nContent-Length: 4\r\n\r\ngood`, ill],
  ['a field that ends in LF', `${head}X: a\nContent-Length: 4\r\n\r\ngood`, failed('origin_bare_lf')],
  ['a head that ends in LF', `${head}Content-Length: 4\r\n\ngood`, ill],
  ['chunk lines that end in LF', `${chunked}4\ngood\n0\n\n`, dropped('200 chunked', ' origin_ill_framed')],
  ['a head without end', `${head}${'X-Padding: 0123456789\r\n'.repeat(10_000)}`, tooLarge],
  ['a field without end', `${head}X-Padding: ${'0123456789'.repeat(20_000)}`, tooLarge],
  [
    'trailers without end',
    `${chunked}4\r\ngood\r\n0\r\n${'X: 0123456789\r\n'.repeat(10_000)}`,
    dropped('200 chunked', 'good origin_ill_framed'),
  ],

  [
    '103 before the response',
    'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood',
    kept('200 length 4', 'good'),
  ],
  [
    'an unknown 1xx',
    'HTTP/1.1 199 Odd\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood',
    kept('200 length 4', 'good'),
  ],
  ['102 without end', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1000), ill],
  [
    '100 that was not requested',
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood',
    kept('200 length 4', 'good'),
  ],
  [
    '100 with fields, twice, among other interim responses',
    `HTTP/1.1 100 Continue\r\nX: a\r\n b\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 C\r\n\r\n${four}good`,
    kept('200 length 4', 'good'),
  ],
  ['100 after the response', `${four}goodHTTP/1.1 100 Continue\r\n\r\n`, dropped('200 length 4', 'good')],
  [
    '101 that was not requested',
    'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
    ill,
  ],
  ['101 without Upgrade', 'HTTP/1.1 101 Switching Protocols\r\n\r\n', ill],
  ['closed before the head', thenEnd(''), failed('origin_reset')],
  ['reset before the head', thenCut(''), failed('origin_reset')],
  ['closed in the head', thenEnd(`${head}Content-Le`), failed('origin_reset')],
  ['reset in the head', thenCut(`${head}Content-Le`), failed('origin_reset')],
  ['closed after an interim response', thenEnd('HTTP/1.1 103 Early Hints\r\n\r\n'), failed('origin_reset')],
  ['silent before the head', thenSilence(''), failed('origin_timeout')],
  ['silent in the head', thenSilence(`${head}Content-Le`), failed('origin_timeout')],
  ['silent in the body', thenSilence(`${nine}good`), dropped('200 length 9', 'good origin_timeout')],
];

describe('a response over HTTP/1.1', () => {
  it.each<Row>(rows)('%s', async (_name, play, want, method = 'GET') => {
    await using server = await openScriptedOrigin(play, good);
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1 }));

    const asked = outcomeOf(origin.fetch(originRequest({ method })));
    const isTimeout = `${want.head} ${want.body}`.includes('origin_timeout');
    const got = await (isTimeout ? asUndiciWaits(asked) : asked);
    const next = await outcomeOf(origin.fetch(originRequest()));
    expect({ ...got, isReused: server.requests[1]?.connection === 1 }).toEqual(want);
    expect(next).toEqual({ head: '200 length 4', body: 'next' });

    await origin.close();
    await server.allClosed();
  });
});

describe('an origin that ends the lines of its heads with LF alone (RFC 9112 §2.2)', () => {
  const lfHead = (...lines: readonly string[]) => ['HTTP/1.1 200 OK', ...lines, '', ''].join('\n');
  const fourLf = lfHead('Content-Length: 4');

  it.each<Row>([
    ['a length', `${fourLf}good`, kept('200 length 4', 'good')],
    ['HEAD', fourLf, kept('200 none'), 'HEAD'],
    ['chunks', `${lfHead('Transfer-Encoding: chunked')}4\r\ngood\r\n0\r\n\r\n`, kept('200 chunked', 'good')],
    ['trailers', `${lfHead('Transfer-Encoding: chunked')}4\r\ngood\r\n0\r\nX: y\n\n`, kept('200 chunked', 'good')],
    [
      'chunk lines that end with LF, too',
      `${lfHead('Transfer-Encoding: chunked')}4\ngood\n0\n\n`,
      dropped('200 chunked', ' origin_ill_framed'),
    ],
    ['close-delimited', thenEnd(`${lfHead()}good`), dropped('200 close', 'good')],
    ['an interim response', `HTTP/1.1 103 Early Hints\nLink: </a>\n\n${fourLf}good`, kept('200 length 4', 'good')],
    [
      'all others that end with CR LF, which is refused',
      `HTTP/1.1 200 OK\nX: y\r\nContent-Length: 4\r\n\r\ngood`,
      failed('origin_bare_lf'),
    ],
    ['one that ends with CR LF', `HTTP/1.1 200 OK\nX: y\r\nContent-Length: 4\n\ngood`, failed('origin_bare_lf')],
    ['an empty one with CR LF', `HTTP/1.1 200 OK\nContent-Length: 4\n\r\ngood`, failed('origin_bare_lf')],
    ['a folded line', `${lfHead('X: a', ' b', 'Content-Length: 4')}good`, kept('200 length 4', 'good')],
    ['a folded first line', `${lfHead(' X: a', 'Content-Length: 4')}good`, ill],
    ['CR in a value', `${lfHead('X: a\rb', 'Content-Length: 4')}good`, ill],
    ['NUL in a value', `${lfHead('X: a\0b', 'Content-Length: 4')}good`, ill],
    ['two lengths', `${lfHead('Content-Length: 4', 'Content-Length: 4')}good`, kept('200 length 4', 'good')],
    ['two lengths that differ', `${lfHead('Content-Length: 4', 'Content-Length: 9')}good`, ill],
  ])('is understood: %s', async (_name, play, want, method = 'GET') => {
    for (const tls of [undefined, testCertificate]) {
      await using server = await openScriptedOrigin(play, `${fourLf}next`, ...(tls === undefined ? [] : [{ tls }]));
      const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1, tls: trusting }));
      const got = await outcomeOf(origin.fetch(originRequest({ method })));
      const next = await outcomeOf(origin.fetch(originRequest()));
      expect({ ...got, isReused: server.requests[1]?.connection === 1 }).toEqual(want);
      expect(next).toEqual({ head: '200 length 4', body: 'next' });
      await origin.close();
      await server.allClosed();
    }
  });

  it('is recognised by its status line, which reflects nothing of a request, and not by a field, which may be injected', async () => {
    await using server = await openScriptedOrigin(`${head}X: a\nSet-Cookie: b=c\r\nContent-Length: 4\r\n\r\ngood`);
    const origin = createUndiciOrigin(originOptions({ url: server.url }));
    for (let asked = 1; asked <= 2; asked += 1) {
      expect(await outcomeOf(origin.fetch(originRequest()))).toEqual({ head: 'origin_bare_lf' });
      expect(server.requests.length).toBe(asked);
    }
    await origin.close();
  });

  it('is understood on each of its connections', async () => {
    await using server = await openScriptedOrigin(`${fourLf}good`);
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 4 }));
    const got = await Promise.all(Array.from({ length: 12 }, () => outcomeOf(origin.fetch(originRequest()))));
    expect(got).toEqual(Array.from({ length: 12 }, () => ({ head: '200 length 4', body: 'good' })));
    await origin.close();
  });
});

describe('a response over TLS', () => {
  const tlsRows: readonly Row[] = [
    ['close-delimited', thenEnd(`${head}\r\ngood`), dropped('200 close', 'good')],
    ['close-delimited, HTTP/1.0', thenEnd('HTTP/1.0 200 OK\r\n\r\ngood'), dropped('200 close', 'good')],
    ['close-delimited, reset', thenCut(`${head}\r\ngood`), dropped('200 close', 'good origin_reset')],
    [
      'close-delimited, closed without close_notify',
      thenEndBare(`${head}\r\ngood`),
      dropped('200 close', 'good origin_tls_truncated'),
    ],
    ['a length, closed without close_notify', thenEndBare(`${four}good`), dropped('200 length 4', 'good')],
    [
      'less than a length, closed without close_notify',
      thenEndBare(`${nine}good`),
      dropped('200 length 9', 'good origin_body_short'),
    ],
    [
      'chunked, closed without close_notify',
      thenEndBare(`${chunked}4\r\ngood\r\n0\r\n\r\n`),
      dropped('200 chunked', 'good'),
    ],
    ['closed without close_notify before the head', thenEndBare(''), failed('origin_reset')],
  ];
  const versions = ['TLSv1.2', 'TLSv1.3'] as const;
  const cases = versions.flatMap((version) => tlsRows.map(([name, play, want]) => ({ name, version, play, want })));

  it.each(cases)('$name, $version', async ({ version, play, want }) => {
    await using server = await openScriptedOrigin(play, good, {
      tls: { ...testCertificate, minVersion: version, maxVersion: version },
    });
    const origin = createUndiciOrigin(originOptions({ url: server.url, connections: 1, tls: trusting }));
    const got = await outcomeOf(origin.fetch(originRequest()));
    // A response that does not need the end of its connection may be read before that end arrives.
    await server.allClosed();
    const next = await outcomeOf(origin.fetch(originRequest()));
    expect({ ...got, isReused: server.requests[1]?.connection === 1 }).toEqual(want);
    expect(next).toEqual({ head: '200 length 4', body: 'next' });
    await origin.close();
    await server.allClosed();
  });

  it.each(versions)('is read to its end before the end is judged, however slowly (%s)', async (version) => {
    const size = 3_000_000;
    const large = Buffer.concat([Buffer.from('HTTP/1.0 200 OK\r\n\r\n'), patternBytes(0, size)]);
    for (const [end, code] of [
      [({ end: orderly }: Exchange) => orderly(), undefined],
      [({ endBare }: Exchange) => endBare(), 'origin_tls_truncated'],
    ] as const) {
      await using server = await openScriptedOrigin(
        async (exchange) => {
          await exchange.send(large);
          end(exchange);
        },
        { tls: { ...testCertificate, minVersion: version, maxVersion: version } },
      );
      const origin = createUndiciOrigin(originOptions({ url: server.url, tls: trusting }));
      const { body } = await origin.fetch(originRequest());
      const chunks: Uint8Array[] = [];
      const reading = (async () => {
        // A turn for each piece: the reader is behind, and the connection held back.
        for await (const chunk of body) {
          chunks.push(chunk);
          await setImmediate();
        }
      })();
      await (code === undefined ? reading : expect(reading).rejects.toMatchObject({ code }));
      expect(Buffer.concat(chunks)).toEqual(Buffer.from(patternBytes(0, size)));
      await origin.close();
    }
  });

  it('ends with its connection where no close_notify is required', async () => {
    await using server = await openScriptedOrigin(thenEndBare(`${head}\r\ngood`), { tls: testCertificate });
    const options = originOptions({ url: server.url, tls: trusting, requiresCloseNotify: false });
    const origin = createUndiciOrigin(options);
    expect(await outcomeOf(origin.fetch(originRequest()))).toEqual({ head: '200 close', body: 'good' });
    await origin.close();
  });
});

async function outcomeOf(fetching: Promise<OriginResponse>): Promise<{ head: string; body?: string }> {
  try {
    const response = await fetching;
    const { bytes, error } = await readBody(response);
    const heading = [response.status, response.framing, response.sizeBytes].filter((part) => part !== undefined);
    const ending = error === undefined ? '' : ` ${error}`;
    return { head: heading.join(' '), body: `${bytes.toString('latin1')}${ending}` };
  } catch (thrown) {
    return { head: codeOf(thrown) };
  }
}
