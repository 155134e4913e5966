/** Looks for inputs that break a promise. Inputs that reach new code are the base of further inputs. */

import type { Coverage } from './coverage.ts';
import { type Chance, mutate, stretch } from './mutator.ts';
import type { Target } from './target.ts';

/** The number of inputs between two looks at the coverage, which are slow. */
const batchSize = 64;

/** One of so many rounds runs a single long input in place of a batch. */
const stretchEvery = 8;

/**
 * Long inputs that take less than `slowMs` are not examined. Of any other input, a quarter must take more than an eighth of
 * its time. An eighth lies between a fourth, where the time grows with the length, and a sixteenth, where it grows with its
 * square, so that measuring errors of a busy machine do not matter.
 */
const slowMs = 300;
const mostGrowth = 8;

/** The limit for any input. The shortest of some tries counts: on a busy machine the same work takes longer at times. */
const longestMs = 5_000;
const tries = 3;

/** Options of fuzzing one target. */
export interface FuzzOptions {
  readonly target: Target;
  /** Inputs that earlier runs have found. */
  readonly corpus: readonly string[];
  readonly chance: Chance;
  readonly coverage: Coverage;
  /** Returns whether to go on. Called before each batch with the number of inputs so far. */
  readonly mayGoOn: (runs: number) => boolean;
  /** Called before each input. */
  readonly onRun: (input: string) => void;
}

/** The result of fuzzing one target. */
export interface FuzzResult {
  readonly runs: number;
  /** The inputs that reached new code, without those of the corpus. */
  readonly found: readonly string[];
  /** The first input that broke a promise, shortened. */
  readonly failure: Failure | undefined;
}

/** An input that breaks a promise. */
export interface Failure {
  readonly input: string;
  readonly error: Error;
}

/** Fuzzes a target until `mayGoOn` returns false or an input breaks a promise. */
export function fuzz(options: FuzzOptions): FuzzResult {
  return new Fuzzing(options).run();
}

class Fuzzing {
  readonly #options: FuzzOptions;
  /** The inputs from which new ones are made. */
  readonly #pool: string[];
  readonly #found: string[] = [];
  #runs = 0;

  constructor(options: FuzzOptions) {
    this.#options = options;
    this.#pool = [...options.target.seeds, ...options.corpus];
  }

  run(): FuzzResult {
    const { coverage, mayGoOn } = this.#options;
    let failure = this.#tryAll(this.#pool);
    coverage.takeNews();
    for (let round = 1; failure === undefined && mayGoOn(this.#runs); round += 1) {
      failure = round % stretchEvery === 0 ? this.#tryLong() : this.#tryBatch();
    }
    return { runs: this.#runs, found: this.#found, failure };
  }

  #tryBatch(): Failure | undefined {
    const { target, chance, coverage } = this.#options;
    const batch = Array.from({ length: batchSize }, () => mutate(this.#pool, target.words, chance));
    const failure = this.#tryAll(batch);
    if (failure !== undefined || !coverage.hasNews()) return failure;
    for (const input of batch) {
      errorOf(target, input);
      if (!coverage.takeNews()) continue;
      this.#pool.push(input);
      this.#found.push(input);
    }
    return undefined;
  }

  #tryLong(): Failure | undefined {
    const { target, chance } = this.#options;
    const input = stretch(this.#pool, target.words, chance);
    const error = this.#try(input) ?? slowness(target, input);
    return error === undefined ? undefined : shortest(target, input, error);
  }

  #tryAll(inputs: readonly string[]): Failure | undefined {
    for (const input of inputs) {
      const error = this.#try(input);
      if (error !== undefined) return shortest(this.#options.target, input, error);
    }
    return undefined;
  }

  #try(input: string): Error | undefined {
    this.#runs += 1;
    this.#options.onRun(input);
    return errorOf(this.#options.target, input);
  }
}

/** Returns the error that a target throws for an input, or `undefined`. */
export function errorOf(target: Target, input: string): Error | undefined {
  try {
    target.check(input);
    return undefined;
  } catch (thrown) {
    return thrown instanceof Error ? thrown : new Error(String(thrown));
  }
}

/** Returns an error where a long input takes too long: its time grows faster than its length, as far as a clock can tell. */
export function slowness(target: Target, input: string): Error | undefined {
  const elapsedMs = leastMs(target, input, slowMs);
  if (elapsedMs <= slowMs) return undefined;
  const quarterMs = leastMs(target, input.slice(0, input.length / 4), elapsedMs / mostGrowth);
  if (elapsedMs <= longestMs && elapsedMs <= mostGrowth * quarterMs) return undefined;
  return new Error(
    `broken: ${input.length} octets take ${Math.round(elapsedMs)} ms, a quarter of them ${Math.round(quarterMs)}`,
  );
}

/** Returns the thread's shortest CPU time of some tries. Stops at the first try that takes at most `enoughMs`. */
function leastMs(target: Target, input: string, enoughMs: number): number {
  let least = Number.POSITIVE_INFINITY;
  for (let count = 0; count < tries && least > enoughMs; count += 1) {
    const before = process.threadCpuUsage();
    errorOf(target, input);
    const { user, system } = process.threadCpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}

/** Shortens an input for as long as it breaks the same promise. */
function shortest(target: Target, input: string, error: Error): Failure {
  let best = { input, error };
  const isSlow = errorOf(target, input) === undefined;
  if (isSlow) return best;
  for (let size = Math.ceil(input.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at + size <= best.input.length; ) {
      const shorter = best.input.slice(0, at) + best.input.slice(at + size);
      const other = errorOf(target, shorter);
      if (other !== undefined && promiseOf(other) === promiseOf(best.error)) best = { input: shorter, error: other };
      else at += size;
    }
  }
  return best;
}

function promiseOf({ message }: Error): string {
  return message.split(':', 2).join(':');
}
