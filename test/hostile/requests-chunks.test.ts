/** Chunked bodies that are malformed or ambiguous, or end too early. */

import { broken, ended, type HostileRow, judgeAll, passed, post } from '../support/proxies/hostile-ground.ts';

/** A POST with this chunked body. */
const chunked = (body: string) => post('Transfer-Encoding: chunked\r\n', body);
/** A chunk of three bytes with this size line, and the last chunk. */
const sized = (size: string) => chunked(`${size}\r\nabc\r\n0\r\n\r\n`);
/** A body with these trailer lines, each with its end. */
const trailed = (lines: string) => chunked(`3\r\nabc\r\n0\r\n${lines}\r\n`);

const abc = passed('POST /x', 'abc', 'transfer-encoding: chunked');

/** Trailers are parsed and dropped: none of them may become a field of the request (RFC 9110 §6.5.1). */
const droppedTrailers: readonly HostileRow[] = [
  'X: y',
  'Host: evil',
  'Authorization: Basic YTpi',
  'Cookie: a=b',
  'Upgrade: websocket',
  'X-Forwarded-For: 192.0.2.1',
  'Cache-Control: max-age=9',
  'X-HTTP-Method-Override: DELETE',
].map((line) => [line, trailed(`${line}\r\n`), abc]);

judgeAll({
  'valid chunks': [
    [
      'capital digits',
      chunked('A\r\n0123456789\r\n0\r\n\r\n'),
      passed('POST /x', '0123456789', 'transfer-encoding: chunked'),
    ],
    ['leading zeros', sized('0003'), abc],
    ['many leading zeros', sized('0000000000000003'), abc],
    ['a last chunk of many zeros', chunked('3\r\nabc\r\n00000\r\n\r\n'), abc],
    ['no bytes', chunked('0\r\n\r\n'), passed('POST /x', '', 'content-length: 0')],
    ['two chunks', chunked('1\r\na\r\n2\r\nbc\r\n0\r\n\r\n'), abc],
    [
      'a chunk with a line end in it',
      chunked('5\r\na\r\n0\n\r\n0\r\n\r\n'),
      passed('POST /x', 'a\r\n0\n', 'transfer-encoding: chunked'),
    ],
    ['an extension', sized('3;a'), abc],
    ['an extension with a value', sized('3;a=b;c=d'), abc],
    ['an extension in quotes', sized('3;a="b c"'), abc],
    ['an extension of the last chunk', chunked('3\r\nabc\r\n0;a=b\r\n\r\n'), abc],
  ],

  'a chunk size': [
    ['that is no number', sized('xyz'), broken],
    ['with a plus', sized('+3'), broken],
    ['with a minus', sized('-3'), broken],
    ['with a prefix', sized('0x3'), broken],
    ['with a letter after it', sized('3h'), broken],
    ['with an underscore', sized('0_3'), broken],
    ['with a fraction', sized('3.0'), broken],
    ['in quotes', sized('"3"'), broken],
    ['after a space', sized(' 3'), broken],
    ['after a tab', sized('\t3'), broken],
    ['before a space', sized('3 '), broken],
    ['before a tab', sized('3\t'), broken],
    ['before a space and an extension', sized('3 ;a'), broken],
    ['before NUL', sized('3\0'), broken],
    ['before vertical tab', sized('3\x0b'), broken],
    ['before a comma', sized('3,'), broken],
    ['that is empty', sized(''), broken],
    ['that is an extension only', sized(';a=b'), broken],
    ['of 17 digits', sized('fffffffffffffffff'), broken],
    ['3 more than 64 bits', sized('10000000000000003'), broken],
    ['with bare LF after it', chunked('3\nabc\r\n0\r\n\r\n'), broken],
    ['with bare CR after it', chunked('3\rabc\r\n0\r\n\r\n'), broken],
    ['with CR CR LF after it', chunked('3\r\r\nabc\r\n0\r\n\r\n'), broken],
    ['of zero with bare LF after it', chunked('3\r\nabc\r\n0\n\r\n'), broken],
    ['of zero with a plus', chunked('3\r\nabc\r\n+0\r\n\r\n'), broken],
    ['of zero with a prefix', chunked('3\r\nabc\r\n0x0\r\n\r\n'), broken],
  ],

  'a chunk': [
    ['longer than its size', chunked('3\r\nabcd\r\n0\r\n\r\n'), broken],
    ['shorter than its size', chunked('4\r\nabc\r\n0\r\n\r\n'), broken],
    ['without a line end', chunked('3\r\nabc0\r\n\r\n'), broken],
    ['with bare LF after it', chunked('3\r\nabc\n0\r\n\r\n'), broken],
    ['with bare CR after it', chunked('3\r\nabc\r0\r\n\r\n'), broken],
    ['with LF CR after it', chunked('3\r\nabc\n\r0\r\n\r\n'), broken],
    ['with two bytes other than CRLF after it', chunked('3\r\nabcXX0\r\n\r\n'), broken],
    ['with two line ends after it', chunked('3\r\nabc\r\n\r\n0\r\n\r\n'), broken],
  ],

  'a chunk extension': [
    ['with bare LF', sized('3;a\nb'), broken],
    ['with bare CR', sized('3;a\rb'), broken],
    ['with NUL', sized('3;a\0b'), broken],
    ['with a control character', sized('3;a\x01b'), broken],
    ['with a line end in quotes', sized('3;a="\r\n"'), broken],
    ['with bare LF in quotes', sized('3;a="\n"'), broken],
    ['without end', sized(`3;${'x'.repeat(20_000)}`), broken],
    ['in quotes without end', sized(`3;a="${'x'.repeat(20_000)}`), broken],
    ['on each of many chunks', chunked(`1;${'x'.repeat(1000)}\r\na\r\n`.repeat(20)), broken],
    ['with another size', chunked('3;\n5\r\nabc\r\n0\r\n\r\n'), broken],
  ],

  'trailers, dropped': [
    ...droppedTrailers,
    ['Connection: close, which has no effect there', trailed('Connection: close\r\n'), abc],
    ['announced', post('Trailer: X\r\nTransfer-Encoding: chunked\r\n', '3\r\nabc\r\n0\r\nX: y\r\n\r\n'), abc],
    [
      'announced, with TE',
      post('TE: trailers\r\nTransfer-Encoding: chunked\r\n', '3\r\nabc\r\n0\r\nX: z\r\n\r\n'),
      abc,
    ],
  ],

  trailers: [
    ['with a space before the colon', trailed('X : y\r\n'), broken],
    ['without a colon', trailed('X\r\n'), broken],
    ['that are folded', trailed('X: a\r\n b\r\n'), broken],
    ['that begin with a space', trailed(' X: a\r\n'), broken],
    ['with bare LF', trailed('X: a\nY: b\r\n'), broken],
    ['with bare CR', trailed('X: a\rY: b\r\n'), broken],
    ['with NUL', trailed('X: a\0b\r\n'), broken],
    ['with bare LF at their end', chunked('3\r\nabc\r\n0\r\nX: y\r\n\n'), broken],
    ['with Content-Length', trailed('Content-Length: 5\r\n'), broken],
    ['with Transfer-Encoding', trailed('Transfer-Encoding: chunked\r\n'), broken],
    ['with another coding', trailed('Transfer-Encoding: gzip\r\n'), broken],
    ['that are a request', trailed('GET /smuggled HTTP/1.1\r\nHost: a\r\n'), broken],
    [
      'larger than a head may be',
      trailed(`X: ${'y'.repeat(60_000)}\r\n`),
      { kind: 'broken', code: 'fields_too_large' },
    ],
    [
      'of more lines than a head may have',
      trailed('X: y\r\n'.repeat(100_000)),
      { kind: 'broken', code: 'fields_too_large' },
    ],
  ],

  'the end of the connection': [
    ['in a head', 'GET /x HTTP/1.1\r\nHost: a\r\nX: ', ended],
    ['before the last line end of a head', 'GET /x HTTP/1.1\r\nHost: a\r\n', ended],
    ['before a body', post('Content-Length: 3\r\n'), ended],
    ['in a body', post('Content-Length: 3\r\n', 'ab'), ended],
    ['before the first chunk', chunked(''), ended],
    ['in a chunk size', chunked('3'), ended],
    ['in a chunk', chunked('3\r\nab'), ended],
    ['after a chunk', chunked('3\r\nabc'), ended],
    ['before the last chunk', chunked('3\r\nabc\r\n'), ended],
    ['in the last chunk', chunked('3\r\nabc\r\n0\r\n'), ended],
    ['in a trailer', chunked('3\r\nabc\r\n0\r\nX: y'), ended],
    ['before the end of trailers', chunked('3\r\nabc\r\n0\r\nX: y\r\n'), ended],
  ],
});
