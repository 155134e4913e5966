/** Hashes of passwords: their format, their bounds, and the passwords that match. */

import { scryptSync } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { defaultCost, formatPasswordHash, isPassword, parsePasswordHash } from '../../src/guard/access/passwords.ts';

const salt = Buffer.from('0123456789abcdef');
const cheap = { ln: 10, r: 8, p: 1 };

function hashOf(text: string) {
  const reading = parsePasswordHash(text);
  if (reading.kind === 'refused') throw new Error(reading.reason);
  return reading.hash;
}

describe('parsePasswordHash', () => {
  const tail = '$MDEyMzQ1Njc4OWFiY2RlZg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';

  it('parses a hash', () => {
    expect(hashOf(`$scrypt$ln=15,r=8,p=3${tail}`)).toEqual({ ln: 15, r: 8, p: 3, salt, digest: Buffer.alloc(32) });
  });

  it.each<[head: string]>([
    ['ln=10,r=1,p=1'],
    ['ln=14,r=8,p=5'],
    ['ln=16,r=8,p=2'],
    ['ln=17,r=8,p=1'],
    ['ln=17,r=8,p=4'],
    ['ln=20,r=1,p=1'],
  ])('accepts %s', (head) => expect(parsePasswordHash(`$scrypt$${head}${tail}`).kind).toBe('hash'));

  it.each<[text: string, want: RegExp]>([
    ['', /not a hash/],
    ['secret', /not a hash/],
    ['$scrypt$', /not a hash/],
    [`$scrypt$ln=15,r=8${tail}`, /not a hash/],
    [`$scrypt$r=8,ln=15,p=1${tail}`, /not a hash/],
    [`$scrypt$ln=15,r=8,p=1${tail}=`, /not a hash/],
    [`$scrypt$ln=15,r=8,p=1${tail} `, /not a hash/],
    ['$scrypt$ln=15,r=8,p=1$$AAAAAAAAAAAAAAAAAAAAAA', /not a hash/],
    ['$scrypt$ln=15,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$AAAA', /not a hash/],
    [`$scrypt$ln=9,r=8,p=1${tail}`, /ln is not between 10 and 20/],
    [`$scrypt$ln=21,r=1,p=1${tail}`, /ln is not between 10 and 20/],
    [`$scrypt$ln=15,r=0,p=1${tail}`, /r is not between 1 and 32/],
    [`$scrypt$ln=10,r=33,p=1${tail}`, /r is not between 1 and 32/],
    [`$scrypt$ln=15,r=8,p=0${tail}`, /p is not between 1 and 16/],
    [`$scrypt$ln=15,r=8,p=17${tail}`, /p is not between 1 and 16/],
    [`$scrypt$ln=18,r=8,p=1${tail}`, /more than 128 MiB/],
    [`$scrypt$ln=20,r=2,p=1${tail}`, /more than 128 MiB/],
    [`$scrypt$ln=17,r=8,p=5${tail}`, /too long/],
    ['$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe', /"rangeway hash-password" makes one of the kind/],
    ['$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/', /of the kind that is used here, scrypt/],
    ['{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=', /of the kind that is used here, scrypt/],
    ['$argon2id$v=19$m=65536,t=2,p=1$gZiV$eOoZ', /of the kind that is used here, scrypt/],
  ])('refuses %j', (text, want) => {
    const reading = parsePasswordHash(text);
    expect(reading.kind === 'refused' ? reading.reason : reading.kind).toMatch(want);
    if (reading.kind === 'refused' && text.length > 10) expect(reading.reason).not.toContain(text.slice(-10));
  });
});

describe('a hash', () => {
  it('is that of scrypt (RFC 7914)', async () => {
    const text = await formatPasswordHash('pässword', salt, cheap);
    const digest = scryptSync('pässword', salt, 32, { N: 1024, r: 8, p: 1 });
    expect(text).toBe(`$scrypt$ln=10,r=8,p=1$MDEyMzQ1Njc4OWFiY2RlZg$${digest.toString('base64').replace('=', '')}`);
  });

  // The second vector of RFC 7914 §12. The other vectors are beyond the bounds.
  it('matches the test vector of the RFC', async () => {
    const digest = Buffer.from(
      'fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b3731622eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640',
      'hex',
    );
    const hash = { ln: 10, r: 8, p: 16, salt: Buffer.from('NaCl'), digest };
    expect(await isPassword('password', hash)).toBe(true);
    expect(await isPassword('passwore', hash)).toBe(false);
  });

  it.each<[password: string, other: string]>([
    ['a', 'b'],
    ['correct horse battery staple', 'correct horse battery stapl'],
    ['with:colon', 'with'],
    ['Secret', 'secret'],
    ['密码', '密碼'],
  ])('matches %j and not %j', async (password, other) => {
    const hash = hashOf(await formatPasswordHash(password, salt, cheap));
    expect(await isPassword(password, hash)).toBe(true);
    expect(await isPassword(other, hash)).toBe(false);
    expect(await isPassword('', hash)).toBe(false);
  });

  it('matches a password in either normal form of Unicode', async () => {
    const hash = hashOf(await formatPasswordHash('e\u0301', salt, cheap));
    expect(await isPassword('\u00e9', hash)).toBe(true);
  });

  it('costs 32 MiB by default, within its own bounds', async () => {
    expect(128 * 2 ** defaultCost.ln * defaultCost.r).toBe(32 * 1024 * 1024);
    expect(await isPassword('a', hashOf(await formatPasswordHash('a', salt)))).toBe(true);
  });
});
