import { describe, expect, it } from 'vitest';
import { withoutConnectionFields } from '../../src/semantics/message-forwarding.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('withoutConnectionFields, RFC 9110 §7.6.1', () => {
  const rows: readonly (readonly [name: string, lines: readonly string[], left: readonly string[]])[] = [
    ['nothing to remove', ['host: a', 'x: 1'], ['host: a', 'x: 1']],
    ['Connection itself', ['connection: close', 'x: 1'], ['x: 1']],
    ['what it names', ['connection: a, B', 'a: 1', 'b: 2', 'c: 3'], ['c: 3']],
    ['what it names before it', ['a: 1', 'connection: a'], []],
    ['what several lines name', ['connection: a', 'connection: ,b,', 'a: 1', 'b: 2'], []],
    ['every line of a named field', ['connection: a', 'a: 1', 'a: 2'], []],
    ['fields of the connection that it does not name', ['keep-alive: 5', 'te: gzip', 'upgrade: h2c', 'x: 1'], ['x: 1']],
    ['framing', ['transfer-encoding: chunked', 'trailer: x-sum', 'x: 1'], ['x: 1']],
    ['older inventions', ['proxy-connection: close', 'http2-settings: AA', 'x: 1'], ['x: 1']],
    ['a name that only begins alike', ['connection: a', 'ab: 1'], ['ab: 1']],
    // Fields for all recipients stay, whoever names them.
    ['Host', ['connection: host', 'host: a'], ['host: a']],
    ['Cache-Control', ['connection: cache-control', 'cache-control: private'], ['cache-control: private']],
    ['Content-Length', ['connection: close, content-length', 'content-length: 3'], ['content-length: 3']],
    ['Vary', ['connection: vary', 'vary: accept'], ['vary: accept']],
    ['Set-Cookie', ['connection: set-cookie', 'set-cookie: a=b'], ['set-cookie: a=b']],
    ['Authorization', ['connection: authorization', 'authorization: x'], ['authorization: x']],
    ['Via', ['connection: via', 'via: 1.1 rangeway'], ['via: 1.1 rangeway']],
    ['X-Forwarded-For', ['connection: x-forwarded-for', 'x-forwarded-for: ::1'], ['x-forwarded-for: ::1']],
    ['If-Range', ['connection: if-range', 'if-range: "a"', 'range: bytes=0-1'], ['if-range: "a"', 'range: bytes=0-1']],
  ];
  it.each(rows)('%s', (_name, lines, left) => {
    expect(withoutConnectionFields(fieldsOf(...lines))).toEqual(fieldsOf(...left));
  });
});
