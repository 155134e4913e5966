/** Formats numbers, times and URIs for people. Numbers are cut, not rounded up: 99.96 % never reads as 100 %. */

import { sizeText } from '../../../src/cli/text-sections.ts';

export { duration as durationText, sizeText } from '../../../src/cli/text-sections.ts';

/** Shown for a number that is not known. */
export const unknownText = '–';

/** Formats a count with separators: `1,284`. */
export function countText(count: number): string {
  return Math.round(count)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',');
}

/** Formats a count and its noun: `1 entry`, `2,000 entries`. */
export function countOf(count: number, one: string, many: string): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

/** Formats events per second, with one decimal below 10. */
export function rateText(perSecond: number | undefined): string {
  if (perSecond === undefined) return unknownText;
  if (perSecond > 0 && perSecond < 0.1) return '<0.1';
  return perSecond < 10 ? trimZero(perSecond.toFixed(1)) : countText(perSecond);
}

/** Formats bytes per second: `1.5 MB/s`. */
export function byteRateText(perSecond: number | undefined): string {
  return perSecond === undefined ? unknownText : `${sizeText(perSecond)}/s`;
}

/** Formats a share as a percentage with one decimal: only a whole share is `100 %`. A negative share stays negative. */
export function percentText(share: number | undefined): string {
  if (share === undefined) return unknownText;
  const tenths = Math.floor(share * 1000 + 1e-9);
  return `${trimZero((tenths / 10).toFixed(1))} %`;
}

/** Formats a ratio: `0.05×`, `12×`. */
export function ratioText(ratio: number | undefined): string {
  if (ratio === undefined) return unknownText;
  if (ratio > 0 && ratio < 0.01) return '<0.01×';
  return `${ratio < 10 ? trimZero(ratio.toFixed(2)) : countText(ratio)}×`;
}

/** Formats milliseconds up to a second as such, and more in seconds: `0.4 ms`, `41 ms`, `1.25 s`. */
export function latencyText(ms: number): string {
  if (ms >= 1000) return `${trimZero((ms / 1000).toFixed(ms < 10_000 ? 2 : 1))} s`;
  return `${ms < 10 ? trimZero(ms.toFixed(1)) : Math.round(ms)} ms`;
}

/** Formats how long ago something was, in its largest unit: `now`, `12 s`, `3 min`, `5 h`, `2 d`. */
export function ageText(ms: number): string {
  if (ms < 1000) return 'now';
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 86_400_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}

/** Formats the time of day of an instant in epoch milliseconds: `09:05:07`. */
export function clockText(at: number): string {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');
}

/** Formats day and time of an instant in epoch milliseconds: `2031-02-03 09:05:07`. */
export function dateText(at: number): string {
  const date = new Date(at);
  const day = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  return `${day.map((part) => String(part).padStart(2, '0')).join('-')} ${clockText(at)}`;
}

/** Formats a span as Range does, with an inclusive last position. */
export function spanText({ start, end }: { readonly start: number; readonly end: number }): string {
  return `${countText(start)}–${countText(end - 1)}`;
}

/** The parts of a URI: scheme and authority, the folders of the path, and the rest, which tells most. */
export interface UriParts {
  readonly site: string;
  readonly folder: string;
  readonly file: string;
}

/** Splits a URI, so that its parts can be set off and shortened. Text that is no URL is all in `file`. */
export function splitUri(uri: string): UriParts {
  const [, site = '', folder = '', file = ''] = /^([a-z][a-z0-9+.-]*:\/\/[^/?#]*)([^?#]*\/)?(.*)$/is.exec(uri) ?? [];
  if (site === '') return { site: '', folder: '', file: uri };
  // The last folder stands for a path that ends with it.
  if (file === '') return { site, folder: '', file: folder };
  return { site, folder, file };
}

/** Shortens text in the middle to at most `length` characters, because the end of a path tells most. */
export function shorten(text: string, length: number): string {
  if (text.length <= length) return text;
  const kept = Math.max(1, length - 1);
  const tail = Math.ceil(kept * 0.6);
  return `${text.slice(0, kept - tail)}…${text.slice(text.length - tail)}`;
}

function trimZero(text: string): string {
  return text.replace(/\.0+$/, '');
}
