/** Fields about the connection: fields that Connection names, upgrades, expectations, and bytes between requests. */

import { get, type HostileRow, judgeAll, passed, passedLast, post } from '../support/proxies/hostile-ground.ts';

const bad = 'malformed_request';

/** A GET with these lines. */
const fields = (...lines: readonly string[]) => get(lines.map((line) => `${line}\r\n`).join(''));

/** Fields that a client might try to remove with Connection. They stay (RFC 9110 §7.6.1). */
const keptFields: readonly HostileRow[] = [
  ['Host', fields('Connection: Host'), passed('GET /x')],
  ['Via', fields('Connection: Via'), passed('GET /x')],
  ['X-Forwarded-For', fields('Connection: X-Forwarded-For'), passed('GET /x')],
  ['X-Real-IP', fields('Connection: X-Real-IP'), passed('GET /x')],
  ['Cookie', fields('Cookie: a=b', 'Connection: Cookie'), passed('GET /x', '', 'cookie: a=b')],
  [
    'Authorization',
    fields('Authorization: Basic YTpi', 'Connection: Authorization'),
    passed('GET /x', '', 'authorization: Basic YTpi'),
  ],
  ['Referer', fields('Referer: http://b/', 'Connection: Referer'), passed('GET /x', '', 'referer: http://b/')],
  [
    'Content-Length',
    post('Connection: Content-Length\r\nContent-Length: 3\r\n', 'abc'),
    passed('POST /x', 'abc', 'content-length: 3'),
  ],
  [
    'Transfer-Encoding',
    post('Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n', '3\r\nabc\r\n0\r\n\r\n'),
    passed('POST /x', 'abc', 'transfer-encoding: chunked'),
  ],
];

const websocket = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
];

