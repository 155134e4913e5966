/** Colours, widths and bars for terminals. */

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canRedraw, wantsColors } from '../../../src/cli/terminal/abilities.ts';
import { openStatusLine } from '../../../src/cli/terminal/status-line.ts';
import {
  clip,
  clipMiddle,
  coverageBar,
  createPainter,
  pad,
  percentText,
  safeLine,
  shareBar,
  sparkline,
  textWidth,
  timeLeftText,
} from '../../../src/cli/terminal/style.ts';
import { createFakeCliIo } from '../../support/proxies/fake-cli-io.ts';

const terminal = { isTTY: true, hasColors: () => true };

describe('colours', () => {
  it.each<[want: boolean, env: Record<string, string>, stream: { isTTY?: boolean; hasColors?: () => boolean }]>([
    [true, {}, terminal],
    [false, {}, {}],
    [false, { NO_COLOR: '1' }, terminal],
    [true, { NO_COLOR: '' }, terminal],
    [false, { TERM: 'dumb' }, terminal],
    [false, {}, { isTTY: true, hasColors: () => false }],
    [true, { FORCE_COLOR: '1' }, {}],
    [true, { FORCE_COLOR: '1', NO_COLOR: '1' }, {}],
    [false, { FORCE_COLOR: '0' }, terminal],
    [false, { FORCE_COLOR: 'false' }, terminal],
  ])('%s with %j', (want, env, stream) => expect(wantsColors(stream, env)).toBe(want));

  it.each<[want: boolean, env: Record<string, string>, isTTY: boolean]>([
    [true, { TERM: 'xterm' }, true],
    [true, { NO_COLOR: '1' }, true],
    [false, { TERM: 'dumb' }, true],
    [false, { FORCE_COLOR: '1' }, false],
  ])('lines can be overwritten: %s with %j', (want, env, isTTY) => expect(canRedraw({ isTTY }, env)).toBe(want));

  it('paints nothing without colours', () => {
    expect(createPainter(false).red('a')).toBe('a');
    expect(createPainter(true).red('a')).toBe('\u001b[31ma\u001b[39m');
    expect(createPainter(true).red('')).toBe('');
  });
});

describe('text', () => {
  it.each<[text: string, columns: number, want: string]>([
    ['abc', 3, 'abc'],
    ['abcd', 3, 'ab…'],
    ['abc', 0, ''],
    ['映画映画', 5, '映画…'],
    ['映画映画', 4, '映…'],
    ['é́é́é́', 2, 'é́…'],
    ['👩‍👩‍👧👩‍👩‍👧', 3, '👩‍👩‍👧…'],
  ])('%s in %d columns is %s', (text, columns, want) => expect(clip(text, columns)).toBe(want));

  it.each<[text: string, columns: number, want: string]>([
    ['http://media.example/film.mp4', 40, 'http://media.example/film.mp4'],
    ['http://media.example/film.mp4', 20, 'http://me…e/film.mp4'],
    ['http://media.example/映画.mp4', 20, 'http://media.exampl…'],
  ])('%s in %d columns keeps its end: %s', (text, columns, want) => expect(clipMiddle(text, columns)).toBe(want));

  it('is never wider than its columns, whatever it is', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 0, max: 60 }), (text, columns) => {
        const safe = safeLine(text);
        expect(textWidth(clip(safe, columns))).toBeLessThanOrEqual(columns);
        expect(textWidth(clipMiddle(safe, columns))).toBeLessThanOrEqual(columns);
      }),
    );
  });

  it('controls no terminal', () => {
    expect(safeLine('a\u001b[2J\r\n\u009b\u202eb\u0007')).toBe('a\ufffd[2J\ufffd\ufffd\ufffd\ufffdb\ufffd');
  });

  it('is padded by its visible width', () => {
    expect(pad('\u001b[31m映\u001b[39m', 4)).toBe('\u001b[31m映\u001b[39m  ');
    expect(pad('12', 4, 'left')).toBe('  12');
    expect(pad('12345', 4)).toBe('12345');
  });
});

describe('bars', () => {
  it.each<[share: number, want: string]>([
    [0, '░░░░'],
    [0.001, '▓░░░'],
    [0.5, '▓▓░░'],
    [0.999, '▓▓▓░'],
    [1, '▓▓▓▓'],
    [7, '▓▓▓▓'],
    [-1, '░░░░'],
    [Number.NaN, '░░░░'],
  ])('a share of %d is %s', (share, want) => expect(shareBar(share, 4)).toBe(want));

  it.each<[spans: [number, number][], size: number, want: string]>([
    [[], 100, '░░░░'],
    [[[0, 100]], 100, '▓▓▓▓'],
    [[[0, 25]], 100, '▓░░░'],
    [[[0, 26]], 100, '▓▒░░'],
    [
      [
        [10, 20],
        [75, 100],
      ],
      100,
      '▒░░▓',
    ],
    [
      [
        [0, 10],
        [10, 25],
        [99, 100],
      ],
      100,
      '▓░░▒',
    ],
    [[[0, 1]], 3, '▓▒░░'],
    [[], 0, '▓▓▓▓'],
  ])('spans %j of %d are %s', (spans, size, want) => {
    const all = spans.map(([start, end]) => ({ start, end }));
    expect(coverageBar(all, size, 4)).toBe(want);
  });

  it('a sparkline is as tall as its highest value', () => {
    expect(sparkline([0, 5, 10], 10)).toBe('▁▅█');
    expect(sparkline([1, 2, 3, 4], 2)).toBe('▆█');
    expect(sparkline([0, 0], 4)).toBe('▁▁');
    expect(sparkline([1], 0)).toBe('');
  });

  it.each<[share: number, want: string]>([
    [0.9999, '99.9 %'],
    [1, '100 %'],
    [0, '0.0 %'],
    [Number.NaN, '–'],
  ])('%d is %s', (share, want) => expect(percentText(share)).toBe(want));

  it.each<[seconds: number, want: string]>([
    [0, '0 s'],
    [7.2, '8 s'],
    [65, '1 min 5 s'],
    [5400, '1 h 30 min'],
    [1e6, 'days'],
    [Number.NaN, ''],
    [Number.POSITIVE_INFINITY, ''],
  ])('%d seconds are "%s"', (seconds, want) => expect(timeLeftText(seconds)).toBe(want));
});

describe('the status line', () => {
  it('does not exist where standard error is no terminal', () => {
    const io = createFakeCliIo();
    const status = openStatusLine(io);
    status.show('working');
    status.print('stdout', 'done\n');
    status[Symbol.dispose]();
    expect(io.written).toEqual({ stdout: 'done\n', stderr: '' });
  });

  it('stays below what is printed, and is erased at the end', () => {
    const io = createFakeCliIo();
    const stderr = { ...io.stderr, isTTY: true, columns: 10 };
    const status = openStatusLine({ ...io, stderr });
    status.show('half of everything');
    status.print('stderr', 'a fault\n');
    status[Symbol.dispose]();
    const erase = '\r\u001b[2K';
    expect(io.written.stderr).toBe(`half of …${erase}a fault\nhalf of …${erase}`);
  });
});
