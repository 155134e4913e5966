/** HTTP/1 requests as bytes: the listener's reader is compared with Node's own parser. */

import { readWithLlhttp } from '../../support/clients/llhttp.ts';
import { readAsListener } from '../../support/clients/own-reader.ts';
import { differenceOf } from '../../support/clients/reader-differences.ts';
import { must, mustEqual, type Target } from '../target.ts';

/** Whole streams are compared: that shows bytes which one reader takes for a body and the other for a request. */
const http1: Target = {
  name: 'http1',
  seeds: [
    'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
    'GET /x HTTP/1.0\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n',
    '\r\nHEAD /x?y=z HTTP/1.1\r\nHost: a:80\r\nRange: bytes=0-99\r\nAccept:\t*/* \r\nX:\r\n\r\n',
    'POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /y HTTP/1.1\r\nHost: a\r\n\r\n',
    'POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /y HTTP/1.1\r\nHost: a\r\n\r\n',
    'PUT /x HTTP/1.1\r\nHost: a\r\ntransfer-encoding: Chunked\r\n\r\nA;a=b;c="d\\"e";f\r\n0123456789\r\n00;g\r\nX: y\r\nZ:\r\n\r\nGET / HTTP/1.1\r\n\r\n',
    'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\n\r\n',
    'GET http://b/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nExpect: 100-continue\r\n\r\n',
    'CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\nGET / HTTP/1.1\r\n\r\n',
    'QUERY /x HTTP/1.1\r\nHost: a\r\nX-Long: \xe4\xff\tz\r\nCookie: a=b; c=d\r\n\r\n',
  ],
  words: [
    ...['\r\n', '\n', '\r', '\r\n\r\n', '\n\n', '\r\r\n', '\n\r', ' ', '\t', '\0', '\x0b', '\x7f', '\xa0', ':', ': '],
    ...['GET ', 'POST /x ', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/1.10', 'HTTP/01.1', 'HTTP/2.0', 'http/1.1', 'RTSP/1.0', '/'],
    ...[
      'GET /s HTTP/1.1\r\nHost: a\r\n\r\n',
      'POST / HTTP/1.1\r\n',
      'Host: a\r\n',
      'X: y\r\n',
      'X : y\r\n',
      ' X: y\r\n',
    ],
    ...['Content-Length: 3\r\n', 'Content-Length: 0\r\n', 'Content-Length: +3\r\n', 'Content-Length: 3, 3\r\n'],
    ...['Transfer-Encoding: chunked\r\n', 'Transfer-Encoding: xchunked\r\n', 'Transfer-Encoding:\tchunked \r\n'],
    ...[
      'Transfer-Encoding: gzip, chunked\r\n',
      'Transfer-Encoding : chunked\r\n',
      'Transfer-Encoding:\r\n chunked\r\n',
    ],
    ...['Connection: close\r\n', 'Connection: keep-alive\r\n', 'Upgrade: h2c\r\n', 'Expect: 100-continue\r\n'],
    ...[
      '0\r\n\r\n',
      '0\r\n',
      '3\r\nabc\r\n',
      '3;a=b\r\nabc\r\n',
      '3;a="\r\n"\r\nabc\r\n',
      '3 \r\nabc\r\n',
      '0x3\r\nabc\r\n',
    ],
    ...[
      'ffffffffffffffff\r\n',
      '10000000000000000\r\n',
      '-1\r\n',
      ';',
      '="',
      '\\"',
      '3\nabc\n',
      '0\nX: y\r\n\r\n',
      '_',
    ],
  ],
  check(input) {
    const bytes = Buffer.from(input, 'latin1');
    const ours = readAsListener([bytes]);
    const difference = differenceOf(ours, readWithLlhttp([bytes]));
    must(difference === undefined, `the listener reads the same as Node, or is stricter: ${difference}`);
    for (const request of ours.requests) {
      must(!/[^!-~]/.test(request.method + request.target), 'no character splits the request line');
      for (const [name, value] of [...request.fields, ...request.trailers]) {
        must(/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name), 'a field name is a token in lower case');
        // biome-ignore lint/suspicious/noControlCharactersInRegex: the result must not contain them
        must(!/[\0-\x08\x0a-\x1f\x7f]|^[\t ]|[\t ]$/.test(value), 'no character splits the line of a field value');
      }
    }
    // One length of pieces only: all lengths at all offsets would take too long for long inputs.
    const pieceBytes = 1 + (input.length % 7) + Math.floor(input.length / 512);
    mustEqual(readAsListener(cut(bytes, pieceBytes)), ours, 'the result does not depend on how the bytes are split');
  },
};

function cut(bytes: Buffer, pieceBytes: number): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += pieceBytes) pieces.push(bytes.subarray(at, at + pieceBytes));
  return pieces;
}

export const http1Targets: readonly Target[] = [http1];
