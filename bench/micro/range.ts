/** Parsing and selecting ranges, as for each range request. */

import {
  formatContentRange,
  parseContentRange,
  parseRange,
  type RangeSpec,
  selectBeforeLength,
  selectRanges,
} from '../../src/semantics/range.ts';
import type { MicroCase } from '../micro-case.ts';

const sizeBytes = 1024 ** 3;
const limits = { maxRanges: 16 };
const options = { coalesceGapBytes: 80 };

/** Ranges of 64 KiB, as the load requests them. */
const starts = Array.from({ length: 64 }, (_, index) => (index * 16_777_213) % (sizeBytes - 65_536));
const closed = starts.map((start) => `bytes=${start}-${start + 65_535}`);
const closedSpecs = starts.map((start): RangeSpec[] => [{ kind: 'closed', first: start, last: start + 65_535 }]);
const several = 'bytes=0-99, 1000-1099, 5000-5999, -500';
const severalParsed = parseRange(several, limits);
const severalSpecs = severalParsed.kind === 'set' ? severalParsed.specs : [];
const contentRanges = starts.map((start) => `bytes ${start}-${start + 65_535}/${sizeBytes}`);

export const cases: readonly MicroCase[] = [
  { name: 'parseRange, one range', call: (turn) => parseRange(closed[turn & 63] ?? '', limits) },
  { name: 'parseRange, a suffix', call: () => parseRange('bytes=-65536', limits) },
  { name: 'parseRange, four ranges', call: () => parseRange(several, limits) },
  { name: 'selectRanges, one range', call: (turn) => selectRanges(closedSpecs[turn & 63] ?? [], sizeBytes, options) },
  { name: 'selectRanges, four ranges', call: () => selectRanges(severalSpecs, sizeBytes, options) },
  { name: 'selectBeforeLength', call: (turn) => selectBeforeLength(closedSpecs[turn & 63] ?? []) },
  {
    name: 'formatContentRange',
    call: (turn) => formatContentRange({ start: starts[turn & 63] ?? 0, end: sizeBytes }, sizeBytes),
  },
  { name: 'parseContentRange', call: (turn) => parseContentRange(contentRanges[turn & 63] ?? '') },
];
