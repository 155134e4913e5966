import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkConfig, loadConfig, parseConfigText } from '../../src/config/load.ts';

const routes = [{ origin: 'http://127.0.0.1:3000' }];

/** Returns one line for each problem. */
function problemsOf(value: unknown): string[] {
  const checked = checkConfig(value, '/etc/rangeway');
  return checked.kind === 'ok' ? [] : checked.problems.map(({ path, message }) => `${path}: ${message}`);
}

function configOf(value: unknown) {
  const checked = checkConfig(value, '/etc/rangeway');
  if (checked.kind === 'invalid') throw new Error(JSON.stringify(checked.problems));
  return checked.config;
}

describe('store.sendfile', () => {
  it.each([
    ['auto', 'auto'],
    ['on', 'on'],
    ['off', 'off'],
    [true, 'on'],
    [false, 'off'],
  ])('%j means %s', (sendfile, want) => {
    expect(configOf({ routes, store: { sendfile } }).store).toMatchObject({ sendfile: want });
  });
});

describe('checkConfig fills in', () => {
  it('every default', () => {
    expect(configOf({ routes })).toEqual({
      listen: [{ address: { kind: 'tcp', host: '127.0.0.1', port: 8080 }, proxyProtocol: false }],
      trustedProxies: [],
      trustedFields: 'x-forwarded',
      workers: 1,
      store: {
        type: 'disk',
        dir: undefined,
        maxSizeBytes: 10e9,
        lowWaterPercent: 95,
        sendfile: 'auto',
        idleFileSeconds: 10,
        memoryBytes: 128e6,
        blockSizeBytes: 262_144,
      },
      limits: {
        targetBytes: 8192,
        fieldsBytes: 32_768,
        fieldCount: 200,
        headersTimeoutSeconds: 30,
        requestTimeoutSeconds: 0,
        keepAliveTimeoutSeconds: 65,
        idleTimeoutSeconds: 120,
        responseTimeoutSeconds: 0,
        minBytesPerSecond: 64,
        minUploadBytesPerSecond: 64,
        connections: 20_000,
        streamsPerConnection: 100,
        methods: [],
        upgrades: [],
      },
      log: { level: 'info', format: 'auto' },
      shutdownGraceSeconds: 30,
      routes: [
        {
          stripPathPrefix: false,
          origin: {
            url: 'http://127.0.0.1:3000/',
            alternatives: [],
            choice: 'first',
            protocol: 'http1',
            host: 'keep',
            connectTimeoutSeconds: 10,
            headersTimeoutSeconds: 60,
            bodyTimeoutSeconds: 60,
            keepAliveTimeoutSeconds: 4,
            unansweredRequests: 0,
            waitSeconds: 10,
            insecureTls: false,
            ranges: 'auto',
            seekAheadBytes: 2_097_152,
            closeDelimited: 'store',
            retries: { attempts: 2, budgetPercent: 20 },
            health: { failures: 3, restSeconds: 10 },
          },
          access: { deny: [], realm: 'Rangeway', forwardCredentials: false },
          security: { contentTypeOptions: false },
          fields: {
            toOrigin: { remove: [], set: {}, add: {}, setSecret: {} },
            toClient: { remove: [], set: {}, add: {} },
          },
          limits: {
            tunnelIdleTimeoutSeconds: 3600,
            fills: 0,
            fillsPerClient: 0,
            amplification: { factor: 100, freeBytes: 5e9, windowSeconds: 900 },
          },
          errorPages: {},
          cache: {
            enabled: true,
            targetedFields: ['rangeway-cache-control', 'cdn-cache-control'],
            requestDirectives: 'obey',
            setCookie: 'refuse',
            defaultTtlSeconds: 0,
            defaultTtlByStatus: {},
            overrideTtlByStatus: {},
            staleIfErrorSeconds: 604_800,
            staleWhileRevalidateSeconds: 0,
            key: { query: 'all', fields: [], cookies: [] },
            identityFields: { ignore: [], ignoreCookies: [], include: [], includeCookies: [] },
            acceptEncoding: 'asSent',
            bypass: { fields: [], cookies: [], queryParameters: [] },
            rangeReuseSeconds: 60,
            storeAfterUses: 1,
            pinSeconds: 0,
            ownEntityTags: 'whenNone',
            digest: false,
          },
          ranges: { maxRanges: 100, coalesceGapBytes: 0 },
          fill: {
            onAbort: 'finish',
            finishMaxPerClient: 3,
            complete: 'whenSmaller',
            completeBelowBytes: 1_048_576,
            openRanges: 'grow',
            headLength: 'origin',
            resumeAttempts: 6,
            lengthWaitSeconds: 10,
          },
          purge: { peers: [], by: ['url'] },
        },
      ],
    });
  });

  it('the defaults of parallel fills, where they are wanted', () => {
    const { routes: read } = configOf({ routes: [{ ...routes[0], fill: { parallel: {} } }] });
    expect(read[0]?.fill.parallel).toEqual({ requests: 4, minBytes: 16_777_216, partBytes: 4_194_304 });
  });

  it('the defaults of prefetches, where they are wanted', () => {
    const { routes: read } = configOf({ routes: [{ ...routes[0], fill: { prefetch: {} } }] });
    expect(read[0]?.fill.prefetch).toEqual({ segments: 2, segmentBytes: 32_000_000, concurrent: 4 });
  });

  it('the defaults of a store in an engine, and its paths', () => {
    const { store } = configOf({ routes, store: { type: 'redis', url: 'rediss://a.example/3', password: 'file:p' } });
    expect(store).toMatchObject({
      type: 'redis',
      url: { kind: 'tcp', node: { host: 'a.example', port: undefined }, isTls: true },
      database: 3,
      tls: true,
      keyPrefix: 'rangeway:',
      keepSeconds: 604_800,
      memoryBytes: 128e6,
      maxObjectSizeBytes: 4e9,
      blockSizeBytes: 65_536,
      connectTimeoutSeconds: 5,
      commandTimeoutSeconds: 1,
      queueBytes: 64e6,
      insecureTls: false,
    });
    expect(configOf({ routes, store: { type: 'redis' } }).store).toMatchObject({
      url: { kind: 'tcp', node: { host: '127.0.0.1', port: undefined }, isTls: false },
      tls: false,
      database: 0,
    });
    expect(configOf({ routes, store: { type: 'redis', url: 'unix:/run/redis.sock' } }).store).toMatchObject({
      url: { kind: 'unix', path: '/run/redis.sock' },
    });
    const local = { dir: 'cache' };
    expect(configOf({ routes, store: { type: 'redis', local } }).store).toMatchObject({
      local: { dir: '/etc/rangeway/cache', maxSizeBytes: 10e9 },
    });
  });

  it('the default size of a memory store, which has no memory tier and no directory', () => {
    const { store } = configOf({ routes, store: { type: 'memory' } });
    expect(store).toEqual({ type: 'memory', maxSizeBytes: 256e6, blockSizeBytes: 262_144 });
  });

  it('sizes in bytes, normalised URLs and hosts, and absolute paths', () => {
    const config = configOf({
      listen: '[::1]:0',
      store: {
        dir: 'cache',
        maxSizeBytes: '1 GiB',
        lowWaterPercent: 80,
        minFreeBytes: '2GB',
        maxObjectSizeBytes: '1GiB',
        memoryBytes: 2_000_000,
        blockSizeBytes: '64KiB',
      },
      routes: [
        {
          match: { hosts: ['Media.Example.ORG', '*.Example.net'] },
          origin: { url: 'HTTPS://Files.example:443/base', caFile: 'ca.pem' },
        },
        { origin: { url: 'https://files.example', caFile: '/etc/ssl/ca.pem' } },
      ],
    });
    expect(config.listen).toMatchObject([{ address: { kind: 'tcp', host: '::1', port: 0 } }]);
    expect(config.store).toEqual({
      type: 'disk',
      dir: '/etc/rangeway/cache',
      maxSizeBytes: 2 ** 30,
      lowWaterPercent: 80,
      minFreeBytes: 2e9,
      maxObjectSizeBytes: 2 ** 30,
      memoryBytes: 2_000_000,
      sendfile: 'auto',
      idleFileSeconds: 10,
      blockSizeBytes: 65_536,
    });
    expect(config.routes[0]?.match).toEqual({ hosts: ['media.example.org', '*.example.net'] });
    expect(config.routes.map(({ origin }) => [origin.url, origin.caFile])).toEqual([
      ['https://files.example/base', '/etc/rangeway/ca.pem'],
      ['https://files.example/', '/etc/ssl/ca.pem'],
    ]);
  });
});

