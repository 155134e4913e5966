/** Stale responses: when the origin fails, and where they are forbidden. */

import { table } from './engine.ts';
import { type Exchange, fetched, gives, made, optimal, type Reply, required, stale, validated } from './rows.ts';

const says = (directives: string, ...fields: string[]): Exchange => gives(`Cache-Control: ${directives}`, ...fields);

/** The ways in which an origin fails (RFC 5861 §4). */
const failures: readonly (readonly [string, Reply])[] = [
  ...[500, 502, 503, 504].map((status): [string, Reply] => [`a ${status}`, { status }]),
  ['a connection that is cut', { fault: 'before' }],
  ['a connection that is refused', { fault: 'refuse' }],
];

/** The error that a client gets where no stale response may be served: the origin's own, or the proxy's 502. */
const error = (reply: Reply, wait: number): Exchange =>
  reply.fault === undefined ? fetched({ wait, reply }) : made(502, { wait, reply });

table('stale-if-error', [
  ...failures.map(([failure, reply]) =>
    optimal(
      'RFC 5861 §4',
      `within its time, ${failure}`,
      says('max-age=60, stale-if-error=30'),
      stale({ wait: 89, reply }),
    ),
  ),
  ...failures.map(([failure, reply]) =>
    required('RFC 5861 §4', `after its time, ${failure}`, says('max-age=60, stale-if-error=30'), error(reply, 91)),
  ),
  ...failures.map(([failure, reply]) =>
    required('RFC 5861 §4', `of 0, ${failure}`, says('max-age=60, stale-if-error=0'), error(reply, 61)),
  ),
  ...[400, 403, 404, 410, 429].map((status) =>
    required(
      'RFC 5861 §4',
      `does not apply to a ${status}`,
      says('max-age=60, stale-if-error=30'),
      fetched({ wait: 61, reply: { status } }),
    ),
  ),
  optimal(
    'RFC 5861 §4',
    'applies with max-age=0',
    says('max-age=0, stale-if-error=30'),
    stale({ wait: 1, reply: { status: 503 } }),
  ),
  required(
    'RFC 5861 §4',
    'does not apply where the origin answers',
    says('max-age=60, stale-if-error=30'),
    fetched({ wait: 61 }),
  ),
  required(
    'RFC 5861 §4',
    'that is no number has no effect',
    says('max-age=60, stale-if-error=x'),
    made(502, { wait: 61, reply: { fault: 'before' } }),
  ),
  optimal(
    'RFC 5861 §4',
    'applies to a response with a validator',
    says('max-age=60, stale-if-error=30', 'ETag: "a"'),
    stale({ wait: 61, reply: { status: 503 } }),
  ),
  optimal(
    'RFC 5861 §4',
    'sends the current Age',
    says('max-age=60, stale-if-error=30'),
    stale({ wait: 70, reply: { status: 503 }, has: ['Age: 70'] }),
  ),
  optimal(
    'RFC 5861 §4',
    'allows ranges of the stale response',
    says('max-age=60, stale-if-error=30'),
    stale({ wait: 70, fields: ['Range: bytes=0-2'], reply: { status: 503 }, status: 206, text: 'the' }),
  ),
  optimal(
    'RFC 5861 §4',
    'allows several stale responses, and the origin is asked each time',
    says('max-age=60, stale-if-error=30'),
    stale({ wait: 61, reply: { status: 503 } }),
    stale({ wait: 1, reply: { status: 503 } }),
    fetched({ wait: 1 }),
  ),
  required(
    'RFC 5861 §4',
    'does not let the error be stored',
    says('max-age=60, stale-if-error=30'),
    stale({ wait: 61, reply: { status: 503, fields: ['Cache-Control: max-age=60'] } }),
    fetched({ wait: 1 }),
  ),
]);

