/** Directives of a response's Cache-Control other than lifetimes. */

import { table } from './engine.ts';
import { cached, date, fetched, gives, optimal, required, validated } from './rows.ts';

const fresh = 'Cache-Control: max-age=3600';

table('no-store and private', [
  required('RFC 9111 §5.2.2.5', 'no-store', gives('Cache-Control: no-store'), fetched()),
  required('RFC 9111 §5.2.2.5', 'no-store in any case', gives('Cache-Control: nO-StOrE, max-age=60'), fetched()),
  required('RFC 9111 §5.2.2.5', 'no-store before max-age', gives('Cache-Control: no-store, max-age=60'), fetched()),
  required('RFC 9111 §5.2.2.5', 'no-store after max-age', gives('Cache-Control: max-age=60, no-store'), fetched()),
  required(
    'RFC 9111 §5.2.2.5',
    'no-store beside Expires',
    gives('Cache-Control: no-store', `Expires: ${date(60)}`),
    fetched(),
  ),
  required('RFC 9111 §5.2.2.5', 'no-store on a second line', gives(fresh, 'Cache-Control: no-store'), fetched()),
  required(
    'RFC 9111 §5.2.2.5',
    'no-store with public and s-maxage',
    gives('Cache-Control: public, s-maxage=60, no-store'),
    fetched(),
  ),
  required('RFC 9111 §5.2', 'no-store with an argument', gives('Cache-Control: max-age=60, no-store=1'), fetched()),
  required('RFC 9111 §5.2', 'no-store behind a semicolon', gives('Cache-Control: max-age=60; no-store'), fetched()),
  required(
    'RFC 9111 §5.2',
    'no-store behind a quote that is never closed',
    gives('Cache-Control: max-age=60, a="b, no-store'),
    fetched(),
  ),
  required(
    'RFC 9111 §5.2.2.5',
    'a response with no-store is not validated later',
    gives('Cache-Control: no-store', 'ETag: "a"'),
    fetched({ asksNo: ['If-None-Match'] }),
  ),
  optimal(
    'RFC 9111 §5.2',
    'no-store in a quoted string has no effect',
    gives('Cache-Control: max-age=60, a="no-store"'),
    cached(),
  ),
  optimal(
    'RFC 9111 §5.2',
    'another directive that ends in no-store has no effect',
    gives('Cache-Control: max-age=60, x-no-store'),
    cached(),
  ),
  required('RFC 9111 §5.2.2.7', 'private', gives('Cache-Control: private, max-age=60'), fetched()),
  required('RFC 9111 §5.2.2.7', 'private in any case', gives('Cache-Control: PRIVATE, max-age=60'), fetched()),
  required(
    'RFC 9111 §5.2.2.7',
    'private beside Expires',
    gives('Cache-Control: private', `Expires: ${date(60)}`),
    fetched(),
  ),
  required('RFC 9111 §5.2.2.7', 'private beside s-maxage', gives('Cache-Control: private, s-maxage=60'), fetched()),
  required('RFC 9111 §5.2.2.7', 'private with a token', gives('Cache-Control: max-age=60, private=true'), fetched()),
  required(
    'RFC 9111 §5.2.2.7',
    'private with an empty list',
    gives('Cache-Control: max-age=60, private=""'),
    fetched(),
  ),
  required(
    'RFC 9111 §5.2.2.7',
    'private with a field name, and without',
    gives('Cache-Control: max-age=60, private="a", private'),
    fetched(),
  ),
  required(
    'RFC 9111 §5.2.2.7',
    'private fields do not reach other clients',
    gives('Cache-Control: max-age=60, private="x-user, x-other"', 'X-User: 1', 'X-Other: 2', 'X-All: 3'),
    fetched({ wait: 60, lacks: ['X-User'] }),
  ),
  optimal(
    'RFC 9111 §5.2.2.7',
    'the rest of a response with private fields is reused',
    gives('Cache-Control: max-age=60, private="x-user"', 'X-User: 1', 'X-All: 3'),
    cached({ has: ['X-All: 3'], lacks: ['X-User'] }),
  ),
  required('RFC 9111 §5.2.2.7', 'private fields reach the client that fetched the response', {
    ...gives('Cache-Control: max-age=60, private="x-user"', 'X-User: 1'),
    has: ['X-User: 1'],
  }),
]);

