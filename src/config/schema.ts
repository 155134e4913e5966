/**
 * Defines the whole configuration, each option once: validation, defaults, the JSON Schema and the documentation derive from it.
 * Read `load.ts` next: it reads a file.
 */

import * as z from 'zod';
import { findListenConflicts, findMatchConflicts, findSelfOrigins } from './conflicts.ts';
import { fleetSchema } from './fleet-schema.ts';
import { adminSchema, listenSchema } from './listener-schema.ts';
import { findRedisConflicts, redisOf, redisOptionNames, redisOptions, withRedisDefaults } from './redis-schema.ts';
import { routeMatchSchema, routeSchema } from './route-schema.ts';
import {
  countOption,
  distinctNames,
  methodName,
  secondsOption,
  size,
  token,
  trustedPeer,
  upgradeName,
} from './values.ts';

const storeOptions = z.strictObject({
  type: z
    .enum(['disk', 'memory', 'redis'])
    .default('disk')
    .describe(
      'Where responses are stored: on disk, with a memory tier in front; in memory only, until the server stops; or in Redis or Valkey, with a memory tier in front.',
    ),
  dir: z
    .string()
    .min(1)
    .optional()
    .describe(
      'The directory of a disk store, relative to this file. Without it: rangeway/<host>-<port> of the listener, in $XDG_CACHE_HOME or ~/.cache; for port 0 a temporary directory that is removed when the server stops.',
    ),
  maxSizeBytes: size({ min: '1MB', max: '1000TB' }).optional().meta({
    description:
      'The most that is stored. Beyond it, entries that are not in use are evicted. Without it: "10GB" on disk, "256MB" in memory.',
    default: '10GB',
  }),
  lowWaterPercent: countOption(10, 100).optional().meta({
    description:
      'When the disk store is full, entries are evicted until this much of maxSizeBytes is in use, in percent, so that not every new entry has to wait for an eviction.',
    default: 95,
  }),
  minFreeBytes: size({ min: '0B', max: '1000TB' })
    .optional()
    .describe(
      'How much of the disk stays free. While less is free, the store does not grow, and new entries replace those that are not in use. Without it: "32MiB", or a quarter of a smaller disk.',
    ),
  maxObjectSizeBytes: size({ min: '1KB', max: '1000TB' })
    .optional()
    .describe(
      'The largest body that is stored; a larger one is relayed. Without it: half of maxSizeBytes on disk, a quarter in memory, "4GB" in Redis.',
    ),
  memoryBytes: size({ min: '1MB', max: '1000TB' }).optional().meta({
    description:
      'The size of the memory tier in front of the disk or of Redis. Read-ahead takes up to a quarter as much in addition.',
    default: '128MB',
  }),
  sendfile: z
    .union([z.enum(['auto', 'on', 'off']), z.boolean()], { error: 'expected "auto", "on" or "off"' })
    .optional()
    .meta({
      description:
        'Whether the kernel sends larger ranges and bodies directly from the files of the disk store (sendfile), over plain HTTP/1. "auto": where a check at the start shows that it works, which takes Linux and Node 26 (its experimental node:ffi). "on": the same, with a warning in the log where it does not work. With both, a piece whose checksum was right within the last minute is not checked again before it is sent. "off": never, and everything that is read is checked. true and false are older names of "on" and "off".',
      default: 'auto',
    }),
  idleFileSeconds: secondsOption(1, 3600).optional().meta({
    description:
      'How long a file of the disk store stays open after its last read. A client that reads on after a pause finds it open. The room of a file that was deleted by hand is free after at most twice this time.',
    default: 10,
  }),
  blockSizeBytes: size({ min: '16KiB', max: '4MiB' })
    .refine((bytes) => Number.isInteger(Math.log2(bytes)), 'must be a power of two')
    .optional()
    .meta({
      description:
        'The unit in which bodies are stored, checksummed and fetched: a power of two. For a store of type "redis" without it: 65536.',
      default: 262_144,
    }),
  ...redisOptions,
});

const diskDefaults = { maxSizeBytes: 10e9, memoryBytes: 128e6, lowWaterPercent: 95, idleFileSeconds: 10 };
const sizeInMemory = 256e6;
const redisDefaults = { maxObjectSizeBytes: 4e9, blockSizeBytes: 65_536 };
const defaultBlockSizeBytes = 262_144;