describe('the options of a fleet', () => {
  const fleetOf = (fleet: object) => configOf({ routes, store: { type: 'redis' }, fleet }).fleet;

  it('have defaults, and addresses without a host or a port', () => {
    expect(configOf({ routes, store: { type: 'redis' } }).fleet).toBeUndefined();
    expect(fleetOf({})).toEqual({ memoryWhileAwaySeconds: 60, unsafeWhileAway: 'forward' });
    expect(fleetOf({ listen: '7400' })).toMatchObject({ listen: { host: undefined, port: 7400 } });
    expect(fleetOf({ listen: '[fd00::5]:0' })).toMatchObject({ listen: { host: 'fd00::5', port: 0 } });
    expect(fleetOf({ advertise: 'node-1.internal' })).toMatchObject({
      advertise: { host: 'node-1.internal', port: undefined },
    });
    expect(fleetOf({ advertise: '10.0.0.5:7401' })).toMatchObject({ advertise: { host: '10.0.0.5', port: 7401 } });
  });
});

describe('checkConfig reports', () => {
  const knownOptions =
    'known here: $schema, listen, trustedProxies, trustedFields, pseudonym, workers, store, fleet, limits, log, admin, shutdownGraceSeconds, routes';
  const notAUrl = 'expected the URL of an origin such as "http://127.0.0.1:3000" or "unix:/run/app.sock"';
  const didYouMean = (path: string, url: string) => `${path}: expected the URL of an origin; did you mean "${url}"?`;
  const notASize = 'expected a size such as "512MiB" or "10GB"';
  const notAHost = 'expected a host name such as "media.example.org" or "*.example.org", without scheme and port';
  const notAnAddress =
    'expected [host:]port such as "8080", "0.0.0.0:8080" or "[::1]:8080", "unix:PATH", "systemd" or "systemd:NAME"';

  it.each<[value: unknown, ...want: string[]]>([
    [[], ': expected an object, found a list'],
    [null, ': expected an object, found null'],
    [{}, 'routes: is required'],
    [{ routes: [] }, 'routes: needs at least 1 element'],
    [{ routes: {} }, 'routes: expected a list, found an object'],
    [{ routes: [3] }, 'routes[0]: expected an object, found 3'],
    [{ routes: [{}] }, 'routes[0].origin: is required'],
    [{ routes, lisen: 1 }, 'lisen: unknown option "lisen"; did you mean "listen"?'],
    [{ routes, upstream: 1 }, `upstream: unknown option "upstream"; ${knownOptions}`],
    [{ routes, 'a b': 1 }, `["a b"]: unknown option "a b"; ${knownOptions}`],
    [{ routes: [{ ...routes[0], orgin: 1 }] }, 'routes[0].orgin: unknown option "orgin"; did you mean "origin"?'],
    [{ routes, listen: 8080 }, 'listen: expected text or a list, found 8080'],
    [
      { routes, explain: { peers: [] } },
      'explain: explain.peers is gone: "rangeway explain" asks the admin listener, never those of clients; leave "explain" out',
    ],
    [{ routes, listen: 'here' }, `listen: ${notAnAddress}`],
    [
      { routes, pseudonym: 'a b' },
      'pseudonym: expected a token: letters, digits and the signs !#$%&\'*+.^_`|~-, found "a b"',
    ],
    [{ routes, shutdownGraceSeconds: -1 }, 'shutdownGraceSeconds: must be at least 0, found -1'],
    [
      { routes, shutdownGraceSeconds: '30s' },
      'shutdownGraceSeconds: expected a number of seconds, found the text "30s"',
    ],
    [{ routes, limits: { fieldCount: 1.5 } }, 'limits.fieldCount: expected a whole number, found 1.5'],
    [{ routes, limits: { fieldCount: 9 } }, 'limits.fieldCount: must be at least 10, found 9'],
    [{ routes, limits: { targetBytes: 65_537 } }, 'limits.targetBytes: must be at most 65536, found 65537'],
    [{ routes, log: null }, 'log: expected an object, found null'],
    [{ routes, log: { format: 3 } }, 'log.format: expected "auto", "pretty" or "json", found 3'],
    [
      { routes, log: { format: 'pritty' } },
      'log.format: expected "auto", "pretty" or "json", found "pritty"; did you mean "pretty"?',
    ],
    [{ routes, store: { type: 'tape' } }, 'store.type: expected "disk", "memory" or "redis", found "tape"'],
    [{ routes, store: { url: 'redis://a' } }, 'store.url: applies to a store of type "redis" only'],
    [{ routes, store: { local: { dir: 'x' } } }, 'store.local: applies to a store of type "redis" only'],
    [{ routes, store: { type: 'redis', local: {} } }, 'store.local.dir: is required'],
    [
      { routes, store: { type: 'redis', local: { dir: 'x', maxSizeBytes: '1MB' } } },
      'store.local.maxSizeBytes: must be at least 16MB',
    ],
    [{ routes, fleet: {} }, 'fleet: applies to a store of type "redis" only: no other store is shared by machines'],
    [
      { routes, store: { type: 'redis' }, workers: 2, fleet: { listen: '7400' } },
      'fleet.listen: must leave the port to the system, with 0: each of several workers needs one of its own',
    ],
    [
      { routes, store: { type: 'redis' }, fleet: { listen: 'host' } },
      'fleet.listen: expected [host:]port such as "7400", "10.0.0.5:7400" or "[fd00::5]:7400"',
    ],
    [
      { routes, store: { type: 'redis' }, fleet: { advertise: ':7400' } },
      'fleet.advertise: expected host[:port] such as "node-1.internal", "10.0.0.5:7400" or "[fd00::5]:7400"',
    ],
    [{ routes, store: { type: 'redis', dir: 'x' } }, 'store.dir: applies to a store of type "disk" only'],
    [
      { routes, store: { type: 'redis', maxSizeBytes: '1GB' } },
      'store.maxSizeBytes: the engine bounds its size by itself: maxmemory',
    ],
    [
      { routes, store: { type: 'redis', url: 'redis://ada:lovelace@a' } },
      'store.url: must not hold a user name or password: state username, and password as "env:NAME" or "file:PATH"',
    ],
    [
      { routes, store: { type: 'redis', url: 'redis://a', cluster: ['b:1'] } },
      'store.cluster: excludes url: leave out one of them',
    ],
    [
      { routes, store: { type: 'redis', cluster: ['b:99999'] } },
      'store.cluster[0]: expected a host and a port such as "cache-1.example:6379" or "[2001:db8::1]:6379"',
    ],
    [
      { routes, store: { type: 'redis', cluster: ['b'], database: 1 } },
      'store.database: must be 0: a Cluster has only this one',
    ],
    [{ routes, store: { type: 'redis', sentinelMaster: 'm' } }, 'store.sentinelMaster: applies with sentinels only'],
    [{ routes, store: { type: 'redis', caFile: 'x' } }, 'store.caFile: applies with TLS only: tls, or a rediss:// URL'],
    [{ routes, store: { type: 'redis', tls: true, certFile: 'x' } }, 'store.keyFile: is required with certFile'],
    [
      { routes, store: { type: 'redis', password: 'secret' } },
      'store.password: expected "env:NAME", a variable of the environment, or "file:PATH"',
    ],
    [
      { routes, store: { type: 'redis', keyPrefix: 'a{b}' } },
      'store.keyPrefix: expected letters, digits and the signs . _ : - only, found "a{b}"',
    ],
    [{ routes, store: { dir: '' } }, 'store.dir: needs at least 1 character'],
    [{ routes, store: { maxSize: '1GB' } }, 'store.maxSize: unknown option "maxSize"; did you mean "maxSizeBytes"?'],
    [{ routes, store: { maxSizeBytes: '1G' } }, `store.maxSizeBytes: ${notASize}, found "1G"`],
    [{ routes, store: { maxSizeBytes: '999kB' } }, 'store.maxSizeBytes: must be at least 1MB'],
    [{ routes, store: { maxSizeBytes: '9999TiB' } }, 'store.maxSizeBytes: must be at most 1000TB'],
    [{ routes, store: { maxSizeBytes: 999_999 } }, 'store.maxSizeBytes: must be at least 1000000, found 999999'],
    [{ routes, store: { maxSizeBytes: true } }, 'store.maxSizeBytes: expected a number or text, found true'],
    [{ routes, store: { blockSizeBytes: 100_000 } }, 'store.blockSizeBytes: must be a power of two'],
    [{ routes, store: { blockSizeBytes: '8KiB' } }, 'store.blockSizeBytes: must be at least 16KiB'],
    [{ routes, store: { blockSizeBytes: 1000 } }, 'store.blockSizeBytes: must be at least 16384, found 1000'],
    [{ routes, store: { blockSizeBytes: '1KB' } }, 'store.blockSizeBytes: must be at least 16KiB'],
    [{ routes, store: { blockSizeBytes: '5MB' } }, 'store.blockSizeBytes: must be at most 4MiB'],
    [
      { routes, store: { type: 'memory', dir: 'x', memoryBytes: '1GB', lowWaterPercent: 90, minFreeBytes: 0 } },
      'store.dir: applies to a store of type "disk" only',
      'store.lowWaterPercent: applies to a store of type "disk" only',
      'store.minFreeBytes: applies to a store of type "disk" only',
      'store.memoryBytes: applies to a store of type "disk" only; the size of a memory store is maxSizeBytes',
    ],
    [{ routes, store: { lowWaterPercent: 9 } }, 'store.lowWaterPercent: must be at least 10, found 9'],
    [{ routes, store: { lowWaterPercent: 101 } }, 'store.lowWaterPercent: must be at most 100, found 101'],
    [{ routes, store: { minFreeBytes: -1 } }, 'store.minFreeBytes: must be at least 0, found -1'],
    [{ routes, store: { maxObjectSizeBytes: '999' } }, 'store.maxObjectSizeBytes: must be at least 1KB'],
    [
      { routes, store: { maxSizeBytes: '2MB', maxObjectSizeBytes: '2000001' } },
      'store.maxObjectSizeBytes: must be at most maxSizeBytes',
    ],
    [{ routes, store: { maxObjectSizeBytes: '11GB' } }, 'store.maxObjectSizeBytes: must be at most maxSizeBytes'],
    [
      { routes, store: { type: 'memory', maxObjectSizeBytes: '257MB' } },
      'store.maxObjectSizeBytes: must be at most maxSizeBytes',
    ],
    [
      { routes: [{ ...routes[0], cache: { storeAfterUses: 0 } }] },
      'routes[0].cache.storeAfterUses: must be at least 1, found 0',
    ],
    [
      { routes: [{ ...routes[0], fill: { parallel: { requests: 1 } } }] },
      'routes[0].fill.parallel.requests: must be at least 2, found 1',
    ],
    [
      { routes: [{ ...routes[0], fill: { parallel: {} }, cache: { enabled: false } }] },
      'routes[0].fill.parallel: needs cache.enabled',
    ],
    [
      { routes: [{ origin: { url: 'http://a.example', ranges: 'never' }, fill: { parallel: {} } }] },
      'routes[0].fill.parallel: needs origin.ranges "auto" or "always"',
    ],
    [
      { routes: [{ origin: { url: 'http://a.example', connections: 8 }, fill: { parallel: {} } }] },
      'routes[0].fill.parallel: needs four origin.connectionsPerClient: half are for other requests of the client',
    ],
    [
      { routes: [{ ...routes[0], fill: { prefetch: { segments: 21 } } }] },
      'routes[0].fill.prefetch.segments: must be at most 20, found 21',
    ],
    [
      { routes: [{ ...routes[0], fill: { prefetch: {} }, cache: { enabled: false } }] },
      'routes[0].fill.prefetch: needs cache.enabled',
    ],
    [
      { routes: [{ ...routes[0], fill: { prefetch: {} }, cache: { storeAfterUses: 2 } }] },
      'routes[0].fill.prefetch: needs cache.storeAfterUses 1: a prefetched segment has not been used yet',
    ],
    [
      { routes: [{ origin: { url: 'http://a.example', connections: 1 }, fill: { prefetch: {} } }] },
      'routes[0].fill.prefetch: needs two origin.connections: half are for clients',
    ],
    [
      { routes: [{ ...routes[0], fill: { prefetch: {} }, limits: { fills: 1 } }] },
      'routes[0].fill.prefetch: needs two limits.fills: half are for clients',
    ],
    [{ routes: [{ origin: 4 }] }, 'routes[0].origin: expected text or an object, found 4'],
    [{ routes: [{ origin: 'example.org' }] }, `routes[0].origin: ${notAUrl}`],
    [{ routes: [{ origin: 'ftp://example.org' }] }, `routes[0].origin: ${notAUrl}`],
    [{ routes: [{ origin: 'rangeway.json' }] }, `routes[0].origin: ${notAUrl}`],
    [{ routes: [{ origin: 'ada:lovelace@a:80' }] }, `routes[0].origin: ${notAUrl}`],
    [{ routes: [{ origin: { url: 'localhost:3000' } }] }, didYouMean('routes[0].origin.url', 'http://localhost:3000')],
    [{ routes: [{ origin: 'localhost/a' }] }, didYouMean('routes[0].origin', 'http://localhost/a')],
    [{ routes: [{ origin: '[::1]:80/a/' }] }, didYouMean('routes[0].origin', 'http://[::1]:80/a/')],
    [{ routes: [{ origin: '3000' }] }, didYouMean('routes[0].origin', 'http://127.0.0.1:3000')],
    [{ routes, store: { sendfile: 'yes' } }, 'store.sendfile: expected "auto", "on" or "off", found "yes"'],
    [{ routes: [{ origin: { host: 'keep' } }] }, 'routes[0].origin.url: is required'],
    [{ routes: [{ origin: 'http://example.org/?x' }] }, 'routes[0].origin: must not hold a query or a fragment'],
    [{ routes: [{ origin: { url: 'http://a/#x' } }] }, 'routes[0].origin.url: must not hold a query or a fragment'],
    [
      { routes: [{ origin: 'http://ada:lovelace@example.org' }] },
      'routes[0].origin: must not hold a user name or password',
    ],
    [
      { routes, limits: { upgrades: ['h2c'] } },
      'limits.upgrades[0]: is HTTP or TLS itself, which no rule could look into',
    ],
    [{ routes, limits: { methods: ['TRACE'] } }, 'limits.methods[0]: is never passed on'],
    [
      { routes: [{ origin: { url: 'http://a', host: 'http://b' } }] },
      'routes[0].origin.host: expected "auto", "origin", "keep" or a host name such as "media.example.org"',
    ],
    [
      { routes: [{ origin: { url: 'http://a', caFile: 'x', insecureTls: true } }] },
      'routes[0].origin.caFile: applies to an https:// origin only',
      'routes[0].origin.insecureTls: applies to an https:// origin only',
      'routes[0].origin.caFile: is not used while insecureTls is true',
    ],
    [
      { routes: [{ ...routes[0], match: { hosts: ['a', 'b:80', '*', '*.*.a'] } }] },
      ...[1, 2, 3].map((at) => `routes[0].match.hosts[${at}]: ${notAHost}`),
    ],
    [
      { routes: [{ ...routes[0], match: { pathPrefix: 'files' } }] },
      'routes[0].match.pathPrefix: expected a path that begins with "/", without query and spaces, found "files"',
    ],
    ...['/a//b', '/a\\b', '/a;b', '/a%2fb', '/a%5Cb', '/a%3b'].map((pathPrefix): [object, string] => [
      { routes: [{ ...routes[0], match: { pathPrefix } }] },
      'routes[0].match.pathPrefix: must not hold "//", "\\", ";" or their encoded forms',
    ]),
    [{ routes: [{ ...routes[0], stripPathPrefix: true }] }, 'routes[0].stripPathPrefix: needs match.pathPrefix'],
    [{ routes: [...routes, ...routes] }, 'routes[1].match: routes[0] serves every path of every host too'],
    [
      { routes: [{ ...routes[0], mach: {} }, ...routes, ...routes] },
      'routes[0].mach: unknown option "mach"; did you mean "match"?',
      'routes[2].match: routes[1] serves every path of every host too',
    ],
    [
      {
        routes: [
          { ...routes[0], match: { hosts: ['a', 'b'], pathPrefix: '/v' }, name: 'x' },
          { ...routes[0], match: { hosts: ['a', 'b'] } },
          { ...routes[0], match: { hosts: ['B'], pathPrefix: '/v' }, name: 'x' },
          { ...routes[0], match: { pathPrefix: '/v' } },
        ],
      },
      'routes[2].name: is the name of routes[0] too',
      'routes[2].match: routes[0] serves paths under "/v" of "b" too',
    ],
  ])('%j', (value, ...want) => expect(problemsOf(value)).toEqual(want));

  it('every problem at once, including conflicts of options', () => {
    const value = {
      colour: 'blue',
      store: { type: 'memory', dir: 'x', blockSizeBytes: 20_000 },
      routes: [...routes, { origin: 'no' }, 'no', routes[0]],
    };
    expect(problemsOf(value).map((problem) => problem.split(':', 1)[0])).toEqual([
      'store.blockSizeBytes',
      'store.dir',
      'routes[1].origin',
      'routes[2]',
      'routes[1].match',
      'routes[3].match',
      'colour',
    ]);
  });
});

describe('parseConfigText', () => {
  it('ignores a byte order mark', () => {
    expect(parseConfigText('\uFEFF{"a": 1}')).toEqual({ kind: 'ok', value: { a: 1 } });
  });

  it('reports line and column of a fault', () => {
    const problem = { path: '', message: 'line 3, column 3: expected "," or "}"' };
    expect(parseConfigText('{ // a\n  "a": 1\n  "b": 2,}')).toEqual({ kind: 'invalid', problems: [problem] });
  });
});

describe('loadConfig', () => {
  it('reads a file, and resolves its paths from its directory', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-config-test-'));
    try {
      const file = join(dir, 'rangeway.json');
      await writeFile(file, JSON.stringify({ store: { dir: 'cache' }, routes }));
      expect(await loadConfig(file)).toMatchObject({ kind: 'ok', config: { store: { dir: join(dir, 'cache') } } });
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it('reports why a file cannot be read', async () => {
    expect(await loadConfig('/nowhere/rangeway.json')).toEqual({
      kind: 'invalid',
      problems: [
        { path: '', message: "cannot be read: ENOENT: no such file or directory, open '/nowhere/rangeway.json'" },
      ],
    });
  });
});
