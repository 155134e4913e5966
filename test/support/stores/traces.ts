/** Sequences of requests from a seed: the same in every run. */

/** Returns a generator of numbers in [0, 1) from a seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns a generator of names with a Zipf distribution: the n-th most frequent name has the weight `n ** -skew`. */
export function zipfNames(random: () => number, { names, skew }: { names: number; skew: number }): () => string {
  const sums: number[] = [];
  let sum = 0;
  for (let rank = 1; rank <= names; rank += 1) {
    sum += rank ** -skew;
    sums.push(sum);
  }
  return () => {
    const point = random() * sum;
    let [low, high] = [0, names - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((sums[middle] ?? sum) < point) low = middle + 1;
      else high = middle;
    }
    return `z${low}`;
  };
}

/** Options of a trace: names in a Zipf distribution, and optional scans of names that occur only once. */
export interface TraceOptions {
  readonly seed: number;
  readonly requests: number;
  readonly names: number;
  readonly skew: number;
  /** Number of requests after each of which a scan follows; undefined: no scans. */
  readonly scanEvery?: number;
  /** Names per scan. */
  readonly scanLength?: number;
}

/** Yields the requested names of a trace. */
export function* trace({ seed, requests, names, skew, scanEvery, scanLength = 0 }: TraceOptions): Generator<string> {
  const next = zipfNames(seededRandom(seed), { names, skew });
  let scanned = 0;
  for (let at = 1; at <= requests; at += 1) {
    yield next();
    if (scanEvery === undefined || at % scanEvery !== 0) continue;
    for (let each = 0; each < scanLength; each += 1) {
      scanned += 1;
      yield `once${scanned}`;
    }
  }
}
