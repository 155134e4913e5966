/** Explicit lifetimes: for how long a response is reused without asking the origin. */

import { table } from './engine.ts';
import { cached, date, fetched, gives, optimal, required } from './rows.ts';

table('max-age', [
  required('RFC 9111 §4.2', 'or another lifetime is needed for reuse', gives(), fetched()),
  optimal(
    'RFC 9111 §5.2.2.1',
    'allows reuse until the last second',
    gives('Cache-Control: max-age=60'),
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9111 §5.2.2.1',
    'allows no reuse at its end',
    gives('Cache-Control: max-age=60'),
    fetched({ wait: 60 }),
  ),
  required('RFC 9111 §5.2.2.1', 'of 0 allows no reuse', gives('Cache-Control: max-age=0'), fetched()),
  optimal('RFC 9111 §5.2', 'in any case', gives('cache-control: MaX-aGe=60'), cached({ wait: 59 })),
  optimal(
    'RFC 9111 §5.3',
    'counts rather than an Expires in the past',
    gives('Cache-Control: max-age=60', `Expires: ${date(-100)}`),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 9111 §5.3',
    'counts rather than an invalid Expires',
    gives('Cache-Control: max-age=60', 'Expires: 0'),
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9111 §5.3',
    'counts rather than an Expires in the future',
    gives('Cache-Control: max-age=0', `Expires: ${date(100)}`),
    fetched(),
  ),
  optimal(
    'RFC 9111 §5.2.3',
    'beside an unknown directive',
    gives('Cache-Control: foobar, max-age=60'),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 9111 §5.2.3',
    'beside an unknown directive with an argument',
    gives('Cache-Control: max-age=60, a=b, c="d, e"'),
    cached({ wait: 59 }),
  ),
  optimal('RFC 9110 §5.6.1.2', 'among empty members', gives('Cache-Control: ,, max-age=60,'), cached({ wait: 59 })),
  optimal(
    'RFC 9110 §5.3',
    'over two lines',
    gives('Cache-Control: foo', 'Cache-Control: max-age=60'),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 9111 §1.2.2',
    'with leading zeros',
    gives('Cache-Control: max-age=0060'),
    cached({ wait: 59 }),
    fetched({ wait: 1 }),
  ),
  required(
    'RFC 9111 §4.2.1',
    'counts where it is the first of several, and shorter',
    gives('Cache-Control: max-age=0, max-age=60'),
    fetched(),
  ),
  required(
    'RFC 9111 §4.2.1',
    'counts where it is the first of several lines, and shorter',
    gives('Cache-Control: max-age=0', 'Cache-Control: max-age=60'),
    fetched(),
  ),
  ...['2147483647', '2147483648', '2147483649', '99999999999', '9'.repeat(30)].map((seconds) =>
    optimal(
      'RFC 9111 §1.2.2',
      `of ${seconds}`,
      gives(`Cache-Control: max-age=${seconds}`),
      cached({ wait: 2_000_000_000 }),
    ),
  ),
  ...['-3600', "'3600'", '36x', 'x36', '3600.0', '3600.5', '', '1e3', '0x99', '36 00', '"36 00"', '3600;a=b'].map(
    (argument) =>
      required(
        'RFC 9111 §4.2.1',
        `of ${argument === '' ? 'nothing' : argument} allows no reuse`,
        gives(`Cache-Control: max-age=${argument}`),
        fetched(),
      ),
  ),
  required(
    'RFC 9111 §5.2',
    'in a quoted string does not count before the real one',
    gives('Cache-Control: ext="max-age=3600", max-age=1'),
    fetched({ wait: 2 }),
  ),
  required(
    'RFC 9111 §5.2',
    'in a quoted string does not count after the real one',
    gives('Cache-Control: max-age=1, ext="max-age=3600"'),
    fetched({ wait: 2 }),
  ),
  required(
    'RFC 9111 §5.2',
    'in a quoted string with escaped quotes does not count',
    gives('Cache-Control: ext="\\", max-age=3600, \\"", max-age=1'),
    fetched({ wait: 2 }),
  ),
  required(
    'RFC 9111 §5.2',
    'is not part of the name of another directive',
    gives('Cache-Control: x-max-age=3600'),
    fetched(),
  ),
]);

