/** Stale responses while they are validated in the background (RFC 5861 §3). */

import { table } from './engine.ts';
import { cached, type Exchange, fetched, gives, optimal, refreshing, required, validated } from './rows.ts';

const says = (directives: string, ...fields: string[]): Exchange => gives(`Cache-Control: ${directives}`, ...fields);
const forbidding = ['must-revalidate', 'proxy-revalidate', 'no-cache', 's-maxage=60'];

table('stale-while-revalidate', [
  optimal(
    'RFC 5861 §3',
    'allows a stale response within its time',
    says('max-age=60, stale-while-revalidate=30'),
    refreshing({ wait: 89 }),
  ),
  required(
    'RFC 5861 §3',
    'allows none after its time',
    says('max-age=60, stale-while-revalidate=30'),
    fetched({ wait: 90 }),
  ),
  required(
    'RFC 5861 §3',
    'leads to a validation after its time',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    validated({ wait: 90 }),
  ),
  required(
    'RFC 5861 §3',
    'that is no number has no effect',
    says('max-age=60, stale-while-revalidate=x'),
    fetched({ wait: 61 }),
  ),
  required('RFC 5861 §3', 'of 0 has no effect', says('max-age=60, stale-while-revalidate=0'), fetched({ wait: 60 })),
  optimal(
    'RFC 5861 §3',
    'has no effect while the response is fresh',
    says('max-age=60, stale-while-revalidate=30'),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 5861 §3',
    'applies with max-age=0 and a validator',
    says('max-age=0, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing(),
  ),
  optimal('RFC 5861 §3', 'applies with max-age=0', says('max-age=0, stale-while-revalidate=30'), refreshing()),
  optimal(
    'RFC 5861 §3',
    'sends a conditional request',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing({ wait: 61, reply: { fields: ['ETag: "b"'] }, asks: ['If-None-Match: "a"'] }),
  ),
  optimal(
    'RFC 5861 §3',
    'stores the new response',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing({ wait: 61, reply: { fields: ['Cache-Control: max-age=600', 'ETag: "b"'] } }),
    cached({ soon: true, has: ['ETag: "b"'] }),
    cached({ wait: 599 }),
  ),
  optimal(
    'RFC 5861 §3',
    'makes the old response fresh by a 304',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing({ wait: 61, reply: { status: 304, fields: ['Cache-Control: max-age=600'] } }),
    cached({ soon: true, wait: 599 }),
  ),
  required(
    'RFC 5861 §3',
    'stores a new response with no-cache',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing({ wait: 61, reply: { fields: ['Cache-Control: no-cache', 'ETag: "b"'] } }),
    fetched({ soon: true, wait: 3 }),
  ),
  optimal(
    'RFC 5861 §3',
    'applies while the origin fails',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing({ wait: 61, reply: { status: 503 }, has: ['ETag: "a"'] }),
    refreshing({ wait: 1, reply: { fault: 'before' }, atMost: 2, soon: true }),
    refreshing({ wait: 1, soon: true, text: 'the body of exchange 1' }),
  ),
  optimal(
    'RFC 5861 §3',
    'sends the current Age',
    says('max-age=60, stale-while-revalidate=30'),
    refreshing({ wait: 70, has: ['Age: 70'] }),
  ),
  required(
    'RFC 5861 §3',
    'does not apply to a request with no-cache',
    says('max-age=60, stale-while-revalidate=30'),
    fetched({ wait: 61, fields: ['Cache-Control: no-cache'] }),
  ),
]);

table(
  'a configured stale-while-revalidate',
  [
    optimal('RFC 9111 §4.2.4', 'applies where the origin states none', says('max-age=60'), refreshing({ wait: 89 })),
    required('RFC 9111 §4.2.4', 'does not apply after its time', says('max-age=60'), fetched({ wait: 90 })),
    required(
      'RFC 5861 §3',
      'does not apply where the origin allows less',
      says('max-age=60, stale-while-revalidate=9'),
      fetched({ wait: 70 }),
    ),
    ...forbidding.map((directive) =>
      required(
        'RFC 9111 §4.2.4',
        `does not apply under ${directive}`,
        says(`max-age=60, ${directive}`),
        fetched({ wait: 61 }),
      ),
    ),
  ],
  { cache: { staleWhileRevalidateSeconds: 30 } },
);
