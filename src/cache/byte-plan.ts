/** Where the bytes of a span would come from if they were read now. */

import type { Span } from '../bytes/span.ts';
import { type Coming, decideFetch, nearestFill, type Outlook } from './fetch-decision.ts';

/** A run of bytes: they are here, a running fill brings them, or the origin has to be asked. */
export interface BytePiece extends Span {
  readonly from: 'here' | 'in-flight' | 'origin';
}

/** The pieces of a span, in order, and what the origin would be asked for. */
export interface BytePlan {
  readonly pieces: readonly BytePiece[];
  /** Spans; `end` is Infinity for the whole. */
  readonly asked: readonly Span[];
  /** Whether there are more pieces than are told. */
  readonly isCut: boolean;
}

/**
 * Plans for a span with an end, as its reader would decide (see `decideFetch`), at most `maxPieces` of it. `openFrom` is where an
 * open-ended range begins.
 */
export function planBytes(span: Span, outlook: Outlook, maxPieces: number, openFrom?: number): BytePlan {
  const { present, blockSizeBytes, fills } = outlook;
  const pieces: BytePiece[] = [];
  const asked: Span[] = [];
  let started: Coming | undefined;
  let offset = span.start;
  while (offset < span.end && pieces.length < maxPieces) {
    const index = Math.floor(offset / blockSizeBytes);
    if (present.has(index)) {
      add({ start: offset, end: present.endOfRun(index) * blockSizeBytes, from: 'here' });
      continue;
    }
    const running = started === undefined ? fills : [...fills, started];
    const decision = decideFetch({ ...outlook, fills: running, offset, end: span.end, openFrom });
    if (decision.kind === 'fetch') {
      asked.push(decision.span);
      const { start, end } = decision.span;
      started = { frontier: start, keptTo: start, limit: end, speed: 0 };
    }
    const bringer = decision.kind === 'fetch' ? started : nearestFill(running, offset);
    const presentAt = (present.firstAfter(index) ?? Number.POSITIVE_INFINITY) * blockSizeBytes;
    const end = Math.min(bringer?.limit ?? span.end, presentAt);
    add({ start: offset, end, from: bringer === started ? 'origin' : 'in-flight' });
  }
  return { pieces, asked, isCut: offset < span.end };

  function add({ start, end, from }: BytePiece): void {
    offset = Math.min(end, span.end);
    const last = pieces.at(-1);
    if (last?.from === from) pieces[pieces.length - 1] = { start: last.start, end: offset, from };
    else pieces.push({ start, end: offset, from });
  }
}
