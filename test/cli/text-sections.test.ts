import { describe, expect, it } from 'vitest';
import {
  duration,
  formatSections,
  printableJson,
  replaceTerminalControls,
  sizeText,
} from '../../src/cli/text-sections.ts';

describe('sizeText', () => {
  it.each([
    [0, '0 B'],
    [999, '999 B'],
    [1000, '1 KB'],
    [1999, '1.9 KB'],
    [9999, '9.9 KB'],
    [10_000, '10 KB'],
    [999_999, '999 KB'],
    [1_000_000, '1 MB'],
    [1_500_000_000, '1.5 GB'],
    [1e12, '1 TB'],
    [1e16, '10000 TB'],
  ])('%d: %s', (bytes, want) => expect(sizeText(bytes)).toBe(want));
});

describe('duration', () => {
  it.each([
    [0, '0 s'],
    [1234, '1.23 s'],
    [60_000, '1 min'],
    [61_999, '1 min 1 s'],
    [5_400_000, '1 h 30 min'],
    [90_000_000, '1 d 1 h'],
    [-1500, '-1.5 s'],
  ])('%d: %s', (ms, want) => expect(duration(ms)).toBe(want));
});

describe('formatSections', () => {
  it('leaves out sections without lines, and breaks long lines between words', () => {
    const long = Array.from({ length: 30 }, () => 'word').join(' ');
    const text = formatSections([
      { label: 'none', lines: [] },
      { label: 'some', lines: ['a', long] },
    ]);
    const lines = text.split('\n');
    expect(lines[0]).toBe('some         a');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(100);
    expect(text.match(/word/g)).toHaveLength(30);
    expect(text).toMatch(/\n {15}word[^\n]*\n$/);
  });
});

describe('printable', () => {
  it('replaces characters that move the cursor or change the direction of text', () => {
    expect(replaceTerminalControls('a\u001b[2J\r\u009b\u202e\u200bb\nc')).toBe(
      'a\ufffd[2J\ufffd\ufffd\ufffd\ufffdb\nc',
    );
  });
});

describe('printableJson', () => {
  it.each(['a\u001b[31m', 'a\u009b31m', 'a\u007fb', 'a\u202eb', 'a\u{e0001}b', 'ü \u{1f600} "\\ \n'])('%j', (text) => {
    for (const indent of [undefined, 2]) {
      const json = printableJson({ text, more: [1] }, indent);
      expect(json).toBe(replaceTerminalControls(json));
      expect(JSON.parse(json)).toEqual({ text, more: [1] });
    }
  });
});
