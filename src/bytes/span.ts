/** Bytes as data: half-open spans, `start` inclusive and `end` exclusive, in safe integers. */

/** The bytes from `start` (inclusive) to `end` (exclusive); never negative, `start <= end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** How many bytes a span holds. */
export function spanSize(span: Span): number {
  return span.end - span.start;
}

/** The bytes of one block; the last block of a representation ends where the representation does. */
export function spanOfBlock(index: number, blockSizeBytes: number, sizeBytes: number): Span {
  const start = index * blockSizeBytes;
  return { start, end: Math.min(start + blockSizeBytes, sizeBytes) };
}
