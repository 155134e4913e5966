/** Targeted fields: Cache-Control for certain caches (RFC 9213). */

import { table } from './engine.ts';
import { cached, date, type Exchange, fetched, gives, optimal, type Row, required, validated } from './rows.ts';

const lastModified = `Last-Modified: ${date(-86_400)}`;

/** Returns the rows of one targeted field. The rules are the same for each field of the list. */
function rulesOf(field: string): Row[] {
  const says = (value: string, ...fields: string[]): Exchange => gives(...fields, `${field}: ${value}`);
  return [
    optimal('RFC 9213 §2.1', 'max-age', says('max-age=60'), cached({ wait: 59 })),
    required('RFC 9213 §2.1', 'max-age that is over', says('max-age=60'), fetched({ wait: 60 })),
    required('RFC 9213 §2.1', 'max-age=0', says('max-age=0'), fetched()),
    optimal('RFC 9111 §1.2.2', 'max-age=2147483648', says('max-age=2147483648'), cached({ wait: 9 })),
    optimal('RFC 9111 §1.2.2', 'max-age=99999999999', says('max-age=99999999999'), cached({ wait: 9 })),
    required('RFC 9111 §4.2', 'an Age beyond max-age', says('max-age=3600', 'Age: 7200'), fetched()),
    optimal(
      'RFC 9213 §2.1',
      'max-age beside unknown directives',
      says('foobar, max-age=60, a="b", c=(1 2)'),
      cached({ wait: 59 }),
    ),
    optimal(
      'RFC 9213 §2.1',
      'max-age with a parameter, which is ignored',
      says('max-age=60;a=b'),
      cached({ wait: 59 }),
    ),
    optimal('RFC 9213 §2.1', 'over two lines', says('foo', `${field}: max-age=60`), cached({ wait: 59 })),
    optimal('RFC 9651 §3.2', 'the last of two counts', says('max-age=0, max-age=60'), cached({ wait: 59 })),
    optimal(
      'RFC 9213 §2.2',
      'max-age rather than an Expires in the past',
      says('max-age=60', `Expires: ${date(-9)}`),
      cached({ wait: 59 }),
    ),
    optimal(
      'RFC 9213 §2.2',
      'max-age rather than an invalid Expires',
      says('max-age=60', 'Expires: 0'),
      cached({ wait: 59 }),
    ),
    required(
      'RFC 9213 §2.2',
      'max-age=0 rather than an Expires in the future',
      says('max-age=0', `Expires: ${date(99)}`),
      fetched(),
    ),
    required(
      'RFC 9213 §2.2',
      'no lifetime rather than an Expires in the future',
      says('foo', `Expires: ${date(99)}`),
      fetched(),
    ),
    optimal(
      'RFC 9213 §2.2',
      'a long max-age rather than a short one',
      says('max-age=60', 'Cache-Control: max-age=1'),
      cached({ wait: 59 }),
    ),
    required(
      'RFC 9213 §2.2',
      'a short max-age rather than a long one',
      says('max-age=1', 'Cache-Control: max-age=60'),
      fetched({ wait: 2 }),
    ),
    required('RFC 9213 §2.2', 'no lifetime rather than a max-age', says('foo', 'Cache-Control: max-age=60'), fetched()),
    optimal(
      'RFC 9213 §2.2',
      'max-age rather than no-store',
      says('max-age=60', 'Cache-Control: no-store'),
      cached({ wait: 59 }),
    ),
    optimal(
      'RFC 9213 §2.2',
      'max-age rather than private',
      says('max-age=60', 'Cache-Control: private'),
      cached({ wait: 59 }),
    ),
    optimal(
      'RFC 9213 §2.2',
      'max-age rather than no-cache',
      says('max-age=60', 'Cache-Control: no-cache'),
      cached({ wait: 59 }),
    ),
    optimal(
      'RFC 9213 §2.2',
      'max-age rather than s-maxage',
      says('max-age=60', 'Cache-Control: s-maxage=0'),
      cached({ wait: 59 }),
    ),
    optimal('RFC 9213 §2.1', 's-maxage', says('s-maxage=60'), cached({ wait: 59 })),
    required(
      'RFC 9213 §2.1',
      'private',
      says('private, max-age=60', 'Cache-Control: max-age=60', `Expires: ${date(99)}`),
      fetched(),
    ),
    required(
      'RFC 9213 §2.1',
      'no-store',
      says('no-store', 'Cache-Control: max-age=60', `Expires: ${date(99)}`),
      fetched(),
    ),
    required('RFC 9213 §2.1', 'no-store beside max-age', says('max-age=60, no-store'), fetched()),
    required(
      'RFC 9213 §2.1',
      'no-cache',
      says('no-cache', 'Cache-Control: max-age=60', `Expires: ${date(99)}`),
      fetched(),
    ),
    optimal(
      'RFC 9213 §2.1',
      'no-cache leads to a validation',
      says('no-cache', 'ETag: "a"'),
      validated({ asks: ['If-None-Match: "a"'] }),
    ),
    required(
      'RFC 9213 §2.1',
      'must-revalidate',
      says('max-age=60, must-revalidate', 'ETag: "a"'),
      validated({ wait: 60 }),
    ),
    optimal(
      'RFC 9111 §5.2.2.3',
      'must-understand and no-store',
      says('max-age=60, no-store, must-understand'),
      cached(),
    ),
    optimal(
      'RFC 9111 §4.2.2',
      'a field without lifetime allows heuristic freshness',
      says('foo', lastModified),
      cached({ wait: 60 }),
    ),
    required('RFC 9111 §4.2.2', 'max-age=0 allows no heuristic freshness', says('max-age=0', lastModified), fetched()),
    required(
      'RFC 9111 §3.5',
      'public of Cache-Control does not allow storing with Authorization',
      fetched({ fields: ['Authorization: x'], reply: { fields: [`${field}: max-age=60`, 'Cache-Control: public'] } }),
      fetched(),
    ),
    optimal('RFC 9213 §2.2', 'the field is passed on, and Cache-Control too', {
      ...says('max-age=60', 'Cache-Control: no-store'),
      has: [`${field}: max-age=60`, 'Cache-Control: no-store'],
    }),
    required(
      'RFC 9111 §4',
      'a reused response has Age and its own Date',
      says('max-age=60', 'Cache-Control: max-age=1'),
      cached({ wait: 9, has: ['Age: 9', `Date: ${date(0)}`] }),
    ),
    ...[
      '',
      'max-age=60, &&&&&',
      'max-age=60; B',
      'max-age=60,',
      'MaX-aGe=60',
      'max-age =60',
      'max-age= 60',
      'max-age=60 no-store',
      'max-age="60',
      'no-store, ?',
    ].map((value) =>
      required(
        'RFC 9213 §2.1',
        `"${value}" is not valid: no-store of Cache-Control applies`,
        says(value, 'Cache-Control: no-store'),
        fetched(),
      ),
    ),
    ...['', 'no-store, &&&&&', 'MAX-AGE=0', 'max-age=0,', 'no-store;'].map((value) =>
      required(
        'RFC 9213 §2.1',
        `"${value}" is not valid: max-age of Cache-Control applies`,
        says(value, 'Cache-Control: max-age=60'),
        cached({ wait: 59 }),
        fetched({ wait: 1 }),
      ),
    ),
    required(
      'RFC 9213 §2.1',
      'a max-age that is a string is ignored',
      says('max-age="60"', 'Cache-Control: no-store'),
      fetched(),
    ),
    required(
      'RFC 9213 §2.1',
      'a max-age that is a decimal is ignored',
      says('max-age=60.5', 'Cache-Control: no-store'),
      fetched(),
    ),
    required(
      'RFC 9111 §3.2',
      'the field of a 304 applies from then on',
      says('max-age=60', 'ETag: "a"'),
      validated({ wait: 60 }, `${field}: max-age=600`),
      cached({ wait: 599 }),
    ),
  ];
}

