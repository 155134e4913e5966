/** Counts the calls of each function in `src`, by V8's precise coverage. */

import { readFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { fileURLToPath } from 'node:url';

const source = new URL('../../src/', import.meta.url).href;

/** A function and the number of its calls. */
export interface Called {
  /** Path from the root of the repository. */
  readonly file: string;
  readonly line: number;
  readonly name: string;
  readonly count: number;
  /** V8's id of the script, and the function's offset in the script. */
  readonly scriptId: string;
  readonly offset: number;
}

/** Counts calls until disposal. Meanwhile V8 runs everything unoptimised, because optimised code does not count calls. */
export class CallCounts implements Disposable {
  readonly #session = new Session();
  readonly #texts = new Map<string, string>();

  constructor() {
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  }

  /** Returns the functions called since the last `take`, by `file:offset`. */
  take(): Map<string, Called> {
    const calls = new Map<string, Called>();
    this.#session.post('Profiler.takePreciseCoverage', (error, { result }) => {
      if (error !== null) throw error;
      for (const { url, scriptId, functions } of result) {
        if (!url.startsWith(source)) continue;
        const file = `src/${url.slice(source.length)}`;
        for (const { functionName, ranges } of functions) {
          const [{ startOffset, count } = { startOffset: 0, count: 0 }] = ranges;
          if (count === 0) continue;
          const line = this.#textOf(url).slice(0, startOffset).split('\n').length;
          const called = { file, line, name: functionName, count, scriptId, offset: startOffset };
          calls.set(`${file}:${startOffset}`, called);
        }
      }
    });
    return calls;
  }

  [Symbol.dispose](): void {
    this.#session.disconnect();
  }

  /** Returns the text of a file. Node replaces types by spaces, so that the running code has the same lines. */
  #textOf(url: string): string {
    let text = this.#texts.get(url);
    if (text === undefined) {
      text = readFileSync(fileURLToPath(url), 'utf8');
      this.#texts.set(url, text);
    }
    return text;
  }
}
