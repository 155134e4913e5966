import { describe, expect, it } from 'vitest';
import { parseDuration, parseSize } from '../../src/config/amounts.ts';

describe('parseSize', () => {
  it.each<[text: string, want: number | undefined]>([
    ['0', 0],
    ['1000', 1000],
    ['1B', 1],
    ['10kB', 10_000],
    ['10KB', 10_000],
    ['2MB', 2_000_000],
    ['10GB', 10_000_000_000],
    ['3TB', 3_000_000_000_000],
    ['1KiB', 1024],
    ['512 MiB', 536_870_912],
    ['2GiB', 2_147_483_648],
    ['1TiB', 1_099_511_627_776],
    ['007MB', 7_000_000],
    ['9007199254740991', Number.MAX_SAFE_INTEGER],
    ['9007199254740992', undefined],
    ['9999TiB', undefined],
    ['', undefined],
    ['GB', undefined],
    ['1G', undefined],
    ['1gb', undefined],
    ['1Mb', undefined],
    ['1mB', undefined],
    ['1kiB', undefined],
    ['1.5GB', undefined],
    ['-1', undefined],
    ['+1', undefined],
    ['1  GB', undefined],
    [' 1GB', undefined],
    ['1GB ', undefined],
    ['1e3', undefined],
    ['0x10', undefined],
    ['١GB', undefined],
  ])('%j', (text, want) => expect(parseSize(text)).toBe(want));
});

describe('parseDuration', () => {
  it.each<[text: string, want: number | undefined]>([
    ['0', 0],
    ['500ms', 500],
    ['60s', 60_000],
    ['5 m', 300_000],
    ['2h', 7_200_000],
    ['1d', 86_400_000],
    ['9007199254740991ms', Number.MAX_SAFE_INTEGER],
    ['9007199254740992ms', undefined],
    ['60', undefined],
    ['1.5s', undefined],
    ['-1s', undefined],
    ['1S', undefined],
    ['1min', undefined],
    ['s', undefined],
    ['', undefined],
  ])('%j', (text, want) => expect(parseDuration(text)).toBe(want));
});
