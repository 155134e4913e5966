/** The geometry of a coverage map: which bytes of a representation are stored, in memory, arriving, or absent. */

import type { Span } from '../api-types.ts';
import { countOf, percentText, sizeText, spanText } from './format.ts';

/** A representation and its bytes. Spans may overlap and have any order. */
export interface Coverage {
  readonly sizeBytes: number;
  /** The stored bytes. */
  readonly present: readonly Span[];
  /** The stored bytes that memory holds. */
  readonly hot: readonly Span[];
  /** The bytes that a running fill brings. */
  readonly arriving: readonly Span[];
}

/** Stored, stored and in memory, being fetched, or none of these. */
export type ByteState = 'stored' | 'hot' | 'arriving' | 'absent';

/** Names of the states for people. */
export const stateNames: Readonly<Record<ByteState, string>> = {
  stored: 'stored',
  hot: 'stored and in memory',
  arriving: 'arriving',
  absent: 'absent',
};

/** One cell of a map. The shares are of its bytes, from 0 to 1; `hotShare` is a part of `storedShare`. */
export interface Cell extends Span {
  readonly storedShare: number;
  readonly hotShare: number;
  /** Arriving, and not stored yet. */
  readonly arrivingShare: number;
}

/** A run of bytes with one state. */
export interface Run extends Span {
  readonly state: ByteState;
}

/** Returns ascending spans without overlaps or empty spans, within `[0, sizeBytes)`. */
export function normalise(spans: readonly Span[], sizeBytes: number): Span[] {
  const cut = spans
    .map(({ start, end }) => ({ start: Math.max(0, start), end: Math.min(end, sizeBytes) }))
    .filter(({ start, end }) => start < end)
    .sort((one, other) => one.start - other.start);
  const joined: { start: number; end: number }[] = [];
  for (const span of cut) {
    const last = joined.at(-1);
    if (last !== undefined && span.start <= last.end) last.end = Math.max(last.end, span.end);
    else joined.push({ ...span });
  }
  return joined;
}

/** Returns the runs of a representation in order, which together are the whole. Bytes that are stored and arriving are stored. */
export function runsOf({ sizeBytes, present, hot, arriving }: Coverage): Run[] {
  const sets = [normalise(hot, sizeBytes), normalise(present, sizeBytes), normalise(arriving, sizeBytes)] as const;
  const places = [0, 0, 0];
  const runs: { start: number; end: number; state: ByteState }[] = [];
  for (let offset = 0; offset < sizeBytes; ) {
    let end = sizeBytes;
    const isIn = sets.map((spans, set) => {
      while ((spans[places[set] as number]?.end ?? sizeBytes + 1) <= offset) places[set] = (places[set] as number) + 1;
      const span = spans[places[set] as number];
      if (span === undefined) return false;
      const isInside = span.start <= offset;
      end = Math.min(end, isInside ? span.end : span.start);
      return isInside;
    });
    const state = stateOf(isIn);
    const last = runs.at(-1);
    if (last?.state === state) last.end = end;
    else runs.push({ start: offset, end, state });
    offset = end;
  }
  return runs;
}

function stateOf([isHot, isPresent, isArriving]: readonly boolean[]): ByteState {
  // What memory holds of a running fill may not be in the store yet.
  if (isHot === true) return 'hot';
  if (isPresent === true) return 'stored';
  return isArriving === true ? 'arriving' : 'absent';
}

/**
 * Divides a representation into at most `count` cells of nearly equal size. A representation with fewer bytes than that has a cell
 * for each byte, an empty one none.
 */
export function cellsOf(coverage: Coverage, count: number): Cell[] {
  const { sizeBytes } = coverage;
  const cells = Math.min(count, sizeBytes);
  const runs = runsOf(coverage);
  let place = 0;
  return Array.from({ length: cells }, (_, at) => {
    const start = Math.floor((at * sizeBytes) / cells);
    const end = Math.floor(((at + 1) * sizeBytes) / cells);
    const bytes = { stored: 0, hot: 0, arriving: 0, absent: 0 };
    for (let run = runs[place]; run !== undefined && run.start < end; run = runs[place]) {
      bytes[run.state] += Math.min(run.end, end) - Math.max(run.start, start);
      if (run.end > end) break;
      place += 1;
    }
    const size = end - start;
    return {
      start,
      end,
      storedShare: (bytes.stored + bytes.hot) / size,
      hotShare: bytes.hot / size,
      arrivingShare: bytes.arriving / size,
    };
  });
}

/** Returns the state of most bytes of a cell that is not absent; `absent` only where all of it is. */
export function cellState({ storedShare, hotShare, arrivingShare }: Cell): ByteState {
  if (arrivingShare > 0 && arrivingShare >= storedShare) return 'arriving';
  if (storedShare === 0) return 'absent';
  return hotShare * 2 > storedShare ? 'hot' : 'stored';
}

/** Describes a cell in words: its bytes, and what is there of them. */
export function describeCell(cell: Cell): string {
  const { storedShare, hotShare, arrivingShare } = cell;
  const parts = [
    storedShare === 0 ? '' : storedShare === 1 ? 'stored' : `${percentText(storedShare)} stored`,
    hotShare === 0 ? '' : hotShare === storedShare ? 'in memory' : `${percentText(hotShare)} in memory`,
    arrivingShare === 0 ? '' : arrivingShare === 1 ? 'arriving' : `${percentText(arrivingShare)} arriving`,
  ].filter((part) => part !== '');
  return `bytes ${spanText(cell)}: ${parts.length === 0 ? 'absent' : parts.join(', ')}`;
}

/** Describes a whole map in one sentence. */
export function describeCoverage(coverage: Coverage): string {
  const { sizeBytes } = coverage;
  if (sizeBytes === 0) return 'The body is empty.';
  const sums = { stored: 0, hot: 0, arriving: 0, absent: 0 };
  const runs = runsOf(coverage);
  for (const { state, start, end } of runs) sums[state] += end - start;
  const stored = sums.stored + sums.hot;
  const storedRuns = normalise([...coverage.present, ...coverage.hot], sizeBytes).length;
  const parts = [
    stored === sizeBytes
      ? `All ${sizeText(sizeBytes)} are stored`
      : `${sizeText(stored)} of ${sizeText(sizeBytes)} (${percentText(stored / sizeBytes)}) are stored, in ${countOf(storedRuns, 'run', 'runs')}`,
    sums.hot > 0 ? `${sizeText(sums.hot)} are in memory` : 'none are in memory',
    ...(sums.arriving > 0 ? [`${sizeText(sums.arriving)} are arriving`] : []),
  ];
  return `${parts.join('; ')}.`;
}
