import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readLines } from '../../../src/cli/warm/lines.ts';

async function* inPieces(bytes: Uint8Array, cuts: readonly number[]): AsyncGenerator<Uint8Array, void> {
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  let at = 0;
  for (const end of ends) {
    yield bytes.subarray(at, end);
    at = end;
  }
}

describe('readLines', () => {
  it('yields trimmed lines without comments and blanks, however the text is cut', async () => {
    const line = fc.constantFrom('http://a/1', '  http://a/2\t', 'http://ä/ü', '', '   ', '# http://a/3', '#', 'x\r');
    const lines = fc.array(line);
    await fc.assert(
      fc.asyncProperty(lines, fc.array(fc.nat()), fc.boolean(), async (written, cuts, isEnded) => {
        const text = written.join('\n') + (isEnded ? '\n' : '');
        const want = written.map((each) => each.trim()).filter((each) => each !== '' && !each.startsWith('#'));
        const got: string[] = [];
        for await (const each of readLines(inPieces(Buffer.from(text), cuts))) got.push(each);
        expect(got).toEqual(want);
      }),
    );
  });
});
