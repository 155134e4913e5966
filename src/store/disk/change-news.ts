/** Tells the processes that share the store what this one has changed: much at once, in few words. */

import type { StoreChange, TellChange } from '../store-change.ts';
import type { IndexChange } from './removals.ts';

/** What is to be told, and what was told and is not heeded yet. Without anybody to tell, nothing. */
export class ChangeNews {
  readonly #tell: TellChange | undefined;
  readonly #keys = new Set<string>();
  readonly #generations = new Set<string>();
  readonly #lost = new Set<string>();
  readonly #telling = new Set<Promise<void>>();
  #isPending = false;

  constructor(tell: TellChange | undefined) {
    this.#tell = tell;
  }

  /** Tells of a change together with what else changes in this turn. */
  note({ keys, generations, lost = [] }: IndexChange): void {
    if (this.#tell === undefined) return;
    for (const key of keys) this.#keys.add(key);
    for (const generation of generations) this.#generations.add(generation);
    for (const generation of lost) this.#lost.add(generation);
    if (this.#isPending) return;
    this.#isPending = true;
    queueMicrotask(() => this.#flush());
  }

  /** Tells of something else. Resolves when all others have heeded it. */
  async say(change: StoreChange): Promise<void> {
    this.#flush();
    this.#send(change);
    await this.told();
  }

  /** Resolves when all others have heeded all that was noted until now. */
  async told(): Promise<void> {
    if (this.#tell === undefined) return;
    this.#flush();
    if (this.#telling.size > 0) await Promise.all(this.#telling);
  }

  #flush(): void {
    this.#isPending = false;
    const [keys, generations, lost] = [this.#keys, this.#generations, this.#lost].map(taken);
    // The keys come last: whoever looks one of them up anew because of it should know of the generations already.
    if (generations !== undefined) this.#send({ kind: 'generations', generations });
    if (lost !== undefined) this.#send({ kind: 'lost', generations: lost });
    if (keys !== undefined) this.#send({ kind: 'keys', keys });
  }

  #send(change: StoreChange): void {
    if (this.#tell === undefined) return;
    const telling = this.#tell(change).finally(() => this.#telling.delete(telling));
    this.#telling.add(telling);
  }
}

/** What is in a set, which is empty afterwards; undefined where there was nothing. */
function taken(noted: Set<string>): readonly string[] | undefined {
  if (noted.size === 0) return undefined;
  const all = [...noted];
  noted.clear();
  return all;
}
