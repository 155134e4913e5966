/** Heads of HTTP/2 responses: their fields as lines, and as field sections. */

import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import { CachedFields, type Hit } from '../../src/http/message.ts';
import { encodeLines, formatHead, formatHitHead, http2Lines } from '../../src/listener/http2/hpack.ts';
import { decodeFields } from '../support/clients/h2-hpack.ts';
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

describe('a head', () => {
  const date = 'Fri, 02 Jan 2026 03:04:05 GMT';
  it.each<[string, readonly string[], number | undefined, readonly string[]]>([
    [
      'with Date and Content-Length',
      ['etag', '"x"'],
      4,
      [':status', '206', 'etag', '"x"', 'date', date, 'content-length', '4'],
    ],
    ['with a Date of its own', ['date', 'x'], 4, [':status', '206', 'date', 'x', 'content-length', '4']],
    ['without a length', ['etag', '"x"'], undefined, [':status', '206', 'etag', '"x"', 'date', date]],
    [
      'with a name like a property',
      ['__proto__', 'x'],
      0,
      [':status', '206', '__proto__', 'x', 'date', date, 'content-length', '0'],
    ],
  ])('is formatted %s', (_name, lines, contentLength, head) => {
    const section = formatHead(206, encodeLines(lines), contentLength, testNow);
    expect(decodeFields(Buffer.from(section, 'latin1')).flat()).toEqual(head);
  });
});

describe('the head of a hit', () => {
  class CountedFields extends CachedFields {
    readonly storedText = undefined;
    made = 0;

    lines(): Fields {
      this.made += 1;
      return [['etag', '"x"']];
    }
  }

  const headOf = (fields: CachedFields) => {
    const hit = {
      status: 200,
      fields,
      ageSeconds: 1,
      cacheStatus: 'rangeway; hit',
      more: [],
      sizeBytes: 4,
      chunks: [],
    };
    return formatHitHead({ ...hit, contentRange: undefined } as unknown as Hit, testNow);
  };

  it('is made of fields that are encoded once', () => {
    const fields = new CountedFields();
    expect(headOf(fields)).toBe(headOf(fields));
    expect(fields.made).toBe(1);
  });

  it('is the same after many others, for which its encoded fields were dropped', () => {
    const fields = new CountedFields();
    const head = headOf(fields);
    for (let other = 0; other < 10_000; other += 1) headOf(new CountedFields());
    expect(headOf(fields)).toBe(head);
    expect(fields.made).toBe(2);
  });
});
