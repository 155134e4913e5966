/** Credentials as clients send them and as operators store them, and signed URLs. */

import { parseBasic, parseNamedSecrets, readAuthorization } from '../../../src/guard/access/authorization.ts';
import { parsePasswordHash } from '../../../src/guard/access/passwords.ts';
import { createSignatureCheck, readSignature, signTarget } from '../../../src/guard/access/signed-url.ts';
import { must, mustEqual, type Target, valuesOf } from '../target.ts';

const basic = (text: string) => Buffer.from(text, 'latin1').toString('base64');

const authorization: Target = {
  name: 'authorization',
  seeds: [
    `Basic ${basic('user:secret')}`,
    'Bearer abc.def-_~+/==',
    'basic  YTpi',
    'Digest a="b, c"',
    `Basic ${basic('a:')}`,
  ],
  words: ['Basic ', 'Bearer ', 'YTpi', '=', ' ', ',', basic('\xc3\xbc:p'), basic(':p'), basic('a:b:c')],
  check(input) {
    const [value = ''] = valuesOf(input);
    const credentials = readAuthorization([['authorization', value]]);
    must(credentials !== undefined, 'a field that is present is read');
    must(
      /^[!#$%&'*+.^_`|~\w-]*$/.test(credentials.scheme) && credentials.scheme === credentials.scheme.toLowerCase(),
      'a scheme is a token in lower case',
    );
    must(value.toLowerCase().startsWith(credentials.scheme), 'the value begins with the scheme');
    if (credentials.token68 !== '') must(value.endsWith(credentials.token68), 'the value ends with the token');
    for (const token of [credentials.token68, basic(input)]) checkBasic(token);
  },
};

function checkBasic(token: string): void {
  const parsed = parseBasic(token);
  if (parsed === undefined) return;
  const { name, password } = parsed;
  must(
    name !== '' && password !== '' && !name.includes(':'),
    'name and password are not empty, and the name has no colon',
  );
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the result must not contain them
  must(!/[\0-\x1f\x7f-\x9f]/.test(name + password), 'name and password have no control character');
  const again = parseBasic(Buffer.from(`${name}:${password}`).toString('base64'));
  mustEqual(again, parsed, 'formatted credentials are parsed as the same');
}

const secret = 'a secret of more than sixteen';
const authority = 'files.example';
const verify = createSignatureCheck(new Map([['k1', secret]]), { now: () => 0, decoy: 'decoy of some length' });
const signed = (target: string, expires = 1000) => signTarget({ authority, target, keyId: 'k1', expires }, secret);

const signedUrls: Target = {
  name: 'signed-urls',
  seeds: [
    signed('/a'),
    signed('/a?x=1&y'),
    signed('/a?'),
    '/a?rw-key=k1&rw-expires=5',
    '/a?rw-signature=',
    signed('/b', 999_999_999_999),
  ],
  words: ['rw-expires=', 'rw-key=', 'rw-signature=', '&', '?', 'k1', '0', '=', 'x=1', '%26', '#'],
  check(input) {
    // A listener refuses targets with these characters.
    const received = input.replace(/[\r\n#\0]/g, '');
    const reading = readSignature(received);
    if (reading.kind === 'given' && verify(authority, reading) === 'right') {
      // A fuzzed signature cannot be forged: it is one of the seeds, perhaps with its parameters in other positions.
      mustEqual(signedAgain(reading), reading, 'a URL that passes is one that was signed');
    }
    if (reading.kind === 'none') {
      const own = readSignature(signed(received));
      must(own.kind === 'given', 'a signature of a signed URL is read');
      mustEqual([own.target, verify(authority, own)], [received, 'right'], 'a signed URL passes');
      must(verify('other.example', own) === 'wrong', 'a signature is valid for one host only');
      must(
        verify(authority, { ...own, target: `${own.target}x` }) === 'wrong',
        'a signature is valid for one target only',
      );
      must(
        verify(authority, { ...own, expires: own.expires + 1 }) === 'wrong',
        'a signature is valid for one expiry only',
      );
    } else {
      const [, query = ''] = /\?(.*)$/s.exec(reading.target) ?? [];
      const isLeft = query.split('&').some((each) => /^rw-(?:expires|key|signature)(?:=|$)/.test(each));
      must(!isLeft, 'the target has no parameter of a signature');
    }
  },
};

function signedAgain({ target, expires }: { readonly target: string; readonly expires: number }) {
  return readSignature(signed(target, expires));
}

const secretLists: Target = {
  name: 'secret-lists',
  seeds: [
    'name:secret\nother:secret2',
    '# comment\r\n\r\nname:se:cret',
    'a:$scrypt$ln=15,r=8,p=3$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA',
    ':x',
    'a:',
  ],
  words: [
    ':',
    '\n',
    '\r\n',
    '#',
    'name',
    'secret',
    '$scrypt$',
    'ln=15,r=8,p=3',
    '$',
    'AAAAAAAAAAAAAAAAAAAAAAAAAAAA',
    ' ',
  ],
  check(input) {
    const reading = parseNamedSecrets(input, () => undefined);
    if (reading.kind === 'list') {
      mustEqual(new Set(reading.secrets.map(({ name }) => name)).size, reading.secrets.length, 'each name occurs once');
      for (const { name, secret: value, line } of reading.secrets) {
        must(
          name !== '' && value !== '' && !/[\r\n]/.test(name + value),
          'name and secret are not empty, and on one line',
        );
        must((input.split('\n')[line - 1] ?? '').includes(value), 'the secret is in the line that is stated');
      }
    } else {
      for (const piece of input.split(/[:\n]/)) {
        must(piece.length < 12 || !reading.reason.includes(piece), 'no reason contains a secret');
      }
    }
    const hash = parsePasswordHash(input);
    if (hash.kind === 'hash')
      must(128 * 2 ** hash.hash.ln * hash.hash.r <= 128 * 1024 * 1024, 'checking a password takes bounded memory');
  },
};

export const credentialTargets: readonly Target[] = [authorization, signedUrls, secretLists];