judgeAll({
  'named by Connection, and kept': keptFields,

  'of the connection, and dropped': [
    ['a field that Connection names', fields('X: y', 'Connection: X'), passed('GET /x')],
    ['a field that Connection names in another case', fields('X: y', 'connection: x'), passed('GET /x')],
    ['fields of two lines of Connection', fields('X: y', 'Y: z', 'Connection: X', 'Connection: Y'), passed('GET /x')],
    ['Keep-Alive', fields('Keep-Alive: timeout=5'), passed('GET /x')],
    ['Proxy-Connection', fields('Proxy-Connection: keep-alive'), passed('GET /x')],
    ['Proxy-Connection: close', fields('Proxy-Connection: close'), passed('GET /x')],
    ['Proxy-Authorization', fields('Proxy-Authorization: Basic YTpi'), passed('GET /x')],
    ['TE', fields('TE: trailers'), passed('GET /x')],
    ['TE, chunked', fields('TE: chunked'), passed('GET /x')],
    ['Trailer', fields('Trailer: X'), passed('GET /x')],
    ['HTTP2-Settings', fields('HTTP2-Settings: AAMAAABk'), passed('GET /x')],
    ['Upgrade without Connection', fields('Upgrade: websocket'), passed('GET /x')],
    ['close, TE', fields('Connection: close, TE', 'TE: trailers'), passedLast('GET /x')],
    ['close', fields('Connection: close'), passedLast('GET /x')],
    ['CLOSE', fields('Connection: CLOSE'), passedLast('GET /x')],
    ['close and keep-alive', fields('Connection: keep-alive, close'), passedLast('GET /x')],
    ['keep-alive', fields('Connection: keep-alive'), passed('GET /x')],
  ],

  'an upgrade': [
    [
      'to h2c',
      fields('Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk'),
      passedLast('GET /x'),
    ],
    [
      'to h2c with a body',
      post('Connection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n', 'abc'),
      passedLast('POST /x', 'abc', 'content-length: 3'),
    ],
    ['to TLS', fields('Connection: Upgrade', 'Upgrade: TLS/1.0'), passedLast('GET /x')],
    ['without the field Upgrade', fields('Connection: Upgrade'), passed('GET /x')],
    [
      'to WebSocket in HTTP/1.0',
      fields(...websocket).replace('HTTP/1.1', 'HTTP/1.0'),
      passedLast(
        'GET /x',
        '',
        'via: 1.0 edge',
        'sec-websocket-version: 13',
        'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
      ),
    ],
    [
      'to WebSocket by POST',
      post(`${websocket.join('\r\n')}\r\nContent-Length: 3\r\n`, 'abc'),
      passedLast(
        'POST /x',
        'abc',
        'content-length: 3',
        'sec-websocket-version: 13',
        'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
      ),
    ],
    [
      'to WebSocket with a body',
      `${fields(...websocket, 'Content-Length: 3')}abc`,
      passedLast(
        'GET /x',
        'abc',
        'content-length: 3',
        'sec-websocket-version: 13',
        'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
      ),
    ],
    [
      'to WebSocket that the origin refuses: bytes behind it are neither a tunnel nor a request',
      fields(...websocket),
      passedLast(
        'GET /x',
        '',
        'connection: Upgrade',
        'upgrade: websocket',
        'sec-websocket-version: 13',
        'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
      ),
    ],
    ['to WebSocket with CL and TE', fields(...websocket, 'Content-Length: 3', 'Transfer-Encoding: chunked'), bad],
    ['to WebSocket with two Hosts', fields(...websocket, 'Host: b'), bad],
  ],

  Expect: [
    [
      '100-continue, with the body at once',
      post('Expect: 100-continue\r\nContent-Length: 3\r\n', 'abc'),
      passed('POST /x', 'abc', 'content-length: 3'),
    ],
    [
      '100-continue in capitals',
      post('Expect: 100-CONTINUE\r\nContent-Length: 3\r\n', 'abc'),
      passed('POST /x', 'abc', 'content-length: 3'),
    ],
    [
      '100-continue, chunked',
      post('Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n', '3\r\nabc\r\n0\r\n\r\n'),
      passed('POST /x', 'abc', 'transfer-encoding: chunked'),
    ],
    ['100-continue without a body', fields('Expect: 100-continue'), passedLast('GET /x')],
    [
      '100-continue in HTTP/1.0',
      post('Expect: 100-continue\r\nContent-Length: 3\r\n', 'abc').replace('1.1', '1.0'),
      passedLast('POST /x', 'abc', 'content-length: 3', 'via: 1.0 edge'),
    ],
    ['another value in HTTP/1.0', fields('Expect: y').replace('1.1', '1.0'), passedLast('GET /x', '', 'via: 1.0 edge')],
    ['y 100-continue', post('Expect: y 100-continue\r\nContent-Length: 3\r\n', 'abc'), 'expectation_failed'],
    ['100-continue y', post('Expect: 100-continue y\r\nContent-Length: 3\r\n', 'abc'), 'expectation_failed'],
    ['x-100-continue', post('Expect: x-100-continue\r\nContent-Length: 3\r\n', 'abc'), 'expectation_failed'],
    [
      '100-continue, 100-continue',
      post('Expect: 100-continue, 100-continue\r\nContent-Length: 3\r\n', 'abc'),
      'expectation_failed',
    ],
    [
      '100-continue twice',
      post('Expect: 100-continue\r\nExpect: 100-continue\r\nContent-Length: 3\r\n', 'abc'),
      'expectation_failed',
    ],
    ['100-continue=1', post('Expect: 100-continue=1\r\nContent-Length: 3\r\n', 'abc'), 'expectation_failed'],
    ['100-continue in quotes', post('Expect: "100-continue"\r\nContent-Length: 3\r\n', 'abc'), 'expectation_failed'],
    ['another value', fields('Expect: y'), 'expectation_failed'],
    ['no value', fields('Expect:'), 'expectation_failed'],
    ['folded', post('Expect:\r\n 100-continue\r\nContent-Length: 3\r\n', 'abc'), bad],
    ['behind a vertical tab', post('Expect: \x0b100-continue\r\nContent-Length: 3\r\n', 'abc'), bad],
    [
      'beside CL and TE',
      post('Expect: 100-continue\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n', '0\r\n\r\n'),
      bad,
    ],
    [
      'under another name',
      fields('X-Expect: 100-continue', 'Expec_t: y'),
      passed('GET /x', '', 'x-expect: 100-continue', 'expec_t: y'),
    ],
  ],

  'before a request': [
    ['an empty line', `\r\n${get()}`, passed('GET /x')],
    ['empty lines', `\r\n\r\n\r\n${get('X: y\r\n')}`, passed('GET /x', '', 'x: y')],
    ['a thousand empty lines', `${'\r\n'.repeat(1000)}${get()}`, bad],
    ['a space and an empty line', ` \r\n${get()}`, bad],
    ['NUL', `\0${get()}`, bad],
    ['the rest of a chunk', `0\r\n\r\n${get()}`, bad],
  ],

  'kept alive': [
    ['HTTP/1.0', get().replace('1.1', '1.0'), passedLast('GET /x', '', 'via: 1.0 edge')],
    [
      'HTTP/1.0 with keep-alive',
      fields('Connection: keep-alive').replace('1.1', '1.0'),
      passed('GET /x', '', 'via: 1.0 edge'),
    ],
    [
      'HTTP/1.0 with a body',
      post('Connection: keep-alive\r\nContent-Length: 3\r\n', 'abc').replace('1.1', '1.0'),
      passed('POST /x', 'abc', 'via: 1.0 edge', 'content-length: 3'),
    ],
    [
      'HTTP/1.0 with a body of no length',
      post('', 'abc').replace('1.1', '1.0'),
      passedLast('POST /x', '', 'via: 1.0 edge', 'content-length: 0'),
    ],
  ],
});
