/** Age and Date: the age of a response, and the fields that state it. */

import { table } from './engine.ts';
import { cached, date, fetched, gives, optimal, required, validated } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';

table('the Age that is sent', [
  required(
    'RFC 9111 §4',
    'is sent on every reuse',
    gives(hour),
    cached({ has: ['Age: 0'] }),
    cached({ wait: 3, has: ['Age: 3'] }),
  ),
  required('RFC 9111 §5.1', 'is not sent on a first response', { ...gives(hour), lacks: ['Age'] }),
  required(
    'RFC 9111 §4',
    'is sent on a 304',
    gives(hour, 'ETag: "a"'),
    cached({ wait: 9, fields: ['If-None-Match: "a"'], status: 304, has: ['Age: 9'] }),
  ),
  required(
    'RFC 9111 §4',
    'is sent on a 206',
    gives(hour),
    cached({ wait: 9, fields: ['Range: bytes=0-2'], status: 206, text: 'the', has: ['Age: 9'] }),
  ),
  required(
    'RFC 9111 §4',
    'is sent on a response to HEAD',
    gives(hour),
    cached({ wait: 9, method: 'HEAD', has: ['Age: 9'] }),
  ),
  required(
    'RFC 9111 §4.2.3',
    'adds to the Age of the origin',
    gives(hour, 'Age: 30'),
    cached({ wait: 4, has: ['Age: 34'] }),
  ),
  required(
    'RFC 9111 §4.2.3',
    'adds to the Age of the origin under Expires',
    gives(`Expires: ${date(3600)}`, 'Age: 30'),
    cached({ wait: 4, has: ['Age: 34'] }),
  ),
  required(
    'RFC 9111 §4.2.3',
    'counts from a Date in the past',
    gives(hour, `Date: ${date(-50)}`),
    cached({ wait: 4, has: ['Age: 54'] }),
  ),
  required(
    'RFC 9111 §4.2.3',
    'takes the larger of Age and Date',
    gives(hour, `Date: ${date(-50)}`, 'Age: 80'),
    cached({ has: ['Age: 80'] }),
  ),
  required(
    'RFC 9111 §4.2.3',
    'ignores a Date in the future',
    gives(hour, `Date: ${date(500)}`),
    cached({ wait: 4, has: ['Age: 4'] }),
  ),
  required(
    'RFC 9111 §4.2.3',
    'begins anew after a validation',
    gives('Cache-Control: max-age=10', 'ETag: "a"'),
    validated({ wait: 20 }),
    cached({ wait: 2, has: ['Age: 2'] }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'continues the Age of a 304',
    gives('Cache-Control: max-age=10', 'ETag: "a"'),
    validated({ wait: 20 }, 'Age: 5'),
    cached({ wait: 2, has: ['Age: 7'] }),
  ),
  required(
    'RFC 9111 §5.1',
    'is one line with one number',
    gives(hour, 'Age: 7', 'Age: 9'),
    cached({ wait: 1, has: ['Age: 8'] }),
  ),
]);

/** Values of Age that make a response with a lifetime of an hour stale. */
const tooOld = [
  '3600',
  '3601',
  '7200',
  '2147483647',
  '2147483648',
  '2147483649',
  '99999999999',
  '999999999999999999999999',
  '007200',
  '7200, 0',
  '7200,0',
  '7200, x',
];

/** Values of Age that are less than an hour, or invalid and therefore ignored. */
const youngEnough = [
  '0',
  '3590',
  '0, 7200',
  '0,7200',
  '0, 0',
  '3000, 3000',
  '12, x',
  'abc',
  '-7200',
  '7200.0',
  '7200;foo=bar',
  '7200;foo=111',
  '7200s',
  '+7200',
  '0x1c20',
  '7200 7200',
  '1e9',
  '',
  'x, 7200',
];

table('the Age that is received', [
  ...tooOld.map((age) =>
    required('RFC 9111 §5.1', `"${age}" is an hour or more`, gives(hour, `Age: ${age}`), fetched()),
  ),
  ...youngEnough.map((age) =>
    required(
      'RFC 9111 §5.1',
      `"${age}" is less than an hour, or ignored`,
      gives(hour, `Age: ${age}`),
      cached({ wait: 9 }),
    ),
  ),
  required(
    'RFC 9111 §5.1',
    'the first of two lines counts where it is the older',
    gives(hour, 'Age: 7200', 'Age: 0'),
    fetched(),
  ),
  required(
    'RFC 9111 §5.1',
    'the first of two lines counts where it is the younger',
    gives(hour, 'Age: 0', 'Age: 7200'),
    cached(),
  ),
  required('RFC 9111 §5.1', 'two lines with the same value are accepted', gives(hour, 'Age: 0', 'Age: 0'), cached()),
  required(
    'RFC 9111 §1.2.2',
    'a huge Age reaches the longest lifetime',
    gives('Cache-Control: max-age=99999999999', 'Age: 99999999999'),
    fetched(),
  ),
  optimal(
    'RFC 9111 §1.2.2',
    'a large Age below a larger lifetime is fresh',
    gives('Cache-Control: max-age=2147483648', 'Age: 2147480000'),
    cached(),
  ),
]);

table('Date', [
  required(
    'RFC 9110 §6.6.1',
    'is added where the origin has no clock',
    { ...gives(), reply: { fields: [hour], hasDate: false }, has: [`Date: ${date(0)}`] },
    cached({ wait: 9, has: [`Date: ${date(0)}`, 'Age: 9'] }),
  ),
  required('RFC 9110 §6.6.1', 'is added to a response that is not stored', {
    ...gives(),
    reply: { fields: ['Cache-Control: no-store'], hasDate: false },
    has: [`Date: ${date(0)}`],
  }),
  required(
    'RFC 9110 §6.6.1',
    'stays on reuse',
    gives(hour, `Date: ${date(-5)}`),
    cached({ wait: 60, has: [`Date: ${date(-5)}`] }),
  ),
  required(
    'RFC 9110 §6.6.1',
    'stays on reuse with Expires',
    gives(`Expires: ${date(999)}`, `Date: ${date(-5)}`),
    cached({ wait: 60, has: [`Date: ${date(-5)}`, `Expires: ${date(999)}`] }),
  ),
  required(
    'RFC 9111 §3.2',
    'is that of the 304 after a validation',
    gives('Cache-Control: max-age=10', 'ETag: "a"'),
    validated({ wait: 20, has: [`Date: ${date(20)}`] }),
  ),
  required(
    'RFC 9111 §4.2.3',
    'makes a response without Age old',
    gives('Cache-Control: max-age=60', `Date: ${date(-61)}`),
    fetched(),
  ),
  optimal(
    'RFC 9111 §4.2.3',
    'is ignored where it is no date',
    gives('Cache-Control: max-age=60', 'Date: yesterday'),
    cached({ wait: 30 }),
  ),
  optimal(
    'RFC 9111 §4.2.3',
    'in the future does not shorten the lifetime',
    gives('Cache-Control: max-age=60', `Date: ${date(999)}`),
    cached({ wait: 59 }),
    fetched({ wait: 1 }),
  ),
]);
