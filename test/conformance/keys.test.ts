/** Cache keys: which requests share a response, and which responses to POST may answer GET. */

import { table } from './engine.ts';
import { cached, date, type Exchange, fetched, optimal, required } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const stores = (target: string, host = 'example.org'): Exchange => fetched({ host, target, reply: { fields: [hour] } });

/**
 * Pairs of targets with different keys. The first pairs are spellings of one URI (RFC 3986 §6.2). The origin gets them as sent
 * (RFC 9110 §7.7) and may tell them apart.
 */
const different: readonly (readonly [string, string])[] = [
  ['/a%7eb', '/a~b'],
  ['/%61', '/a'],
  ['/a%2fb', '/a%2Fb'],
  ['/x/../a', '/a'],
  ['/./a', '/a'],
  ['/a', '/b'],
  ['/a', '/A'],
  ['/a', '/a/'],
  ['/a', '/a?'],
  ['/a', '/a?x'],
  ['/a?x=1', '/a?x=2'],
  ['/a?x=1&y=2', '/a?y=2&x=1'],
  ['/a?x', '/a?X'],
  ['/a?x', '/a?x='],
  ['/a%2Fb', '/a/b'],
  ['/a//b', '/a/b'],
  ['/a?x=%26', '/a?x=&'],
  ['/a?b/../c', '/a?c'],
  ['/a;x', '/a'],
];

table('targets', [
  optimal('RFC 9111 §2', 'the same query matches', stores('/a?x=1'), cached({ target: '/a?x=1' })),
  ...different.map(([stored, target]) =>
    required('RFC 9111 §2', `${stored} is not ${target}`, stores(stored), fetched({ target })),
  ),
  required('RFC 9111 §2', 'another host does not match', stores('/a'), fetched({ host: 'other.example' })),
  required('RFC 9111 §2', 'another port does not match', stores('/a'), fetched({ host: 'example.org:81' })),
  optimal(
    'RFC 9110 §4.2.3',
    'the host in another case matches',
    stores('/a'),
    cached({ host: 'EXAMPLE.org', text: 'the body of exchange 1', status: 200 }),
  ),
  optimal(
    'RFC 9110 §4.2.3',
    'the default port matches no port',
    stores('/a'),
    cached({ host: 'example.org:80', text: 'the body of exchange 1', status: 200 }),
  ),
  required(
    'RFC 9112 §3.2.2',
    'a target in absolute form counts rather than Host',
    stores('/a'),
    fetched({ target: 'http://other.example/a' }),
  ),
]);

const explicit = `Expires: ${date(3600)}`;
const post = (...fields: string[]): Exchange =>
  fetched({ method: 'POST', body: '12345', reply: { fields, body: 'posted' } });

table('responses to POST', [
  optimal(
    'RFC 9110 §9.3.3',
    'answer GET with Content-Location and Expires',
    post(explicit, 'Content-Location: /a'),
    cached({ text: 'posted' }),
  ),
  optimal(
    'RFC 9110 §9.3.3',
    'answer GET with Content-Location and max-age',
    post(hour, 'Content-Location: /a'),
    cached({ wait: 3599, text: 'posted' }),
  ),
  optimal(
    'RFC 9110 §9.3.3',
    'answer GET with an absolute Content-Location',
    post(hour, 'Content-Location: http://example.org/a'),
    cached({ text: 'posted' }),
  ),
  required(
    'RFC 9111 §4.2',
    'do not answer GET after their lifetime',
    post(hour, 'Content-Location: /a'),
    fetched({ wait: 3600 }),
  ),
  required('RFC 9110 §9.3.3', 'do not answer GET without Content-Location', post(hour), fetched()),
  required(
    'RFC 9110 §9.3.3',
    'do not answer GET with a Content-Location of another target',
    post(hour, 'Content-Location: /b'),
    fetched(),
    fetched({ target: '/b' }),
  ),
  required(
    'RFC 9110 §9.3.3',
    'do not answer GET with a Content-Location of another host',
    post(hour, 'Content-Location: http://other.example/a'),
    fetched(),
  ),
  required(
    'RFC 9110 §9.3.3',
    'do not answer GET without explicit freshness',
    post(`Last-Modified: ${date(-86_400)}`, 'Content-Location: /a'),
    fetched(),
  ),
  required(
    'RFC 9111 §5.2.2.5',
    'do not answer GET with no-store',
    post('Cache-Control: max-age=60, no-store', 'Content-Location: /a'),
    fetched(),
  ),
  required(
    'RFC 9110 §9.3.3',
    'do not answer another POST',
    post(hour, 'Content-Location: /a'),
    post(hour, 'Content-Location: /a'),
  ),
  required(
    'RFC 9110 §9.3.4',
    'do answer GET, responses to PUT do not',
    fetched({ method: 'PUT', body: 'x', reply: { fields: [hour, 'Content-Location: /a'] } }),
    fetched(),
  ),
  required(
    'RFC 9110 §9.3.5',
    'do answer GET, responses to DELETE do not',
    fetched({ method: 'DELETE', reply: { fields: [hour, 'Content-Location: /a'] } }),
    fetched(),
  ),
]);

table(
  'a configured key with some query parameters',
  [
    optimal(
      'RFC 9111 §2',
      'leaves out an ignored parameter',
      stores('/a?x=1&utm_a=1'),
      cached({ target: '/a?x=1&utm_a=2', text: 'the body of exchange 1', status: 200 }),
    ),
    required(
      'RFC 9111 §2',
      'has the other parameters',
      stores('/a?x=1&utm_a=1'),
      fetched({ target: '/a?x=2&utm_a=1' }),
    ),
  ],
  { cache: { key: { query: { ignore: ['utm_*'] } } } },
);

table(
  'a configured key with fields and cookies',
  [
    required(
      'RFC 9111 §4.1',
      'differs by the value of a field',
      fetched({ fields: ['X-Tenant: 1'], reply: { fields: [hour] } }),
      fetched({ fields: ['X-Tenant: 2'] }),
    ),
    optimal(
      'RFC 9111 §4.1',
      'matches by the value of a field',
      fetched({ fields: ['X-Tenant: 1'], reply: { fields: [hour] } }),
      cached({ fields: ['X-Tenant: 1'] }),
    ),
    required(
      'RFC 9111 §4.1',
      'differs by the value of a cookie',
      fetched({ fields: ['Cookie: lang=en; id=1'], reply: { fields: [hour] } }),
      fetched({ fields: ['Cookie: id=1; lang=de'] }),
    ),
    optimal(
      'RFC 9111 §4.1',
      'matches by the value of a cookie',
      fetched({ fields: ['Cookie: lang=en; id=1'], reply: { fields: [hour] } }),
      cached({ fields: ['Cookie: id=2; lang=en'] }),
    ),
  ],
  { cache: { key: { fields: ['X-Tenant'], cookies: ['lang'] } } },
);