table('s-maxage', [
  optimal(
    'RFC 9111 §5.2.2.10',
    'is a lifetime',
    gives('Cache-Control: s-maxage=60'),
    cached({ wait: 59 }),
    fetched({ wait: 1 }),
  ),
  required(
    'RFC 9111 §5.2.2.10',
    'counts rather than a longer max-age',
    gives('Cache-Control: max-age=3600, s-maxage=1'),
    fetched({ wait: 2 }),
  ),
  required(
    'RFC 9111 §5.2.2.10',
    'counts rather than a longer max-age after it',
    gives('Cache-Control: s-maxage=1, max-age=3600'),
    fetched({ wait: 2 }),
  ),
  required(
    'RFC 9111 §5.2.2.10',
    'counts on another line',
    gives('Cache-Control: max-age=3600', 'Cache-Control: s-maxage=1'),
    fetched({ wait: 2 }),
  ),
  optimal(
    'RFC 9111 §5.2.2.10',
    'counts rather than a shorter max-age',
    gives('Cache-Control: max-age=1, s-maxage=60'),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 9111 §5.2.2.10',
    'counts rather than max-age=0 and an Expires in the past',
    gives('Cache-Control: max-age=0, s-maxage=60', `Expires: ${date(-9)}`),
    cached({ wait: 59 }),
  ),
  required('RFC 9111 §5.2.2.10', 'of 0 allows no reuse', gives('Cache-Control: max-age=3600, s-maxage=0'), fetched()),
  required(
    'RFC 9111 §4.2.1',
    'that is no number allows no reuse',
    gives('Cache-Control: max-age=3600, s-maxage=x'),
    fetched(),
  ),
]);

table('Expires', [
  optimal('RFC 9111 §5.3', 'in the future allows reuse', gives(`Expires: ${date(60)}`), cached({ wait: 59 })),
  required('RFC 9111 §5.3', 'allows no reuse when it is reached', gives(`Expires: ${date(60)}`), fetched({ wait: 60 })),
  required('RFC 9111 §5.3', 'in the past allows no reuse', gives(`Expires: ${date(-60)}`), fetched()),
  required('RFC 9111 §5.3', 'of now allows no reuse', gives(`Expires: ${date(0)}`), fetched()),
  required(
    'RFC 9111 §4.2.1',
    'counts from Date',
    gives(`Expires: ${date(60)}`, `Date: ${date(50)}`),
    fetched({ wait: 11 }),
  ),
  optimal(
    'RFC 9111 §4.2.1',
    'counts from a Date in the future, too',
    gives(`Expires: ${date(160)}`, `Date: ${date(100)}`),
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9111 §4.2.1',
    'with a Date in the past is no later',
    gives(`Expires: ${date(60)}`, `Date: ${date(-60)}`),
    fetched({ wait: 61 }),
  ),
  required('RFC 9111 §4.2.3', 'is over where Age says so', gives(`Expires: ${date(60)}`, 'Age: 60'), fetched()),
  optimal(
    'RFC 9111 §5.3',
    'counts from the arrival where there is no Date',
    { ...gives(), reply: { fields: [`Expires: ${date(60)}`], hasDate: false } },
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9111 §4.2.1',
    'counts where it is the first of two, and earlier',
    gives(`Expires: ${date(-60)}`, `Expires: ${date(60)}`),
    fetched(),
  ),
  ...[
    'Tue, 19 Jan 2038 14:14:08 GMT',
    'Sun, 21 Nov 2286 04:46:39 GMT',
    'Fri, 31 Dec 9999 23:59:59 GMT',
    'Thursday, 18-Aug-50 02:01:18 GMT',
    'Thu Aug  8 02:01:18 2050',
    'THU, 18 Aug 2050 02:01:18 GMT',
    'Thu, 18 AUG 2050 02:01:18 GMT',
    'Thu, 18 Aug 2050 02:01:18 gMT',
  ].map((expires) =>
    optimal('RFC 9110 §5.6.7', `"${expires}" is a date`, gives(`Expires: ${expires}`), cached({ wait: 9 })),
  ),
  ...[
    '0',
    '-1',
    '',
    'never',
    '3600',
    'Thu, 18 Aug 2050 02:01:18 UTC',
    'Thu, 18 Aug 2050 02:01:18 AEST',
    'Thu, 18 Aug 2050 02:01:18 +0000',
    'Thu, 18 Aug 2050 02:01:18',
    'Thu, 18 Aug 50 02:01:18 GMT',
    'Thu 18 Aug 2050 02:01:18 GMT',
    'Thu, 18  Aug  2050 02:01:18 GMT',
    'Thu, 18-Aug-2050 02:01:18 GMT',
    'Thu, 18 Aug 2050 02.01.18 GMT',
    'Thu, 18 Aug 2050 2:01:18 GMT',
    'Thu, 31 Jun 2050 02:01:18 GMT',
    '2050-08-18T02:01:18Z',
    'Thu, 18 Aug 2050 25:01:18 GMT',
    'Thu, 18 Foo 2050 02:01:18 GMT',
  ].map((expires) =>
    required('RFC 9111 §5.3', `"${expires}" is no date and counts as past`, gives(`Expires: ${expires}`), fetched()),
  ),
  required(
    'RFC 9111 §5.3',
    'allows no reuse with two lines that are no dates',
    gives('Expires: Thu, 18 Aug 2050 2:01:18 GMT', 'Expires: Thu, 18 Aug 2050 2:01:19 GMT'),
    fetched(),
  ),
]);
