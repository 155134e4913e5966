/** Text for terminals: colours, widths in columns, bars. */

import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { replaceTerminalControls } from '../text-sections.ts';

/** Colours text, or returns it as it is where colours are off. */
export interface Painter {
  bold(text: string): string;
  dim(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
  cyan(text: string): string;
  inverse(text: string): string;
}

/** Creates a painter. Without colours it changes nothing. */
export function createPainter(hasColors: boolean): Painter {
  const paint =
    (format: Parameters<typeof styleText>[0]) =>
    (text: string): string =>
      hasColors && text !== '' ? styleText(format, text, { validateStream: false }) : text;
  return {
    bold: paint('bold'),
    dim: paint('dim'),
    green: paint('green'),
    yellow: paint('yellow'),
    red: paint('red'),
    cyan: paint('cyan'),
    inverse: paint('inverse'),
  };
}

/** Returns foreign text as one line that cannot control a terminal. */
export function safeLine(text: string): string {
  return replaceTerminalControls(text).replaceAll('\n', '\u{fffd}');
}

/** Returns how many columns text takes. Colours take none, wide characters two. */
export function textWidth(text: string): number {
  return stringWidth(text);
}

const segmenter = new Intl.Segmenter();

/** Shortens text without colours to `columns`: what is cut off becomes `…`. */
export function clip(text: string, columns: number): string {
  if (columns <= 0) return '';
  // Of a very long text only the start can be visible.
  const start = text.slice(0, 16 * columns + 16);
  if (start.length === text.length && textWidth(text) <= columns) return text;
  let shown = '';
  let used = 0;
  for (const { segment } of segmenter.segment(start)) {
    const width = textWidth(segment);
    if (used + width > columns - 1) break;
    shown += segment;
    used += width;
  }
  return `${shown}…`;
}

/** Shortens text to `columns` in its middle, so that the start and the end of a URL stay visible. */
export function clipMiddle(text: string, columns: number): string {
  if (text.length <= 16 * columns && textWidth(text) <= columns) return text;
  // Parts of wide or combined characters cannot be counted by their length.
  if (columns < 12 || /[^ -~]/.test(text)) return clip(text, columns);
  const tail = Math.floor(columns / 2);
  return `${text.slice(0, columns - tail - 1)}…${text.slice(text.length - tail)}`;
}

/** Pads text, which may have colours, with spaces to `columns`; on the left with `side` `left`. Longer text stays as it is. */
export function pad(text: string, columns: number, side: 'left' | 'right' = 'right'): string {
  const spaces = ' '.repeat(Math.max(0, columns - textWidth(text)));
  return side === 'left' ? spaces + text : text + spaces;
}

/** Draws a share from 0 to 1. It is full only at 1, and empty only at 0. */
export function shareBar(share: number, columns: number): string {
  const bounded = Number.isFinite(share) ? Math.min(1, Math.max(0, share)) : 0;
  const rounded = Math.floor(bounded * columns);
  const full = bounded > 0 ? Math.max(1, rounded) : 0;
  return '▓'.repeat(Math.min(full, columns)) + '░'.repeat(Math.max(0, columns - full));
}

/** Draws which parts of a size are covered by spans, from left to right: `▓` wholly, `▒` in part, `░` not at all. */
export function coverageBar(
  spans: readonly { readonly start: number; readonly end: number }[],
  size: number,
  columns: number,
): string {
  // Nothing lacks in what is empty.
  if (size <= 0) return '▓'.repeat(columns);
  let bar = '';
  let first = 0;
  for (let column = 0; column < columns; column += 1) {
    const from = (column * size) / columns;
    const to = ((column + 1) * size) / columns;
    while (first < spans.length && (spans[first]?.end ?? 0) <= from) first += 1;
    let covered = 0;
    for (let at = first; at < spans.length && (spans[at]?.start ?? to) < to; at += 1) {
      const { start, end } = spans[at] as { start: number; end: number };
      covered += Math.min(end, to) - Math.max(start, from);
    }
    const isWhole = covered >= to - from - 1e-6 * size;
    bar += isWhole ? '▓' : covered > 0 ? '▒' : '░';
  }
  return bar;
}

const levels = '▁▂▃▄▅▆▇█';

/** Draws the last values as a line of small columns, the highest of them as the tallest. */
export function sparkline(values: readonly number[], columns: number): string {
  const shown = columns <= 0 ? [] : values.slice(-columns);
  const most = Math.max(...shown, 0);
  const levelOf = (value: number): number => (most <= 0 ? 0 : Math.round((value / most) * (levels.length - 1)));
  return shown.map((value) => levels[levelOf(value)] ?? '').join('');
}

/** Formats a share as percent, one digit after the point below 99.95 %; `–` where it is no number. */
export function percentText(share: number): string {
  if (!Number.isFinite(share)) return '–';
  const percent = Math.floor(share * 1000) / 10;
  return `${percent === 100 ? '100' : percent.toFixed(1)} %`;
}

/** Formats the time left: `8 s`, `2 min 5 s`, `1 h 30 min`; empty where it is not known. */
export function timeLeftText(seconds: number): string {
  if (!Number.isFinite(seconds) || seconds < 0) return '';
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  const hours = Math.floor(whole / 3600);
  return hours < 100 ? `${hours} h ${Math.floor((whole % 3600) / 60)} min` : 'days';
}
