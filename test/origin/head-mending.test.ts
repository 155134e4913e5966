/** Heads of responses that are mended before the parser gets them, however they are cut into reads. */

import { describe, expect, it } from 'vitest';
import { HeadMender } from '../../src/origin/head-mending.ts';

/** Returns what the parser gets, and whether a status line ended with LF alone. */
function mend(reads: readonly string[]): { readonly text: string; readonly isBare: boolean } {
  let isBare = false;
  const mender = new HeadMender((isBareNow) => {
    isBare = isBareNow;
  });
  const bytes = reads.map((read) => mender.read(Buffer.from(read, 'latin1')));
  return { text: Buffer.concat(bytes).toString('latin1'), isBare };
}

const ok = 'HTTP/1.1 200 OK\r\n';

/** What follows a head stays as it is, whatever it looks like. */
const rest = 'x\r\n y\r\nICY 200 OK\r\nHTTP/1.1 100 Continue\r\n\r\n';

describe('HeadMender', () => {
  it.each<[name: string, from: string, to: string]>([
    ['a head without fault', `${ok}A: b\r\nContent-Length: 3\r\n\r\n`, `${ok}A: b\r\nContent-Length: 3\r\n\r\n`],
    ['blank lines before the status line', `\r\n\r\n${ok}A: b\r\n\r\n`, `\r\n\r\n${ok}A: b\r\n\r\n`],
    ['a folded line', `${ok}A: b\r\n c\r\n\td\r\nE: f\r\n\r\n`, `${ok}A: b   c  \td\r\nE: f\r\n\r\n`],
    ['a folded first line', `${ok} A: b\r\n\r\n`, `${ok} A: b\r\n\r\n`],
    ['a fold behind LF alone', `${ok}A: b\n c\r\n\r\n`, `${ok}A: b\n c\r\n\r\n`],
    ['space before a colon', `${ok}A \t: b : c\r\n\r\n`, `${ok}A:   b : c\r\n\r\n`],
    [
      'equal lengths',
      `${ok}Content-Length: 30\r\nA: b\r\nCONTENT-LENGTH:30\r\n\r\n`,
      `${ok}Content-Length: 30\r\nA: b\r\n\r\n`,
    ],
    ['a list of equal lengths', `${ok}Content-Length: 30, 30\r\n\r\n`, `${ok}Content-Length:     30\r\n\r\n`],
    [
      'lengths that differ',
      `${ok}Content-Length: 3\r\nContent-Length: 4\r\n\r\n`,
      `${ok}Content-Length: 3\r\nContent-Length: 4\r\n\r\n`,
    ],
    ['identity', `${ok}Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\n`, `${ok}Content-Length: 3\r\n\r\n`],
    [
      'identity before chunked',
      `${ok}Transfer-Encoding: identity, chunked\r\n\r\n`,
      `${ok}Transfer-Encoding:           chunked\r\n\r\n`,
    ],
    ['a 100', `HTTP/1.1 100 Continue\r\nA: b\r\n\r\n${ok}\r\n`, `${ok}\r\n`],
    [
      'a 103',
      `HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\n${ok}Content-Length: 3\r\n\r\n`,
      `HTTP/1.1 103 Early Hints\r\nContent-Length: 3\r\n\r\n${ok}Content-Length: 3\r\n\r\n`,
    ],
    ['ICY', 'ICY 200 OK\r\nicy-br: 128\r\n\r\n', 'HTTP/1.0 200 OK\r\nicy-br: 128\r\n\r\n'],
    ['another protocol', 'SSH-2.0\r\n A\r\n', 'SSH-2.0\r\n A\r\n'],
  ])('%s', (_name, from, to) => {
    expect(mend([`${from}${rest}`])).toEqual({ text: `${to}${rest}`, isBare: false });
    for (let cut = 1; cut < from.length; cut += 1) {
      expect(mend([from.slice(0, cut), `${from.slice(cut)}${rest}`]).text, `cut at ${cut}`).toBe(`${to}${rest}`);
    }
    const lastByte = from.length - 1;
    expect(mend([...from.slice(0, lastByte), `${from.slice(lastByte)}${rest}`]).text).toBe(`${to}${rest}`);
  });

  it('names the faults of the last head', () => {
    const mender = new HeadMender(() => {});
    mender.read(Buffer.from('ICY 200 OK\nA : b\n c\nContent-Length: 3, 3\nTransfer-Encoding: identity\n\n'));
    expect(mender.mended).toEqual([
      'lines end with LF alone',
      'the protocol is ICY',
      'folded lines',
      'white space before a colon',
      'several lengths',
      'Transfer-Encoding: identity',
    ]);
    mender.read(Buffer.from(`${ok}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n`));
    expect(mender.mended).toBeUndefined();
  });

  it('tells of a status line that ends with LF alone, before its fields', () => {
    expect(mend(['HTTP/1.1 200 OK\nA: b\n c\nContent-Length: 3, 3\n\n'])).toEqual({
      text: 'HTTP/1.1 200 OK\nA: b  c\nContent-Length:    3\n\n',
      isBare: true,
    });
    expect(mend(['HTTP/1.1 200 OK\n']).isBare).toBe(true);
    expect(mend(['HTTP/1.1 200 OK\n\n', ok]).isBare).toBe(false);
  });

  it('hands on each line when its end is certain, and says what it holds', () => {
    const mender = new HeadMender(() => {});
    const read = (text: string) => [mender.read(Buffer.from(text)).toString(), mender.heldBytes];
    expect(read('HTTP/1.1 2')).toEqual(['', 10]);
    expect(read('00 OK\r\nA: b\r\n')).toEqual([ok, 6]);
    expect(read(' c\r\n')).toEqual(['', 10]);
    expect(read('\r\nbody')).toEqual(['A: b   c\r\n\r\nbody', 0]);
  });
});
