/** A redis-server of a test file, and connections to it that end with it. */

import type { RedisClient } from '../../../src/store/redis/redis-client.ts';
import { type RedisServer, startRedisServer } from './redis-server.ts';
import { beginTestClient } from './test-client.ts';

/** A running engine. */
export class TestEngine implements AsyncDisposable {
  readonly server: RedisServer;
  readonly #clients: RedisClient[] = [];

  private constructor(server: RedisServer) {
    this.server = server;
  }

  static async start(): Promise<TestEngine> {
    return new TestEngine(await startRedisServer());
  }

  /** Removes everything in it. */
  async flush(): Promise<void> {
    await this.server.command('FLUSHALL');
  }

  /** Opens the connections of one process. */
  async connect(): Promise<RedisClient> {
    const client = beginTestClient({ kind: 'server', address: this.server });
    this.#clients.push(client);
    await client.started;
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.server[Symbol.asyncDispose]();
  }
}
