/** What makes stored responses invalid: unsafe requests, and HEAD (RFC 9111 §4.3.5, §4.4). */

import { table } from './engine.ts';
import { cached, type Details, type Exchange, fetched, gives, optimal, required } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';

/** An exchange after which a response is stored for this target. */
const stores = (target: string, ...fields: string[]): Exchange =>
  fetched({ target, reply: { fields: [hour, ...fields] } });
const sends = (method: string, details: Details = {}): Exchange => fetched({ method, body: 'abc', ...details });
const answers = (status: number, ...fields: string[]): Details => ({ reply: { status, fields } });

const unsafe = ['POST', 'PUT', 'DELETE', 'PATCH', 'M-SEARCH'];

table('unsafe requests', [
  ...unsafe.map((method) =>
    required('RFC 9111 §4.4', `${method} that succeeds invalidates its target`, gives(hour), sends(method), fetched()),
  ),
  ...unsafe.map((method) =>
    optimal(
      'RFC 9111 §4.4',
      `${method} that fails invalidates nothing`,
      gives(hour),
      sends(method, answers(500)),
      cached(),
    ),
  ),
  ...unsafe.map((method) =>
    optimal(
      'RFC 9111 §4.4',
      `${method} invalidates the URI in Location`,
      stores('/b'),
      sends(method, answers(201, 'Location: /b')),
      fetched({ target: '/b' }),
    ),
  ),
  ...unsafe.map((method) =>
    optimal(
      'RFC 9111 §4.4',
      `${method} invalidates the URI in Content-Location`,
      stores('/b'),
      sends(method, answers(200, 'Content-Location: /b')),
      fetched({ target: '/b' }),
    ),
  ),
  ...[201, 202, 204, 205, 301, 302, 303, 307].map((status) =>
    required(
      'RFC 9111 §4.4',
      `a ${status} counts as success`,
      gives(hour),
      sends('PUT', { reply: { status, body: '' } }),
      fetched(),
    ),
  ),
  ...[400, 403, 404, 405, 409, 412, 501, 503].map((status) =>
    optimal('RFC 9111 §4.4', `a ${status} counts as failure`, gives(hour), sends('PUT', answers(status)), cached()),
  ),
  required('RFC 9111 §4.4', 'invalidate one target, not all', stores('/b'), sends('POST'), cached({ target: '/b' })),
  required(
    'RFC 9111 §4.4',
    'invalidate one target, not the same path with a query',
    stores('/a?b'),
    sends('POST'),
    cached({ target: '/a?b' }),
  ),
  optimal(
    'RFC 9111 §4.4',
    'a relative Location is resolved',
    stores('/d/b'),
    sends('POST', { target: '/d/a', ...answers(201, 'Location: b') }),
    fetched({ target: '/d/b' }),
  ),
  optimal(
    'RFC 9111 §4.4',
    'an absolute Location counts',
    stores('/b'),
    sends('POST', answers(201, 'Location: http://example.org/b')),
    fetched({ target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'a Location of another host is ignored',
    fetched({ host: 'other.example', target: '/b', reply: { fields: [hour] } }),
    sends('POST', answers(201, 'Location: http://other.example/b')),
    cached({ host: 'other.example', target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'a Location of another port is ignored',
    fetched({ host: 'example.org:81', target: '/b', reply: { fields: [hour] } }),
    sends('POST', answers(201, 'Location: http://example.org:81/b')),
    cached({ host: 'example.org:81', target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'a Content-Location of another host is ignored',
    fetched({ host: 'other.example', target: '/b', reply: { fields: [hour] } }),
    sends('PUT', answers(200, 'Content-Location: http://other.example/b')),
    cached({ host: 'other.example', target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'a Location of a failure is ignored',
    stores('/b'),
    sends('POST', answers(500, 'Location: /b')),
    cached({ target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'an invalidated response is fetched again, and stored',
    gives(hour, 'ETag: "a"'),
    sends('POST'),
    fetched({ reply: { fields: [hour] } }),
    cached(),
  ),
  required(
    'RFC 9111 §4',
    'reach the origin each time',
    sends('POST', answers(200, hour)),
    sends('POST', answers(200, hour)),
  ),
  required('RFC 9110 §9.3', 'reach the origin unchanged', sends('PROPFIND', { asks: ['Content-Length: 3'] })),
]);

table('safe requests', [
  ...['OPTIONS', 'PROPFIND', 'REPORT', 'SEARCH'].map((method) =>
    optimal('RFC 9111 §4.4', `${method} invalidates nothing`, gives(hour), fetched({ method }), cached()),
  ),
  required('RFC 9110 §9.3.7', 'OPTIONS is not answered from the store', gives(hour), fetched({ method: 'OPTIONS' })),
  required(
    'RFC 9110 §9.3.7',
    'a response to OPTIONS is not stored',
    fetched({ method: 'OPTIONS', reply: { fields: [hour] } }),
    fetched(),
  ),
]);

const ten = 'Cache-Control: max-age=10';
const head = (...fields: string[]): Exchange => fetched({ wait: 10, method: 'HEAD', reply: { fields } });
const length = 'Content-Length: 22';

table('HEAD', [
  optimal(
    'RFC 9110 §9.3.2',
    'is answered from a stored response to GET',
    gives(hour),
    cached({ method: 'HEAD', has: [length] }),
  ),
  required(
    'RFC 9110 §9.3.2',
    'is not stored for GET',
    fetched({ method: 'HEAD', reply: { fields: [hour, length] } }),
    fetched(),
  ),
  required(
    'RFC 9111 §4.3.5',
    'with another entity tag invalidates the stored response',
    gives(ten, 'ETag: "a"'),
    head(hour, 'ETag: "b"', length),
    fetched(),
  ),
  required(
    'RFC 9111 §4.3.5',
    'with another Last-Modified invalidates the stored response',
    gives(ten, 'Last-Modified: Thu, 18 Dec 2025 02:01:18 GMT'),
    head(hour, 'Last-Modified: Fri, 19 Dec 2025 02:01:18 GMT', length),
    fetched(),
  ),
  required(
    'RFC 9111 §4.3.5',
    'with another Content-Length invalidates the stored response',
    gives(ten, 'ETag: "a"'),
    head(hour, 'ETag: "a"', 'Content-Length: 23'),
    fetched(),
  ),
  optimal(
    'RFC 9111 §4.3.5',
    'with the same entity tag updates the stored fields',
    gives(ten, 'ETag: "a"', 'X: 1'),
    head(hour, 'ETag: "a"', 'X: 2', length),
    cached({ wait: 3599, has: ['X: 2'] }),
  ),
  optimal(
    'RFC 9111 §4.3.5',
    'with the same Content-Length updates the stored fields',
    gives(ten, 'X: 1'),
    head(hour, 'X: 2', length),
    cached({ wait: 3599, has: ['X: 2'] }),
  ),
  optimal(
    'RFC 9111 §4.3.5',
    'keeps stored fields that it does not have',
    gives(ten, 'ETag: "a"', 'X: 1'),
    head(hour, 'ETag: "a"', length),
    cached({ has: ['X: 1'] }),
  ),
  required(
    'RFC 9111 §4.3.5',
    'with a 404 does not answer GET with a 404',
    gives(ten, 'ETag: "a"'),
    fetched({ wait: 10, method: 'HEAD', reply: { status: 404, fields: [hour, length] } }),
    fetched(),
  ),
]);
