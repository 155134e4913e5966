/** Bytes that readers may have seen although no block was made of them: what another transfer brings must agree with them. */

interface Seen {
  readonly start: number;
  readonly bytes: Uint8Array;
}

/** What was seen of one generation, of all transfers that broke off. */
export class Witness {
  #all: readonly Seen[] = [];

  /** Takes note of bytes from `start` on, which agree with all that was noted before. They must not change afterwards. */
  note(start: number, bytes: Uint8Array): void {
    const seen = { start, bytes };
    if (this.#all.some((other) => isWithin(seen, other))) return;
    this.#all = [...this.#all.filter((other) => !isWithin(other, seen)), seen];
  }

  /** Whether some of these bytes, which belong at `offset`, are other ones. */
  contradicts(offset: number, bytes: Uint8Array): boolean {
    return this.#all.some((seen) => {
      const start = Math.max(offset, seen.start);
      const end = Math.min(offset + bytes.length, endOf(seen));
      if (start >= end) return false;
      const own = seen.bytes.subarray(start - seen.start, end - seen.start);
      return Buffer.compare(own, bytes.subarray(start - offset, end - offset)) !== 0;
    });
  }

  /** Whether there are bytes from `offset` on. */
  isAhead(offset: number): boolean {
    return this.#all.some((seen) => endOf(seen) > offset);
  }
}

function endOf({ start, bytes }: Seen): number {
  return start + bytes.length;
}

function isWithin(inner: Seen, outer: Seen): boolean {
  return outer.start <= inner.start && endOf(inner) <= endOf(outer);
}
