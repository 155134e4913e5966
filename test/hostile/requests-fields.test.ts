/** Field sections: lines that recipients split differently, ambiguous hosts, and sections that are too large. */

import { get, type HostileRow, judgeAll, passed, unroutable } from '../support/proxies/hostile-ground.ts';

const bad = 'malformed_request';

/** A GET with this line between Host and the end of its head. */
const field = (text: string) => get(`${text}\r\n`);
/** A GET with this Host. */
const host = (text: string) => `GET /x HTTP/1.1\r\nHost: ${text}\r\n\r\n`;
/** A GET of this target beside Host. */
const target = (text: string, hostText = 'a') => `GET ${text} HTTP/1.1\r\nHost: ${hostText}\r\n\r\n`;

/** Characters that a name must not contain, in the middle of a name. */
const badNames: readonly HostileRow[] = [...'\0\x01\b\t\x0b\x0c\x1b "(),/;<=>?@[\\]{}\x7f\x80\xe4\xff'].map(
  (character) => [`${JSON.stringify(character)} in a name`, field(`X${character}Y: z`), bad],
);

/** Characters that a value must not contain. */
const badValues: readonly HostileRow[] = [...'\0\x01\x07\b\x0b\x0c\x0e\x1b\x1f\x7f'].map((character) => [
  `${JSON.stringify(character)} in a value`,
  field(`X: y${character}z`),
  bad,
]);

