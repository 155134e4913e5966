/** Signed URLs: signing, parsing and checking. Only an unchanged signed URL passes. */

import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  createSignatureCheck,
  isExpiry,
  readSignature,
  type SignatureRefusal,
  type SignedUrl,
  signTarget,
} from '../../src/guard/access/signed-url.ts';
import { normaliseTarget } from '../../src/routing/target.ts';

const secret = '0123456789abcdef';
const now = Date.UTC(2026, 0, 2, 3, 4, 4);
const expires = now / 1000 + 1;
const check = createSignatureCheck(new Map([['2026-1', secret]]), { now: () => now, decoy: 'decoy' });

/** Returns the verdict on a target at an authority, and the target that goes on. */
function verdictOf(
  authority: string,
  received: string,
): { readonly verdict: 'right' | 'none' | SignatureRefusal; readonly target: string } {
  const reading = readSignature(received);
  if (reading.kind === 'none') return { verdict: 'none', target: received };
  if (reading.kind === 'malformed') return { verdict: 'malformed', target: reading.target };
  return { verdict: check(authority, reading), target: reading.target };
}

function sign(target: string, changes: Partial<SignedUrl> = {}, key = secret): string {
  return signTarget({ authority: 'media.example.org', target, keyId: '2026-1', expires, ...changes }, key);
}

describe('signTarget', () => {
  // The signatures are from `openssl dgst -sha256 -hmac` over label, authority, key id, expiry and target, one line each.
  it.each<[key: string, authority: string, keyId: string, expires: number, target: string, want: string]>([
    [
      secret,
      'media.example.org',
      '2026-1',
      1767323045,
      '/film.mp4',
      '/film.mp4?rw-expires=1767323045&rw-key=2026-1&rw-signature=8oC7oEGmC0HzDnUSIM6Qvi6rL8LexTu4qBgkBKWhpNE',
    ],
    [
      secret,
      'media.example.org',
      '2026-1',
      1767323045,
      '/film.mp4?v=2&l=en',
      '/film.mp4?v=2&l=en&rw-expires=1767323045&rw-key=2026-1&rw-signature=_lS2A2jue70Pc6esdlQsxg5LZ9VMXAhnIoHFD67XdZ0',
    ],
    [
      secret,
      'media.example.org:8443',
      '2026-1',
      1767323045,
      '/film.mp4?',
      '/film.mp4?&rw-expires=1767323045&rw-key=2026-1&rw-signature=8TL_Jcy2UFMAa9cRcDlkEsopesflFCoPdedA7qu5DDc',
    ],
    [
      'clé de seize octets',
      '[::1]',
      'b',
      999999999999,
      '/a%2Fb/../c//d%zz?x',
      '/a%2Fb/../c//d%zz?x&rw-expires=999999999999&rw-key=b&rw-signature=xD4SW50dV1FK3bqj-g4p42vgVvHlgd31oIG3GW6ZBnw',
    ],
  ])('%s %s %s %i %s', (key, authority, keyId, time, target, want) => {
    expect(signTarget({ authority, target, keyId, expires: time }, key)).toBe(want);
  });
});

