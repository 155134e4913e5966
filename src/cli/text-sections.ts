/** Formats text for people: labelled sections, times and sizes. */

/** The column where the text of a section begins by default, and the longest line that is not broken between words. */
const INDENT = 13;
const WIDTH = 100;

/** A label, and lines that belong to it. */
export interface Section {
  readonly label: string;
  readonly lines: readonly string[];
}

/**
 * Formats the sections that have lines. Every line ends with a line feed; long ones are broken between words. `indent` is the
 * column where texts begin.
 */
export function formatSections(sections: readonly Section[], indent = INDENT): string {
  return sections
    .filter(({ lines }) => lines.length > 0)
    .map((section) => formatSection(section, indent))
    .join('');
}

const units: readonly (readonly [ms: number, name: string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
];

/** Formats a time in milliseconds, in its largest unit and the next one: `1 h 30 min`, `2.5 s`, `-3 s`. */
export function duration(ms: number): string {
  if (ms < 0) return `-${duration(-ms)}`;
  const at = units.findIndex(([size]) => ms >= size);
  const [size, name] = units[at] ?? [1, ''];
  if (at === -1) return `${Math.floor(ms / 10) / 100} s`;
  const rest = ms % size;
  const [nextSize, nextName] = units[at + 1] ?? [1000, 's'];
  const next = Math.floor(rest / nextSize);
  return `${Math.floor(ms / size)} ${name}${next === 0 ? '' : ` ${next} ${nextName}`}`;
}

function formatSection({ label, lines }: Section, indent: number): string {
  return lines.map((line, index) => `${wrapped((index === 0 ? label : '').padEnd(indent), line, indent)}\n`).join('');
}

/** Breaks a line between words. A long word stays whole, so that it can be copied. */
function wrapped(start: string, line: string, indent: number): string {
  const lines: string[] = [];
  let current = start;
  let isEmpty = true;
  for (const word of line.split(/(?<=\S) (?=\S)/)) {
    if (!isEmpty && current.length + 1 + word.length > WIDTH) {
      lines.push(current);
      current = ' '.repeat(indent + 2);
      isEmpty = true;
    }
    current += isEmpty ? word : ` ${word}`;
    isEmpty = false;
  }
  return [...lines, current].map((text) => text.trimEnd()).join('\n');
}

/** Replaces control characters (but no line feeds) and format characters: keys and fields may hold terminal sequences. */
export function replaceTerminalControls(text: string): string {
  return text.replace(/[^\P{Cc}\n]/gu, '\u{fffd}').replace(/\p{Cf}/gu, '\u{fffd}');
}

/** Returns JSON with those characters escaped, also where JSON does not require it. The value is the same. */
export function printableJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(/[^\P{Cc}\n]|\p{Cf}/gu, (sign) =>
    sign.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`),
  );
}

const sizeUnits = ['B', 'KB', 'MB', 'GB', 'TB'] as const;

/** Formats bytes in the largest decimal unit that leaves a digit before the point: `1.5 MB`, `12 KB`, `999 B`. */
export function sizeText(bytes: number): string {
  const at = Math.max(
    0,
    sizeUnits.findLastIndex((_, power) => bytes >= 1000 ** power),
  );
  const count = bytes / 1000 ** at;
  // Truncated: rounding up would show more bytes than there are.
  const shown = at === 0 || count >= 10 ? Math.floor(count) : Math.floor(count * 10) / 10;
  return `${shown} ${sizeUnits[at]}`;
}

/** Formats bytes as the value of an option, rounded down: `37GB`, `4600MB`. Never less than `1MB`. */
export function optionSize(bytes: number): string {
  const unit = bytes >= 1e13 ? 'TB' : bytes >= 1e10 ? 'GB' : 'MB';
  const unitBytes = { MB: 1e6, GB: 1e9, TB: 1e12 }[unit];
  return `${Math.max(1, Math.floor(bytes / unitBytes))}${unit}`;
}
