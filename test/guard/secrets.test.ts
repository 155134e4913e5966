/** Secrets: their sources, and lists of named secrets. */

import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  apiKeyRule,
  bearerRule,
  createTokenTable,
  findSharedToken,
  parseNamedSecrets,
} from '../../src/guard/access/authorization.ts';
import { signingKeyRule } from '../../src/guard/access/signed-url.ts';
import { readSecret } from '../../src/setup/secrets.ts';

const dir = mkdtempSync(join(tmpdir(), 'rangeway-secrets-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

function file(name: string, content: string | Uint8Array): string {
  const path = join(dir, name);
  writeFileSync(path, content);
  return path;
}

const read = (kind: 'env' | 'file', name: string) =>
  readSecret({ kind, name }, { SET: 'hidden', EMPTY: '', TWO: 'a\n\n' });

describe('readSecret', () => {
  it.each<[kind: 'env' | 'file', name: string, want: string]>([
    ['env', 'SET', 'hidden'],
    ['env', 'TWO', 'a\n'],
    ['file', file('plain', 'hidden'), 'hidden'],
    ['file', file('line', 'hidden\n'), 'hidden'],
    ['file', file('crlf', 'hidden\r\n'), 'hidden'],
    ['file', file('bom', '\uFEFFhidden'), 'hidden'],
    ['file', file('spaces', ' hidden '), ' hidden '],
    ['file', file('lines', 'a:1\nb:2\n'), 'a:1\nb:2'],
    ['file', file('utf-8', 'clé'), 'clé'],
  ])('%s:%s', async (kind, name, want) => expect(await read(kind, name)).toBe(want));

  it.each<[kind: 'env' | 'file', name: string, want: string]>([
    ['env', 'UNSET', 'the secret env:UNSET is not set'],
    ['env', 'EMPTY', 'the secret env:EMPTY is empty'],
    ['file', join(dir, 'none'), `the secret file:${join(dir, 'none')} cannot be read: ENOENT`],
    ['file', dir, `the secret file:${dir} cannot be read: EISDIR`],
    ['file', file('empty', ''), `the secret file:${join(dir, 'empty')} is empty`],
    ['file', file('newline', '\n'), `the secret file:${join(dir, 'newline')} is empty`],
    [
      'file',
      file('latin1', Buffer.from('hidden\xe9', 'latin1')),
      `the secret file:${join(dir, 'latin1')} is not UTF-8`,
    ],
    ['file', '/dev/zero', 'the secret file:/dev/zero is too long'],
  ])('refuses %s:%s, and does not repeat its content', async (kind, name, want) => {
    const thrown: Error = await read(kind, name).then(
      () => new Error('read'),
      (error) => error,
    );
    expect(thrown.message.slice(0, want.length)).toBe(want);
    expect(`${thrown.stack} ${String(thrown.cause)}`).not.toContain('hidden');
  });

  it('reads a world-readable file, as secrets are mounted in containers', async () => {
    const path = file('open', 'hidden');
    chmodSync(path, 0o444);
    expect(await read('file', path)).toBe('hidden');
  });
});

describe('parseNamedSecrets', () => {
  const parse = (text: string, rule: Parameters<typeof parseNamedSecrets>[1] = () => undefined) => {
    const reading = parseNamedSecrets(text, rule);
    return reading.kind === 'refused'
      ? reading.reason
      : reading.secrets.map(({ name, secret, line }) => `${line} ${name}=${secret}`);
  };

  it.each<[text: string, want: readonly string[]]>([
    ['a:1', ['1 a=1']],
    ['a:1\nb:2', ['1 a=1', '2 b=2']],
    ['a:1\r\nb:2\r\n', ['1 a=1', '2 b=2']],
    ['\n# who\n  \n\t# x:y\na:1\n\n', ['5 a=1']],
    ['a:b:c', ['1 a=b:c']],
    ['a::', ['1 a=:']],
    ['a b:c d', ['1 a b=c d']],
    ['a#:1', ['1 a#=1']],
    ['e\u0301:1', ['1 \u00e9=1']],
    [`${'n'.repeat(255)}:1`, [`1 ${'n'.repeat(255)}=1`]],
  ])('%j', (text, want) => expect(parse(text)).toEqual(want));

  it.each<[text: string, want: string]>([
    ['', 'has no line "name:secret"'],
    ['# a:hidden', 'has no line "name:secret"'],
    ['hidden', 'has a fault in line 1: there is no colon between a name and a secret'],
    ['a:1\n\nhidden', 'has a fault in line 3: there is no colon between a name and a secret'],
    [':hidden', 'has a fault in line 1: there is no name before the colon'],
    ['a:', 'has a fault in line 1: there is no secret after the colon'],
    ['a: hidden', 'has a fault in line 1: there is white space around the name or the secret'],
    ['a:hidden ', 'has a fault in line 1: there is white space around the name or the secret'],
    [' a:hidden', 'has a fault in line 1: there is white space around the name or the secret'],
    ['a :hidden', 'has a fault in line 1: there is white space around the name or the secret'],
    ['a:hidden\u0000', 'has a fault in line 1: there is a control character in it'],
    ['a:hid\tden', 'has a fault in line 1: there is a control character in it'],
    ['a:hid\rden', 'has a fault in line 1: there is a control character in it'],
    ['\u001b[2Ja:hidden', 'has a fault in line 1: there is a control character in it'],
    [`${'n'.repeat(256)}:hidden`, 'has a fault in line 1: the name has more than 255 characters'],
    ['a:1\nb:2\na:hidden', 'has a fault in line 3: the name is that of line 1'],
    ['\u00e9:1\ne\u0301:hidden', 'has a fault in line 2: the name is that of line 1'],
  ])('refuses %j', (text, want) => {
    expect(parse(text)).toBe(want);
    expect(want).not.toContain('hidden');
  });

  it.each<[rule: string, entry: string, want: string | readonly string[]]>([
    ['bearer', 'a:0123456789abcdef', ['1 a=0123456789abcdef']],
    ['bearer', 'a:0123456789._~+/-==', ['1 a=0123456789._~+/-==']],
    ['bearer', 'a:0123456789abcde', 'has a fault in line 1: the token has fewer than 16 characters'],
    ['bearer', `a:${'x'.repeat(2049)}`, 'has a fault in line 1: the token has more than 2048 characters'],
    ['bearer', 'a:0123456789 abcdef', 'has a fault in line 1: the token has characters that no bearer token may have'],
    ['bearer', 'a:0123456789=abcdef', 'has a fault in line 1: the token has characters that no bearer token may have'],
    ['apiKey', 'a:0123456789:;"abcdef', ['1 a=0123456789:;"abcdef']],
    ['apiKey', 'a:0123456789', 'has a fault in line 1: the key has fewer than 16 characters'],
    ['apiKey', 'a:0123456789 abcdef', 'has a fault in line 1: the key has characters other than visible ASCII'],
    ['apiKey', 'a:0123456789abcdéf', 'has a fault in line 1: the key has characters other than visible ASCII'],
    ['signing', '2026-1:a secret of any kind', ['1 2026-1=a secret of any kind']],
    [
      'signing',
      'a b:0123456789abcdef',
      'has a fault in line 1: the id is not of 1 to 64 letters, digits and the signs . _ ~ -',
    ],
    [
      'signing',
      'a&b:0123456789abcdef',
      'has a fault in line 1: the id is not of 1 to 64 letters, digits and the signs . _ ~ -',
    ],
    ['signing', 'a:0123456789abcde', 'has a fault in line 1: the secret has fewer than 16 characters'],
  ])('%s: %s', (name, entry, want) => {
    const rules = { bearer: bearerRule, apiKey: apiKeyRule, signing: signingKeyRule };
    expect(parse(entry, rules[name as keyof typeof rules])).toEqual(want);
  });
});

describe('a table of tokens', () => {
  const entries = [
    { name: 'ada', secret: 'token-of-ada-0001', line: 1 },
    { name: 'bob', secret: 'token-of-bob-0002', line: 4 },
  ];
  const table = createTokenTable(entries, Buffer.alloc(32, 1));

  it.each<[token: string, want: string | undefined]>([
    ['token-of-ada-0001', 'ada'],
    ['token-of-bob-0002', 'bob'],
    ['', undefined],
    ['token-of-ada-0002', undefined],
    ['Token-of-ada-0001', undefined],
    ['token-of-ada-000', undefined],
    ['token-of-ada-00011', undefined],
    ['ada', undefined],
    ['__proto__', undefined],
    ['x'.repeat(100_000), undefined],
  ])('%s', (token, want) => expect(table(token)).toBe(want));

  it('finds the same token under two names', () => {
    expect(findSharedToken(entries)).toBeUndefined();
    expect(findSharedToken([...entries, { name: 'eve', secret: 'token-of-ada-0001', line: 9 }])).toEqual({
      line: 9,
      before: 1,
    });
  });
});
