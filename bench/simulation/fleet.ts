/** A fleet under a trace: where each request goes, what is there, and what the origin and the engine have to send. */

import { LRUCache } from 'lru-cache';
import { spanOfBlock, spanSize } from '../../src/bytes/span.ts';
import { MemoryTier } from '../../src/store/tiered/memory-tier.ts';
import { InFlight, mix32, Ring } from './ring.ts';
import { episodes, type Policy, type Scenario } from './scenario.ts';
import type { Trace } from './trace.ts';

/** What was counted after the warm-up. Bytes that clients got are `ownBytes + engineBytes + originBytes`. */
export interface SimulationResult {
  readonly policy: string;
  readonly nodes: number;
  readonly requests: number;
  /** Requests that the node answered from its own cache alone. */
  readonly ownRequests: number;
  readonly deliveredBytes: number;
  /** Delivered bytes that the node had itself; that came from the engine; that came from the origin. */
  readonly ownBytes: number;
  readonly engineBytes: number;
  readonly originBytes: number;
  /** Bytes that the origin sent: whole blocks. */
  readonly fetchedBytes: number;
  /** Bytes that the engine sent and received: whole blocks. */
  readonly engineReadBytes: number;
  readonly engineWrittenBytes: number;
  /** The bytes of the node that delivered most in a tenth of the counted time, over the mean of the nodes that served then; the largest of all tenths. */
  readonly peakLoad: number;
}

/** The counted part of the trace is divided into this many parts of equal length for `peakLoad`. */
const loadWindows = 10;

/** Runs a trace through a fleet. The same inputs give the same result. */
export function simulate(scenario: Scenario, policy: Policy, trace: Trace): SimulationResult {
  const fleet = new Fleet(scenario, policy);
  const count = trace.urls.length;
  const countedFrom = Math.floor(count * scenario.warmUpShare);
  const lostAt = Math.floor(count * episodes.lostAt);
  const backAt = Math.floor(count * episodes.backAt);
  const totals = new Totals(trace, scenario, fleet);
  const windowLength = Math.max(1, Math.ceil((count - countedFrom) / loadWindows));
  for (let at = 0; at < count; at += 1) {
    if (at === lostAt) fleet.lose();
    if (at === backAt) fleet.bringBack();
    if (at === countedFrom) totals.reset();
    const url = trace.urls[at] ?? 0;
    totals.serve(fleet.nodeFor(url), url, trace.starts[at] ?? 0, trace.ends[at] ?? 0);
    if (at >= countedFrom && (at - countedFrom) % windowLength === windowLength - 1) totals.endWindow();
  }
  return { policy: policy.name, nodes: scenario.nodes, requests: count - countedFrom, ...totals.read() };
}

/** The nodes, their caches and the routing in front of them. */
class Fleet {
  /** Nodes that serve, in their order. */
  live: readonly number[];
  readonly engine: LRUCache<number, true> | undefined;
  readonly #scenario: Scenario;
  readonly #policy: Policy;
  readonly #caches: MemoryTier[];
  readonly #all: readonly number[];
  readonly #flying: InFlight;
  #ring: Ring;
  #turn = 0;

  constructor(scenario: Scenario, policy: Policy) {
    const { nodes, roomBytes, memoryShare, inFlightPerNode, loadFactor } = scenario;
    this.#scenario = scenario;
    this.#policy = policy;
    this.#all = Array.from({ length: nodes }, (_, node) => node);
    this.live = this.#all;
    this.#caches = this.#all.map(() => this.#emptyCache());
    this.#flying = new InFlight({ nodes, total: nodes * inFlightPerNode, factor: loadFactor });
    this.#ring = this.#newRing();
    const engineBytes = Math.floor(nodes * roomBytes * (1 - memoryShare));
    this.engine = policy.hasEngine ? new LRUCache({ maxSize: engineBytes }) : undefined;
  }

  cacheOf(node: number): MemoryTier {
    return this.#caches[node] as MemoryTier;
  }

