/** Finds the order in which functions are called: a debugger in a worker thread stops the main thread at each function. */

import { Session } from 'node:inspector';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import type { Called } from './coverage.ts';

/** A function to stop at. */
type Place = Pick<Called, 'scriptId' | 'offset'>;

/** A command to the debugger: set breakpoints in these functions, start recording, or end. */
type Message = readonly Place[] | 'begin' | 'end';

const mostTries = 3;

/** After this many stops at a function, its breakpoint is removed. */
const mostHits = 20;

/** Records the order of first calls during an action. */
export class CallOrder implements AsyncDisposable {
  readonly #worker = new Worker(new URL(import.meta.url));

  /**
   * Returns the indices of these functions in the order of their first calls. The debugger sometimes misses closures, so the
   * action is repeated while that finds more. Functions that V8 generates, as for class fields, have no place for a breakpoint.
   */
  async during(places: readonly Place[], action: () => Promise<void>): Promise<readonly number[]> {
    let best: readonly number[] = [];
    for (let tries = 0; tries < mostTries; tries += 1) {
      await this.#call(places.map(({ scriptId, offset }) => ({ scriptId, offset })));
      await this.#call('begin');
      await action();
      const order = (await this.#call('end')) as number[];
      if (order.length <= best.length) break;
      best = order;
    }
    return best;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#worker.terminate();
  }

  #call(message: Message): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#worker.once('error', reject);
      this.#worker.once('message', (answer: unknown) => {
        this.#worker.off('error', reject);
        resolve(answer);
      });
      this.#worker.postMessage(message);
    });
  }
}

/** The debugger in the worker thread. */
class Debugger {
  readonly #session = new Session();
  /** Index of each function, by the id of its breakpoint. */
  readonly #indices = new Map<string, number>();
  readonly #texts = new Map<string, string>();
  readonly #hits = new Map<string, number>();
  #order: number[] = [];

  constructor() {
    this.#session.connectToMainThread();
    this.#session.on('Debugger.paused', ({ params: { hitBreakpoints = [] } }) => {
      for (const breakpointId of hitBreakpoints) this.#note(breakpointId);
      this.#session.post('Debugger.resume');
    });
  }

  #note(breakpointId: string): void {
    const hits = (this.#hits.get(breakpointId) ?? 0) + 1;
    this.#hits.set(breakpointId, hits);
    if (hits === 1) this.#order.push(this.#indices.get(breakpointId) ?? -1);
    if (hits === mostHits) this.#session.post('Debugger.removeBreakpoint', { breakpointId });
  }

  /** Starts recording, without the calls so far, which a timer may have made. */
  begin(): void {
    this.#order = [];
    this.#hits.clear();
  }

  async stopAt(places: readonly Place[]): Promise<void> {
    this.#indices.clear();
    await this.#post('Debugger.enable');
    for (const [index, { scriptId, offset }] of places.entries()) {
      const before = (await this.#textOf(scriptId)).slice(0, offset).split('\n');
      const start = { scriptId, lineNumber: before.length - 1, columnNumber: before.at(-1)?.length ?? 0 };
      const { locations } = await this.#post<{ locations: object[] }>('Debugger.getPossibleBreakpoints', {
        start,
        restrictToFunction: true,
      });
      const [location] = locations;
      if (location === undefined) continue;
      try {
        const { breakpointId } = await this.#post<{ breakpointId: string }>('Debugger.setBreakpoint', { location });
        this.#indices.set(breakpointId, index);
      } catch {
        // Another function begins at the same place and already has the breakpoint.
      }
    }
  }

  async end(): Promise<number[]> {
    await this.#post('Debugger.disable');
    return this.#order;
  }

  async #textOf(scriptId: string): Promise<string> {
    let text = this.#texts.get(scriptId);
    if (text === undefined) {
      const { scriptSource } = await this.#post<{ scriptSource: string }>('Debugger.getScriptSource', { scriptId });
      text = scriptSource;
      this.#texts.set(scriptId, text);
    }
    return text;
  }

  #post<T>(method: string, params?: object): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#session.post(method, params, (error, result) => {
        if (error === null) resolve(result as T);
        else reject(new Error(`${method}: ${error.message}`));
      });
    });
  }
}

if (!isMainThread) {
  const own = new Debugger();
  const answer = (message: Message) => {
    if (message === 'begin') return own.begin();
    return message === 'end' ? own.end() : own.stopAt(message);
  };
  parentPort?.on('message', (message: Message) => {
    void (async () => parentPort?.postMessage(await answer(message)))();
  });
}
