/** Explicit freshness on every status, and must-understand. */

import { table } from './engine.ts';
import { cached, fetched, optimal, required } from './rows.ts';

/** Final statuses whose responses mean the same for every client. */
const statuses = [
  200, 201, 202, 203, 204, 207, 226, 299, 300, 301, 302, 303, 307, 308, 400, 402, 403, 404, 405, 409, 410, 414, 418,
  422, 423, 424, 451, 499, 500, 501, 502, 503, 504, 508, 599,
];

/** Statuses that no cache may store (RFC 6585 §3–§6). */
const neverStored = [428, 429, 431, 511];

const says = (status: number, ...fields: string[]) => fetched({ reply: { status, fields } });

table('explicit freshness by status', [
  ...statuses.map((status) =>
    optimal('RFC 9111 §3', `${status} under max-age`, says(status, 'Cache-Control: max-age=60'), cached({ wait: 59 })),
  ),
  ...statuses.map((status) =>
    required(
      'RFC 9111 §4.2',
      `${status} after max-age`,
      says(status, 'Cache-Control: max-age=60'),
      fetched({ wait: 60 }),
    ),
  ),
  ...[404, 410, 500, 503].map((status) =>
    optimal(
      'RFC 9111 §3',
      `${status} under s-maxage`,
      says(status, 'Cache-Control: s-maxage=60'),
      cached({ wait: 59 }),
    ),
  ),
  ...neverStored.map((status) =>
    required('RFC 6585 §3–§6', `${status} is not stored`, says(status, 'Cache-Control: max-age=60'), fetched()),
  ),
  required(
    'RFC 9110 §15.5.17',
    '416 does not answer requests without that range',
    fetched({
      fields: ['Range: bytes=9-'],
      reply: { status: 416, fields: ['Cache-Control: max-age=60', 'Content-Range: bytes */9'] },
    }),
    fetched(),
  ),
  required(
    'RFC 9110 §15.5.2',
    '401 does not answer a request with credentials',
    says(401, 'Cache-Control: max-age=60', 'WWW-Authenticate: Basic'),
    fetched({ fields: ['Authorization: Basic QTpC'] }),
  ),
  required('RFC 9110 §15.5.7', '406 does not answer other clients', says(406, 'Cache-Control: max-age=60'), fetched()),
  required('RFC 9110 §15.5.8', '407 does not answer other clients', says(407, 'Cache-Control: max-age=60'), fetched()),
  required('RFC 9110 §15.5.9', '408 does not answer other clients', says(408, 'Cache-Control: max-age=60'), fetched()),
]);

/** An error that one client's fields provoke must not reach other clients. */
table('errors that a client provoked', [
  ...['X-Long: '.padEnd(3000, 'x'), 'X-Odd: \xff', 'Content-Type: x'].map((field) =>
    required(
      'RFC 9111 §7.1',
      `400 to "${field.slice(0, 14)}" is not reused`,
      fetched({
        fields: [field, 'X-More: '.padEnd(1200, 'y')],
        reply: { status: 400, fields: ['Cache-Control: max-age=60'] },
      }),
      fetched(),
    ),
  ),
  required(
    'RFC 9111 §7.1',
    '403 to bad credentials is not reused',
    fetched({
      fields: ['Authorization: Basic x'],
      reply: { status: 403, fields: ['Cache-Control: max-age=60, public'] },
    }),
    fetched(),
  ),
]);

table('must-understand', [
  optimal(
    'RFC 9111 §5.2.2.3',
    'allows storing a 200 with no-store',
    says(200, 'Cache-Control: max-age=60, no-store, must-understand'),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 9111 §5.2.2.3',
    'allows storing a 404 with no-store',
    says(404, 'Cache-Control: must-understand, no-store, max-age=60'),
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9111 §5.2.2.3',
    'does not lift no-store for a status that is not understood',
    says(599, 'Cache-Control: max-age=60, no-store, must-understand'),
    fetched(),
  ),
  required(
    'RFC 9111 §3',
    'prevents storing a status that is not understood',
    says(599, 'Cache-Control: max-age=60, must-understand'),
    fetched(),
  ),
  required(
    'RFC 9111 §3',
    'prevents storing a status that is not understood, even with public',
    says(299, 'Cache-Control: max-age=60, public, must-understand'),
    fetched(),
  ),
  required(
    'RFC 9111 §3',
    'does not lift private',
    says(200, 'Cache-Control: max-age=60, private, must-understand'),
    fetched(),
  ),
  required(
    'RFC 9111 §5.2.2.3',
    'does not extend the lifetime',
    says(200, 'Cache-Control: max-age=60, no-store, must-understand'),
    fetched({ wait: 60 }),
  ),
  optimal(
    'RFC 9111 §5.2.2.3',
    'has no effect on a status that is understood',
    says(200, 'Cache-Control: max-age=60, must-understand'),
    cached({ wait: 59 }),
  ),
]);
