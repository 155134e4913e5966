/** In which order functions are called: a debugger in a thread of its own stops the main thread at each of them. */

import { Session } from 'node:inspector';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import type { Called } from './coverage.ts';

/** A function to stop at. */
type Place = Pick<Called, 'scriptId' | 'offset'>;

/** What the debugger is asked: to stop at these functions, to note where it stops from now on, and to end. */
type Message = readonly Place[] | 'begin' | 'end';

const mostTries = 3;

/** A function that is called again and again is stopped at so often. */
const mostHits = 20;

/** Tells the order of first calls during an action. */
export class CallOrder implements AsyncDisposable {
  readonly #worker = new Worker(new URL(import.meta.url));

  /**
   * The indices of these functions in the order of their first calls. The debugger misses closures now and then, so that it has
   * some tries; what V8 makes by itself, as for the fields of a class, has no place to stop at.
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

/** The debugger, in its thread. */
class Debugger {
  readonly #session = new Session();
  /** The index of each function, by the breakpoint in it. */
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

  /** Forgets what a timer may have called. */
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
        // Two functions begin at one place, and the debugger stops there once.
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
