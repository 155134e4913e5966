/** The files of the window origin. Each file is a window on one endless pattern, and its path names the window. */

import type { Span } from '../src/bytes/span.ts';

/** A file. Its bytes are those of the pattern in `window`, so that any part can be checked from the path alone. */
export interface SampleFile {
  readonly path: string;
  readonly window: Span;
}

/** Windows of the files of a series begin at multiples of this, wrapped so that each window lies in the pattern. */
export const distinctStepBytes = 4099;

/** Length of the pattern's beginning in which the windows of a series lie. */
export const distinctPatternBytes = 16 * 1024 * 1024;

/** Returns a file of this size. The name only distinguishes it from other files; `start` is where its window begins. */
export function sampleFile(name: string, sizeBytes: number, start = 0): SampleFile {
  return { path: `/${name}/${start}-${start + sizeBytes}`, window: { start, end: start + sizeBytes } };
}

/** Returns file number `index` of a series. All files of a series have different paths. */
export function distinctFile(series: string, index: number, sizeBytes: number): SampleFile {
  const start = (index * distinctStepBytes) % (distinctPatternBytes - sizeBytes);
  return sampleFile(`${series}-${index}`, sizeBytes, start);
}

/** Parses the window from a path; undefined where the path names no file. */
export function windowOf(path: string): Span | undefined {
  const [, start, end] = /\/([0-9]{1,12})-([0-9]{1,12})$/.exec(path) ?? [];
  return start === undefined || end === undefined ? undefined : { start: Number(start), end: Number(end) };
}
