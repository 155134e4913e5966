/** The files of the benchmark's origin: each is a window on one endless pattern, and its path says which. */

import type { Span } from '../src/bytes/span.ts';

/** A file. Its bytes are those of the pattern in `window`, so whoever knows the path can check any part of it. */
export interface SampleFile {
  readonly path: string;
  readonly window: Span;
}

/** Windows of files that are asked for once begin at multiples of this, modulo what the pattern has room for. */
export const distinctStepBytes = 4099;

/** The windows of files that are asked for once lie in the first bytes of the pattern, in bytes. */
export const distinctPatternBytes = 16 * 1024 * 1024;

/** A file of this size. The name only tells it from others. */
export function sampleFile(name: string, sizeBytes: number, start = 0): SampleFile {
  return { path: `/${name}/${start}-${start + sizeBytes}`, window: { start, end: start + sizeBytes } };
}

/** The file number `index` of a series of files that are all different. */
export function distinctFile(series: string, index: number, sizeBytes: number): SampleFile {
  const start = (index * distinctStepBytes) % (distinctPatternBytes - sizeBytes);
  return sampleFile(`${series}-${index}`, sizeBytes, start);
}

/** The window that a path names; undefined for a path of no file. */
export function windowOf(path: string): Span | undefined {
  const [, start, end] = /\/([0-9]{1,12})-([0-9]{1,12})$/.exec(path) ?? [];
  return start === undefined || end === undefined ? undefined : { start: Number(start), end: Number(end) };
}
