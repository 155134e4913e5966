/** A server as the code that started it sees it, in one process or several, and what it logs when it is ready. */

import type { Operations } from '../admin/operations.ts';
import type { Config } from '../config/schema.ts';
import type { ConfigSource } from '../fleet/channel.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Admin } from './admin.ts';
import type { LogSetting } from './operations.ts';

/** A configuration, and what it was checked from. */
export interface ConfigReading {
  readonly config: Config;
  readonly source: ConfigSource;
}

/** What a server is started with besides its configuration. */
export interface StartOptions {
  /** Told everything that happens. Without it nothing is logged. */
  readonly emit?: Emit;
  /** The log's level, which follows the configuration at each reload. */
  readonly log?: LogSetting | undefined;
  /**
   * Reads the configuration for a reload. Rejects with what is wrong with it, one problem a line. Without it a reload goes on
   * with the configuration that there is, and reads anew the files and secrets that it names.
   */
  readonly readAgain?: (() => Promise<ConfigReading>) | undefined;
  /**
   * Whether the admin listener is on a Unix socket in the directory of the store too, as with `rangeway serve`; never where
   * `admin` is "off". Not without it: who has the server has its `operations`.
   */
  readonly adminSocket?: boolean | undefined;
  /** Says in one line why a configuration cannot be used. */
  readonly explain?: ((error: unknown, config: Config) => string) | undefined;
}

/** A server that accepts requests. */
export interface RunningServer {
  /** Where it is reached, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** All addresses that it serves. */
  readonly addresses: readonly string[];
  /** What those who run it can have it do. */
  readonly operations: Operations;
  /**
   * Goes on with the configuration as it is now. No request fails by it, and no connection: what has begun ends as it began.
   * Rejects with `OperationFault` `invalid` where that cannot be used, and has changed nothing then; `unavailable` where the
   * server is stopping. One at a time: who asks while one is under way gets the next one.
   */
  reload(): Promise<void>;
  /**
   * Stops accepting, lets what is under way finish for `graceMs` milliseconds (by default the configuration's
   * `shutdownGraceSeconds`), cuts the rest, and closes the store. A second call waits for the first.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** What stands behind it: the origin, or how many routes. */
export function describeOrigins({ routes }: Pick<Config, 'routes'>): string {
  const [first] = routes;
  return routes.length === 1 && first !== undefined ? first.origin.url.replace(/\/$/, '') : `${routes.length} routes`;
}

/** Where it is administered, as the end of a sentence; empty where it is not. */
export function describeAdmin(...listeners: readonly (Pick<Admin, 'address'> | undefined)[]): string {
  const addresses = listeners.flatMap((listener) => (listener === undefined ? [] : [listener.address]));
  return addresses.length === 0 ? '' : `, administered on ${addresses.join(' and ')}`;
}
