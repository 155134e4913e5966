/** Counts which URIs are requested most. Nothing is counted, and nothing is kept, while it is not read. */

import type { RequestEvent } from './events.ts';
import { redact } from './redact.ts';
import { Watch } from './watch.ts';

/** How often a URI was requested, and the bytes of body that were sent for it. */
export interface TargetCount {
  /** Secrets in it are redacted. */
  readonly uri: string;
  readonly hits: number;
  readonly bytes: number;
}

interface HottestOptions {
  /** Milliseconds that never go back. */
  readonly now: () => number;
  /** Calls back once after some milliseconds, without keeping the process alive. */
  readonly after: (delayMs: number, callback: () => void) => () => void;
}

/** The counts are of the current part of the time, and of the parts before it: about the last minute. */
const partMs = 10_000;
const partsMax = 6;

/** The counting goes on for this long after the last reading, in milliseconds. */
const lastsMs = 10_000;

/** Number of URIs that are counted in a part. Beyond it, the half that was requested least is forgotten. */
const urisMax = 1000;

/** Longest URI that is kept, in characters; of a longer one the beginning is kept. */
const longestUri = 1024;

interface Numbers {
  hits: number;
  bytes: number;
}

type Part = Map<string, Numbers>;

/** The URIs that are requested most. */
export class HottestTargets {
  readonly #now: () => number;
  readonly #watch: Watch;
  /** The current part is the first one. */
  #parts: Part[] = [];
  #partBegan = 0;

  constructor({ now, after }: HottestOptions) {
    this.#now = now;
    this.#watch = new Watch({
      lastsMs,
      after,
      onEnd: () => {
        this.#parts = [];
      },
    });
  }

  /** Counts a request, if the counts are read at present. */
  count(event: RequestEvent): void {
    if (!this.#watch.isOn) return;
    const [part] = this.#parts;
    if (part === undefined) return;
    const uri = uriOf(event);
    const numbers = part.get(uri) ?? addTo(part, uri);
    numbers.hits += 1;
    numbers.bytes += event.bytesSent;
  }

  /** Returns the URIs that were requested most, at most `limit`, and goes on counting for some seconds. */
  read(limit: number): readonly TargetCount[] {
    this.#watch.look();
    const now = this.#now();
    if (this.#parts.length === 0 || now - this.#partBegan >= partMs) {
      this.#parts = [new Map(), ...this.#parts.slice(0, partsMax - 1)];
      this.#partBegan = now;
    }
    return sumTargets(this.#parts.flatMap((part) => Array.from(part, ([uri, numbers]) => ({ uri, ...numbers })))).slice(
      0,
      limit,
    );
  }
}

/** Adds up counts by URI; the ones with the most requests come first. */
function sumTargets(counts: readonly TargetCount[]): TargetCount[] {
  const sums = new Map<string, Numbers>();
  for (const { uri, hits, bytes } of counts) {
    const sum = sums.get(uri);
    if (sum === undefined) {
      sums.set(uri, { hits, bytes });
      continue;
    }
    sum.hits += hits;
    sum.bytes += bytes;
  }
  return Array.from(sums, ([uri, numbers]) => ({ uri, ...numbers })).sort(byHits);
}

function byHits(one: TargetCount, other: TargetCount): number {
  return other.hits - one.hits || other.bytes - one.bytes || (one.uri < other.uri ? -1 : 1);
}

function addTo(part: Part, uri: string): Numbers {
  if (part.size >= urisMax) forgetHalf(part);
  const added: Numbers = { hits: 0, bytes: 0 };
  part.set(uri, added);
  return added;
}

function forgetHalf(part: Part): void {
  const fewestFirst = [...part].sort(([, one], [, other]) => one.hits - other.hits);
  for (const [uri] of fewestFirst.slice(0, urisMax / 2)) part.delete(uri);
}

/** Redacts before it counts: requests that differ only in a secret are for the same thing, and no secret is kept. */
function uriOf({ scheme, authority, target }: RequestEvent): string {
  const uri = redact(`${scheme}://${authority}${target}`);
  // A copy, because a part of a string keeps the whole string in memory.
  return uri.length <= longestUri ? uri : `${Buffer.from(uri.slice(0, longestUri)).toString()}…`;
}