judgeAll({
  'a name': badNames,

  'a value': [
    ...badValues,
    ['that is empty', field('X:'), passed('GET /x', '', 'x: ')],
    ['in white space', field('X: \t y \t'), passed('GET /x', '', 'x: y')],
    ['with a tab', field('X: y\tz'), passed('GET /x', '', 'x: y\tz')],
    ['with a byte over 0x7f', field('X: \xe4'), passed('GET /x', '', 'x: \xe4')],
    ['with colons', field('X: y: z'), passed('GET /x', '', 'x: y: z')],
    ['that looks like a line', field('X: GET /smuggled HTTP/1.1'), passed('GET /x', '', 'x: GET /smuggled HTTP/1.1')],
    ['with an encoded line end', field('X: %0d%0aY: z'), passed('GET /x', '', 'x: %0d%0aY: z')],
    ['with bytes that wrap to CRLF', field('X: \xc4\x8d\xc4\x8aY: z'), passed('GET /x', '', 'x: \xc4\x8d\xc4\x8aY: z')],
  ],

  'a field line': [
    ['with a space before the colon', field('X : y'), bad],
    ['with a tab before the colon', field('X\t: y'), bad],
    ['without a colon', field('X'), bad],
    ['without a name', field(': y'), bad],
    ['that is a colon', field(':'), bad],
    ['that begins with a space', field(' X: y'), bad],
    ['that begins with a tab', field('\tX: y'), bad],
    ['that begins with a space, as the first one', 'GET /x HTTP/1.1\r\n X: y\r\nHost: a\r\n\r\n', bad],
    ['that begins with a space, and is Host', 'GET /x HTTP/1.1\r\n Host: a\r\n\r\n', bad],
    ['that is folded', field('X: y\r\n z'), bad],
    ['that is folded with a tab', field('X: y\r\n\tz'), bad],
    ['that is folded without a value', field('X:\r\n y'), bad],
    ['that is folded to nothing', field('X: y\r\n '), bad],
    ['that is a request line', field('GET /smuggled HTTP/1.1'), bad],
    ['that ends with bare LF', get('X: y\n'), bad],
    ['that ends with bare CR', get('X: y\r'), bad],
    ['that ends with CR CR LF', get('X: y\r\r\n'), bad],
    ['that ends with LF CR', get('X: y\n\r'), bad],
    ['with bare CR in its value', field('X: y\rz'), bad],
    ['with bare LF in its value', field('X: y\nz'), bad],
    ['with bare CR in its name', field('X\rY: z'), bad],
    ['with bare LF in its name', field('X\nY: z'), bad],
    ['with bare CR after the colon', field('X:\ry'), bad],
    ['with bare LF after the colon', field('X:\ny'), bad],
    ['Host with bare LF', 'GET /x HTTP/1.1\r\nHost: a\nX: y\r\n\r\n', bad],
  ],

  'the end of a head': [
    ['LF LF', 'GET /x HTTP/1.1\r\nHost: a\n\n', bad],
    ['LF CR LF', 'GET /x HTTP/1.1\r\nHost: a\n\r\n', bad],
    ['CR LF LF', 'GET /x HTTP/1.1\r\nHost: a\r\n\n', bad],
    ['CR CR', 'GET /x HTTP/1.1\r\nHost: a\r\r', bad],
    ['CR LF CR CR LF', 'GET /x HTTP/1.1\r\nHost: a\r\n\r\r\n', bad],
    ['CR LF CR X', 'GET /x HTTP/1.1\r\nHost: a\r\n\rX\r\n\r\n', bad],
    ['CR LF NUL CR LF', 'GET /x HTTP/1.1\r\nHost: a\r\n\0\r\n\r\n', bad],
  ],

  Host: [
    ['missing', 'GET /x HTTP/1.1\r\n\r\n', bad],
    ['missing beside an absolute target', 'GET http://a/x HTTP/1.1\r\n\r\n', bad],
    ['empty', host(''), bad],
    ['empty beside an absolute target', target('http://a/x', ''), bad],
    ['twice', host('a\r\nHost: b'), bad],
    ['twice the same', host('a\r\nHost: a'), bad],
    ['twice, with a line between', host('a\r\nX: y\r\nHost: b'), bad],
    ['twice in two spellings', host('a\r\nhOST: b'), bad],
    ['twice in HTTP/1.0', host('a\r\nHost: b').replace('1.1', '1.0'), bad],
    ['twice, once folded', host('a\r\n Host: b'), bad],
    ['twice, once behind a space', host('a\r\nHost : b'), bad],
    ['a list', host('a, b'), bad],
    ['a list without a space', host('a,b'), unroutable],
    ['with a space', host('a b'), bad],
    ['with a tab', host('a\tb'), bad],
    ['with a path', host('a/b'), bad],
    ['with a query', host('a?b'), bad],
    ['with a fragment', host('a#b'), bad],
    ['with user information', host('u@a'), bad],
    ['with a backslash', host('a\\b'), bad],
    ['with a scheme', host('http://a'), bad],
    ['with two colons', host('a:80:80'), bad],
    ['with a port that is no number', host('a:b'), bad],
    ['with a port with a sign', host('a:+80'), bad],
    ['with the port 0', host('a:0'), unroutable],
    ['with a port over 65535', host('a:65536'), bad],
    ['with a port of six digits', host('a:000080'), bad],
    ['that is a port only', host(':80'), bad],
    ['that is an invalid address', host('[::1::]'), bad],
    ['with a bracket that is not closed', host('[::1'), bad],
    ['with a bracket that is not opened', host('::1]'), bad],
    ['that is an address without brackets', host('::1'), bad],
    ['with text after its bracket', host('[::1]a'), bad],
    ['with a zone', host('[fe80::1%25eth0]'), bad],
    ['with a byte over 0x7f', host('a\xe4'), bad],
    ['with an encoded byte', host('a%2eb'), unroutable],
    ['with a quote', host('a"b'), bad],
    ['with <', host('a<b'), bad],
    ['with |', host('a|b'), bad],
    ['with NUL', host('a\0b'), bad],
    ['in capitals, with the default port', host('A:80'), passed('GET /x')],
    [
      'beside an absolute target with another host',
      target('http://b/x'),
      passed('GET /x', '', 'host: b', 'x-forwarded-host: b', 'forwarded: for=127.0.0.1;host=b;proto=http'),
    ],
    ['that is invalid, beside an absolute target', target('http://b/x', 'a b'), bad],
    ['twice, beside an absolute target', target('http://b/x', 'a\r\nHost: b'), bad],
    [
      'as X-Host, X-Original-Host and so on',
      field('X-Host: evil\r\nX-Forwarded-Host: evil\r\nX-Original-URL: /y'),
      passed('GET /x'),
    ],
    ['as a name with an underscore', field('X_Forwarded_Host: evil'), passed('GET /x')],
  ],

  'too much': [
    ['a value', field(`X: ${'y'.repeat(33_000)}`), 'fields_too_large'],
    ['a name', field(`${'X'.repeat(33_000)}: y`), 'fields_too_large'],
    ['a value without end', `GET /x HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(100_000)}`, 'fields_too_large'],
    ['a name without end', `GET /x HTTP/1.1\r\nHost: a\r\n${'X'.repeat(100_000)}`, 'fields_too_large'],
    ['many lines', get('X: y\r\n'.repeat(300)), 'fields_too_large'],
    ['very many lines', get('X: y\r\n'.repeat(20_000)), 'fields_too_large'],
    ['many lines without a value', get('X:\r\n'.repeat(300)), 'fields_too_large'],
  ],
});
