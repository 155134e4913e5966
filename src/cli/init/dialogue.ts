/** Asks questions on a terminal. */

import { createInterface, type Interface } from 'node:readline';
import type { CliIo } from '../io.ts';

/** Where answers come from, such as `process.stdin`. */
export type AnswerInput = NodeJS.ReadableStream & { readonly isTTY?: boolean };

/** Questions and answers, a line each. Without an input nothing is asked or said. */
export class Dialogue implements Disposable {
  readonly #io: CliIo;
  readonly #lines: Interface | undefined;
  readonly #answers: AsyncIterator<string> | undefined;

  constructor(input: AnswerInput | undefined, io: CliIo) {
    this.#io = io;
    // The terminal itself echoes and edits lines, and turns Ctrl-C into a signal.
    this.#lines = input && createInterface({ input, terminal: false });
    this.#answers = this.#lines?.[Symbol.asyncIterator]();
  }

  get canAsk(): boolean {
    return this.#answers !== undefined;
  }

  say(text: string): void {
    if (this.canAsk) this.#io.stdout.write(text);
  }

  /** Asks, and resolves with the answer, or with `fallback` for an empty line. Resolves with undefined where the input has ended. */
  async ask(question: string, fallback: string | undefined): Promise<string | undefined> {
    this.say(`${question}${fallback === undefined ? '' : ` [${fallback}]`}: `);
    const next = await this.#answers?.next();
    if (next === undefined || next.done === true) {
      this.say('\n');
      return undefined;
    }
    const answer = next.value.trim();
    return answer === '' ? (fallback ?? '') : answer;
  }

  [Symbol.dispose](): void {
    this.#lines?.close();
  }
}
