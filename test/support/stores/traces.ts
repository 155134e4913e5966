/** Sequences of requests, made from a seed: the same ones in every run. */

/** Numbers from 0 to below 1, from a seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Names of which the n-th most wanted one is asked for in proportion to `n ** -skew`. */
export function zipfNames(random: () => number, { names, skew }: { names: number; skew: number }): () => string {
  const sums: number[] = [];
  let sum = 0;
  for (let rank = 1; rank <= names; rank += 1) {
    sum += rank ** -skew;
    sums.push(sum);
  }
  return () => {
    const wanted = random() * sum;
    let [low, high] = [0, names - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((sums[middle] ?? sum) < wanted) low = middle + 1;
      else high = middle;
    }
    return `z${low}`;
  };
}

/** What a trace is made of: names as often as they are wanted, and now and then a run of names that come just once. */
export interface TraceOptions {
  readonly seed: number;
  readonly requests: number;
  readonly names: number;
  readonly skew: number;
  /** After so many requests comes a scan of so many names. */
  readonly scanEvery?: number;
  readonly scanLength?: number;
}

/** The requests of a trace, one by one. */
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
