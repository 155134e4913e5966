import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Digest,
  formatReprDigest,
  selectContentDigest,
  selectReprDigest,
  withReprDigest,
} from '../../src/semantics/digest.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const bytes = '{"hello": "world"}\n';
const sha256: Digest = { algorithm: 'sha256', hex: createHash('sha256').update(bytes).digest('hex') };
const sha512: Digest = { algorithm: 'sha512', hex: createHash('sha512').update(bytes).digest('hex') };
/** The digest of these bytes in RFC 9530 Appendix B.1. */
const a = 'sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:';
const b = `sha-512=:${createHash('sha512').update(bytes).digest('base64')}:`;
/** Digests of other bytes. */
const z = `sha-256=:${Buffer.alloc(32).toString('base64')}:`;
const zeros: Digest = { algorithm: 'sha256', hex: '00'.repeat(32) };

describe('selectReprDigest, RFC 9530 §3', () => {
  const rows: readonly (readonly [status: number, lines: readonly string[], want: Digest | undefined])[] = [
    [200, [], undefined],
    [200, [`Repr-Digest: ${a}`], sha256],
    [200, [`Repr-Digest: ${b}`], sha512],
    [200, [`Repr-Digest: ${b}, ${a}`], sha256],
    [200, [`Repr-Digest: ${b}`, `Repr-Digest: ${a}`], sha256],
    [200, [`Repr-Digest:   ${a}  `], sha256],
    [200, [`Repr-Digest: ${a};from="disk"`], sha256],
    // The last member of a name counts (RFC 9651 §4.2.2).
    [200, [`Repr-Digest: ${z}, ${a}`], sha256],
    // Padding may be missing (RFC 9651 §4.2.7).
    [200, [`Repr-Digest: ${a.replace('=:', ':').replace('sha-256:', 'sha-256=:')}`], sha256],
    // Only for a 200 the Content-Digest is taken for a digest of the representation.
    [200, [`Content-Digest: ${a}`], sha256],
    [206, [`Content-Digest: ${a}`], undefined],
    [404, [`Content-Digest: ${a}`], undefined],
    [206, [`Repr-Digest: ${a}`], sha256],
    [206, [`Repr-Digest: ${a}`, `Content-Digest: ${z}`], sha256],
    [404, [`Repr-Digest: ${a}`], sha256],
    // The preferred algorithm counts first, then the preferred field.
    [200, [`Content-Digest: ${z}`, `Repr-Digest: ${a}`], sha256],
    [200, [`Content-Digest: ${a}`, `Repr-Digest: ${b}`], sha256],
    // Deprecated algorithms (RFC 9530 §5) and unknown ones are ignored.
    [200, ['Repr-Digest: md5=:Sd/dVLAcvNLSq16eXua5uQ==:'], undefined],
    [200, ['Repr-Digest: sha=:07CavjDP4u3/TungoUHJO/Wzr4c=:, unixsum=:GQU=:, crc32c=:q4V4Ow==:'], undefined],
    [200, ['Repr-Digest: sha-384=:AAAA:', `Content-Digest: ${a}`], sha256],
    [200, [`Repr-Digest: md5=:Sd/dVLAcvNLSq16eXua5uQ==:, ${b}`], sha512],
    // Values of the wrong length or type are ignored.
    [200, ['Repr-Digest: sha-256=:AAAA:'], undefined],
    [200, ['Repr-Digest: sha-256=::'], undefined],
    [200, [`Repr-Digest: ${a.replace('sha-256', 'sha-512')}`], undefined],
    [200, [`Repr-Digest: ${b.replace('sha-512', 'sha-256')}, ${b}`], sha512],
    [200, ['Repr-Digest: sha-256'], undefined],
    [200, ['Repr-Digest: sha-256=1'], undefined],
    [200, ['Repr-Digest: sha-256="RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg="'], undefined],
    [200, [`Repr-Digest: sha-256=(${a.slice(8)})`], undefined],
    // A field that is no Dictionary is ignored as a whole, and the other field counts.
    [200, [`Repr-Digest: ${a},`], undefined],
    [200, [`Repr-Digest: SHA-256=${a.slice(8)}`], undefined],
    [200, [`Repr-Digest: ${a} ${b}`], undefined],
    [200, [`Repr-Digest: ${a.slice(0, -1)}`], undefined],
    [200, ['Repr-Digest: sha-256=RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg='], undefined],
    [200, ['Repr-Digest: sha-256=:RK-0qy18MlBSVnWgjwz6lZEWjP_lF5HF9bvEF8FabDg=:'], undefined],
    [200, ['Repr-Digest: ?', `Content-Digest: ${a}`], sha256],
    // The obsolete Digest field is ignored: its meaning was ambiguous (RFC 9530 §1.3).
    [200, ['Digest: SHA-256=RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg='], undefined],
  ];
  it.each(rows)('%d %j', (status, lines, want) => {
    expect(selectReprDigest({ status, fields: fieldsOf(...lines) })).toEqual(want);
  });
});

