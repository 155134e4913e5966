/** Stale responses while they are validated in the background (RFC 5861 §3). */

import { table } from './engine.ts';
import { cached, type Exchange, fetched, gives, optimal, refreshing, required, validated } from './rows.ts';

const says = (directives: string, ...fields: string[]): Exchange => gives(`Cache-Control: ${directives}`, ...fields);
const forbidding = ['must-revalidate', 'proxy-revalidate', 'no-cache', 's-maxage=60'];

table('stale-while-revalidate', [
  optimal('RFC 5861 §3', 'within its time', says('max-age=60, stale-while-revalidate=30'), refreshing({ wait: 89 })),
  required('RFC 5861 §3', 'after its time', says('max-age=60, stale-while-revalidate=30'), fetched({ wait: 90 })),
  required(
    'RFC 5861 §3',
    'after its time, with a validator',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    validated({ wait: 90 }),
  ),
  required('RFC 5861 §3', 'that is no number', says('max-age=60, stale-while-revalidate=x'), fetched({ wait: 61 })),
  required('RFC 5861 §3', 'of 0', says('max-age=60, stale-while-revalidate=0'), fetched({ wait: 60 })),
  optimal(
    'RFC 5861 §3',
    'is nothing while the response is fresh',
    says('max-age=60, stale-while-revalidate=30'),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 5861 §3',
    'with max-age=0 and a validator',
    says('max-age=0, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing(),
  ),
  optimal('RFC 5861 §3', 'with max-age=0', says('max-age=0, stale-while-revalidate=30'), refreshing()),
  optimal(
    'RFC 5861 §3',
    'validates',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing({ wait: 61, reply: { fields: ['ETag: "b"'] }, asks: ['If-None-Match: "a"'] }),
  ),
  optimal(
    'RFC 5861 §3',
    'brings the new response',
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
    'brings what may not be reused',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing({ wait: 61, reply: { fields: ['Cache-Control: no-cache', 'ETag: "b"'] } }),
    fetched({ soon: true, wait: 3 }),
  ),
  optimal(
    'RFC 5861 §3',
    'goes on while the origin fails',
    says('max-age=60, stale-while-revalidate=30', 'ETag: "a"'),
    refreshing({ wait: 61, reply: { status: 503 }, has: ['ETag: "a"'] }),
    refreshing({ wait: 1, reply: { fault: 'before' }, atMost: 2, soon: true }),
    refreshing({ wait: 1, soon: true, text: 'the body of exchange 1' }),
  ),
  optimal(
    'RFC 5861 §3',
    'serves with the age that there is',
    says('max-age=60, stale-while-revalidate=30'),
    refreshing({ wait: 70, has: ['Age: 70'] }),
  ),
  required(
    'RFC 5861 §3',
    'not where the request wants it validated',
    says('max-age=60, stale-while-revalidate=30'),
    fetched({ wait: 61, fields: ['Cache-Control: no-cache'] }),
  ),
]);

table(
  'stale-while-revalidate of the operator',
  [
    optimal('RFC 9111 §4.2.4', 'where the origin says nothing', says('max-age=60'), refreshing({ wait: 89 })),
    required('RFC 9111 §4.2.4', 'not after its time', says('max-age=60'), fetched({ wait: 90 })),
    required(
      'RFC 5861 §3',
      'not where the origin says less',
      says('max-age=60, stale-while-revalidate=9'),
      fetched({ wait: 70 }),
    ),
    ...forbidding.map((directive) =>
      required('RFC 9111 §4.2.4', `not under ${directive}`, says(`max-age=60, ${directive}`), fetched({ wait: 61 })),
    ),
  ],
  { cache: { staleWhileRevalidateSeconds: 30 } },
);
