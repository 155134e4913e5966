import { describe, expect, it } from 'vitest';
import { withoutConnectionFields } from '../../src/semantics/message-forwarding.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('withoutConnectionFields, RFC 9110 §7.6.1', () => {
  const rows: readonly (readonly [name: string, lines: readonly string[], left: readonly string[]])[] = [
    ['keeps other fields', ['host: a', 'x: 1'], ['host: a', 'x: 1']],
    ['removes Connection itself', ['connection: close', 'x: 1'], ['x: 1']],
    ['removes fields that Connection names', ['connection: a, B', 'a: 1', 'b: 2', 'c: 3'], ['c: 3']],
    ['removes a named field that precedes Connection', ['a: 1', 'connection: a'], []],
    ['removes fields that several lines name', ['connection: a', 'connection: ,b,', 'a: 1', 'b: 2'], []],
    ['removes every line of a named field', ['connection: a', 'a: 1', 'a: 2'], []],
    [
      'removes fields of the connection that are not named',
      ['keep-alive: 5', 'te: gzip', 'upgrade: h2c', 'x: 1'],
      ['x: 1'],
    ],
    ['removes framing fields', ['transfer-encoding: chunked', 'trailer: x-sum', 'x: 1'], ['x: 1']],
    ['removes obsolete fields of the connection', ['proxy-connection: close', 'http2-settings: AA', 'x: 1'], ['x: 1']],
    ['keeps a name that only begins alike', ['connection: a', 'ab: 1'], ['ab: 1']],
    // End-to-end fields stay, even where Connection names them.
    ['keeps Host', ['connection: host', 'host: a'], ['host: a']],
    ['keeps Cache-Control', ['connection: cache-control', 'cache-control: private'], ['cache-control: private']],
    ['keeps Content-Length', ['connection: close, content-length', 'content-length: 3'], ['content-length: 3']],
    ['keeps Vary', ['connection: vary', 'vary: accept'], ['vary: accept']],
    ['keeps Set-Cookie', ['connection: set-cookie', 'set-cookie: a=b'], ['set-cookie: a=b']],
    ['keeps Authorization', ['connection: authorization', 'authorization: x'], ['authorization: x']],
    ['keeps Via', ['connection: via', 'via: 1.1 rangeway'], ['via: 1.1 rangeway']],
    ['keeps X-Forwarded-For', ['connection: x-forwarded-for', 'x-forwarded-for: ::1'], ['x-forwarded-for: ::1']],
    [
      'keeps If-Range',
      ['connection: if-range', 'if-range: "a"', 'range: bytes=0-1'],
      ['if-range: "a"', 'range: bytes=0-1'],
    ],
  ];
  it.each(rows)('%s', (_name, lines, left) => {
    expect(withoutConnectionFields(fieldsOf(...lines))).toEqual(fieldsOf(...left));
  });
});
