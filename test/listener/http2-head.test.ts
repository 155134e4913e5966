/** Heads of HTTP/2 responses, as lists of names and values in turn and as objects. */

import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import { headersOf, http2Head, http2Lines } from '../../src/listener/http2/exchange.ts';
import { testNow } from '../support/proxies/open-listener.ts';

describe('fields', () => {
  it.each<[string, Fields, readonly string[]]>([
    ['none', [], []],
    [
      'of one name, as one line',
      [
        ['vary', 'a'],
        ['x', '1'],
        ['vary', 'b'],
      ],
      ['vary', 'a, b', 'x', '1'],
    ],
    [
      'that clients misread in one joined line',
      [
        ['set-cookie', 'a=1'],
        ['set-cookie', 'b=2'],
      ],
      ['set-cookie', 'a=1', 'set-cookie', 'b=2'],
    ],
    [
      'that are connection-specific',
      [
        ['connection', 'x'],
        ['content-length', '1'],
        ['te', 'trailers'],
        ['x', '1'],
      ],
      ['x', '1'],
    ],
    ['with an empty value', [['x', '']], ['x', '']],
    [
      'whose value is the name of another field',
      [
        ['x', 'vary'],
        ['vary', 'a'],
      ],
      ['x', 'vary', 'vary', 'a'],
    ],
  ])('become lines: %s', (_name, fields, lines) => {
    expect(http2Lines(fields)).toEqual(lines);
  });

  it.each<[string, string, string]>([
    ['a name with a space', 'x y', '1'],
    ['a pseudo-field', ':status', '200'],
    ['CR', 'x', 'a\rb'],
    ['LF', 'x', 'a\nb'],
    ['NUL', 'x', 'a\0b'],
    ['a character beyond a byte', 'x', 'aĀb'],
  ])('are refused: %s', (_name, name, value) => {
    expect(() => http2Lines([[name, value]])).toThrow();
  });
});

describe('an object of lines', () => {
  it('has repeated lines in lists, and treats no name specially', () => {
    const lines = ['set-cookie', 'a', '__proto__', 'x', 'set-cookie', 'b', 'set-cookie', 'c', 'etag', '"1"'];
    const headers = headersOf(lines);
    expect(Object.entries(headers)).toEqual([
      ['set-cookie', ['a', 'b', 'c']],
      ['__proto__', 'x'],
      ['etag', '"1"'],
    ]);
  });
});

describe('a head', () => {
  const parts = { status: 206, lines: ['etag', '"x"'], contentLength: 4, now: testNow };
  const date = 'Fri, 02 Jan 2026 03:04:05 GMT';
  it.each<[string, Parameters<typeof http2Head>[0], readonly string[]]>([
    ['with Date and Content-Length', parts, [':status', '206', 'etag', '"x"', 'date', date, 'content-length', '4']],
    [
      'with a Date of its own',
      { ...parts, lines: ['date', 'x'] },
      [':status', '206', 'date', 'x', 'content-length', '4'],
    ],
    ['without a length', { ...parts, contentLength: undefined }, [':status', '206', 'etag', '"x"', 'date', date]],
    [
      'with Content-Range',
      { ...parts, lines: [], contentRange: 'bytes 0-3/9' },
      [':status', '206', 'content-range', 'bytes 0-3/9', 'date', date, 'content-length', '4'],
    ],
  ])('is built %s', (_name, options, head) => {
    const made = http2Head(options);
    expect(Array.isArray(made) ? made : Object.entries(made).flat()).toEqual(head);
  });
});
