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

/** The bytes two spans share, or undefined when they share none. */
export function intersectSpans(a: Span, b: Span): Span | undefined {
  const start = Math.max(a.start, b.start);
  const end = Math.min(a.end, b.end);
  return start < end ? { start, end } : undefined;
}

/** The indexes of the blocks that a span touches, as a half-open span of block indexes. */
export function blocksOf(span: Span, blockSizeBytes: number): Span {
  return {
    start: Math.floor(span.start / blockSizeBytes),
    end: span.end === span.start ? Math.floor(span.start / blockSizeBytes) : Math.ceil(span.end / blockSizeBytes),
  };
}

/** The bytes of one block; the last block of a representation ends where the representation does. */
export function spanOfBlock(index: number, blockSizeBytes: number, sizeBytes: number): Span {
  const start = index * blockSizeBytes;
  return { start, end: Math.min(start + blockSizeBytes, sizeBytes) };
}
