/** Generators of valid HTTP/1 requests, and of nearly valid ones: valid requests with a few random edits. */

import fc from 'fast-check';

const names = [
  'Host',
  'X',
  'Range',
  'user-agent',
  'COOKIE',
  'Content-Length',
  'Transfer-Encoding',
  'Connection',
  'A_b',
];
const values = ['', 'a', 'a b', 'bytes=0-99', '3', '0', 'chunked', 'close', 'keep-alive', '\xe4', 'a\tb', 'xchunked'];
const whitespace = fc.constantFrom(' ', ' ', ' ', '', '\t', ' \t ');

const fieldLine = fc
  .tuple(fc.constantFrom(...names), whitespace, fc.constantFrom(...values), fc.constantFrom('', '', '', ' ', '\t'))
  .map(([name, before, value, after]) => `${name}:${before}${value}${after}\r\n`);

const requestLine = fc
  .tuple(
    fc.constantFrom('GET', 'GET', 'HEAD', 'POST', 'PUT', 'OPTIONS', 'QUERY', 'get', 'TRACE'),
    fc.constantFrom('/', '/x', '/x?y=z', '*', 'http://a/x', '/%00', '//', '/x#'),
    fc.constantFrom('1.1', '1.1', '1.1', '1.0'),
  )
  .map(([method, target, version]) => `${method} ${target} HTTP/${version}\r\n`);

const emptyLines = fc.constantFrom('', '', '', '\r\n', '\r\n\r\n');

const soundHead = fc
  .tuple(emptyLines, requestLine, fc.array(fieldLine, { maxLength: 6 }))
  .map(([before, line, lines]) => `${before}${line}${lines.join('')}\r\n`);

const content = fc.constantFrom('', 'a', 'abc', '\r\n', '0\r\n\r\n', 'GET /s HTTP/1.1\r\nHost: a\r\n\r\n', '\0\xff');
const extension = fc.constantFrom('', '', '', ';a', ';a=b', ';a="b;c\\"d"', ';a;b=c');
const chunk = fc
  .tuple(content, extension, fc.constantFrom('', '', '0', '000'))
  .map(([bytes, ext, zeros]) => (bytes === '' ? '' : `${zeros}${bytes.length.toString(16)}${ext}\r\n${bytes}\r\n`));

const trailer = fc.constantFrom('X: y\r\n', 'Y:\r\n', 'Host: b\r\n', 'Content-Length: 3\r\n', 'Connection: close\r\n');

const chunkedBody = fc
  .tuple(fc.array(chunk, { maxLength: 4 }), extension, fc.array(trailer, { maxLength: 2 }))
  .map(([chunks, ext, trailers]) => `${chunks.join('')}0${ext}\r\n${trailers.join('')}\r\n`);

const usualLine = fc.constantFrom('GET / HTTP/1.1\r\n', 'POST /x?y HTTP/1.1\r\n', 'PUT http://a/x HTTP/1.1\r\n');
const usualFields = fc.constantFrom('Host: a\r\n', 'Host: a:80\r\nX: y\r\n', 'Host: a\r\nConnection: keep-alive\r\n');
const emptyRequest = fc.tuple(emptyLines, usualLine, usualFields).map((parts) => `${parts.join('')}\r\n`);
const countedRequest = fc.tuple(usualLine, usualFields, content).map(([line, fields, bytes]) => {
  return `${line}${fields}Content-Length: ${bytes.length}\r\n\r\n${bytes}`;
});
const chunkedRequest = fc
  .tuple(usualLine, usualFields, chunkedBody)
  .map(([line, fields, body]) => `${line}${fields}Transfer-Encoding: chunked\r\n\r\n${body}`);
const soundRequest = fc.oneof(
  { weight: 1, arbitrary: soundHead },
  { weight: 2, arbitrary: emptyRequest },
  { weight: 3, arbitrary: countedRequest },
  { weight: 3, arbitrary: chunkedRequest },
);

/** Texts that request readers are known to misread. */
const spoilers = [
  ...['\r', '\n', '\r\n', '\r\n\r\n', '\n\n', '\r\r\n', ' ', '\t', '\0', '\x0b', '\x7f', '\x85', '\xa0', ':', ';', ','],
  ...['"', '\\', '0', '3', 'a', 'F', '-', '_', '+', '0x', ' HTTP/1.1', 'HTTP/1.10', 'http/1.1', 'chunked', ', chunked'],
  ...['Content-Length: 5\r\n', 'Content-Length : 5\r\n', 'Content-Length: +5\r\n', 'Content-Length: 5, 5\r\n'],
  ...['Transfer-Encoding: chunked\r\n', 'Transfer-Encoding: x, chunked\r\n', 'Transfer-Encoding:\r\n chunked\r\n'],
  ...[
    'Transfer-Encoding\t: chunked\r\n',
    'Connection: close\r\n',
    'Upgrade: h2c\r\nConnection: Upgrade\r\n',
    ' X: y\r\n',
  ],
  ...['0\r\n\r\n', '3\r\nabc\r\n', '3\nabc\n', 'fffffffffffffffff\r\n', ';a="\r\n"', 'Expect: 100-continue\r\n'],
];

interface Edit {
  /** Position, in thousandths of the text. With `isAtSign`, at the next delimiter from there. */
  readonly place: number;
  readonly isAtSign: boolean;
  readonly removed: number;
  readonly put: string;
}

const edit: fc.Arbitrary<Edit> = fc.record({
  place: fc.noBias(fc.nat(999)),
  isAtSign: fc.boolean(),
  removed: fc.constantFrom(0, 0, 1, 1, 2, 7),
  put: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...spoilers) },
    { weight: 1, arbitrary: fc.constant('') },
    { weight: 1, arbitrary: fc.nat(255).map((code) => String.fromCharCode(code)) },
  ),
});

function spoil(text: string, edits: readonly Edit[]): string {
  return edits.reduce((spoiled, { place, isAtSign, removed, put }) => {
    const from = Math.floor((place / 1000) * (spoiled.length + 1));
    const toSign = isAtSign ? Math.max(0, spoiled.slice(from).search(/[\r\n :;=./]/)) : 0;
    const at = from + toSign;
    return spoiled.slice(0, at) + put + spoiled.slice(at + removed);
  }, text);
}

/** A valid or nearly valid head, sometimes followed by other bytes. */
export const headText: fc.Arbitrary<string> = fc
  .tuple(soundHead, fc.array(edit, { maxLength: 2 }), fc.constantFrom('', '', 'abc', 'GET / HTTP/1.1\r\n'))
  .map(([head, edits, rest]) => spoil(head, edits) + rest);

/** A valid or nearly valid chunked body, sometimes followed by other bytes. */
export const chunkedText: fc.Arbitrary<string> = fc
  .tuple(chunkedBody, fc.array(edit, { maxLength: 2 }), fc.constantFrom('', '', 'abc', 'GET / HTTP/1.1\r\n'))
  .map(([body, edits, rest]) => spoil(body, edits) + rest);

/** Pipelined requests, valid or nearly valid. */
export const streamText: fc.Arbitrary<string> = fc
  .tuple(fc.array(soundRequest, { minLength: 1, maxLength: 4 }), fc.array(edit, { maxLength: 2 }))
  .map(([requests, edits]) => spoil(requests.join(''), edits));