const diskOnly = 'applies to a store of type "disk" only';

/** Options of `store` that a memory store does not have; `memoryBytes` is another one. */
export const diskOnlyOptions = ['dir', 'lowWaterPercent', 'minFreeBytes', 'sendfile', 'idleFileSeconds'] as const;

function sendfileOf(stated: boolean | 'auto' | 'on' | 'off' = 'auto'): 'auto' | 'on' | 'off' {
  if (typeof stated === 'string') return stated;
  return stated ? 'on' : 'off';
}

/** The options that a store of each type does not have. */
function findStrayOptions(type: string, value: Readonly<Record<string, unknown>>): [name: string, message: string][] {
  const stray: [string, string][] = [];
  const refuse = (names: readonly string[], message: string) => {
    for (const name of names) if (value[name] !== undefined) stray.push([name, message]);
  };
  if (type !== 'disk') refuse(diskOnlyOptions, diskOnly);
  if (type === 'memory') refuse(['memoryBytes'], `${diskOnly}; the size of a memory store is maxSizeBytes`);
  if (type === 'redis') refuse(['maxSizeBytes'], 'the engine bounds its size by itself: maxmemory');
  if (type !== 'redis') refuse(redisOptionNames, 'applies to a store of type "redis" only');
  return stray;
}

const store = storeOptions
  .superRefine(
    (value, context) => {
      for (const [name, message] of findStrayOptions(value.type, value)) {
        context.addIssue({ code: 'custom', path: [name], message });
      }
    },
    { when: ({ value }) => hasStoreType.safeParse(value).success },
  )
  .superRefine((value, context) => {
    if (value.type !== 'redis') return;
    for (const { name, message } of findRedisConflicts(value)) {
      context.addIssue({ code: 'custom', path: [name], message });
    }
  })
  .superRefine(
    ({ type, maxSizeBytes, maxObjectSizeBytes = 0 }, context) => {
      if (type === 'redis') return;
      if (maxObjectSizeBytes <= (maxSizeBytes ?? (type === 'memory' ? sizeInMemory : diskDefaults.maxSizeBytes)))
        return;
      context.addIssue({ code: 'custom', path: ['maxObjectSizeBytes'], message: 'must be at most maxSizeBytes' });
    },
    { when: ({ value }) => storeSizes.safeParse(value).success },
  )
  .transform((value) => {
    const { type, maxSizeBytes, maxObjectSizeBytes, memoryBytes = diskDefaults.memoryBytes } = value;
    const blockSizeBytes =
      value.blockSizeBytes ?? (type === 'redis' ? redisDefaults.blockSizeBytes : defaultBlockSizeBytes);
    switch (type) {
      case 'memory':
        return { type, maxSizeBytes: maxSizeBytes ?? sizeInMemory, maxObjectSizeBytes, blockSizeBytes };
      case 'redis':
        return {
          ...withRedisDefaults(redisOf(value)),
          type,
          memoryBytes,
          maxObjectSizeBytes: maxObjectSizeBytes ?? redisDefaults.maxObjectSizeBytes,
          blockSizeBytes,
        };
      case 'disk':
        return {
          type,
          dir: value.dir,
          maxSizeBytes: maxSizeBytes ?? diskDefaults.maxSizeBytes,
          memoryBytes,
          lowWaterPercent: value.lowWaterPercent ?? diskDefaults.lowWaterPercent,
          minFreeBytes: value.minFreeBytes,
          sendfile: sendfileOf(value.sendfile),
          idleFileSeconds: value.idleFileSeconds ?? diskDefaults.idleFileSeconds,
          maxObjectSizeBytes,
          blockSizeBytes,
        };
    }
  })
  .prefault({})
  .describe('Where responses are stored.');

const storeSizes = storeOptions.pick({ type: true, maxSizeBytes: true, maxObjectSizeBytes: true }).loose();
const hasStoreType = z.looseObject({ type: z.enum(['disk', 'memory', 'redis']) });

