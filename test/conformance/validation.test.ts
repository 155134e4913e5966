/** Conditional requests that the cache sends, and what their responses change in the store (RFC 9111 §4.3). */

import { table } from './engine.ts';
import { cached, date, type Exchange, fetched, gives, optimal, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const short = 'Cache-Control: max-age=10';
const strong = 'ETag: "a"';
const modified = `Last-Modified: ${date(-3000)}`;
const wait = 10;

/** A full response that replaces the stored one. */
const replaced = (...fields: string[]): Exchange => fetched({ wait, reply: { fields } });

table('validation', [
  optimal(
    'RFC 9111 §4.3.1',
    'a strong entity tag',
    gives(short, strong),
    validated({ wait, asks: ['If-None-Match: "a"'] }),
  ),
  optimal(
    'RFC 9111 §4.3.1',
    'a weak entity tag',
    gives(short, 'ETag: W/"a"'),
    validated({ wait, asks: ['If-None-Match: W/"a"'] }),
  ),
  optimal(
    'RFC 9111 §4.3.1',
    'an entity tag with odd characters',
    gives(short, 'ETag: "a,b\xe9"'),
    validated({ wait, asks: ['If-None-Match: "a,b\xe9"'] }),
  ),
  optimal(
    'RFC 9111 §4.3.1',
    'Last-Modified',
    gives(short, modified),
    validated({ wait, asks: [`If-Modified-Since: ${date(-3000)}`], asksNo: ['If-None-Match'] }),
  ),
  optimal(
    'RFC 9111 §4.3.1',
    'an entity tag and Last-Modified',
    gives(short, strong, modified),
    validated({ wait, asks: ['If-None-Match: "a"', `If-Modified-Since: ${date(-3000)}`] }),
  ),
  required(
    'RFC 9111 §4.3.1',
    'an empty entity tag',
    gives(short, 'ETag: ""'),
    validated({ wait, asks: ['If-None-Match: ""'] }),
  ),
  required(
    'RFC 9111 §4.3.1',
    'a response without validator is fetched in full',
    gives(short),
    fetched({ wait, asksNo: ['If-None-Match', 'If-Modified-Since'] }),
  ),
  required(
    'RFC 9111 §4.3.1',
    'the stored validator is sent, not only that of the client',
    gives(short, strong),
    validated({ wait, fields: ['If-None-Match: "z"'], asks: ['If-None-Match: ~"a"'] }),
  ),
  required(
    'RFC 9111 §4.3.3',
    'a 200 replaces the stored response',
    gives(short, strong),
    replaced(hour, 'ETag: "b"'),
    cached({ wait: 3599, has: ['ETag: "b"'] }),
  ),
  required(
    'RFC 9111 §4.3.3',
    'a 200 with the same strong tag has the stored bytes (RFC 9110 §8.8.1), and renews their lifetime',
    gives(short, strong),
    fetched({ wait, reply: { fields: [hour, strong] }, text: 'the body of exchange 1' }),
    cached({ wait: 3599, text: 'the body of exchange 1' }),
  ),
  required(
    'RFC 9111 §4.3.3',
    'a 200 that is not stored does not renew the stored response',
    gives(short, strong),
    replaced('Cache-Control: no-store'),
    fetched(),
  ),
  required(
    'RFC 9111 §4.3.3',
    'a 404 replaces the stored response',
    gives(short, strong),
    fetched({ wait, reply: { status: 404, fields: [hour] } }),
    cached({ wait: 3599, status: 404 }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 renews the lifetime',
    gives(short, strong),
    validated({ wait }),
    cached({ wait: 9 }),
    validated({ wait: 1 }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 may state another max-age',
    gives(short, strong),
    validated({ wait }, hour),
    cached({ wait: 3599 }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 may state max-age=0',
    gives(hour, strong),
    validated({ wait: 3600 }, 'Cache-Control: max-age=0'),
    validated(),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 may state another Expires',
    gives(`Expires: ${date(10)}`, strong),
    validated({ wait }, `Expires: ${date(500)}`),
    cached({ wait: 480 }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 with the same tag',
    gives(short, strong),
    validated({ wait }, strong, 'X: 1'),
    cached({ has: ['X: 1', 'ETag: "a"'] }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 with the same weak tag',
    gives(short, 'ETag: W/"a"'),
    validated({ wait }, 'ETag: W/"a"', 'X: 1'),
    cached({ has: ['X: 1'] }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 with the same date',
    gives(short, modified),
    validated({ wait }, modified, 'X: 1'),
    cached({ has: ['X: 1'] }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 with an unknown strong tag leads to a full fetch',
    gives(short, strong),
    fetched({
      wait,
      reply: { status: 304, fields: ['ETag: "z"', 'X: 1'], again: { fields: [short, 'ETag: "z"'], body: 'new' } },
      lacks: ['X'],
      text: 'new',
    }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'fields that the 304 lacks stay',
    gives(short, strong, 'X: 1'),
    validated({ wait, has: ['X: 1'] }, 'Y: 2'),
    cached({ has: ['X: 1', 'Y: 2'] }),
  ),
  required(
    'RFC 9111 §3.2',
    'lines of a 304 replace all stored lines of their name',
    gives(short, strong, 'X: 1', 'X: 2'),
    validated({ wait, has: ['X: 3, 4'] }, 'X: 3', 'X: 4'),
    cached({ has: ['X: 3, 4'] }),
  ),
  required(
    'RFC 9111 §3.2',
    'a Content-Length of 0 in a 304 is ignored',
    gives(short, strong),
    validated({ wait }, 'Content-Length: 0'),
    cached({ has: ['Content-Length: 22'] }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 with no-store leads to a full fetch',
    gives(short, strong),
    fetched({ wait, reply: { status: 304, fields: ['Cache-Control: no-store'], again: { body: 'new' } }, text: 'new' }),
  ),
  required(
    'RFC 9110 §13.1.3',
    'If-Modified-Since repeats Last-Modified as it was received',
    gives(short, 'Last-Modified: Thursday, 18-Dec-25 02:01:18 GMT'),
    validated({ wait, asks: ['If-Modified-Since: Thursday, 18-Dec-25 02:01:18 GMT'] }),
  ),
]);
