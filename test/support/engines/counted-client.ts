/** A client of an engine that knows its unanswered commands, and can lose commands or their answers. */

import type { CommandPart } from '../../../src/store/redis/engine-links.ts';
import { EngineFault, type RedisClient } from '../../../src/store/redis/redis-client.ts';

/** A command without an answer. */
export interface RunningCommand {
  /** The key that it is about, or the address of the server that it is for. */
  readonly about: { readonly key: string } | { readonly node: string };
  readonly answer: Promise<unknown>;
}

/** Wraps another client, and counts its commands. */
export class CountedClient implements RedisClient {
  readonly started: Promise<void>;
  readonly #below: RedisClient;
  readonly #running = new Set<RunningCommand>();
  #lostCount = 0;
  #isDone = false;

  constructor(below: RedisClient) {
    this.#below = below;
    this.started = below.started;
  }

  get isAway(): boolean {
    return this.#below.isAway;
  }

  /** The commands without an answer. */
  get running(): readonly RunningCommand[] {
    return [...this.#running];
  }

  /** Makes the next `count` commands fail: their answers are lost, or with `isDone` false the commands themselves. */
  lose(count: number, isDone: boolean): void {
    this.#lostCount = count;
    this.#isDone = isDone;
  }

  send(key: string, parts: readonly CommandPart[], isReadOnly?: boolean): Promise<unknown> {
    return this.#follow({ key }, () => this.#below.send(key, parts, isReadOnly));
  }

  run(script: string, keys: readonly string[], args: readonly CommandPart[]): Promise<unknown> {
    return this.#follow({ key: keys[0] ?? '' }, () => this.#below.run(script, keys, args));
  }

  nodes(): readonly string[] {
    return this.#below.nodes();
  }

  sendTo(node: string, parts: readonly CommandPart[]): Promise<unknown> {
    return this.#follow({ node }, () => this.#below.sendTo(node, parts));
  }

  untilAppended(stream: string, after: string, blockMs: number): Promise<void> {
    return this.#below.untilAppended(stream, after, blockMs);
  }

  localAddress(): string | undefined {
    return this.#below.localAddress();
  }

  close(): void {
    this.#below.close();
  }

  #follow(about: RunningCommand['about'], command: () => Promise<unknown>): Promise<unknown> {
    const answer = this.#lostCount > 0 ? this.#loseOne(command) : command();
    const running = { about, answer };
    this.#running.add(running);
    const forget = () => this.#running.delete(running);
    answer.then(forget, forget);
    return answer;
  }

  async #loseOne(command: () => Promise<unknown>): Promise<never> {
    this.#lostCount -= 1;
    if (!this.#isDone) throw new EngineFault('away', 'The command was lost.');
    await command();
    throw new EngineFault('away', 'The answer was lost.');
  }
}
