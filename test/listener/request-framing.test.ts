/** How the end of a request body is known. Framing that Node's parser would refuse must be refused without it too. */

import { describe, expect, it } from 'vitest';
import type { Field } from '../../src/http/fields.ts';
import { readRequestFraming } from '../../src/listener/receive.ts';

type Row = readonly [lines: readonly Field[], framing: 'none' | 'chunked' | 'refused' | number, version?: string];

const te = (value: string): Field => ['transfer-encoding', value];
const cl = (value: string): Field => ['content-length', value];

const rows: readonly Row[] = [
  [[], 'none'],
  [[['te', 'chunked']], 'none'],
  [[cl('0')], 0],
  [[cl('3')], 3],
  [[cl('007')], 7],
  [[cl('9007199254740991')], Number.MAX_SAFE_INTEGER],
  [[cl('9007199254740992')], 'refused'],
  [[cl('99999999999999999999999999')], 'refused'],
  [[cl('')], 'refused'],
  [[cl('+3')], 'refused'],
  [[cl('-0')], 'refused'],
  [[cl('3.0')], 'refused'],
  [[cl('3e1')], 'refused'],
  [[cl('0x3')], 'refused'],
  [[cl('3 3')], 'refused'],
  [[cl('3,3')], 'refused'],
  [[cl('3'), cl('3')], 'refused'],
  [[cl('3'), ['x', 'y'], cl('4')], 'refused'],
  [[te('chunked')], 'chunked'],
  [[te('Chunked')], 'chunked'],
  [[te('')], 'refused'],
  [[te('identity')], 'refused'],
  [[te('chunked, chunked')], 'refused'],
  [[te('gzip, chunked')], 'refused'],
  [[te('chunked'), te('chunked')], 'refused'],
  [[te('chunked'), te('')], 'refused'],
  [[te('chunked'), cl('3')], 'refused'],
  [[cl('0'), te('chunked')], 'refused'],
  [[te('identity'), cl('3')], 'refused'],
  [[te('chunked')], 'refused', '1.0'],
  [[cl('3')], 3, '1.0'],
  [[['transfer_encoding', 'chunked']], 'refused'],
  [[['transfer.encoding', 'chunked']], 'refused'],
  [[['content_length', '3']], 'refused'],
  [[cl('3'), ['content!length', '3']], 'refused'],
  [[['x-transfer-encoding', 'chunked']], 'none'],
  [[['transferencoding', 'chunked']], 'none'],
  [[['content-lengthy', '3']], 'none'],
];

describe('the framing of a request', () => {
  it.each(rows.map(([lines, framing, version = '1.1']) => [lines, version, framing] as const))(
    '%j in HTTP/%s: %s',
    (lines, version, framing) => {
      const read = readRequestFraming(version, [['host', 'a'], ...lines]);
      if (typeof framing === 'number') expect(read).toEqual({ kind: 'length', sizeBytes: framing });
      else expect(read.kind).toBe(framing);
    },
  );
});
