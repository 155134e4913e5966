/** Heuristic freshness: lifetimes of responses for which the origin states none. */

import { table } from './engine.ts';
import { cached, date, fetched, gives, optimal, required } from './rows.ts';

const hourSeconds = 3600;
const yesterday = `Last-Modified: ${date(-24 * hourSeconds)}`;

/** Statuses that are heuristically cacheable (RFC 9110 §15.1). 206 has its own tables in `parts.test.ts`. */
const cacheable = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
const others = [
  201, 202, 302, 303, 307, 400, 401, 402, 403, 406, 407, 408, 409, 411, 412, 413, 415, 417, 421, 422, 425, 426, 428,
  429, 431, 451, 500, 502, 503, 504, 505, 511, 599,
];

const says = (status: number, ...fields: string[]) => fetched({ reply: { status, fields } });

table('heuristic freshness by status', [
  ...cacheable.map((status) =>
    optimal(
      'RFC 9110 §15.1',
      `${status} with Last-Modified has a lifetime`,
      says(status, yesterday),
      cached({ wait: hourSeconds }),
    ),
  ),
  ...cacheable.map((status) =>
    required(
      'RFC 9111 §4.2.2',
      `${status} is not fresh for as long as the time since Last-Modified`,
      says(status, yesterday),
      fetched({ wait: 24 * hourSeconds }),
    ),
  ),
  ...cacheable.map((status) =>
    required('RFC 9111 §4.2.2', `${status} without Last-Modified has no lifetime`, says(status), says(status)),
  ),
  ...others.map((status) =>
    required('RFC 9110 §15.1', `${status} with Last-Modified has no lifetime`, says(status, yesterday), says(status)),
  ),
  ...[201, 202, 302, 303, 307, 403, 500, 503, 599].map((status) =>
    optimal(
      'RFC 9111 §4.2.2',
      `${status} with public has a lifetime`,
      says(status, yesterday, 'Cache-Control: public'),
      cached(),
    ),
  ),
]);

table('heuristic freshness', [
  ...[100, 600, hourSeconds, 12 * hourSeconds, 24 * hourSeconds].map((ago) =>
    optimal(
      'RFC 9111 §4.2.2',
      `a twentieth of ${ago} s is not too long`,
      gives(`Last-Modified: ${date(-ago)}`),
      cached({ wait: ago / 20 }),
    ),
  ),
  ...[100, 600, hourSeconds, 12 * hourSeconds, 24 * hourSeconds].map((ago) =>
    required(
      'RFC 9111 §4.2.2',
      `half of ${ago} s is too long`,
      gives(`Last-Modified: ${date(-ago)}`),
      fetched({ wait: ago / 2 }),
    ),
  ),
  required('RFC 9111 §4.2.2', 'not under max-age=0', gives(yesterday, 'Cache-Control: max-age=0'), fetched()),
  required('RFC 9111 §4.2.2', 'not under s-maxage=0', gives(yesterday, 'Cache-Control: s-maxage=0'), fetched()),
  required('RFC 9111 §4.2.2', 'not under an Expires in the past', gives(yesterday, `Expires: ${date(-9)}`), fetched()),
  required('RFC 9111 §4.2.2', 'not under an Expires that is no date', gives(yesterday, 'Expires: 0'), fetched()),
  required(
    'RFC 9111 §4.2.2',
    'not under a max-age that is no number',
    gives(yesterday, 'Cache-Control: max-age=x'),
    fetched(),
  ),
  required('RFC 9111 §5.2.2.4', 'not under no-cache', gives(yesterday, 'Cache-Control: no-cache'), fetched()),
  required('RFC 9111 §5.2.2.5', 'not under no-store', gives(yesterday, 'Cache-Control: no-store'), fetched()),
  required('RFC 9111 §4.2.2', 'not from a Last-Modified in the future', gives(`Last-Modified: ${date(99)}`), fetched()),
  required('RFC 9111 §4.2.2', 'not from a Last-Modified of now', gives(`Last-Modified: ${date(0)}`), fetched()),
  required('RFC 9110 §8.8.2', 'not from a Last-Modified that is no date', gives('Last-Modified: yesterday'), fetched()),
  required('RFC 9111 §4.2.2', 'not from an entity tag', gives('ETag: "a"'), fetched()),
  required('RFC 9111 §4.2.3', 'is over where Age says so', gives(yesterday, `Age: ${24 * hourSeconds}`), fetched()),
  optimal(
    'RFC 9111 §4.2.2',
    'applies to a target with a query',
    fetched({ target: '/a?b', reply: { fields: [yesterday] } }),
    cached({ target: '/a?b' }),
  ),
  optimal(
    'RFC 9111 §4.2.2',
    'applies to a response with Content-Disposition',
    gives(yesterday, 'Content-Disposition: attachment; filename=a'),
    cached(),
  ),
]);