describe('a signature', () => {
  const signed = sign('/film.mp4?v=2');
  const [, parameters = ''] = signed.split('v=2&');
  const [expiresPart = '', keyPart = '', signaturePart = ''] = parameters.split('&');

  it.each<[where: string, received: string, target: string]>([
    ['at the end', `/film.mp4?v=2&${parameters}`, '/film.mp4?v=2'],
    ['at the beginning', `/film.mp4?${parameters}&v=2`, '/film.mp4?v=2'],
    ['in another order', `/film.mp4?${signaturePart}&${keyPart}&v=2&${expiresPart}`, '/film.mp4?v=2'],
    ['alone', sign('/film.mp4'), '/film.mp4'],
    ['beside an empty query', sign('/film.mp4?'), '/film.mp4?'],
    ['beside empty parameters', sign('/film.mp4?&&a&'), '/film.mp4?&&a&'],
    [
      'beside parameters that look like those of a signature',
      sign('/f?xrw-key=1&RW-KEY=2&rw-keys&a=rw-key=3'),
      '/f?xrw-key=1&RW-KEY=2&rw-keys&a=rw-key=3',
    ],
    ['of a path that looks like a parameter of a signature', sign('/rw-key=1/a'), '/rw-key=1/a'],
    ['of text that a URL parser would change', sign('/a/%2e%2e/b//c%?%41=%zz'), '/a/%2e%2e/b//c%?%41=%zz'],
  ])('%s passes, and the rest is unchanged', (_where, received, target) => {
    expect(verdictOf('media.example.org', received)).toEqual({ verdict: 'right', target });
  });

  it.each<[what: string, received: string, want: string, authority?: string]>([
    ['absent', '/film.mp4?v=2', 'none'],
    ['in the path', '/film.mp4;rw-key=1', 'none'],
    ['without expiry', `/film.mp4?v=2&${keyPart}&${signaturePart}`, 'malformed'],
    ['without key', `/film.mp4?v=2&${expiresPart}&${signaturePart}`, 'malformed'],
    ['without signature', `/film.mp4?v=2&${expiresPart}&${keyPart}`, 'malformed'],
    ['with two expiries', `${signed}&${expiresPart}`, 'malformed'],
    ['with two keys', `${signed}&${keyPart}`, 'malformed'],
    ['with two signatures', `${signed}&${signaturePart}`, 'malformed'],
    ['with a second key that is empty', `${signed}&rw-key`, 'malformed'],
    ['with an expiry that is no number', signed.replace(expiresPart, 'rw-expires=9e9'), 'malformed'],
    ['with a zero before its expiry', signed.replace(expiresPart, `rw-expires=0${expires}`), 'malformed'],
    ['with a sign before its expiry', signed.replace(expiresPart, `rw-expires=+${expires}`), 'malformed'],
    ['with an expiry of 13 digits', signed.replace(expiresPart, 'rw-expires=9999999999999'), 'malformed'],
    ['with a space after its expiry', signed.replace(expiresPart, `${expiresPart}%20`), 'malformed'],
    ['with an empty signature', signed.replace(signaturePart, 'rw-signature='), 'malformed'],
    ['with padding', `${signed}=`, 'malformed'],
    ['with a signature that is cut', signed.slice(0, -1), 'malformed'],
    ['with a name in another case', signed.replace('rw-key', 'Rw-Key'), 'malformed'],
    ['with a name that is encoded', signed.replace('rw-key', 'rw%2Dkey'), 'malformed'],
    ['with a later expiry', signed.replace(expiresPart, `rw-expires=${expires + 1}`), 'wrong'],
    ['with an unknown key id', signed.replace(keyPart, 'rw-key=2026-2'), 'wrong'],
    ['of another path', signed.replace('film', 'filn'), 'wrong'],
    ['of another query', signed.replace('v=2', 'v=3'), 'wrong'],
    ['with a further parameter', `${signed}&a=1`, 'wrong'],
    ['with a further encoded parameter', `${signed}&rw%2Dkey=a`, 'wrong'],
    ['with the other parameters in another order', sign('/f?a&b').replace('a&b', 'b&a'), 'wrong'],
    ['of the same path in another spelling', signed.replace('film', '%66ilm'), 'wrong'],
    ['of the same path with a dot segment', signed.replace('/film', '/x/../film'), 'wrong'],
    ['for another host', signed, 'wrong', 'media.example.net'],
    ['for another port', signed, 'wrong', 'media.example.org:8080'],
    ['for no host', signed, 'wrong', ''],
    ['by another secret', sign('/film.mp4', {}, 'another secret !'), 'wrong'],
    ['by the decoy', sign('/film.mp4', { keyId: 'x' }, 'decoy'), 'wrong'],
    ['that has expired now', sign('/film.mp4', { expires: now / 1000 }), 'expired'],
    ['that has expired long ago', sign('/film.mp4', { expires: 1 }), 'expired'],
  ])('%s does not pass', (_what, received, want, authority = 'media.example.org') => {
    expect(verdictOf(authority, received).verdict).toBe(want);
  });

  it('is valid until the second before its expiry ends', () => {
    let time = now;
    const moving = createSignatureCheck(new Map([['2026-1', secret]]), { now: () => time, decoy: '' });
    const reading = readSignature(sign('/a'));
    const ask = () => (reading.kind === 'given' ? moving('media.example.org', reading) : reading.kind);
    expect(ask()).toBe('right');
    time = expires * 1000 - 1;
    expect(ask()).toBe('right');
    time += 1;
    expect(ask()).toBe('expired');
  });

  it('accepts an expiry of 1 to 12 digits only', () => {
    expect([1, 999_999_999_999].map(isExpiry)).toEqual([true, true]);
    expect([0, -1, 1.5, 1e12, 1e21, Number.NaN].some(isExpiry)).toBe(false);
  });
});

