/** Block coverage of V8: which parts of the source have run. */

import { Session } from 'node:inspector';

/** The half-open stretch `[start, end)` of a script's text, in characters. */
interface Stretch {
  readonly start: number;
  readonly end: number;
}

interface CoveredFunction {
  readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[];
}

interface CoveredScript {
  readonly url: string;
  readonly functions: readonly CoveredFunction[];
}

/** Watches the scripts of this process whose URL matches. Only one instance may exist at a time. */
export class Coverage implements Disposable {
  readonly #session = new Session();
  readonly #isWatched: (url: string) => boolean;
  /** The stretches that have not run yet of each function that was called, by script and position. */
  readonly #idle = new Map<string, readonly Stretch[]>();

  /** Create it before the scripts are loaded. Parts of them that ran earlier are not reported. */
  constructor(isWatched: (url: string) => boolean) {
    this.#isWatched = isWatched;
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** The number of functions that were called, and of their characters that have not run. */
  get summary(): string {
    let idle = 0;
    for (const stretches of this.#idle.values()) idle += lengthOf(stretches);
    return `${this.#idle.size} functions, ${idle} characters of them idle`;
  }

  /** Returns whether code has run for the first time since the last call of this or `takeNews`. That code stays new. */
  hasNews(): boolean {
    return this.#look(false);
  }

  /** Returns the same as `hasNews`, and remembers the code: it is not new any more. */
  takeNews(): boolean {
    return this.#look(true);
  }

  [Symbol.dispose](): void {
    this.#session.disconnect();
  }

  #take(): readonly CoveredScript[] {
    let result: readonly CoveredScript[] = [];
    this.#session.post('Profiler.takePreciseCoverage', (error, taken) => {
      if (error !== null) throw error;
      result = taken.result;
    });
    return result;
  }

  #look(isKept: boolean): boolean {
    let isNew = false;
    for (const { url, functions } of this.#take()) {
      if (!this.#isWatched(url)) continue;
      for (const each of functions) isNew = this.#note(url, each, isKept) || isNew;
    }
    return isNew;
  }

  /** Returns whether a part of a function has run for the first time. */
  #note(url: string, { ranges: [whole, ...blocks] }: CoveredFunction, isKept: boolean): boolean {
    if (whole === undefined || whole.count === 0) return false;
    const key = `${url}:${whole.startOffset}:${whole.endOffset}`;
    const before = this.#idle.get(key);
    const idle = idleStretches(blocks);
    const left = before === undefined ? idle : common(before, idle);
    if (before !== undefined && lengthOf(left) === lengthOf(before)) return false;
    if (isKept) this.#idle.set(key, left);
    return true;
  }
}

/** Blocks are nested, and an inner block follows its outer block. The count of the innermost block applies. */
function idleStretches(blocks: CoveredFunction['ranges']): Stretch[] {
  let idle: Stretch[] = [];
  for (const { startOffset: start, endOffset: end, count } of blocks) {
    if (count === 0) idle = [...idle, { start, end }];
    else idle = idle.flatMap((stretch) => without(stretch, { start, end }));
  }
  return merged(idle);
}

function without({ start, end }: Stretch, hole: Stretch): Stretch[] {
  if (hole.end <= start || end <= hole.start) return [{ start, end }];
  const rest = [
    { start, end: hole.start },
    { start: hole.end, end },
  ];
  return rest.filter((each) => each.start < each.end);
}

function merged(stretches: readonly Stretch[]): Stretch[] {
  const result: Stretch[] = [];
  for (const next of stretches.toSorted((a, b) => a.start - b.start)) {
    const last = result.at(-1);
    if (last === undefined || last.end < next.start) result.push(next);
    else result[result.length - 1] = { start: last.start, end: Math.max(last.end, next.end) };
  }
  return result;
}

/** Returns the intersection. */
function common(one: readonly Stretch[], other: readonly Stretch[]): Stretch[] {
  return one.flatMap((a) =>
    other.flatMap((b) => {
      const both = { start: Math.max(a.start, b.start), end: Math.min(a.end, b.end) };
      return both.start < both.end ? [both] : [];
    }),
  );
}

function lengthOf(stretches: readonly Stretch[]): number {
  return stretches.reduce((sum, { start, end }) => sum + end - start, 0);
}