  /** Returns the node that serves the next request, which is for this URL. */
  nodeFor(url: number): number {
    if (this.#policy.routing === 'round-robin') {
      this.#turn += 1;
      return this.live[this.#turn % this.live.length] ?? 0;
    }
    const hash = mix32(url);
    if (this.#policy.routing === 'hash') return this.#ring.nodeOf(hash);
    const limit = this.#flying.limit(this.live.length);
    const node = this.#ring.nodeOf(hash, (candidate) => this.#flying.at(candidate) < limit);
    this.#flying.begin(node);
    return node;
  }

  /** Takes nodes out of the fleet, with what they kept: spread over the fleet, never all of it. */
  lose(): void {
    const { nodes, churnShare } = this.#scenario;
    if (churnShare === 0 || nodes === 1) return;
    const every = Math.max(2, Math.floor(1 / churnShare));
    this.live = this.#all.filter((node) => node % every !== 1);
    for (const node of this.#all) if (node % every === 1) this.#caches[node] = this.#emptyCache();
    this.#ring = this.#newRing();
  }

  /** Puts the lost nodes back, empty. */
  bringBack(): void {
    this.live = this.#all;
    this.#ring = this.#newRing();
  }

  #newRing(): Ring {
    return new Ring(this.#policy.routing === 'round-robin' ? [] : this.live, this.#scenario.pointsPerNode);
  }

  #emptyCache(): MemoryTier {
    const { roomBytes, memoryShare } = this.#scenario;
    return new MemoryTier({ maxSizeBytes: this.#policy.hasEngine ? Math.floor(roomBytes * memoryShare) : roomBytes });
  }
}

/** Serves requests and counts what they cost. */
class Totals {
  readonly #trace: Trace;
  readonly #blockSizeBytes: number;
  readonly #fleet: Fleet;
  readonly #names: readonly string[];
  /** Bytes that stand for all blocks of a length: caches count lengths and read no byte. */
  readonly #blocksByLength = new Map<number, Uint8Array>();
  readonly #loads: Float64Array;
  #counts = noCounts();

  constructor(trace: Trace, { blockSizeBytes, nodes }: Scenario, fleet: Fleet) {
    this.#trace = trace;
    this.#blockSizeBytes = blockSizeBytes;
    this.#fleet = fleet;
    this.#names = trace.catalogue.urlBytes.map((_, url) => `u${url}`);
    this.#loads = new Float64Array(nodes);
  }

  /** Forgets what was counted so far. */
  reset(): void {
    this.#counts = noCounts();
    this.#loads.fill(0);
  }

  /** A node answers a request for the bytes from `start` up to `end` (exclusive) of a URL. */
  serve(node: number, url: number, start: number, end: number): void {
    const { catalogue } = this.#trace;
    const counts = this.#counts;
    const { engine } = this.#fleet;
    const cache = this.#fleet.cacheOf(node);
    const name = this.#names[url] ?? '';
    const sizeBytes = catalogue.urlBytes[url] ?? 0;
    let isOwn = true;
    for (let index = Math.floor(start / this.#blockSizeBytes); index * this.#blockSizeBytes < end; index += 1) {
      const span = spanOfBlock(index, this.#blockSizeBytes, sizeBytes);
      const wanted = Math.min(end, span.end) - Math.max(start, span.start);
      if (cache.block(name, index) !== undefined) {
        counts.ownBytes += wanted;
        continue;
      }
      isOwn = false;
      const length = spanSize(span);
      const block = (catalogue.firstBlock[url] ?? 0) + index;
      if (engine?.get(block) === true) {
        counts.engineBytes += wanted;
        counts.engineReadBytes += length;
      } else {
        counts.originBytes += wanted;
        counts.fetchedBytes += length;
        if (engine !== undefined) {
          engine.set(block, true, { size: length });
          counts.engineWrittenBytes += length;
        }
      }
      cache.keepBlock(name, index, this.#bytesOf(length));
    }
    counts.deliveredBytes += end - start;
    if (isOwn) counts.ownRequests += 1;
    this.#loads[node] = (this.#loads[node] ?? 0) + end - start;
  }

  /** Ends a part of the counted time. */
  endWindow(): void {
    let most = 0;
    let sum = 0;
    for (const load of this.#loads) {
      most = Math.max(most, load);
      sum += load;
    }
    this.#counts.peakLoad = Math.max(this.#counts.peakLoad, most / (sum / this.#fleet.live.length));
    this.#loads.fill(0);
  }

  read(): ReturnType<typeof noCounts> {
    return this.#counts;
  }

  #bytesOf(length: number): Uint8Array {
    let bytes = this.#blocksByLength.get(length);
    if (bytes === undefined) {
      bytes = new Uint8Array(length);
      this.#blocksByLength.set(length, bytes);
    }
    return bytes;
  }
}

function noCounts() {
  return {
    ownRequests: 0,
    deliveredBytes: 0,
    ownBytes: 0,
    engineBytes: 0,
    originBytes: 0,
    fetchedBytes: 0,
    engineReadBytes: 0,
    engineWrittenBytes: 0,
    peakLoad: 0,
  };
}
