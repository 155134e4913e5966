/** The options of a store in Redis or Valkey. */

import * as z from 'zod';
import { countOption, secondsOption, secretSource, size } from './values.ts';

/** A host and a port, parsed. Without a port it is 6379, or 26379 for a Sentinel. */
export interface EngineNode {
  readonly host: string;
  readonly port: number | undefined;
}

const nodePattern = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?$/;

const engineNode = z.string().transform((text, context): EngineNode => {
  const [, literal, name, port] = nodePattern.exec(text) ?? [];
  const host = literal ?? name;
  if (host !== undefined && (port === undefined || (Number(port) > 0 && Number(port) < 65_536))) {
    return { host, port: port === undefined ? undefined : Number(port) };
  }
  context.addIssue('expected a host and a port such as "cache-1.example:6379" or "[2001:db8::1]:6379"');
  return z.NEVER;
});

const nodes = z.array(engineNode).min(1).max(100).optional();

/** The URL of one engine, parsed. */
export type EngineUrl =
  | { readonly kind: 'tcp'; readonly node: EngineNode; readonly isTls: boolean; readonly database: number | undefined }
  | { readonly kind: 'unix'; readonly path: string };

const engineUrl = z.string().transform((text, context): EngineUrl => {
  const url = readEngineUrl(text);
  if (typeof url !== 'string') return url;
  context.addIssue(url);
  return z.NEVER;
});