table('no-cache', [
  required('RFC 9111 §5.2.2.4', 'is not reused', gives('Cache-Control: no-cache, max-age=60'), fetched()),
  required('RFC 9111 §5.2.2.4', 'in any case', gives('Cache-Control: max-age=60, No-CaChE'), fetched()),
  required('RFC 9111 §5.2.2.4', 'beside Expires', gives('Cache-Control: no-cache', `Expires: ${date(60)}`), fetched()),
  required('RFC 9111 §5.2.2.4', 'on a second line', gives(fresh, 'Cache-Control: no-cache'), fetched()),
  required('RFC 9111 §5.2.2.4', 'with s-maxage', gives('Cache-Control: s-maxage=60, no-cache'), fetched()),
  required('RFC 9111 §5.2.2.4', 'with a token', gives('Cache-Control: max-age=60, no-cache=x'), fetched()),
  required('RFC 9111 §5.2.2.4', 'with an empty list', gives('Cache-Control: max-age=60, no-cache=""'), fetched()),
  optimal(
    'RFC 9111 §5.2.2.4',
    'is validated by entity tag',
    gives('Cache-Control: no-cache', 'ETag: "a"'),
    validated({ asks: ['If-None-Match: "a"'] }),
  ),
  optimal(
    'RFC 9111 §5.2.2.4',
    'is validated by date',
    gives('Cache-Control: no-cache', `Last-Modified: ${date(-99)}`),
    validated({ asks: [`If-Modified-Since: ${date(-99)}`] }),
  ),
  optimal(
    'RFC 9111 §5.2.2.4',
    'is validated although it is fresh',
    gives('Cache-Control: no-cache, max-age=60', 'ETag: "a"'),
    validated(),
  ),
  required(
    'RFC 9111 §5.2.2.4',
    'is validated every time',
    gives('Cache-Control: no-cache', 'ETag: "a"'),
    validated(),
    validated(),
  ),
  required(
    'RFC 9111 §4.3.4',
    'of a 304 applies from then on',
    gives('Cache-Control: max-age=60', 'ETag: "a"'),
    validated({ wait: 60 }, 'Cache-Control: no-cache, max-age=60'),
    validated(),
  ),
  optimal(
    'RFC 9111 §5.2.2.4',
    'for a field allows reuse of the rest',
    gives('Cache-Control: max-age=60, no-cache="a"', 'A: 1', 'B: 2'),
    cached({ has: ['B: 2'], lacks: ['A'] }),
  ),
  optimal(
    'RFC 9111 §5.2.2.4',
    'for fields over two lines',
    gives('Cache-Control: no-cache="a, b"', 'Cache-Control: max-age=60', 'A: 1', 'B: 2', 'C: 3'),
    cached({ has: ['C: 3'], lacks: ['A', 'B'] }),
  ),
  optimal(
    'RFC 9111 §5.2.2.4',
    'for a field that is absent',
    gives('Cache-Control: max-age=60, no-cache="set-cookie"'),
    cached(),
  ),
  required(
    'RFC 9111 §5.2.2.4',
    'with a field name, and without',
    gives('Cache-Control: max-age=60, no-cache="a", no-cache'),
    fetched(),
  ),
  required('RFC 9111 §5.2.2.4', 'for a field does not remove it for the client that fetched the response', {
    ...gives('Cache-Control: max-age=60, no-cache="a"', 'A: 1'),
    has: ['A: 1'],
  }),
  required(
    'RFC 9111 §5.2.2.4',
    'for a field does not remove it for the client that validated',
    gives('Cache-Control: max-age=60, no-cache="a"', 'A: 1', 'ETag: "a"'),
    validated({ wait: 60, has: ['A: 2'] }, 'A: 2'),
    cached({ lacks: ['A'] }),
  ),
]);

table('must-revalidate and others', [
  optimal(
    'RFC 9111 §5.2.2.2',
    'must-revalidate while fresh',
    gives('Cache-Control: max-age=60, must-revalidate'),
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9111 §5.2.2.2',
    'must-revalidate when stale',
    gives('Cache-Control: max-age=60, must-revalidate', 'ETag: "a"'),
    cached({ wait: 59 }),
    validated({ wait: 1 }),
  ),
  optimal(
    'RFC 9111 §5.2.2.8',
    'proxy-revalidate while fresh',
    gives('Cache-Control: max-age=60, proxy-revalidate'),
    cached({ wait: 59 }),
  ),
  required(
    'RFC 9111 §5.2.2.8',
    'proxy-revalidate when stale',
    gives('Cache-Control: max-age=60, proxy-revalidate', 'ETag: "a"'),
    validated({ wait: 60 }),
  ),
  required('RFC 9111 §5.2.2.9', 'public gives no lifetime', gives('Cache-Control: public'), fetched()),
  optimal(
    'RFC 9111 §5.2.2.6',
    'no-transform',
    gives('Cache-Control: max-age=60, no-transform'),
    cached({ has: ['Cache-Control: max-age=60, no-transform'] }),
  ),
  optimal(
    'RFC 9111 §5.4',
    'Pragma in a response has no effect',
    gives(fresh, 'Pragma: no-cache'),
    cached({ has: ['Pragma: no-cache'] }),
  ),
  optimal('RFC 9111 §5.5', 'Warning has no effect', gives(fresh, 'Warning: 110 - "stale"'), cached()),
  optimal(
    'RFC 8246 §2',
    'immutable is reused while fresh',
    gives('Cache-Control: max-age=60, immutable', 'ETag: "a"'),
    cached({ wait: 59 }),
  ),
  optimal(
    'RFC 8246 §2',
    'immutable is reused on a reload, too',
    gives('Cache-Control: max-age=60, immutable', 'ETag: "a"'),
    cached({ wait: 59, fields: ['Cache-Control: max-age=0'] }),
  ),
  required(
    'RFC 8246 §2',
    'immutable when stale',
    gives('Cache-Control: max-age=60, immutable', 'ETag: "a"'),
    validated({ wait: 60 }),
  ),
  required('RFC 8246 §2', 'immutable gives no lifetime', gives('Cache-Control: immutable'), fetched()),
  optimal(
    'RFC 8246 §2',
    'immutable is validated for a request with no-cache',
    gives('Cache-Control: max-age=60, immutable', 'ETag: "a"'),
    validated({ fields: ['Cache-Control: no-cache'] }),
  ),
]);