/** Without a directive, a response may be served for a week past its lifetime (RFC 9111 §4.2.4). */
table('an origin that fails, without stale-if-error', [
  ...failures.map(([failure, reply]) =>
    optimal('RFC 9111 §4.2.4', failure, says('max-age=60'), stale({ wait: 90, reply })),
  ),
  ...failures.map(([failure, reply]) =>
    required('RFC 9111 §4.2.4', `${failure}, much later`, says('max-age=60'), error(reply, 61 + 604_800)),
  ),
  ...failures
    .slice(0, 5)
    .map(([failure, reply]) => required('RFC 9110 §15.6', `${failure}, with nothing stored`, error(reply, 0))),
  required(
    'RFC 9110 §15.6.3',
    'a connection that is refused, with nothing stored',
    made(502, { reply: { fault: 'refuse' } }),
  ),
  required(
    'RFC 9110 §15.6.3',
    'a connection that is cut under POST',
    made(502, { method: 'POST', body: 'x', reply: { fault: 'before' } }),
  ),
  required(
    'RFC 9112 §8',
    'half of a body is not stored as the whole body',
    fetched({
      reply: { fields: ['Cache-Control: max-age=60', 'Content-Length: 99'], body: 'x'.repeat(99), fault: 'midway' },
    }),
    fetched(),
  ),
]);

const forbidding = ['must-revalidate', 'proxy-revalidate', 'no-cache', 's-maxage=60'];

table('responses that are never stale', [
  ...forbidding.flatMap((directive) =>
    failures.map(([failure, reply]) =>
      required(
        'RFC 9111 §4.2.4',
        `${directive}, ${failure}`,
        says(`max-age=60, ${directive}`, 'ETag: "a"'),
        error(reply, 61),
      ),
    ),
  ),
  ...forbidding.map((directive) =>
    required(
      'RFC 9111 §4.2.4',
      `${directive}, whatever stale-if-error says`,
      says(`max-age=60, stale-if-error=99, ${directive}`),
      made(502, { wait: 61, reply: { fault: 'before' } }),
    ),
  ),
  ...forbidding.map((directive) =>
    required(
      'RFC 9111 §4.2.4',
      `${directive}, whatever the request says`,
      says(`max-age=60, ${directive}`),
      made(502, { wait: 61, fields: ['Cache-Control: stale-if-error=99, max-stale'], reply: { fault: 'before' } }),
    ),
  ),
  ...['must-revalidate', 'proxy-revalidate', 'no-cache'].map((directive) =>
    required(
      'RFC 9111 §4.2.4',
      `${directive}, whatever stale-while-revalidate says`,
      says(`max-age=60, stale-while-revalidate=99, ${directive}`),
      fetched({ wait: 61 }),
    ),
  ),
  required(
    'RFC 9111 §5.2.2.10',
    's-maxage, whatever stale-while-revalidate says',
    says('s-maxage=60, stale-while-revalidate=99'),
    fetched({ wait: 61 }),
  ),
  required(
    'RFC 9111 §5.2.1.4',
    'no-cache of the request',
    says('max-age=60'),
    made(502, { wait: 61, fields: ['Cache-Control: no-cache'], reply: { fault: 'before' } }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'must-revalidate of a 304',
    says('max-age=60', 'ETag: "a"'),
    validated({ wait: 60 }, 'Cache-Control: max-age=60, must-revalidate'),
    made(502, { wait: 60, reply: { fault: 'before' } }),
  ),
]);

table(
  'stale-if-error of a request',
  [
    optimal(
      'RFC 5861 §4',
      'allows a stale response within its time',
      says('max-age=60'),
      stale({ wait: 89, fields: ['Cache-Control: stale-if-error=30'], reply: { status: 503 } }),
    ),
    required(
      'RFC 5861 §4',
      'allows none after its time',
      says('max-age=60'),
      fetched({ wait: 91, fields: ['Cache-Control: stale-if-error=30'], reply: { status: 503 } }),
    ),
    required(
      'RFC 5861 §4',
      'applies to that request only',
      says('max-age=60'),
      fetched({ wait: 70, reply: { status: 503 } }),
    ),
    optimal(
      'RFC 5861 §4',
      'is not needed where the response has it',
      says('max-age=60, stale-if-error=30'),
      stale({ wait: 89, reply: { status: 503 } }),
    ),
  ],
  { cache: { staleIfErrorSeconds: 0 } },
);

table(
  'an origin that does not answer',
  [
    required('RFC 9110 §15.6.5', 'leads to a 504', made(504, { reply: { fault: 'silence' } })),
    required(
      'RFC 9111 §5.2.2.2',
      'leads to a 504 under must-revalidate',
      says('max-age=60, must-revalidate'),
      made(504, { wait: 61, reply: { fault: 'silence' } }),
    ),
    optimal(
      'RFC 5861 §4',
      'counts as a failure for stale-if-error',
      says('max-age=60, stale-if-error=30'),
      stale({ wait: 61, reply: { fault: 'silence' } }),
    ),
  ],
  { originTimeoutMs: 100 },
);
