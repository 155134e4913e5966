/** Field names in their conventional case. */

import { describe, expect, it } from 'vitest';
import { wireFieldName } from '../../src/http/fields.ts';

describe('wireFieldName', () => {
  it.each([
    ['age', 'Age'],
    ['accept-ch', 'Accept-CH'],
    ['cache-control', 'Cache-Control'],
    ['cdn-loop', 'CDN-Loop'],
    ['content-md5', 'Content-MD5'],
    ['dnt', 'DNT'],
    ['etag', 'ETag'],
    ['if-none-match', 'If-None-Match'],
    ['sec-websocket-key', 'Sec-WebSocket-Key'],
    ['soapaction', 'SOAPAction'],
    ['te', 'TE'],
    ['www-authenticate', 'WWW-Authenticate'],
    ['x-forwarded-for', 'X-Forwarded-For'],
    ['x-real-ip', 'X-Real-IP'],
    ['x-request-id', 'X-Request-ID'],
    ['x-xss-protection', 'X-XSS-Protection'],
    ['x_a', 'X_a'],
    ['x--a-', 'X--A-'],
    ['__proto__', '__proto__'],
    ['constructor', 'Constructor'],
    ['', ''],
  ])('%s', (name, want) => {
    expect(wireFieldName(name)).toBe(want);
    expect(wireFieldName(name).toLowerCase()).toBe(name);
  });

  it('works for more names than it remembers', () => {
    const names = Array.from({ length: 2000 }, (_, index) => `x-invented-${index}`);
    expect(names.map(wireFieldName)).toEqual(names.map((name) => name.replace('x-i', 'X-I')));
  });
});
