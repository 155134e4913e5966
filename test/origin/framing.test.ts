/** How the framing of a response is read from its head. */

import { describe, expect, it } from 'vitest';
import { readFraming } from '../../src/origin/exchange.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

/** Returns framing and size, or `ill_framed`. */
function readingOf(method: string, status: number, ...lines: string[]): string {
  const reading = readFraming(method, status, fieldsOf(...lines), '1.1');
  return reading.kind === 'ill_framed' ? 'ill_framed' : `${reading.framing} ${reading.sizeBytes}`;
}

describe('readFraming', () => {
  it.each<[method: string, status: number, lines: string[], want: string]>([
    ['GET', 200, [], 'close undefined'],
    ['GET', 200, ['Content-Length: 0'], 'length 0'],
    ['GET', 200, ['Content-Length: 007'], 'length 7'],
    ['GET', 206, ['Content-Length: 9007199254740991'], 'length 9007199254740991'],
    ['GET', 500, ['Transfer-Encoding: chunked'], 'chunked undefined'],
    ['GET', 200, ['Transfer-Encoding: CHUNKED'], 'chunked undefined'],
    ['POST', 200, ['Content-Length: 5'], 'length 5'],
    ['HEAD', 200, ['Content-Length: 5'], 'none undefined'],
    ['HEAD', 200, ['Transfer-Encoding: chunked'], 'none undefined'],
    ['HEAD', 200, [], 'none undefined'],
    ['GET', 204, [], 'none undefined'],
    ['GET', 204, ['Content-Length: 5'], 'none undefined'],
    ['GET', 304, ['Content-Length: 5'], 'none undefined'],
    ['GET', 205, ['Content-Length: 0'], 'length 0'],
    ['GET', 200, ['Content-Length: 9007199254740992'], 'ill_framed'],
    ['GET', 200, ['Content-Length: '], 'ill_framed'],
    ['GET', 200, ['Content-Length: +5'], 'ill_framed'],
    ['GET', 200, ['Content-Length: -5'], 'ill_framed'],
    ['GET', 200, ['Content-Length: 5.0'], 'ill_framed'],
    ['GET', 200, ['Content-Length: 5e1'], 'ill_framed'],
    ['GET', 200, ['Content-Length: 5, 5'], 'ill_framed'],
    ['GET', 200, ['Content-Length: 5', 'Content-Length: 5'], 'ill_framed'],
    ['GET', 200, ['Content-Length: 5', 'Content-Length: 6'], 'ill_framed'],
    ['GET', 200, ['Content-Length: 5', 'Transfer-Encoding: chunked'], 'ill_framed'],
    ['HEAD', 200, ['Content-Length: 5', 'Transfer-Encoding: chunked'], 'ill_framed'],
    ['GET', 304, ['Content-Length: five'], 'ill_framed'],
    ['GET', 200, ['Transfer-Encoding: gzip'], 'ill_framed'],
    ['GET', 200, ['Transfer-Encoding: gzip, chunked'], 'ill_framed'],
    ['GET', 200, ['Transfer-Encoding: identity'], 'ill_framed'],
    ['GET', 200, ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], 'ill_framed'],
    ['GET', 200, ['Transfer-Encoding: '], 'ill_framed'],
  ])('%s %s %j', (method, status, lines, want) => {
    expect(readingOf(method, status, ...lines)).toBe(want);
  });
});