const limits = z
  .strictObject({
    targetBytes: countOption(256, 65_536)
      .default(8192)
      .describe('The longest request target; a longer one is answered with 414.'),
    fieldsBytes: countOption(1024, 1_048_576)
      .default(32_768)
      .describe('The largest header section of a request; a larger one is answered with 431.'),
    fieldCount: countOption(10, 10_000)
      .default(200)
      .describe('The most field lines in a request; more are answered with 431.'),
    headersTimeoutSeconds: secondsOption(0.01, 3600)
      .default(30)
      .describe('How long a client may take to send the head of a request.'),
    requestTimeoutSeconds: secondsOption(0, 86_400)
      .default(0)
      .describe('How long a client may take to send a whole request, its body included; 0 sets no limit.'),
    keepAliveTimeoutSeconds: secondsOption(0.01, 3600)
      .default(65)
      .describe('How long a connection is kept for the next request.'),
    idleTimeoutSeconds: secondsOption(0.01, 86_400)
      .default(120)
      .describe(
        'How long a connection may stay without a byte in either direction while a request is under way. The kernel takes bytes to send in large steps (up to 4 MiB by the defaults of Linux), so a client that reads steadily, but less than some 10 KB/s, looks idle for longer than it is.',
      ),
    responseTimeoutSeconds: secondsOption(0, 604_800)
      .default(0)
      .describe('How long a client may take for a whole response; 0 sets no limit.'),
    minBytesPerSecond: countOption(0, 1_000_000_000)
      .default(64)
      .describe(
        'A client that reads its response more slowly than this, over idleTimeoutSeconds, is cut off; 0 sets no limit.',
      ),
    minUploadBytesPerSecond: countOption(0, 1_000_000_000)
      .default(64)
      .describe(
        'A client that sends the body of a request more slowly than this, over idleTimeoutSeconds, gets 408; 0 sets no limit. Time spent waiting for the origin does not count.',
      ),
    connections: countOption(0, 10_000_000)
      .default(20_000)
      .describe(
        'The most connections at a time; more are closed at once. 0 sets no limit of its own. Each process keeps 1000 of its file descriptors for other uses, or half of them where it has fewer than 2000.',
      ),
    connectionsPerClient: countOption(0, 1_000_000)
      .optional()
      .describe(
        'The most connections from one address at a time, not counting trusted proxies; more are closed at once. By default a quarter of those that each process accepts, and at most as many as it still accepts. 0 sets no limit.',
      ),
    streamsPerConnection: countOption(1, 10_000)
      .default(100)
      .describe('The most requests at a time on one connection of HTTP/2 (RFC 9113 §5.1.2).'),
    methods: distinctNames(methodName, 100)
      .default([])
      .describe(
        'Methods that are passed on besides the registered ones, such as "PURGEALL"; others get 501. Their responses are not stored, and they count as unsafe.',
      ),
    upgrades: distinctNames(upgradeName, 100)
      .default([])
      .describe(
        'Protocols that a client may change to by Upgrade besides WebSocket, over HTTP/1.1, such as "tcp" (Docker) or "SPDY/3.1" (Kubernetes). Their tunnels have the limits of those of WebSocket. HTTP itself (h2c) is no such protocol: its requests would pass by all rules.',
      ),
  })
  .prefault({})
  .describe('What a client may send, and how long it may take.');

const log = z
  .strictObject({
    level: z
      .enum(['trace', 'debug', 'info', 'warn', 'error', 'silent'])
      .default('info')
      .describe('The minimum level that is logged. Requests are "info".'),
    format: z
      .enum(['auto', 'pretty', 'json'])
      .default('auto')
      .describe('"pretty" lines for people, "json" lines for programs, or "auto": pretty on a terminal.'),
  })
  .prefault({})
  .describe('The log, on standard output.');

const routes = z
  .array(routeSchema)
  .min(1)
  .superRefine(
    (value: readonly unknown[], context) => {
      const comparable = value.map((route) => routeMatchSchema.safeParse(route).data);
      const wrong = new Set(context.issues.map(({ path }) => path?.[0]));
      for (const { index, path, message } of findMatchConflicts(comparable, (at) => wrong.has(at))) {
        context.addIssue({ code: 'custom', path: [index, ...path], message });
      }
    },
    { when: ({ value }) => Array.isArray(value) },
  )
  .describe('The routes that are served. At least one; no two match the same requests.');