describe('selectContentDigest, RFC 9530 §2', () => {
  const rows: readonly (readonly [lines: readonly string[], want: Digest | undefined])[] = [
    [[], undefined],
    [[`Content-Digest: ${a}`], sha256],
    [[`Content-Digest: ${b}`], sha512],
    [[`Content-Digest: ${a}`, `Repr-Digest: ${z}`], sha256],
    [[`Repr-Digest: ${a}`], undefined],
    [['Content-Digest: sha-256=:AAAA:'], undefined],
    [['Content-Digest: ='], undefined],
  ];
  it.each(rows)('%j', (lines, want) => {
    expect(selectContentDigest(fieldsOf(...lines))).toEqual(want);
  });
});

describe('withReprDigest', () => {
  const rows: readonly (readonly [name: string, stated: readonly string[], added: readonly string[]])[] = [
    ['adds the digest where there is none', ['X: 1'], [`Repr-Digest: ${a}`]],
    ['adds the digest beside other algorithms', [`Repr-Digest: ${b}`], [`Repr-Digest: ${a}`]],
    ['adds the digest beside a Content-Digest', [`Content-Digest: ${a}`], [`Repr-Digest: ${a}`]],
    ["keeps the origin's sha-256", [`Repr-Digest: ${b}, ${a}`], []],
    ["keeps the origin's sha-256 where it differs", [`Repr-Digest: ${z}`], []],
    ["keeps the origin's sha-256 where it has the wrong length", ['Repr-Digest: sha-256=:AAAA:'], []],
    ['keeps a malformed field, which a second line would not repair', ['Repr-Digest: sha-512=!'], []],
  ];
  it.each(rows)('%s', (_name, stated, added) => {
    expect(withReprDigest(fieldsOf(...stated), sha256.hex)).toEqual(fieldsOf(...stated, ...added));
  });
});

describe('formatReprDigest', () => {
  it('gives the example of RFC 9530 Appendix B.1', () => expect(formatReprDigest(sha256.hex)).toBe(a));

  it('is parsed as the same digest', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (sum) => {
        const hex = Buffer.from(sum).toString('hex');
        const fields = fieldsOf(`Repr-Digest: ${formatReprDigest(hex)}`);
        expect(selectReprDigest({ status: 206, fields })).toEqual({ algorithm: 'sha256', hex });
      }),
    );
  });
});

describe('selectReprDigest, any text', () => {
  const alphabet = ['sha-256', 'sha-512', '=', ':', ',', ' ', ';', '"', '(', ')', '?1', '@9', '%"', 'AAAA', '\\', '-.'];
  const near = fc.array(fc.constantFrom(...alphabet, a, b)).map((parts) => parts.join(''));

  it('never throws, and returns a digest of the right length or none', () => {
    fc.assert(
      fc.property(fc.oneof(near, fc.string({ unit: 'binary' })), (text) => {
        const digest = selectReprDigest({ status: 200, fields: [['repr-digest', text]] });
        const length = digest === undefined ? undefined : { sha256: 64, sha512: 128 }[digest.algorithm];
        expect(digest?.hex.length).toBe(length);
        expect(withReprDigest([['repr-digest', text]], zeros.hex).length).toBeLessThanOrEqual(2);
      }),
      { numRuns: 1000 },
    );
  });
});
