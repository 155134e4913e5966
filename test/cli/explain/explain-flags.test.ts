import { describe, expect, it } from 'vitest';
import { parseHeaderFlag, parseRangeFlag, parseUrl } from '../../../src/cli/admin/flags.ts';

describe('parseUrl', () => {
  it.each([
    ['http://127.0.0.1:8080/a?b', 'http://127.0.0.1:8080/a?b'],
    ['HTTPS://a.example', 'https://a.example/'],
    ['127.0.0.1:8080/a', 'http://127.0.0.1:8080/a'],
    ['localhost:8080', 'http://localhost:8080/'],
    ['[::1]:8080/a', 'http://[::1]:8080/a'],
    ['a.example/x:y', 'http://a.example/x:y'],
    ['ftp://a.example', undefined],
    ['file:///a', undefined],
    ['http://', undefined],
    ['', undefined],
  ])('%s: %s', (text, want) => expect(parseUrl(text)?.href).toBe(want));
});

describe('parseRangeFlag', () => {
  it.each([
    ['0-99', 'bytes=0-99'],
    ['-100', 'bytes=-100'],
    ['=-100', 'bytes=-100'],
    ['0-9,20-29', 'bytes=0-9,20-29'],
    ['bytes=0-99', 'bytes=0-99'],
    ['lines=1-2', 'lines=1-2'],
  ])('%s: %s', (text, want) => expect(parseRangeFlag(text)).toBe(want));
});

describe('parseHeaderFlag', () => {
  it.each([
    ['Name: value', ['Name', 'value']],
    ['name:value', ['name', 'value']],
    ['Name:  a: b ', ['Name', 'a: b']],
    ['Name:', ['Name', '']],
    ['Name: ä', ['Name', 'ä']],
    ['Name', undefined],
    ['Name;', undefined],
    [': value', undefined],
    ['Na me: value', undefined],
    ['Name : value', undefined],
    ['Name: a\r\nOther: b', undefined],
    ['Name: \u{1f600}', undefined],
  ])('%j: %j', (text, want) => expect(parseHeaderFlag(text)).toEqual(want));
});
