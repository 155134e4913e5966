import { describe, expect, it } from 'vitest';
import { formatListenAddress, isHostField, isHostName, parseListenAddress } from '../../src/config/address.ts';

describe('parseListenAddress', () => {
  it.each<[text: string, host: string, port: number]>([
    ['8080', '127.0.0.1', 8080],
    ['0', '127.0.0.1', 0],
    ['127.0.0.1:0', '127.0.0.1', 0],
    ['0.0.0.0:80', '0.0.0.0', 80],
    ['localhost:65535', 'localhost', 65_535],
    ['[::1]:8080', '::1', 8080],
    ['[::]:8080', '::', 8080],
  ])('%s', (text, host, port) => {
    const address = parseListenAddress(text);
    expect(address).toEqual({ host, port });
    const formatted = text.includes(':') ? text : `127.0.0.1:${text}`;
    expect(address === undefined ? undefined : formatListenAddress(address)).toBe(formatted);
  });

  it.each([
    '',
    ':8080',
    'localhost',
    'localhost:',
    'localhost:65536',
    'localhost:080808',
    'localhost:-1',
    'localhost:8o80',
    '::1:8080',
    '[::1]',
    '[::g]:80',
    '[127.0.0.1]:80',
    '1.2.3:80',
    '256.0.0.1:80',
    'a b:80',
    'http://localhost:80',
    'localhost:80/',
    '*:80',
  ])('refuses %j', (text) => expect(parseListenAddress(text)).toBeUndefined());
});

describe('isHostName', () => {
  it.each<[text: string, want: boolean]>([
    ['example.org', true],
    ['EXAMPLE.org', true],
    ['a', true],
    ['my_host-1', true],
    ['xn--bcher-kva.example', true],
    ['192.0.2.1', true],
    ['[2001:db8::1]', true],
    ['1.2.3.4.example', true],
    ['a'.repeat(63), true],
    ['a'.repeat(64), false],
    [`${'a.'.repeat(126)}b`, true],
    [`${'a.'.repeat(127)}b`, false],
    ['', false],
    ['.', false],
    ['a..b', false],
    ['a.', false],
    ['-a', false],
    ['a-', false],
    ['a:80', false],
    ['a/b', false],
    ['bücher.example', false],
    ['*.example.org', false],
    ['1.2.3', false],
    ['2001:db8::1', false],
    ['[]', false],
  ])('%j', (text, want) => expect(isHostName(text)).toBe(want));
});

describe('isHostField', () => {
  it.each<[text: string, want: boolean]>([
    ['example.org', true],
    ['example.org:8080', true],
    ['[::1]:8080', true],
    ['[::1]', true],
    ['example.org:', false],
    ['example.org:65536', false],
    ['example.org:80:80', false],
    ['user@example.org', false],
    ['example.org\r\nx: y', false],
  ])('%j', (text, want) => expect(isHostField(text)).toBe(want));
});
