/** The interface of a running server, in one process or several, and the parts of its log line when it is ready. */

import type { Operations } from '../admin/operations.ts';
import type { Config } from '../config/schema.ts';
import type { ConfigSource } from '../fleet/channel.ts';
import type { Emit } from '../telemetry/events.ts';
import type { Admin } from './admin.ts';
import type { LogSetting } from './operations.ts';

/** A configuration, and the source that it was checked from. */
export interface ConfigReading {
  readonly config: Config;
  readonly source: ConfigSource;
}

/** The options of a start, besides the configuration. */
export interface StartOptions {
  /** Gets all events. Without it nothing is logged. */
  readonly emit?: Emit;
  /** The log's level, which follows the configuration at each reload. */
  readonly log?: LogSetting | undefined;
  /**
   * Reads the configuration for a reload. Rejects with its problems, one in a line. Without it a reload uses the same
   * configuration, and reads the files and secrets that it names again.
   */
  readonly readAgain?: (() => Promise<ConfigReading>) | undefined;
  /**
   * Whether the admin listener is also on the default Unix socket, as with `rangeway serve`; never where `admin` is "off". Off by
   * default: a program that starts a server can call its `operations`.
   */
  readonly adminSocket?: boolean | undefined;
  /** Explains in one line why a configuration cannot be used. */
  readonly explain?: ((error: unknown, config: Config) => string) | undefined;
}

/** A server that accepts requests. */
export interface RunningServer {
  /** The first of its addresses, such as `http://127.0.0.1:8080`. */
  readonly url: string;
  /** All addresses that it serves. */
  readonly addresses: readonly string[];
  /** The operations of the admin API. */
  readonly operations: Operations;
  /**
   * Returns a link to the dashboard, which logs a browser in once, within five minutes. Undefined where the admin listener has no
   * port.
   */
  createDashboardLink(): string | undefined;
  /**
   * Reads the configuration again, and activates it. No request and no connection fails by it: running requests end under the
   * configuration that they began with. Rejects with `OperationFault`: `invalid` where it cannot be used, and nothing has changed
   * then; `unavailable` where the server is stopping. Calls during a running reload share the next one.
   */
  reload(): Promise<void>;
  /**
   * Stops accepting, lets running requests finish for `graceMs` milliseconds (by default the configuration's
   * `shutdownGraceSeconds`), cuts the rest, and closes the store. A second call waits for the first.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/** Describes the origin, or the number of routes where there are several. */
export function describeOrigins({ routes }: Pick<Config, 'routes'>): string {
  const [first] = routes;
  return routes.length === 1 && first !== undefined ? first.origin.url.replace(/\/$/, '') : `${routes.length} routes`;
}

/** Describes where the server is administered, as the end of a sentence; empty where it is not. */
export function describeAdmin(...listeners: readonly (Pick<Admin, 'address' | 'dashboard'> | undefined)[]): string {
  const addresses = listeners.flatMap((listener) => (listener === undefined ? [] : [listener.address]));
  const page = listeners.find((listener) => listener?.dashboard !== undefined)?.dashboard;
  const browsers = page === undefined ? '' : `, dashboard: ${page}/`;
  return addresses.length === 0 ? '' : `, administered on ${addresses.join(' and ')}${browsers}`;
}
