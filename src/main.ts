/** The composition root: puts a server together from a configuration. It knows everyone and holds no rule. */

import type { Config } from './config/schema.ts';
import { choosePseudonym } from './setup/pseudonym.ts';
import { describeOrigins } from './setup/ready.ts';
import { openServer } from './setup/server.ts';
import type { Emit } from './telemetry/events.ts';

/** A server that accepts requests. */
export interface RunningServer {
  /** Where it is reached, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** All addresses that it serves. */
  readonly addresses: readonly string[];
  /**
   * Stops accepting, lets what is under way finish for `graceMs` milliseconds (by default the configuration's
   * `shutdownGraceSeconds`), cuts the rest, and closes the store. A second call waits for the first.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** What a server is started with besides its configuration. */
export interface StartOptions {
  /** Told everything that happens. Without it nothing is logged. */
  readonly emit?: Emit;
}

/**
 * Starts a server in this process, whatever `workers` says. Rejects with Node's error when an address cannot be bound or a
 * certificate file not read, and with `StoreFault` when the store's directory cannot be used; nothing is left open then.
 */
export async function start(config: Config, { emit = () => {} }: StartOptions = {}): Promise<RunningServer> {
  const server = await openServer(config, { emit, pseudonym: choosePseudonym(config) });
  const { addresses, place } = server;
  const message = `ready on ${addresses.join(' and ')}, in front of ${describeOrigins(config)}, storing in ${place}`;
  emit({ kind: 'life', stage: 'ready', addresses, message });
  return { url: addresses[0] ?? '', addresses, close: ({ graceMs } = {}) => server.close(graceMs) };
}