const options = z.strictObject({
  $schema: z.string().optional().describe('Names the JSON Schema of this file, for editors.'),
  listen: listenSchema.describe(
    'Where to listen: a text, or a list of texts and of objects with options. A text is [host:]port (without a host 127.0.0.1; IPv6 in brackets; port 0 lets the system choose), "unix:PATH" for a Unix socket, or "systemd", or "systemd:NAME", for sockets that systemd has opened.',
  ),
  trustedProxies: z
    .array(trustedPeer)
    .max(1000)
    .default([])
    .describe(
      'Addresses, and blocks such as "10.0.0.0/8", of proxies whose statements about their clients are trusted (see trustedFields); "unix" stands for all peers on a Unix socket. Such fields of other peers are dropped.',
    ),
  trustedFields: z
    .enum(['x-forwarded', 'forwarded'])
    .default('x-forwarded')
    .describe(
      'The fields of trusted proxies that count: "x-forwarded" for X-Forwarded-For, -Proto and -Host, "forwarded" for Forwarded (RFC 7239). The other kind is dropped, because a proxy that does not know it passes on what clients send in it.',
    ),
  pseudonym: token
    .optional()
    .describe(
      'The name of this proxy in Via and CDN-Loop. Without it, it is derived from the host name and the listeners.',
    ),
  workers: z
    .union([countOption(1, 256), z.literal('auto')], { error: 'expected a number from 1 to 256, or "auto"' })
    .default(1)
    .describe(
      'How many processes serve, on one port and with one disk store; "auto" for one per core. With 1 a single process does all.',
    ),
  store,
  fleet: fleetSchema.optional(),
  limits,
  log,
  admin: adminSchema,
  shutdownGraceSeconds: secondsOption(0, 3600)
    .default(30)
    .describe('How long responses under way may take after the first signal to stop.'),
  routes,
});

/** The whole configuration. */
export const configSchema = options.superRefine(
  ({ listen, admin, trustedProxies, workers, store, fleet, routes }, context) => {
    const places = [...listen.map(({ address }) => address), ...(typeof admin === 'object' ? [admin.listen] : [])];
    for (const { index, message } of findListenConflicts(places)) {
      if (index === listen.length) context.addIssue({ code: 'custom', path: ['admin', 'listen'], message });
    }
    if (workers !== 1 && store.type === 'memory') {
      const message = 'several workers share a store on disk; a store in memory is for one';
      context.addIssue({ code: 'custom', path: ['workers'], message });
    }
    if (fleet !== undefined && store.type !== 'redis') {
      const message = 'applies to a store of type "redis" only: no other store is shared by machines';
      context.addIssue({ code: 'custom', path: ['fleet'], message });
    }
    if (workers !== 1 && (fleet?.listen?.port ?? 0) !== 0) {
      const message = 'must leave the port to the system, with 0: each of several workers needs one of its own';
      context.addIssue({ code: 'custom', path: ['fleet', 'listen'], message });
    }
    for (const { path, message } of findSelfOrigins(routes, listen)) {
      context.addIssue({ code: 'custom', path: [...path], message });
    }
    if (trustedProxies.length > 0) return;
    for (const [index, { proxyProtocol }] of listen.entries()) {
      const message = 'needs trustedProxies: only they may connect';
      if (proxyProtocol) context.addIssue({ code: 'custom', path: ['listen', index, 'proxyProtocol'], message });
    }
  },
);

/** The configuration as written in a file. */
export type ConfigInput = z.input<typeof configSchema>;

/** The configuration in use: every default filled in, every text parsed. */
export type Config = z.output<typeof configSchema>;
/** One listener of the configuration. */
export type ListenerConfig = Config['listen'][number];
/** One route of the configuration. */
export type RouteConfig = Config['routes'][number];
/** The admin listener that the configuration names. */
export type AdminConfig = Extract<Config['admin'], object>;
/** The store of the configuration. */
export type StoreConfig = Config['store'];
/** A store in Redis or Valkey. */
export type RedisStoreConfig = Extract<StoreConfig, { type: 'redis' }>;
/** The local disk between memory and an engine. */
export type LocalTierConfig = NonNullable<RedisStoreConfig['local']>;
