/** `rangeway sign`: the URL that it prints, and its error messages. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { run } from '../../src/cli/main.ts';
import { type SignFlags, sign } from '../../src/cli/sign.ts';
import { signTarget } from '../../src/guard/access/signed-url.ts';
import { createFakeCliIo } from '../support/proxies/fake-cli-io.ts';

const dir = mkdtempSync(join(tmpdir(), 'rangeway-sign-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

const secret = 'hidden secret of one';
const file = join(dir, 'keys');
writeFileSync(file, `# signs\none:${secret}\ntwo:hidden secret of two\n`);
const env = { ONE: `one:${secret}`, SHORT: 'one:hidden', BARE: secret };
const now = Date.UTC(2026, 0, 2, 3, 4, 5, 6);

async function signed(url: string, flags: Partial<SignFlags> = {}) {
  const io = createFakeCliIo(env);
  const code = await sign(new URL(url), { expiresIn: 60_000, secret: 'env:ONE', ...flags }, io, now);
  return { code, ...io.written };
}

describe('sign prints', () => {
  it.each<[url: string, authority: string, origin: string, target: string]>([
    ['https://media.example/film.mp4', 'media.example', 'https://media.example', '/film.mp4'],
    ['https://media.example', 'media.example', 'https://media.example', '/'],
    ['HTTPS://MEDIA.example:443/a?', 'media.example', 'https://media.example', '/a'],
    ['https://media.example:8443/a?b=1&c', 'media.example:8443', 'https://media.example:8443', '/a?b=1&c'],
    ['http://media.example:80/a', 'media.example', 'http://media.example', '/a'],
    ['http://[2001:DB8::0:1]:8080/a', '[2001:db8::1]:8080', 'http://[2001:db8::1]:8080', '/a'],
    [
      'https://b\u00fccher.example/\u00e9 f?g h#i',
      'xn--bcher-kva.example',
      'https://xn--bcher-kva.example',
      '/%C3%A9%20f?g%20h',
    ],
    ['https://media.example/a/../b/%2e%2e/c', 'media.example', 'https://media.example', '/c'],
  ])('%s', async (url, authority, origin, target) => {
    const want = signTarget({ authority, target, keyId: 'one', expires: Date.UTC(2026, 0, 2, 3, 5, 6) / 1000 }, secret);
    expect(await signed(url)).toEqual({ code: 0, stdout: `${origin}${want}\n`, stderr: '' });
  });

  it('a URL signed with the key that --key-id names', async () => {
    const { stdout } = await signed('https://media.example/a', { secret: `file:${file}`, keyId: 'two' });
    expect(stdout).toMatch(/\/a\?rw-expires=1767323106&rw-key=two&rw-signature=[\w-]{43}\n$/);
  });
});

describe('sign gives the reason for a refusal', () => {
  it.each<[url: string, flags: Partial<SignFlags>, code: number, want: string]>([
    ['https://ada:pw@media.example/', {}, 2, 'a URL with a user name or a password cannot be signed'],
    ['https://media.example/?rw-key=one', {}, 2, 'the URL has parameters of a signature already'],
    ['https://media.example/', { secret: 'hidden' }, 2, '--secret: expected "env:NAME" or "file:PATH"'],
    ['https://media.example/', { expiresIn: 1e16 }, 2, '--expires-in: expected a time such as 1h or 7d'],
    ['https://media.example/', { secret: 'env:NONE' }, 1, 'the secret env:NONE is not set'],
    [
      'https://media.example/',
      { secret: 'env:SHORT' },
      1,
      'the secret env:SHORT has a fault in line 1: the secret has fewer than 16 characters',
    ],
    [
      'https://media.example/',
      { secret: 'env:BARE' },
      1,
      'the secret env:BARE has a fault in line 1: there is no colon between a name and a secret',
    ],
    [
      'https://media.example/',
      { secret: `file:${file}` },
      1,
      `the secret file:${file} has several keys; name one with --key-id`,
    ],
    ['https://media.example/', { keyId: 'three' }, 1, 'the secret env:ONE has no key with the id three'],
  ])('%s %j', async (url, flags, code, want) => {
    expect(await signed(url, flags)).toEqual({ code, stdout: '', stderr: `rangeway: ${want}\n` });
  });

  it.each<[want: RegExp, ...argv: string[]]>([
    [/required option '--secret <source>' not specified/, 'https://media.example/'],
    [/missing required argument 'url'/, '--secret', 'env:ONE'],
    [/Expected a URL/, 'ftp://media.example/', '--secret', 'env:ONE'],
    [/Expected a time/, 'media.example', '--secret', 'env:ONE', '--expires-in', 'soon'],
  ])('%s', async (want, ...argv) => {
    const io = createFakeCliIo(env);
    expect(await run(['sign', ...argv], io)).toBe(2);
    expect(io.written.stderr).toMatch(want);
    expect(io.written.stdout).toBe('');
  });

  it('runs as a command, and its URL is valid for an hour by default', async () => {
    const io = createFakeCliIo(env);
    const before = Date.now() / 1000;
    expect(await run(['sign', 'media.example/a', '--secret', 'env:ONE'], io)).toBe(0);
    const [, expires] = /^http:\/\/media\.example\/a\?rw-expires=(\d+)&rw-key=one&/.exec(io.written.stdout) ?? [];
    expect(Number(expires)).toBeGreaterThanOrEqual(before + 3600);
    expect(Number(expires)).toBeLessThanOrEqual(Date.now() / 1000 + 3601);
  });
});