for (const field of ['CDN-Cache-Control', 'Rangeway-Cache-Control']) table(field, rulesOf(field));

const cdn = (value: string) => `CDN-Cache-Control: ${value}`;
const own = (value: string) => `Rangeway-Cache-Control: ${value}`;

table('several targeted fields', [
  optimal(
    'RFC 9213 §2.2',
    'the first of the list allows storing',
    gives(cdn('no-store'), own('max-age=60')),
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9213 §2.2',
    'the first of the list forbids storing',
    gives(cdn('max-age=60'), own('no-store')),
    fetched(),
  ),
  required(
    'RFC 9213 §2.2',
    'the first of the list has only unknown directives',
    gives(cdn('max-age=60'), own('foo')),
    fetched(),
  ),
  optimal(
    'RFC 9213 §2.2',
    'the second counts where the first is empty',
    gives(own(''), cdn('max-age=60')),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 9213 §2.2',
    'the second counts where the first is not valid',
    gives(own('&'), cdn('max-age=60')),
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9213 §2.2',
    'Cache-Control counts where neither is valid',
    gives(own('&'), cdn('&'), 'Cache-Control: max-age=1'),
    fetched({ wait: 2 }),
  ),
  required(
    'RFC 9213 §2.2',
    'a field that is not in the list is ignored',
    gives('Other-Cache-Control: max-age=60', 'Cache-Control: max-age=1'),
    fetched({ wait: 2 }),
  ),
  required('RFC 9213 §2.2', 'Surrogate-Control is not in the list', gives('Surrogate-Control: max-age=60'), fetched()),
]);

table(
  'a configured list of targeted fields',
  [
    optimal(
      'RFC 9213 §2.2',
      'has its own order',
      gives(own('no-store'), 'My-Cache-Control: max-age=60'),
      cached({ wait: 59 }),
    ),
    required(
      'RFC 9213 §2.2',
      'replaces the default list',
      gives(cdn('max-age=60'), 'Cache-Control: no-store'),
      fetched(),
    ),
  ],
  { cache: { targetedFields: ['My-Cache-Control', 'Rangeway-Cache-Control'] } },
);

table(
  'an empty list of targeted fields',
  [
    required(
      'RFC 9213 §2.2',
      'lets Cache-Control forbid storing',
      gives(cdn('max-age=60'), 'Cache-Control: no-store'),
      fetched(),
    ),
    optimal(
      'RFC 9213 §2.2',
      'lets Cache-Control allow storing',
      gives(cdn('no-store'), 'Cache-Control: max-age=60'),
      cached({ wait: 59 }),
    ),
  ],
  { cache: { targetedFields: [] } },
);
