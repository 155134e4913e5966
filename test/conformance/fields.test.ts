/** Which fields of a response are stored, and which a 304 updates. */

import { table } from './engine.ts';
import { cached, date, gives, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const short = 'Cache-Control: max-age=10';

/** Fields that a cache stores and gives to all clients, with two values each. */
const stored: readonly (readonly [name: string, before: string, after: string])[] = [
  ['Test-Header', 'a', 'b'],
  ['X-Test-Header', 'a', 'b'],
  ['Content-Foo', 'a', 'b'],
  ['X-Content-Foo', 'a', 'b'],
  ['Content-Disposition', 'inline', 'attachment'],
  ['Content-Language', 'en', 'de'],
  ['Content-Location', '/foo', '/bar'],
  ['Content-Security-Policy', "default-src 'self'", "default-src 'self' cdn.example.com"],
  ['Content-Type', 'text/plain', 'text/plain;charset=utf-8'],
  ['Clear-Site-Data', '"cache"', '"cookies"'],
  ['Public-Key-Pins', 'a', 'b'],
  ['Set-Cookie2', 'a=b', 'a=c'],
  ['X-Frame-Options', 'deny', 'sameorigin'],
  ['X-XSS-Protection', '1', '1; mode=block'],
  ['Link', '</a>; rel=next', '</b>; rel=next'],
  ['Strict-Transport-Security', 'max-age=1', 'max-age=2'],
  ['Access-Control-Allow-Origin', '*', 'https://a.example'],
  ['Server-Timing', 'a', 'b'],
  ['Expires', date(5), date(5000)],
  ['Pragma', 'no-cache', 'foo'],
  ['Warning', '199 - "a"', '199 - "b"'],
];

/** Fields that describe the stored bytes. They are stored, and a 304 does not update them. */
const bodyFields: readonly (readonly [name: string, before: string, after: string])[] = [
  ['Content-Encoding', 'x-a', 'x-b'],
  ['Content-Range', 'a', 'b'],
  ['Content-Length', '22', '10'],
];

/** Fields of one connection, or for the next proxy only. */
const connectionFields: readonly (readonly [name: string, value: string])[] = [
  ['Connection', 'x'],
  ['Keep-Alive', 'timeout=99, max=7'],
  ['Proxy-Connection', 'keep-alive'],
  ['TE', 'trailers'],
  ['Upgrade', 'foo/1'],
  ['Proxy-Authenticate', 'Basic'],
  ['Proxy-Authentication-Info', 'a=b'],
  ['Proxy-Authorization', 'Basic QTpC'],
];

table('fields that are stored', [
  ...stored.map(([name, value]) =>
    required('RFC 9111 §3.1', name, gives(hour, `${name}: ${value}`), cached({ has: [`${name}: ${value}`] })),
  ),
  ...bodyFields.map(([name, value]) =>
    required('RFC 9111 §3.1', name, gives(hour, `${name}: ${value}`), cached({ has: [`${name}: ${value}`] })),
  ),
  required(
    'RFC 9111 §3.1',
    'Cache-Control',
    gives('Cache-Control: max-age=3600, a=b'),
    cached({ has: ['Cache-Control: max-age=3600, a=b'] }),
  ),
  required('RFC 9111 §3.1', 'ETag', gives(hour, 'ETag: "a"'), cached({ has: ['ETag: "a"'] })),
  required(
    'RFC 9111 §3.1',
    'Last-Modified',
    gives(hour, `Last-Modified: ${date(-9)}`),
    cached({ has: [`Last-Modified: ${date(-9)}`] }),
  ),
  required('RFC 9111 §3.1', 'Vary', gives(hour, 'Vary: Foo'), cached({ has: ['Vary: Foo'] })),
  required(
    'RFC 9110 §5.3',
    'several lines of one name, in order',
    gives(hour, 'Foo: 1', 'Bar: x', 'Foo: 2'),
    cached({ has: ['Foo: 1, 2'] }),
  ),
  required(
    'RFC 9110 §5.5',
    'values with characters outside ASCII',
    gives(hour, 'Foo: \xe9\xff'),
    cached({ has: ['Foo: \xe9\xff'] }),
  ),
]);

table('fields that are not stored', [
  ...connectionFields.map(([name, value]) =>
    required(
      'RFC 9111 §3.1',
      name,
      gives(hour, `${name}: ${value}`),
      cached({ lacks: name === 'Connection' || name === 'Keep-Alive' ? ['x'] : [name] }),
    ),
  ),
  required(
    'RFC 9111 §3.1',
    'Keep-Alive of the origin',
    gives(hour, 'Connection: keep-alive', 'Keep-Alive: timeout=99, max=7'),
    { ...cached(), lacks: ['max'] },
  ),
  required(
    'RFC 9110 §7.6.1',
    'fields that Connection lists',
    gives(hour, 'Connection: a, b', 'A: 1', 'B: 2', 'C: 3'),
    cached({ has: ['C: 3'], lacks: ['A', 'B'] }),
  ),
  required(
    'RFC 9110 §7.6.1',
    'fields that Connection lists in another case',
    gives(hour, 'Connection: FOO', 'Foo: 1'),
    cached({ lacks: ['Foo'] }),
  ),
  required('RFC 9110 §7.6.1', 'fields that Connection lists are not passed on either', {
    ...gives(hour, 'Connection: foo', 'Foo: 1'),
    lacks: ['Foo'],
  }),
  required(
    'RFC 9111 §3.1',
    'fields that Connection of a 304 lists',
    gives(short, 'ETag: "a"', 'Foo: 1'),
    validated({ wait: 10, has: ['Foo: 1'] }, 'Connection: foo', 'Foo: 2'),
    cached({ has: ['Foo: 1'] }),
  ),
]);

table('fields that a 304 updates', [
  ...stored.map(([name, before, after]) =>
    required(
      'RFC 9111 §3.2',
      name,
      gives(short, 'ETag: "a"', `${name}: ${before}`),
      validated({ wait: 10, has: [`${name}: ${after}`] }, 'ETag: "a"', `${name}: ${after}`),
      cached({ has: [`${name}: ${after}`] }),
    ),
  ),
  required(
    'RFC 9111 §3.2',
    'Cache-Control',
    gives('Cache-Control: max-age=1', 'ETag: "a"'),
    validated({ wait: 1, has: [hour] }, hour, 'ETag: "a"'),
    cached({ wait: 3599, has: [hour] }),
  ),
  required(
    'RFC 9111 §3.2',
    'a field that the stored response lacks',
    gives(short, 'ETag: "a"'),
    validated({ wait: 10 }, 'New: 1'),
    cached({ has: ['New: 1'] }),
  ),
  required(
    'RFC 9111 §3.2',
    'a field, where the 304 answers If-Modified-Since',
    gives(short, `Last-Modified: ${date(-9)}`, 'Foo: 1'),
    validated({ wait: 10, has: ['Foo: 2'] }, 'Foo: 2'),
    cached({ has: ['Foo: 2'] }),
  ),
  ...bodyFields.map(([name, before, after]) =>
    required(
      'RFC 9111 §3.2',
      `not ${name}`,
      gives(short, 'ETag: "a"', `${name}: ${before}`),
      validated({ wait: 10, has: [`${name}: ${before}`] }, 'ETag: "a"', `${name}: ${after}`),
      cached({ has: [`${name}: ${before}`] }),
    ),
  ),
  ...connectionFields
    .slice(2)
    .map(([name, value]) =>
      required(
        'RFC 9111 §3.2',
        `not ${name}`,
        gives(short, 'ETag: "a"'),
        validated({ wait: 10, lacks: [name] }, `${name}: ${value}`),
        cached({ lacks: [name] }),
      ),
    ),
]);
