/** Which parts of the source have run, block by block, as V8 counts it. */

import { Session } from 'node:inspector';

/** `[start, end)` of a script's text. */
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

/** Watches the scripts of this process whose address matches. One at a time. */
export class Coverage implements Disposable {
  readonly #session = new Session();
  readonly #isWatched: (url: string) => boolean;
  /** What has not run yet of each function that has been called, by script and place. */
  readonly #idle = new Map<string, readonly Stretch[]>();

  /** To be created before the scripts are loaded, or those parts of them that have run already are not told of. */
  constructor(isWatched: (url: string) => boolean) {
    this.#isWatched = isWatched;
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** How many functions have been called, and how much text of them has not run. */
  get summary(): string {
    let idle = 0;
    for (const stretches of this.#idle.values()) idle += lengthOf(stretches);
    return `${this.#idle.size} functions, ${idle} characters of them idle`;
  }

  /** Whether something has run, since this or `takeNews` was asked for last, that never ran before. It stays news. */
  hasNews(): boolean {
    return this.#look(false);
  }

  /** The same, but it is no news any more. */
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

  /** Whether some of a function has run that never ran before. */
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

/** Blocks are nested, an inner one after the one around it; what counts of a place is the innermost. */
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

/** What is in both. */
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
