/** What makes stored responses invalid: unsafe requests, and HEAD (RFC 9111 §4.3.5, §4.4). */

import { table } from './engine.ts';
import { cached, type Details, type Exchange, fetched, gives, optimal, required } from './rows.ts';

const hour = 'Cache-Control: max-age=3600';

/** A response is stored for this target. */
const stores = (target: string, ...fields: string[]): Exchange =>
  fetched({ target, reply: { fields: [hour, ...fields] } });
const sends = (method: string, details: Details = {}): Exchange => fetched({ method, body: 'abc', ...details });
const answers = (status: number, ...fields: string[]): Details => ({ reply: { status, fields } });

const unsafe = ['POST', 'PUT', 'DELETE', 'PATCH', 'M-SEARCH'];

table('unsafe requests', [
  ...unsafe.map((method) =>
    required('RFC 9111 §4.4', `${method} that succeeds`, gives(hour), sends(method), fetched()),
  ),
  ...unsafe.map((method) =>
    optimal('RFC 9111 §4.4', `${method} that fails`, gives(hour), sends(method, answers(500)), cached()),
  ),
  ...unsafe.map((method) =>
    optimal(
      'RFC 9111 §4.4',
      `${method}, and Location`,
      stores('/b'),
      sends(method, answers(201, 'Location: /b')),
      fetched({ target: '/b' }),
    ),
  ),
  ...unsafe.map((method) =>
    optimal(
      'RFC 9111 §4.4',
      `${method}, and Content-Location`,
      stores('/b'),
      sends(method, answers(200, 'Content-Location: /b')),
      fetched({ target: '/b' }),
    ),
  ),
  ...[201, 202, 204, 205, 301, 302, 303, 307].map((status) =>
    required(
      'RFC 9111 §4.4',
      `a ${status} is no error`,
      gives(hour),
      sends('PUT', { reply: { status, body: '' } }),
      fetched(),
    ),
  ),
  ...[400, 403, 404, 405, 409, 412, 501, 503].map((status) =>
    optimal('RFC 9111 §4.4', `a ${status} is one`, gives(hour), sends('PUT', answers(status)), cached()),
  ),
  required('RFC 9111 §4.4', 'is for one target, not for all', stores('/b'), sends('POST'), cached({ target: '/b' })),
  required(
    'RFC 9111 §4.4',
    'is for one target, not for its query',
    stores('/a?b'),
    sends('POST'),
    cached({ target: '/a?b' }),
  ),
  optimal(
    'RFC 9111 §4.4',
    'a Location that is relative',
    stores('/d/b'),
    sends('POST', { target: '/d/a', ...answers(201, 'Location: b') }),
    fetched({ target: '/d/b' }),
  ),
  optimal(
    'RFC 9111 §4.4',
    'a Location that is absolute',
    stores('/b'),
    sends('POST', answers(201, 'Location: http://example.org/b')),
    fetched({ target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'a Location of another host is left alone',
    fetched({ host: 'other.example', target: '/b', reply: { fields: [hour] } }),
    sends('POST', answers(201, 'Location: http://other.example/b')),
    cached({ host: 'other.example', target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'a Location of another port is left alone',
    fetched({ host: 'example.org:81', target: '/b', reply: { fields: [hour] } }),
    sends('POST', answers(201, 'Location: http://example.org:81/b')),
    cached({ host: 'example.org:81', target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'a Content-Location of another host is left alone',
    fetched({ host: 'other.example', target: '/b', reply: { fields: [hour] } }),
    sends('PUT', answers(200, 'Content-Location: http://other.example/b')),
    cached({ host: 'other.example', target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'a Location of a failure is left alone',
    stores('/b'),
    sends('POST', answers(500, 'Location: /b')),
    cached({ target: '/b' }),
  ),
  required(
    'RFC 9111 §4.4',
    'what is invalid is validated, or fetched',
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
  required('RFC 9110 §9.3', 'reach the origin as they are', sends('PROPFIND', { asks: ['Content-Length: 3'] })),
]);

table('safe requests', [
  ...['OPTIONS', 'PROPFIND', 'REPORT', 'SEARCH'].map((method) =>
    optimal('RFC 9111 §4.4', `${method} makes nothing invalid`, gives(hour), fetched({ method }), cached()),
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
    'of another tag makes it invalid',
    gives(ten, 'ETag: "a"'),
    head(hour, 'ETag: "b"', length),
    fetched(),
  ),
  required(
    'RFC 9111 §4.3.5',
    'of another date makes it invalid',
    gives(ten, 'Last-Modified: Thu, 18 Dec 2025 02:01:18 GMT'),
    head(hour, 'Last-Modified: Fri, 19 Dec 2025 02:01:18 GMT', length),
    fetched(),
  ),
  required(
    'RFC 9111 §4.3.5',
    'of another length makes it invalid',
    gives(ten, 'ETag: "a"'),
    head(hour, 'ETag: "a"', 'Content-Length: 23'),
    fetched(),
  ),
  optimal(
    'RFC 9111 §4.3.5',
    'of the same tag updates its fields',
    gives(ten, 'ETag: "a"', 'X: 1'),
    head(hour, 'ETag: "a"', 'X: 2', length),
    cached({ wait: 3599, has: ['X: 2'] }),
  ),
  optimal(
    'RFC 9111 §4.3.5',
    'of the same length updates its fields',
    gives(ten, 'X: 1'),
    head(hour, 'X: 2', length),
    cached({ wait: 3599, has: ['X: 2'] }),
  ),
  optimal(
    'RFC 9111 §4.3.5',
    'leaves what it does not say',
    gives(ten, 'ETag: "a"', 'X: 1'),
    head(hour, 'ETag: "a"', length),
    cached({ has: ['X: 1'] }),
  ),
  required(
    'RFC 9111 §4.3.5',
    'with a 404 does not make a 404 of GET',
    gives(ten, 'ETag: "a"'),
    fetched({ wait: 10, method: 'HEAD', reply: { status: 404, fields: [hour, length] } }),
    fetched(),
  ),
]);
