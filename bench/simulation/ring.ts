/** Consistent hashing: each node has many points on a ring, and a URL belongs to the node of the first point at or after its hash. */

/** Nodes fit into this many values, so that a point (32 bits) and its node are one exact number. */
const nodeLimit = 2 ** 20;

/** Mixes an integer into 32 bits that look random (the finaliser of MurmurHash3). */
export function mix32(value: number): number {
  let mixed = value | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** A ring of nodes. It does not change; a fleet that changes gets a new one. */
export class Ring {
  /** Each number is `point * nodeLimit + node`; sorted. */
  readonly #points: Float64Array;

  /** `nodes` are numbers below 2^20. A node has the same points on every ring, so that the others keep their URLs without it. */
  constructor(nodes: readonly number[], pointsPerNode: number) {
    this.#points = new Float64Array(nodes.length * pointsPerNode);
    let at = 0;
    for (const node of nodes) {
      for (let number = 0; number < pointsPerNode; number += 1) {
        const point = mix32(mix32(node + 1) + Math.imul(number, 0x9e3779b1));
        this.#points[at] = point * nodeLimit + node;
        at += 1;
      }
    }
    this.#points.sort();
  }

  /**
   * Returns the node of a hash (32 bits): the first one at or after it that `accepts` takes, or the first one of all where it
   * takes none. Throws `RangeError` if the ring is empty.
   */
  nodeOf(hash: number, accepts: (node: number) => boolean = always): number {
    const points = this.#points;
    const { length } = points;
    if (length === 0) throw new RangeError('A ring without nodes has no node for a URL.');
    const first = this.#firstAtOrAfter(hash * nodeLimit) % length;
    for (let step = 0; step < length; step += 1) {
      const node = (points[(first + step) % length] ?? 0) % nodeLimit;
      if (accepts(node)) return node;
    }
    return (points[first] ?? 0) % nodeLimit;
  }

  #firstAtOrAfter(value: number): number {
    let low = 0;
    let high = this.#points.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#points[middle] ?? 0) >= value) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

const always = (): boolean => true;

/**
 * The requests in flight at each node: those of the last `total` requests. A node is full when one more would exceed `factor` times
 * the mean (consistent hashing with bounded loads, Mirrokni, Thorup and Zadimoghaddam 2016).
 */
export class InFlight {
  readonly #last: Int32Array;
  readonly #counts: Int32Array;
  readonly #factor: number;
  #at = 0;
  #running = 0;

  constructor({ nodes, total, factor }: { readonly nodes: number; readonly total: number; readonly factor: number }) {
    this.#last = new Int32Array(total).fill(-1);
    this.#counts = new Int32Array(nodes);
    this.#factor = factor;
  }

  /** Returns how many requests one node may have in flight, the next one included. `live` is the number of nodes that serve. */
  limit(live: number): number {
    return Math.ceil((this.#factor * (this.#running + 1)) / live);
  }

  /** Returns how many requests a node has in flight. */
  at(node: number): number {
    return this.#counts[node] ?? 0;
  }

  /** Counts a request at a node, and ends the oldest one where `total` are in flight already. */
  begin(node: number): void {
    const ended = this.#last[this.#at] ?? -1;
    if (ended >= 0) this.#counts[ended] = this.at(ended) - 1;
    else this.#running += 1;
    this.#last[this.#at] = node;
    this.#counts[node] = this.at(node) + 1;
    this.#at = (this.#at + 1) % this.#last.length;
  }
}
