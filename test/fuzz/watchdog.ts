/** Ends the process where an input runs for too long, from another thread, and names the input. */

import { writeSync } from 'node:fs';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { addToCorpus } from './corpus.ts';
import { longestInput } from './mutator.ts';

/** The limit for one input. Even on a busy machine no input takes so long. */
const patienceMs = 20_000;

/** Memory that both threads see: the number of inputs so far, and the length and octets of the current one. */
interface Shared {
  readonly counts: Int32Array;
  readonly octets: Uint8Array;
  readonly target: string;
}

/** Watches the inputs of one target. */
export class Watchdog implements Disposable {
  readonly #shared: Shared;
  readonly #worker: Worker;

  constructor(target: string) {
    const counts = new Int32Array(new SharedArrayBuffer(8));
    const octets = new Uint8Array(new SharedArrayBuffer(longestInput));
    this.#shared = { counts, octets, target };
    this.#worker = new Worker(new URL(import.meta.url), { workerData: this.#shared });
    this.#worker.unref();
  }

  /** Must be called before each input. */
  note(input: string): void {
    const { counts, octets } = this.#shared;
    counts[1] = Buffer.from(octets.buffer).write(input, 'latin1');
    Atomics.add(counts, 0, 1);
  }

  [Symbol.dispose](): void {
    void this.#worker.terminate();
  }
}

function watch({ counts, octets, target }: Shared): never {
  for (;;) {
    const count = Atomics.load(counts, 0);
    if (Atomics.wait(counts, 0, count, patienceMs) !== 'timed-out' || count === 0) continue;
    if (Atomics.load(counts, 0) !== count) continue;
    const input = Buffer.from(octets.subarray(0, counts[1])).toString('latin1');
    addToCorpus(target, [input]);
    writeSync(
      2,
      `${target}: an input runs for more than ${patienceMs / 1000} s and was added to the corpus:\n${JSON.stringify(input)}\n`,
    );
    process.kill(process.pid, 'SIGKILL');
  }
}

if (!isMainThread) watch(workerData as Shared);
