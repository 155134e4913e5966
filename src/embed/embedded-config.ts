/** Makes the configuration of an embedded Rangeway: that of a file, without what the program around it decides. */

import { checkConfig } from '../config/load.ts';
import type { Config, ConfigInput } from '../config/schema.ts';

/** The limits that the server around Rangeway has to set: it accepts the connections, and reads the requests from them. */
type HostLimit =
  | 'headersTimeoutSeconds'
  | 'requestTimeoutSeconds'
  | 'keepAliveTimeoutSeconds'
  | 'connections'
  | 'connectionsPerClient'
  | 'streamsPerConnection';

/**
 * The options of a configuration file, without those for listeners, processes, the admin API and the log. Without `store`,
 * responses are stored in memory; a disk store without `dir` is in a temporary directory, which is removed at the end.
 */
export type EmbeddedConfig = Omit<ConfigInput, '$schema' | 'listen' | 'workers' | 'admin' | 'log' | 'limits'> & {
  readonly limits?: Omit<NonNullable<ConfigInput['limits']>, HostLimit>;
};

/** The options that an embedded Rangeway refuses, each with the place of the setting. */
const refusedOptions: Readonly<Record<string, string>> = {
  listen: 'the program listens, and passes requests to Rangeway',
  workers: 'Rangeway serves within the process of the program',
  admin: 'the program has `operations`',
  log: 'the program gets all events by `emit`',
};

const refusedLimits: Readonly<Record<HostLimit, string>> = {
  headersTimeoutSeconds: '`headersTimeout` of the server that reads the requests',
  requestTimeoutSeconds: '`requestTimeout` of the server that reads the requests',
  keepAliveTimeoutSeconds: '`keepAliveTimeout` of the server that reads the requests',
  connections: '`maxConnections` of the server that accepts the connections',
  connectionsPerClient: 'the server that accepts the connections',
  streamsPerConnection: '`settings.maxConcurrentStreams` of the server that accepts the connections',
};

/** The options of an embedded Rangeway are invalid. The message has one line for each problem. */
export class EmbeddedConfigFault extends Error {
  override readonly name = 'EmbeddedConfigFault';
}

/**
 * Checks options and fills in the defaults. A text is the URL of the origin of all requests. Relative paths are resolved against
 * `directory`. Throws `EmbeddedConfigFault`.
 */
export function readEmbeddedConfig(options: string | EmbeddedConfig, directory: string): Config {
  const value: unknown = typeof options === 'string' ? { routes: [{ origin: options }] } : options;
  const refusals = isRecord(value) ? findRefusals(value) : [];
  if (refusals.length > 0) throw new EmbeddedConfigFault(refusals.join('\n'));
  // Port 0 conflicts with no origin, and gives a disk store without a directory a temporary one.
  const complete = isRecord(value) ? { store: { type: 'memory' }, ...value, listen: '127.0.0.1:0' } : value;
  const checked = checkConfig(complete, directory);
  if (checked.kind === 'ok') return checked.config;
  const lines = checked.problems.map(({ path, message }) => (path === '' ? message : `${path}: ${message}`));
  throw new EmbeddedConfigFault(lines.join('\n'));
}

function findRefusals(value: Readonly<Record<string, unknown>>): string[] {
  const { limits } = value;
  const options = Object.entries(refusedOptions).filter(([name]) => value[name] !== undefined);
  const set = isRecord(limits) ? Object.entries(refusedLimits).filter(([name]) => limits[name] !== undefined) : [];
  return [
    ...options.map(([name, reason]) => `${name}: does not apply to an embedded Rangeway: ${reason}`),
    ...set.map(([name, place]) => `limits.${name}: does not apply to an embedded Rangeway: it is set by ${place}`),
  ];
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
