/** Which request fields select a stored response (RFC 9111 §4.1, RFC 9110 §12.5.5). */

import { table } from './engine.ts';
import { cached, type Details, type Exchange, fetched, gives, optimal, required, validated } from './rows.ts';

const fresh = 'Cache-Control: max-age=3600';

/** A first request with these fields, answered with this Vary. */
const varying = (vary: string, ...fields: string[]): Exchange =>
  fetched({ fields, reply: { fields: [fresh, `Vary: ${vary}`] } });
const by = (...fields: string[]): Details => ({ fields });

/** Pairs of values that mean the same by the grammar of the field, and pairs that do not. */
const sameMeaning: readonly (readonly [field: string, stored: string, presented: string])[] = [
  ['Accept-Language', 'en, de', 'de, en'],
  ['Accept-Language', 'en, de', 'eN, De'],
  ['Accept-Language', 'en, de', ' en ,   de'],
  ['Accept-Language', 'en;q=0.5, de', 'de, en; q=0.5'],
  ['Accept-Encoding', 'gzip, br', 'br, gzip'],
  ['Accept-Encoding', 'gzip, br', 'GZIP,BR'],
  ['Accept-Encoding', 'gzip;q=1.0', 'gzip'],
  ['Accept-Charset', 'utf-8, x', 'X, UTF-8'],
  ['Foo', '1,2', ' 1, 2 '],
  ['Foo', '1', ' 1 '],
];
const otherMeaning: readonly (readonly [field: string, stored: string, presented: string])[] = [
  ['Accept-Language', 'en, de', 'en, fr'],
  ['Accept-Language', 'en, de', 'en'],
  ['Accept-Language', 'en;q=0.5, de', 'en, de;q=0.5'],
  ['Accept-Language', 'en', 'en-GB'],
  ['Accept-Encoding', 'gzip', 'gzip;q=0'],
  ['Accept-Encoding', 'gzip, br', 'gzip'],
  ['Accept-Encoding', 'gzip', 'identity'],
  ['Foo', '1', '2'],
  ['Foo', 'a', 'A'],
  ['Foo', '1, 2', '2, 1'],
  ['Foo', '1 2', '1  2'],
  ['Foo', '"1, 2"', '"1,2"'],
  ['Cookie', 'a=1', 'a=2'],
  ['User-Agent', 'x/1', 'x/2'],
  ['Authorization', 'x', 'y'],
];

table('Vary', [
  optimal('RFC 9111 §4.1', 'the same value', varying('Foo', 'Foo: 1'), cached(by('Foo: 1'))),
  required('RFC 9111 §4.1', 'another value', varying('Foo', 'Foo: 1'), fetched(by('Foo: 2'))),
  required('RFC 9111 §4.1', 'a value where there was none', varying('Foo'), fetched(by('Foo: 1'))),
  required('RFC 9111 §4.1', 'none where there was a value', varying('Foo', 'Foo: 1'), fetched()),
  required('RFC 9111 §4.1', 'an empty value where there was none', varying('Foo'), fetched(by('Foo: '))),
  optimal('RFC 9111 §4.1', 'no value in either request', varying('Foo'), cached()),
  optimal(
    'RFC 9111 §4.1',
    'a field that Vary does not name',
    varying('Foo', 'Foo: 1', 'Bar: 2'),
    cached(by('Foo: 1', 'Bar: 3')),
  ),
  optimal('RFC 9111 §4.1', 'names in any case', varying('fOO', 'Foo: 1'), cached(by('FOO: 1'))),
  required('RFC 9111 §4.1', 'names in any case, another value', varying('fOO', 'Foo: 1'), fetched(by('FOO: 2'))),
  optimal(
    'RFC 9111 §4.1',
    'two variants beside each other',
    varying('Foo', 'Foo: 1'),
    fetched({ ...by('Foo: 2'), reply: { fields: [fresh, 'Vary: Foo'] } }),
    cached({ ...by('Foo: 1'), text: 'the body of exchange 1' }),
    cached({ ...by('Foo: 2'), text: 'the body of exchange 2' }),
  ),
  optimal(
    'RFC 9111 §4.1',
    'three variants beside each other',
    ...['1', '2', '3'].map((value) => varying('Foo', `Foo: ${value}`)),
    ...['1', '2', '3'].map((value) => cached({ ...by(`Foo: ${value}`), text: `the body of exchange ${value}` })),
  ),
  optimal('RFC 9111 §4.1', 'two fields', varying('Foo, Bar', 'Foo: 1', 'Bar: 2'), cached(by('Bar: 2', 'Foo: 1'))),
  required(
    'RFC 9111 §4.1',
    'two fields, the first with another value',
    varying('Foo, Bar', 'Foo: 1', 'Bar: 2'),
    fetched(by('Foo: 9', 'Bar: 2')),
  ),
  required(
    'RFC 9111 §4.1',
    'two fields, the second with another value',
    varying('Foo, Bar', 'Foo: 1', 'Bar: 2'),
    fetched(by('Foo: 1', 'Bar: 9')),
  ),
  required(
    'RFC 9111 §4.1',
    'two fields, the second absent',
    varying('Foo, Bar', 'Foo: 1', 'Bar: 2'),
    fetched(by('Foo: 1')),
  ),
  required(
    'RFC 9111 §4.1',
    'two fields, values exchanged',
    varying('Foo, Bar', 'Foo: 1', 'Bar: 2'),
    fetched(by('Foo: 2', 'Bar: 1')),
  ),
  optimal(
    'RFC 9111 §4.1',
    'three fields',
    varying('Foo, Bar, Baz', 'Foo: 1', 'Bar: abc', 'Baz: 789'),
    cached(by('Foo: 1', 'Bar: abc', 'Baz: 789')),
  ),
  required(
    'RFC 9111 §4.1',
    'three fields, one with another value',
    varying('Foo, Bar, Baz', 'Foo: 1', 'Bar: abc4', 'Baz: 789'),
    fetched(by('Foo: 1', 'Bar: abc', 'Baz: 789')),
  ),
  optimal(
    'RFC 9111 §4.1',
    'three fields, one in neither request',
    varying('Foo, Bar, Baz', 'Foo: 1', 'Baz: 789'),
    cached(by('Foo: 1', 'Baz: 789')),
  ),
  required(
    'RFC 9110 §12.5.5',
    'over two lines',
    fetched({ ...by('Foo: 1', 'Bar: 2'), reply: { fields: [fresh, 'Vary: Foo', 'Vary: Bar'] } }),
    fetched(by('Foo: 1', 'Bar: 9')),
  ),
  optimal(
    'RFC 9110 §5.3',
    'lines of a request are combined',
    varying('Foo', 'Foo: 1, 2'),
    cached(by('Foo: 1', 'Foo: 2')),
  ),
  required(
    'RFC 9110 §5.3',
    'lines of a request in another order',
    varying('Foo', 'Foo: 1', 'Foo: 2'),
    fetched(by('Foo: 2', 'Foo: 1')),
  ),
  ...['*', '*, *', ', *', '*, Foo', 'Foo, *', ' * '].map((vary) =>
    required('RFC 9111 §4.1', `"${vary}" matches nothing`, varying(vary, 'Foo: 1'), fetched(by('Foo: 1'))),
  ),
  required(
    'RFC 9111 §4.1',
    '"*" on the second line',
    fetched({ reply: { fields: [fresh, 'Vary: ', 'Vary: *'] } }),
    fetched(),
  ),
  optimal('RFC 9110 §12.5.5', 'that is empty', varying(''), cached(by('Foo: 1'))),
  ...sameMeaning.map(([name, stored, presented]) =>
    optimal(
      'RFC 9111 §4.1',
      `${name}: "${stored}" matches "${presented}"`,
      varying(name, `${name}: ${stored}`),
      cached(by(`${name}: ${presented}`)),
    ),
  ),
  ...otherMeaning.map(([name, stored, presented]) =>
    required(
      'RFC 9111 §4.1',
      `${name}: "${stored}" does not match "${presented}"`,
      fetched({ fields: [`${name}: ${stored}`], reply: { fields: [fresh, 'Cache-Control: public', `Vary: ${name}`] } }),
      fetched(by(`${name}: ${presented}`)),
    ),
  ),
  required(
    'RFC 9111 §4.1',
    'another Accept-Language that prefers the stored language',
    fetched({
      ...by('Accept-Language: en, de'),
      reply: { fields: [fresh, 'Vary: Accept-Language', 'Content-Language: de'] },
    }),
    fetched(by('Accept-Language: fr;q=0.5, de;q=1.0')),
  ),
  required(
    'RFC 9111 §4.1',
    'another Accept-Language that prefers another language',
    fetched({
      ...by('Accept-Language: en, de'),
      reply: { fields: [fresh, 'Vary: Accept-Language', 'Content-Language: de'] },
    }),
    fetched(by('Accept-Language: fr;q=1.0, de;q=0.5')),
  ),
]);

