/** `rangeway hash-password`: the line that it prints, and how it reads a password. */

import { PassThrough, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { hashPassword, type PasswordInput } from '../../src/cli/hash-password.ts';
import { run } from '../../src/cli/main.ts';
import { isPassword, parsePasswordHash } from '../../src/guard/access/passwords.ts';
import { createFakeCliIo } from '../support/proxies/fake-cli-io.ts';

const random = (size: number) => new Uint8Array(size).fill(7);

async function hashed(name: string | undefined, input: PasswordInput) {
  const io = createFakeCliIo();
  const code = await hashPassword(name, io, { input, random });
  return { code, ...io.written };
}

const piped = (text: string | Buffer) => Readable.from([Buffer.from(text)]) as PasswordInput;

/** A fake terminal. It types each line after a prompt, and Ctrl-D when there are no more. */
function terminal(...lines: readonly string[]) {
  const modes: boolean[] = [];
  const stream = Object.assign(new PassThrough(), {
    isTTY: true,
    setRawMode: (isRaw: boolean) => void modes.push(isRaw),
  });
  const waiting = [...lines];
  const io = createFakeCliIo();
  const prompting: typeof io = {
    ...io,
    stderr: {
      write(text) {
        io.written.stderr += text;
        if (text.endsWith(': ')) setImmediate(() => stream.write(waiting.shift() ?? '\u0004'));
      },
    },
  };
  return { stream, io: prompting, modes };
}

async function typed(...lines: readonly string[]) {
  const { stream, io, modes } = terminal(...lines);
  const code = await hashPassword('ada', io, { input: stream, random });
  return { code, ...io.written, modes };
}

async function isHashOf(line: string, password: string): Promise<boolean> {
  const reading = parsePasswordHash(line.trimEnd().replace(/^[^$]*:/, ''));
  return reading.kind === 'hash' && (await isPassword(password, reading.hash));
}

describe('hash-password', () => {
  it.each<[name: string | undefined, text: string, password: string]>([
    ['ada', 'love', 'love'],
    ['ada', 'love\n', 'love'],
    ['ada', 'love\r\n', 'love'],
    ['ada', ' a:b ', ' a:b '],
    ['b\u00e9a', '\u00e9', 'e\u0301'],
    [undefined, 'love', 'love'],
  ])('hashes for the name %j and the input %j', async (name, text, password) => {
    const { code, stdout, stderr } = await hashed(name, piped(text));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const start = `${name === undefined ? '' : `${name}:`}$scrypt$ln=15,r=8,p=3$BwcHBwcHBwcHBwcHBwcHBw$`;
    expect(stdout.slice(0, start.length)).toBe(start);
    expect(stdout).toMatch(/^[^\n]+\n$/);
    expect(await isHashOf(stdout, password)).toBe(true);
  });

  it.each<[what: string, input: string | Buffer, want: string]>([
    ['nothing', '', 'the password is empty'],
    ['an empty line', '\n', 'the password is empty'],
    ['two lines', 'hidden\nhidden\n', 'the password has a control character in it'],
    ['a tab', 'hid\tden', 'the password has a control character in it'],
    ['more than 1024 characters', 'x'.repeat(1025), 'the password is too long'],
    ['a file', Buffer.alloc(100_000, 'x'), 'the password is too long'],
    ['Latin-1', Buffer.from('hidden\xe9', 'latin1'), 'the password is not UTF-8'],
  ])('refuses %s as a password', async (_what, input, want) => {
    expect(await hashed('ada', piped(input))).toEqual({ code: 1, stdout: '', stderr: `rangeway: ${want}\n` });
  });

  it.each(['a:b', '', ' ada', 'ada ', '#ada', '\tada', 'a\nb', 'a\u0000b', 'a'.repeat(256)])(
    'refuses %j as a name, and reads no password',
    async (name) => {
      const { code, stdout, stderr } = await hashed(name, piped('hidden'));
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toMatch(/^rangeway: (a name cannot|expected a name)/);
    },
  );

  it('asks twice on a terminal, and echoes nothing', async () => {
    const { code, stdout, stderr, modes } = await typed('hidden\r', 'hidden\r');
    expect({ code, stderr }).toEqual({ code: 0, stderr: 'Password: \nAgain: \n' });
    expect(await isHashOf(stdout, 'hidden')).toBe(true);
    expect(stdout).not.toContain('hidden');
    expect(modes).toEqual([true, false, true, false]);
  });

  it('lets a password be corrected on a terminal', async () => {
    const { stdout } = await typed('hiddem\u007fn\r', 'hidden\r');
    expect(await isHashOf(stdout, 'hidden')).toBe(true);
  });

  it.each<[what: string, lines: readonly string[], want: string]>([
    ['two different inputs', ['hidden\r', 'hiden\r'], 'the two passwords are not the same'],
    ['empty lines', ['\r', '\r'], 'the password is empty'],
    ['Ctrl-C', ['hidd\u0003'], 'no password was given'],
    ['Ctrl-D', ['\u0004'], 'no password was given'],
    ['Ctrl-C the second time', ['hidden\r', '\u0003'], 'no password was given'],
    ['Ctrl-D the second time', ['hidden\r', '\u0004'], 'no password was given'],
  ])('makes no hash after %s', async (_what, lines, want) => {
    const { code, stdout, stderr, modes } = await typed(...lines);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr.endsWith(`rangeway: ${want}\n`)).toBe(true);
    expect(stderr).not.toContain('hid');
    expect(modes.at(-1)).toBe(false);
  });

  it('has its own --help', async () => {
    const io = createFakeCliIo();
    expect(await run(['hash-password', '--help'], io)).toBe(0);
    expect(io.written.stdout).toMatch(/^Usage: rangeway hash-password \[options\] \[name\]\n/);
  });
});
