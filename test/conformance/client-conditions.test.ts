/** Conditional requests of clients, and how the cache answers them by itself (RFC 9111 §4.3.2). */

import { table } from './engine.ts';
import { cached, date, fetched, gives, optimal, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';
const short = 'Cache-Control: max-age=10';
const strong = 'ETag: "a"';
const modified = `Last-Modified: ${date(-3000)}`;
const wait = 10;

const gets304 = (...fields: string[]) => cached({ fields, status: 304 });
const gets200 = (...fields: string[]) => cached({ fields });

table('If-None-Match of clients', [
  optimal('RFC 9111 §4.3.2', 'a strong tag that matches', gives(hour, strong), gets304('If-None-Match: "a"')),
  required('RFC 9111 §4.3.2', 'a strong tag that does not match', gives(hour, strong), gets200('If-None-Match: "b"')),
  optimal('RFC 9110 §13.1.2', 'a weak tag that matches', gives(hour, 'ETag: W/"a"'), gets304('If-None-Match: W/"a"')),
  optimal('RFC 9110 §13.1.2', 'a weak tag for a strong one', gives(hour, strong), gets304('If-None-Match: W/"a"')),
  optimal('RFC 9110 §13.1.2', 'a strong tag for a weak one', gives(hour, 'ETag: W/"a"'), gets304('If-None-Match: "a"')),
  ...['"a", "b", "c"', '"x", "a", "c"', '"x", "y", "a"', '"x","a"', ', "a",'].map((list) =>
    optimal('RFC 9110 §13.1.2', `a list: ${list}`, gives(hour, strong), gets304(`If-None-Match: ${list}`)),
  ),
  optimal(
    'RFC 9110 §13.1.2',
    'a list over two lines',
    gives(hour, strong),
    gets304('If-None-Match: "x"', 'If-None-Match: "a"'),
  ),
  required('RFC 9110 §13.1.2', 'a list without the tag', gives(hour, strong), gets200('If-None-Match: "b", "aa", "A"')),
  required('RFC 9110 §8.8.3.2', 'tags are case-sensitive', gives(hour, strong), gets200('If-None-Match: "A"')),
  optimal('RFC 9110 §13.1.2', '*', gives(hour), gets304('If-None-Match: *')),
  optimal('RFC 9110 §8.8.3', 'a tag with a comma', gives(hour, 'ETag: "a,b"'), gets304('If-None-Match: "x", "a,b"')),
  required(
    'RFC 9110 §13.1.2',
    'a part of a tag does not match',
    gives(hour, 'ETag: "a,b"'),
    gets200('If-None-Match: "a"'),
  ),
  optimal(
    'RFC 9110 §8.8.3',
    'a tag with characters outside ASCII',
    gives(hour, 'ETag: "\xe9!"'),
    gets304('If-None-Match: "\xe9!"'),
  ),
  required(
    'RFC 9110 §15.4.5',
    'the 304 has the fields of the 200',
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
    gets200('If-None-Match: "b"', `If-Modified-Since: ${date(0)}`),
  ),
  optimal(
    'RFC 9110 §13.2.2',
    'decides, whatever If-Modified-Since says',
    gives(hour, strong, modified),
    gets304('If-None-Match: "a"', `If-Modified-Since: ${date(-9999)}`),
  ),
  optimal(
    'RFC 9111 §4.3.2',
    'is answered after a validation',
    gives(short, strong),
    validated({ wait, fields: ['If-None-Match: "a"'], status: 304 }),
  ),
  required(
    'RFC 9111 §4.3.2',
    'is answered with the new response',
    gives(short, strong),
    fetched({ wait, fields: ['If-None-Match: "a"'], reply: { fields: ['ETag: "b"'] } }),
  ),
  optimal(
    'RFC 9111 §4.3.2',
    'matches the new response',
    gives(short, strong),
    fetched({ wait, fields: ['If-None-Match: "b"'], reply: { fields: [short, 'ETag: "b"'] }, status: 304 }),
  ),
  required(
    'RFC 9110 §13.2.1',
    'is ignored for a 404',
    fetched({ reply: { status: 404, fields: [hour, strong] } }),
    gets200('If-None-Match: "a"'),
  ),
  required(
    'RFC 9111 §4.1',
    'does not match another variant',
    fetched({ fields: ['A: 1'], reply: { fields: [hour, strong, 'Vary: A'] } }),
    fetched({ fields: ['A: 2', 'If-None-Match: "a"'], reply: { fields: [hour, 'ETag: "b"', 'Vary: A'] } }),
  ),
]);

table('If-Modified-Since of clients', [
  optimal('RFC 9111 §4.3.2', 'the same date', gives(hour, modified), gets304(`If-Modified-Since: ${date(-3000)}`)),
  optimal('RFC 9111 §4.3.2', 'a later date', gives(hour, modified), gets304(`If-Modified-Since: ${date(-2000)}`)),
  required('RFC 9111 §4.3.2', 'an earlier date', gives(hour, modified), gets200(`If-Modified-Since: ${date(-4000)}`)),
  optimal(
    'RFC 9110 §5.6.7',
    'the same date in another format',
    gives(hour, 'Last-Modified: Thu, 18 Dec 2025 02:01:18 GMT'),
    gets304('If-Modified-Since: Thursday, 18-Dec-25 02:01:18 GMT'),
  ),
  required(
    'RFC 9110 §13.1.3',
    'is ignored where it is no date',
    gives(hour, modified),
    gets200('If-Modified-Since: yesterday'),
  ),
  required(
    'RFC 9110 §13.1.3',
    'is ignored where it has two lines',
    gives(hour, modified),
    gets200(`If-Modified-Since: ${date(0)}`, `If-Modified-Since: ${date(0)}`),
  ),
  optimal(
    'RFC 9111 §4.3.2',
    'Date stands for a Last-Modified that is absent',
    gives(hour),
    cached({ wait: 9, fields: [`If-Modified-Since: ${date(5)}`], status: 304 }),
  ),
  required(
    'RFC 9111 §4.3.2',
    'a Date that is later than If-Modified-Since',
    gives(hour),
    gets200(`If-Modified-Since: ${date(-5)}`),
  ),
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
    'is answered after a validation',
    gives(short, modified),
    validated({ wait, fields: [`If-Modified-Since: ${date(-3000)}`], status: 304 }),
  ),
  required(
    'RFC 9111 §4.3.2',
    'is answered with the new response',
    gives(short, modified),
    fetched({ wait, fields: [`If-Modified-Since: ${date(-3000)}`], reply: { fields: [`Last-Modified: ${date(5)}`] } }),
  ),
]);
