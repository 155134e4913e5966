/**
 * Half-open spans of bytes, in safe integers; and sets of integers as sorted, disjoint, non-adjacent spans, which tell which
 * bytes or blocks are present.
 */

/** The bytes from `start` (inclusive) to `end` (exclusive); never negative, `start <= end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** Returns how many bytes a span holds. */
export function spanSize(span: Span): number {
  return span.end - span.start;
}

/** Returns the bytes of one block; the last block of a representation ends where the representation does. */
export function spanOfBlock(index: number, blockSizeBytes: number, sizeBytes: number): Span {
  const start = index * blockSizeBytes;
  return { start, end: Math.min(start + blockSizeBytes, sizeBytes) };
}

/** Returns all bytes of a span as the chunks that `peek` returns; undefined where it lacks some of them. */
export function chunksOf(
  { start, end }: Span,
  peek: (offset: number, end: number) => Uint8Array | undefined,
): Uint8Array[] | undefined {
  const chunks: Uint8Array[] = [];
  for (let offset = start; offset < end; ) {
    const chunk = peek(offset, end);
    if (chunk === undefined) return undefined;
    chunks.push(chunk);
    offset += chunk.length;
  }
  return chunks;
}

/** A mutable set of integers. Operations are at most linear in the number of spans; look-ups are logarithmic. */
export class SpanSet implements Iterable<Span> {
  #spans: Span[] = [];
  #size = 0;

  constructor(spans: Iterable<Span> = []) {
    for (const span of spans) this.add(span);
  }

  /** Returns the integers of `[0, end)` that pass a test. */
  static where(end: number, isIn: (position: number) => boolean): SpanSet {
    const set = new SpanSet();
    for (let position = 0; position < end; position += 1) {
      if (isIn(position)) set.add({ start: position, end: position + 1 });
    }
    return set;
  }

  /** Adds all integers of `[start, end)`. */
  add({ start, end }: Span): void {
    if (start >= end) return;
    // All spans that overlap or touch the new one become one with it.
    const from = this.#firstEndingAt(start);
    let to = from;
    let merged = { start, end };
    for (let span = this.#spans[to]; span !== undefined && span.start <= end; span = this.#spans[to]) {
      merged = { start: Math.min(merged.start, span.start), end: Math.max(merged.end, span.end) };
      this.#size -= spanSize(span);
      to += 1;
    }
    this.#size += spanSize(merged);
    this.#spans.splice(from, to - from, merged);
  }

  /** Removes all integers of `[start, end)`. */
  remove({ start, end }: Span): void {
    if (start >= end) return;
    this.#spans = this.#spans.flatMap((span) => {
      if (span.end <= start || span.start >= end) return [span];
      const left = { start: span.start, end: start };
      const right = { start: end, end: span.end };
      return [left, right].filter((rest) => rest.start < rest.end);
    });
    this.#size = this.#spans.reduce((sum, span) => sum + spanSize(span), 0);
  }

  has(position: number): boolean {
    const span = this.#spans[this.#firstEndingAfter(position)];
    return span !== undefined && span.start <= position;
  }

  /** Checks whether all of `[start, end)` is in the set; true for an empty span. */
  hasAll({ start, end }: Span): boolean {
    if (start >= end) return true;
    const span = this.#spans[this.#firstEndingAfter(start)];
    return span !== undefined && span.start <= start && span.end >= end;
  }

  /** Returns the first run of `[start, end)` that is not in the set; undefined when all of it is in the set. */
  firstMissing({ start, end }: Span): Span | undefined {
    const at = this.#firstEndingAfter(start);
    const span = this.#spans[at];
    const from = span !== undefined && span.start <= start ? span.end : start;
    if (from >= end) return undefined;
    const next = span !== undefined && span.start > start ? span : this.#spans[at + 1];
    return { start: from, end: Math.min(end, next?.start ?? end) };
  }

  /** Returns the end (exclusive) of the run that `position` lies in; `position` itself when it is not in the set. */
  endOfRun(position: number): number {
    const span = this.#spans[this.#firstEndingAfter(position)];
    return span !== undefined && span.start <= position ? span.end : position;
  }

  /** Returns the first integer of the set that is greater than `position`; undefined when there is none. */
  firstAfter(position: number): number | undefined {
    const span = this.#spans[this.#firstEndingAfter(position + 1)];
    return span === undefined ? undefined : Math.max(span.start, position + 1);
  }

  /** How many integers are in the set. */
  get size(): number {
    return this.#size;
  }

  [Symbol.iterator](): Iterator<Span> {
    return this.#spans[Symbol.iterator]();
  }

  #firstEndingAt(position: number): number {
    return this.#search((span) => span.end >= position);
  }

  #firstEndingAfter(position: number): number {
    return this.#search((span) => span.end > position);
  }

  /** The index of the first span that is far enough. */
  #search(isFarEnough: (span: Span) => boolean): number {
    let low = 0;
    let high = this.#spans.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const span = this.#spans[middle];
      if (span !== undefined && isFarEnough(span)) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