describe('any signed target', () => {
  const segment = fc.constantFrom('a', 'b', '..', '.', '%2e%2e', '%2F', '%', '%4', '', ';rw-key=1', '~', '%7E');
  const parameter = fc.constantFrom('a=1', 'b', '', 'rw-keys=1', '?', '%', 'c=%2', 'x=rw-key', 'rw', '=');
  const target = fc
    .tuple(fc.array(segment, { maxLength: 5 }), fc.option(fc.array(parameter, { minLength: 1, maxLength: 5 })))
    .map(([path, query]) => `/${path.join('/')}${query === null ? '' : `?${query.join('&')}`}`);

  it('is parsed to the same bytes, wherever its signature stands', () => {
    fc.assert(
      fc.property(target, fc.nat(), fc.boolean(), (clean, place, isShuffled) => {
        const signed = sign(clean);
        const parameters = signed.slice(clean.length + 1).split('&');
        if (isShuffled) parameters.reverse();
        const mark = clean.indexOf('?');
        const rest = mark === -1 ? [] : clean.slice(mark + 1).split('&');
        rest.splice(place % (rest.length + 1), 0, ...parameters);
        const received = `${mark === -1 ? clean : clean.slice(0, mark)}?${rest.join('&')}`;
        expect(verdictOf('media.example.org', received)).toEqual({ verdict: 'right', target: clean });
      }),
    );
  });

  it('normalises to the same target as without signature', () => {
    fc.assert(
      fc.property(target, (clean) => {
        expect(normaliseTarget(verdictOf('media.example.org', sign(clean)).target)).toEqual(normaliseTarget(clean));
      }),
    );
  });

  it('does not pass with any byte changed', () => {
    fc.assert(
      fc.property(target, fc.nat(), fc.integer({ min: 0x21, max: 0x7e }), (clean, place, code) => {
        const signed = sign(clean);
        const at = place % signed.length;
        const changed = signed.slice(0, at) + String.fromCharCode(code) + signed.slice(at + 1);
        fc.pre(changed !== signed && changed.startsWith('/'));
        expect(verdictOf('media.example.org', changed).verdict).not.toBe('right');
      }),
      { numRuns: 1000 },
    );
  });

  it('does not pass with a byte more or less', () => {
    fc.assert(
      fc.property(
        target,
        fc.nat(),
        fc.integer({ min: 0x21, max: 0x7e }),
        fc.boolean(),
        (clean, place, code, isMore) => {
          const signed = sign(clean);
          const at = 1 + (place % (signed.length - 1));
          const more = isMore ? String.fromCharCode(code) : '';
          const changed = signed.slice(0, at) + more + signed.slice(isMore ? at : at + 1);
          const { verdict, target: left } = verdictOf('media.example.org', changed);
          // An `&` beside the signature belongs to the rest. The URL passes only where the rest is the signed target.
          if (verdict === 'right') expect(left).toBe(clean);
        },
      ),
      { numRuns: 1000 },
    );
  });

  it('has a signature of its own', () => {
    const part = fc.string({ unit: fc.constantFrom('a', '1', '/', '?', '.'), minLength: 1, maxLength: 3 });
    const content = fc.record({
      authority: part,
      keyId: part,
      expires: fc.nat(99),
      target: part.map((text) => `/${text}`),
    });
    fc.assert(
      fc.property(content, content, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        const signatureOf = (signed: SignedUrl) => signTarget(signed, secret).slice(-43);
        expect(signatureOf(one)).not.toBe(signatureOf(other));
      }),
    );
  });

  it('is an HMAC of the five lines', () => {
    const text = `rangeway-signed-url-v1\nmedia.example.org\n2026-1\n${expires}\n/a`;
    expect(sign('/a').slice(-43)).toBe(createHmac('sha256', secret).update(text).digest('base64url'));
  });
});
