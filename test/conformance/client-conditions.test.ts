/** Conditional requests of clients, and what of them the cache answers by itself (RFC 9111 §4.3.2). */

import { table } from './engine.ts';
import { cached, date, fetched, gives, optimal, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const short = 'Cache-Control: max-age=10';
const strong = 'ETag: "a"';
const modified = `Last-Modified: ${date(-3000)}`;
const wait = 10;

const asks = (...fields: string[]) => cached({ fields, status: 304 });
const asksInVain = (...fields: string[]) => cached({ fields });

table('If-None-Match of clients', [
  optimal('RFC 9111 §4.3.2', 'a strong tag that matches', gives(hour, strong), asks('If-None-Match: "a"')),
  required('RFC 9111 §4.3.2', 'one that does not', gives(hour, strong), asksInVain('If-None-Match: "b"')),
  optimal('RFC 9110 §13.1.2', 'a weak tag that matches', gives(hour, 'ETag: W/"a"'), asks('If-None-Match: W/"a"')),
  optimal('RFC 9110 §13.1.2', 'a weak tag for a strong one', gives(hour, strong), asks('If-None-Match: W/"a"')),
  optimal('RFC 9110 §13.1.2', 'a strong tag for a weak one', gives(hour, 'ETag: W/"a"'), asks('If-None-Match: "a"')),
  ...['"a", "b", "c"', '"x", "a", "c"', '"x", "y", "a"', '"x","a"', ', "a",'].map((list) =>
    optimal('RFC 9110 §13.1.2', `a list: ${list}`, gives(hour, strong), asks(`If-None-Match: ${list}`)),
  ),
  optimal(
    'RFC 9110 §13.1.2',
    'a list over two lines',
    gives(hour, strong),
    asks('If-None-Match: "x"', 'If-None-Match: "a"'),
  ),
  required('RFC 9110 §13.1.2', 'a list without it', gives(hour, strong), asksInVain('If-None-Match: "b", "aa", "A"')),
  required('RFC 9110 §8.8.3.2', 'tags are compared by case', gives(hour, strong), asksInVain('If-None-Match: "A"')),
  optimal('RFC 9110 §13.1.2', '*', gives(hour), asks('If-None-Match: *')),
  optimal('RFC 9110 §8.8.3', 'a tag with a comma', gives(hour, 'ETag: "a,b"'), asks('If-None-Match: "x", "a,b"')),
  required('RFC 9110 §13.1.2', 'a part of a tag is none', gives(hour, 'ETag: "a,b"'), asksInVain('If-None-Match: "a"')),
  optimal(
    'RFC 9110 §8.8.3',
    'a tag with other characters',
    gives(hour, 'ETag: "\xe9!"'),
    asks('If-None-Match: "\xe9!"'),
  ),
  required(
    'RFC 9110 §15.4.5',
    'the 304 has what a 200 would have',
    gives(hour, strong, 'Content-Location: /b', `Expires: ${date(9)}`, 'Vary: A'),
    cached({
      fields: ['If-None-Match: "a"'],
      status: 304,
      has: ['ETag: "a"', hour, 'Content-Location: /b', `Expires: ${date(9)}`, 'Vary: A', `Date: ${date(0)}`],
    }),
  ),
  required(
    'RFC 9110 §15.4.5',
    'the 304 has no content',
    gives(hour, strong),
    cached({ fields: ['If-None-Match: "a"'], status: 304, lacks: ['Transfer-Encoding'] }),
  ),
  optimal(
    'RFC 9110 §13.1.2',
    'under HEAD',
    gives(hour, strong),
    cached({ method: 'HEAD', fields: ['If-None-Match: "a"'], status: 304 }),
  ),
  required(
    'RFC 9110 §13.2.2',
    'takes precedence over If-Modified-Since',
    gives(hour, strong, modified),
    asksInVain('If-None-Match: "b"', `If-Modified-Since: ${date(0)}`),
  ),
  optimal(
    'RFC 9110 §13.2.2',
    'is enough, whatever If-Modified-Since says',
    gives(hour, strong, modified),
    asks('If-None-Match: "a"', `If-Modified-Since: ${date(-9999)}`),
  ),
  optimal(
    'RFC 9111 §4.3.2',
    'for what turned out to be valid',
    gives(short, strong),
    validated({ wait, fields: ['If-None-Match: "a"'], status: 304 }),
  ),
  required(
    'RFC 9111 §4.3.2',
    'for what turned out to be new',
    gives(short, strong),
    fetched({ wait, fields: ['If-None-Match: "a"'], reply: { fields: ['ETag: "b"'] } }),
  ),
  optimal(
    'RFC 9111 §4.3.2',
    'for what turned out to be what the client has',
    gives(short, strong),
    fetched({ wait, fields: ['If-None-Match: "b"'], reply: { fields: [short, 'ETag: "b"'] }, status: 304 }),
  ),
  required(
    'RFC 9110 §13.2.1',
    'not for a 404',
    fetched({ reply: { status: 404, fields: [hour, strong] } }),
    asksInVain('If-None-Match: "a"'),
  ),
  required(
    'RFC 9111 §4.1',
    'not for another variant',
    fetched({ fields: ['A: 1'], reply: { fields: [hour, strong, 'Vary: A'] } }),
    fetched({ fields: ['A: 2', 'If-None-Match: "a"'], reply: { fields: [hour, 'ETag: "b"', 'Vary: A'] } }),
  ),
]);

table('If-Modified-Since of clients', [
  optimal('RFC 9111 §4.3.2', 'the same date', gives(hour, modified), asks(`If-Modified-Since: ${date(-3000)}`)),
  optimal('RFC 9111 §4.3.2', 'a later date', gives(hour, modified), asks(`If-Modified-Since: ${date(-2000)}`)),
  required(
    'RFC 9111 §4.3.2',
    'an earlier date',
    gives(hour, modified),
    asksInVain(`If-Modified-Since: ${date(-4000)}`),
  ),
  optimal(
    'RFC 9110 §5.6.7',
    'in another form',
    gives(hour, 'Last-Modified: Thu, 18 Dec 2025 02:01:18 GMT'),
    asks('If-Modified-Since: Thursday, 18-Dec-25 02:01:18 GMT'),
  ),
  required('RFC 9110 §13.1.3', 'that is no date', gives(hour, modified), asksInVain('If-Modified-Since: yesterday')),
  required(
    'RFC 9110 §13.1.3',
    'that is two dates',
    gives(hour, modified),
    asksInVain(`If-Modified-Since: ${date(0)}`, `If-Modified-Since: ${date(0)}`),
  ),
  optimal(
    'RFC 9111 §4.3.2',
    'Date stands for a Last-Modified that is absent',
    gives(hour),
    cached({ wait: 9, fields: [`If-Modified-Since: ${date(5)}`], status: 304 }),
  ),
  required('RFC 9111 §4.3.2', 'Date is later than it', gives(hour), asksInVain(`If-Modified-Since: ${date(-5)}`)),
  optimal(
    'RFC 9111 §4.3.2',
    'the arrival stands for a Date that is absent',
    fetched({ reply: { fields: [hour], hasDate: false } }),
    cached({ wait: 9, fields: [`If-Modified-Since: ${date(5)}`], status: 304 }),
  ),
  optimal(
    'RFC 9110 §13.1.3',
    'under HEAD',
    gives(hour, modified),
    cached({ method: 'HEAD', fields: [`If-Modified-Since: ${date(0)}`], status: 304 }),
  ),
  optimal(
    'RFC 9111 §4.3.2',
    'for what turned out to be valid',
    gives(short, modified),
    validated({ wait, fields: [`If-Modified-Since: ${date(-3000)}`], status: 304 }),
  ),
  required(
    'RFC 9111 §4.3.2',
    'for what turned out to be new',
    gives(short, modified),
    fetched({ wait, fields: [`If-Modified-Since: ${date(-3000)}`], reply: { fields: [`Last-Modified: ${date(5)}`] } }),
  ),
]);
