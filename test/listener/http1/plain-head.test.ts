/** The text that precedents are found by: what is taken out of it, and what must not have the same text. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type PlainHead, readPlainHead } from '../../../src/listener/http1/plain-head.ts';

const read = (text: string, mostBytes = 8192) => readPlainHead(Buffer.from(text, 'latin1'), mostBytes);
const head = (...lines: readonly string[]) =>
  `GET / HTTP/1.1\r\nHost: a\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`;

const rows: readonly (readonly [string, PlainHead | undefined])[] = [
  [head(), { text: head(), range: undefined }],
  [head('Range: bytes=0-99'), { text: head('Range: bytes='), range: 'bytes=0-99' }],
  [head('range: bytes=-5', 'X: y'), { text: head('range: bytes=', 'X: y'), range: 'bytes=-5' }],
  [head('Range: bytes=0-1,3-4,-5'), { text: head('Range: bytes='), range: 'bytes=0-1,3-4,-5' }],
  [head('Range: bytes='), undefined],
  [head('Range: bytes=0-1 '), undefined],
  [head('Range: bytes=0-1, 3-4'), undefined],
  [head('Range: bytes=a'), undefined],
  [head('Range: bytes=0-1\t'), undefined],
  [head('RANGE: bytes=0-1'), { text: head('RANGE: bytes=0-1'), range: undefined }],
  [head('Range: lines=0-1'), { text: head('Range: lines=0-1'), range: undefined }],
  [head('If-Range: bytes=0-1'), { text: head('If-Range: bytes=0-1'), range: undefined }],
  [
    head('Range: bytes=0-1', 'Range: bytes=2-3'),
    { text: head('Range: bytes=', 'Range: bytes=2-3'), range: 'bytes=0-1' },
  ],
  [head('X: \xe4'), { text: head('X: \xe4'), range: undefined }],
  ['GET / HTTP/1.1\r\nHost: a\r\n', undefined],
  [`${head()}G`, undefined],
  ['', undefined],
  ['\n', undefined],
  ['\r\n\r\n', { text: '\r\n\r\n', range: undefined }],
  [head(`X: ${'y'.repeat(4096)}`), undefined],
];

describe('the text of a head', () => {
  it.each(rows)('%j', (text, plain) => {
    expect(read(text)).toEqual(plain);
  });

  it('is none where the fields could be over their limit, whatever their range is', () => {
    const text = head('Range: bytes=0-1');
    expect(read(text, text.length)).toBeDefined();
    expect(read(text, text.length - 1)).toBeUndefined();
  });

  it('is that of another one only if they differ in the value of Range alone', () => {
    const piece = fc.constantFrom(
      '\r\n',
      'Range: bytes=',
      'range: bytes=',
      '0-1',
      '7',
      ',',
      '-',
      '=',
      'X: y',
      'Range:',
    );
    const text = fc.array(piece, { maxLength: 8 }).map((pieces) => `${pieces.join('')}\r\n\r\n`);
    fc.assert(
      fc.property(text, text, (first, second) => {
        const [one, other] = [read(first), read(second)];
        if (one === undefined || other === undefined || one.text !== other.text) return;
        expect(one.range === undefined).toBe(other.range === undefined);
        expect(first.replace(one.range ?? '', '?')).toBe(second.replace(other.range ?? '', '?'));
      }),
      { numRuns: 20_000 },
    );
  });
});
