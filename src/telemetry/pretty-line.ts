/** One line of the log for people, from the fields that it has as JSON. */

import type { LogFields } from './log-record.ts';

/** Colours text, or does not. */
export interface Paint {
  dim(text: string): string;
  green(text: string): string;
  cyan(text: string): string;
  yellow(text: string): string;
  red(text: string): string;
}

/** A line of the log as JSON holds it: fields, level, message, and when it was written. */
export type LogLine = LogFields & { readonly level: string; readonly time: string; readonly msg: string };

/** Formats a line, without an end: `12:00:01 GET /video.mp4 206 bytes=0-99 → 100 B hit 1 ms`. */
export function formatPrettyLine(line: LogLine, paint: Paint): string {
  return [paint.dim(formatTime(line.time)), ...formatLevel(line, paint), ...formatEvent(line, paint)].join(' ');
}

/** The size in the largest unit of 1000 that leaves a whole digit, in at most three digits: `100 B`, `1.5 MB`. */
function formatBytes(bytes: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
  let amount = bytes;
  let index = 0;
  while (amount >= 999.5 && index < units.length - 1) {
    amount /= 1000;
    index += 1;
  }
  return `${Number(amount.toPrecision(3))} ${units[index]}`;
}

function formatEvent(line: LogLine, paint: Paint): string[] {
  switch (line.event) {
    case 'request':
      return formatRequest(line, paint);
    case 'refusal':
      return [paintStatus(line.status, paint), 'refused', ...some(line.peer), ...formatError(line, paint)];
    case 'tunnel':
      return [
        `tunnel ${line.target}`,
        paintStatus(line.status, paint),
        paint.dim(formatMs(line.totalMs)),
        ...formatError(line, paint),
      ];
    case 'fill':
      return [
        `fill ${line.key} ${line.result}`,
        formatBytes(line.bytes),
        paint.dim(formatMs(line.totalMs)),
        ...formatError(line, paint),
      ];
    case 'exchange':
      return [
        `origin ${line.origin} ${line.method}`,
        ...(line.status === undefined ? [] : [paintStatus(line.status, paint)]),
        formatBytes(line.bytes),
        paint.dim(formatMs(line.totalMs)),
        ...formatError(line, paint),
      ];
    case 'store':
    case 'origin':
    case 'fleet':
      return [line.msg, ...(line.detail === undefined ? [] : [paint.dim(`(${line.detail})`)])];
    case 'listener':
    case 'admin':
    case 'life':
    case 'log':
      return [line.msg];
  }
}

function formatRequest(line: Extract<LogLine, { event: 'request' }>, paint: Paint): string[] {
  return [
    `${line.method} ${line.target}`,
    paintStatus(line.status, paint),
    ...some(line.range),
    `→ ${formatBytes(line.bytes)}${line.complete ? '' : ` ${paint.yellow('cut')}`}`,
    ...formatOutcome(line, paint),
    ...(line.originBytes > 0 ? [paint.dim(`origin ${formatBytes(line.originBytes)}`)] : []),
    paint.dim(formatMs(line.totalMs)),
    ...formatError(line, paint),
  ];
}

function formatOutcome(line: Extract<LogLine, { event: 'request' }>, paint: Paint): string[] {
  if (line.outcome === 'none') return [];
  const outcome = line.outcome === 'hit' ? paint.green(line.outcome) : line.outcome;
  const apart = line.apartBy === undefined ? [] : [`apart by ${line.apartBy}`];
  const remarks = [...some(line.reason), ...apart, ...(line.collapsed ? ['collapsed'] : [])];
  return [outcome, ...(remarks.length === 0 ? [] : [paint.dim(`(${remarks.join(', ')})`)])];
}

function formatLevel(line: LogLine, paint: Paint): string[] {
  if (line.level === 'warn') return [paint.yellow('warning:')];
  return line.level === 'error' ? [paint.red('error:')] : [];
}

function formatError(line: { error?: string | undefined; errorDetail?: string | undefined }, paint: Paint): string[] {
  if (line.error === undefined) return [];
  return [paint.red(line.errorDetail === undefined ? line.error : `${line.error}: ${line.errorDetail}`)];
}

function paintStatus(status: number, paint: Paint): string {
  const text = String(status);
  if (status >= 500) return paint.red(text);
  if (status >= 400) return paint.yellow(text);
  return status >= 300 ? paint.cyan(text) : paint.green(text);
}

/** Local time of day. */
function formatTime(time: string): string {
  const date = new Date(time);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

function formatMs(ms: number): string {
  return `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`;
}

function some(text: string | undefined): string[] {
  return text === undefined ? [] : [text];
}