table('variants', [
  required(
    'RFC 9111 §4.3.1',
    'a validation has the selecting fields of the request',
    fetched({ ...by('Foo: 1'), reply: { fields: ['Cache-Control: max-age=10', 'ETag: "a"', 'Vary: Foo'] } }),
    validated({ wait: 10, ...by('Foo: 1'), asks: ['Foo: 1', 'If-None-Match: "a"'] }),
  ),
  required(
    'RFC 9111 §4.3.4',
    'a 304 updates only the variant that was validated',
    ...['1', '2'].map((value) =>
      fetched({
        ...by(`Foo: ${value}`),
        reply: { fields: ['Cache-Control: max-age=10', `ETag: "${value}"`, 'Vary: Foo'] },
      }),
    ),
    validated({ wait: 10, ...by('Foo: 1'), text: 'the body of exchange 1' }, 'ETag: "1"', 'X: new'),
    cached({ ...by('Foo: 1'), text: 'the body of exchange 1', has: ['X: new'] }),
    validated({ ...by('Foo: 2'), text: 'the body of exchange 2' }, 'ETag: "2"'),
  ),
  required(
    'RFC 9111 §4',
    'the newest of several matching responses is used',
    gives(fresh),
    fetched({ ...by('Foo: 1', 'Cache-Control: no-cache'), reply: { fields: [fresh, 'Vary: Foo'] } }),
    cached({ ...by('Foo: 1'), text: 'the body of exchange 2' }),
  ),
  required(
    'RFC 9111 §4.4',
    'an unsafe request invalidates all variants',
    varying('Foo', 'Foo: 1'),
    varying('Foo', 'Foo: 2'),
    fetched({ method: 'POST', body: 'x' }),
    fetched(by('Foo: 1')),
    fetched(by('Foo: 2')),
  ),
  optimal(
    'RFC 9111 §4.1',
    'HEAD selects as GET does',
    varying('Foo', 'Foo: 1'),
    cached({ method: 'HEAD', ...by('Foo: 1') }),
  ),
  required(
    'RFC 9111 §4.1',
    'HEAD selects no other variant',
    varying('Foo', 'Foo: 1'),
    fetched({ method: 'HEAD', ...by('Foo: 2') }),
  ),
  required(
    'RFC 9111 §4.1',
    'a Range selects no other variant',
    varying('Foo', 'Foo: 1'),
    fetched({ ...by('Foo: 2', 'Range: bytes=0-2'), status: 206, text: 'the' }),
  ),
]);