function readEngineUrl(text: string): EngineUrl | string {
  if (/^unix:\/[^\s?#]+$/.test(text)) return { kind: 'unix', path: text.slice('unix:'.length) };
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isTls = url?.protocol === 'rediss:' || url?.protocol === 'valkeys:';
  const [, path = 'x'] = /^\/?(\d{0,5})$/.exec(url?.pathname ?? 'x') ?? [];
  if (url === undefined || url.hostname === '' || !/^(?:rediss?|valkeys?):$/.test(url.protocol) || path === 'x') {
    return 'expected the URL of an engine such as "redis://cache.example:6379/0", "rediss://…" with TLS, or "unix:/run/redis.sock"';
  }
  // The message does not repeat the value: it holds a password.
  if (url.username !== '' || url.password !== '') {
    return 'must not hold a user name or password: state username, and password as "env:NAME" or "file:PATH"';
  }
  if (url.search !== '' || url.hash !== '') return 'must not hold a query or a fragment';
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const node = { host, port: url.port === '' ? undefined : Number(url.port) };
  return { kind: 'tcp', node, isTls, database: path === '' ? undefined : Number(path) };
}

const path = () => z.string().min(1).optional();

/** The options, all of them optional: a store of another type has none. */
export const redisOptions = {
  url: engineUrl.optional().meta({
    description:
      'Where one engine is: "redis://host:port", with TLS "rediss://host:port", each with "/" and a database behind it, or "unix:PATH". For a store of type "redis" without it, cluster and sentinels: "redis://127.0.0.1:6379".',
  }),
  cluster: nodes.describe('Some nodes of a Cluster, each as "host:port"; they name the others.'),
  sentinels: nodes.describe('The Sentinels that name the master, each as "host:port".'),
  sentinelMaster: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .meta({ description: 'The name of the master, as the Sentinels know it.', default: 'mymaster' }),
  sentinelUsername: z.string().min(1).max(200).optional().describe('The user for the Sentinels themselves (ACL).'),
  sentinelPassword: secretSource
    .optional()
    .describe('The password for the Sentinels themselves: "env:NAME" or "file:PATH".'),
  username: z.string().min(1).max(200).optional().describe('The user for the engine (ACL).'),
  password: secretSource.optional().describe('The password for the engine: "env:NAME" or "file:PATH".'),
  database: countOption(0, 65_535).optional().meta({
    description: 'The number of the database. A Cluster has only 0.',
    default: 0,
  }),
  tls: z.boolean().optional().meta({
    description: 'Whether connections use TLS; a URL says so by itself ("rediss:").',
    default: false,
  }),
  caFile: path().describe(
    'A file of PEM certificates to trust for the engine in place of the usual ones. Relative to this file.',
  ),
  certFile: path().describe('A PEM file with the client certificate for the engine. Relative to this file.'),
  keyFile: path().describe('The PEM file of its private key. Relative to this file.'),
  insecureTls: z.boolean().optional().meta({
    description: 'Accepts any certificate from the engine. An attacker in between can then read and change everything.',
    default: false,
  }),
  keyPrefix: z
    .string()
    .regex(/^[A-Za-z0-9._:-]{1,64}$/, 'expected letters, digits and the signs . _ : - only')
    .optional()
    .meta({
      description:
        'What the names of all keys in the engine begin with. Servers with the same prefix share their entries.',
      default: 'rangeway:',
    }),
  keepSeconds: secondsOption(60, 31_536_000).optional().meta({
    description:
      'How long an entry stays in the engine after its last use. Before that, the engine evicts by its own policy.',
    default: 604_800,
  }),
  connectTimeoutSeconds: secondsOption(0.01, 600).optional().meta({
    description: 'How long making a connection to the engine may take.',
    default: 5,
  }),
  commandTimeoutSeconds: secondsOption(0.01, 60).optional().meta({
    description:
      'How long the engine may take for an answer. After three late ones in a row, requests go on without the engine until it answers in time again.',
    default: 1,
  }),
  queueBytes: size({ min: '1MB', max: '100GB' }).optional().meta({
    description: 'The most that waits to be sent to the engine; what exceeds it is not stored.',
    default: '64MB',
  }),
  local: z
    .strictObject({
      dir: z
        .string()
        .min(1)
        .describe('Its directory, relative to this file. No other server and no disk store may use it.'),
      maxSizeBytes: size({ min: '16MB', max: '1000TB' })
        .prefault('10GB')
        .describe(
          'The most that it takes of the disk. Bodies larger than half of it are not kept. Beyond it, bodies that are not in use leave.',
        ),
    })
    .optional()
    .describe(
      'A disk of this machine between memory and the engine. It keeps what this machine has read from the engine, so that it is read from there once.',
    ),
};

/** The names of the options. */
export const redisOptionNames = Object.keys(redisOptions) as readonly (keyof typeof redisOptions)[];

const redisShape = z.object(redisOptions);
type RedisValues = z.output<typeof redisShape>;

/** What is wrong with an option. */
interface OptionConflict {
  readonly name: string;
  readonly message: string;
}

/** Returns what is wrong with options that are valid by themselves. */
export function findRedisConflicts(value: RedisValues): readonly OptionConflict[] {
  return [...findPlaceConflicts(value), ...findTlsConflicts(value)];
}

function findPlaceConflicts(value: RedisValues): readonly OptionConflict[] {
  const { url, cluster, sentinels, database } = value;
  const problems: OptionConflict[] = [];
  const places = (['url', 'cluster', 'sentinels'] as const).filter((name) => value[name] !== undefined);
  for (const name of places.slice(1)) problems.push({ name, message: `excludes ${places[0]}: leave out one of them` });
  if (sentinels === undefined) {
    for (const name of ['sentinelMaster', 'sentinelUsername', 'sentinelPassword'] as const) {
      if (value[name] !== undefined) problems.push({ name, message: 'applies with sentinels only' });
    }
  }
  if (cluster !== undefined && (database ?? 0) !== 0) {
    problems.push({ name: 'database', message: 'must be 0: a Cluster has only this one' });
  }
  if (url?.kind === 'tcp' && url.database !== undefined && database !== undefined) {
    problems.push({ name: 'database', message: 'is stated in url already' });
  }
  return problems;
}

function findTlsConflicts(value: RedisValues): readonly OptionConflict[] {
  const { url, tls, certFile, caFile, insecureTls } = value;
  const problems: OptionConflict[] = [];
  if (url?.kind === 'unix' && tls === true) problems.push({ name: 'tls', message: 'a Unix socket has no TLS' });
  if (tls !== true && !(url?.kind === 'tcp' && url.isTls)) {
    for (const name of ['caFile', 'certFile', 'keyFile'] as const) {
      if (value[name] !== undefined) problems.push({ name, message: 'applies with TLS only: tls, or a rediss:// URL' });
    }
    if (insecureTls === true) problems.push({ name: 'insecureTls', message: 'applies with TLS only' });
  }
  if (insecureTls === true && caFile !== undefined) {
    problems.push({ name: 'caFile', message: 'is not used while insecureTls is true' });
  }
  const [stated, missing] =
    certFile === undefined ? (['keyFile', 'certFile'] as const) : (['certFile', 'keyFile'] as const);
  if (value[stated] !== undefined && value[missing] === undefined) {
    problems.push({ name: missing, message: `is required with ${stated}` });
  }
  return problems;
}

/** Returns the options with their defaults. */
export function withRedisDefaults(value: RedisValues) {
  const { url, cluster, sentinels, tls = false, database, sentinelMaster = 'mymaster', ...rest } = value;
  const isAlone = cluster === undefined && sentinels === undefined;
  const local: EngineUrl = {
    kind: 'tcp',
    node: { host: '127.0.0.1', port: undefined },
    isTls: false,
    database: undefined,
  };
  const place = isAlone ? (url ?? local) : undefined;
  return {
    ...rest,
    url: place,
    cluster,
    sentinels,
    sentinelMaster,
    tls: tls || (place?.kind === 'tcp' && place.isTls),
    database: database ?? (place?.kind === 'tcp' ? place.database : undefined) ?? 0,
    insecureTls: value.insecureTls ?? false,
    keyPrefix: value.keyPrefix ?? 'rangeway:',
    keepSeconds: value.keepSeconds ?? 604_800,
    connectTimeoutSeconds: value.connectTimeoutSeconds ?? 5,
    commandTimeoutSeconds: value.commandTimeoutSeconds ?? 1,
    queueBytes: value.queueBytes ?? 64_000_000,
  };
}

/** Returns the options of a store in an engine alone. */
export function redisOf(value: RedisValues): RedisValues {
  const entries = redisOptionNames.map((name) => [name, value[name]] as const);
  return Object.fromEntries(entries) as RedisValues;
}
