/** The dependency rules of src: which folders and packages a file may import, and which code must stay pure. */

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../src/', import.meta.url));

/** From the top down: a layer imports only from layers below it. Files of one folder may import each other. */
const layers = [
  ['cli'],
  ['index.ts'],
  ['embed'],
  ['main.ts', 'fleet-main.ts', 'worker-main.ts'],
  ['setup'],
  ['fleet'],
  ['admin'],
  ['listener'],
  ['proxy.ts'],
  ['hit.ts'],
  ['prefetch'],
  ['guard'],
  ['routing'],
  ['delivery'],
  ['cache'],
  ['origin'],
  ['store'],
  ['semantics'],
  ['media'],
  ['http'],
  ['bytes'],
  ['config', 'telemetry'],
];

/** Layers within a folder, from the top down, by the same rule. `.`: the other files of the folder. */
const rooms: Readonly<Record<string, readonly string[]>> = {
  setup: [
    'telemetry.ts',
    'running-server.ts',
    'operations.ts',
    'server.ts',
    'reload.ts',
    'listeners.ts',
    'site.ts',
    'gate.ts',
    'origin.ts',
    'inheritance.ts',
    'admin.ts',
    'engine-fleet.ts',
    'store.ts',
    'redis-engine.ts',
    'move-to-socket.ts',
    'tls-files.ts',
    'secrets.ts',
    'dashboard-files.ts',
    'system.ts',
    'package-files.ts',
  ],
  embed: [
    'rangeway.ts',
    'embedded-config.ts',
    'fetch-exchange.ts',
    'node-adapter.ts',
    'node-exchange.ts',
    'node-reception.ts',
    'owned-memory.ts',
    'running-exchanges.ts',
  ],
  fleet: [
    'engine',
    'supervisor.ts',
    'operations.ts',
    'worker-slot.ts',
    'supervisor-sockets.ts',
    'worker-sockets.ts',
    'peer-server.ts',
    'peer-client.ts',
    'peer-messages.ts',
    'peer-connection.ts',
    'leases.ts',
    'channel.ts',
  ],
  'fleet/engine': [
    'engine-fleet.ts',
    'engine-leases.ts',
    'message-log.ts',
    'peer-network.ts',
    'stored-bytes.ts',
    'fleet-engine.ts',
  ],
  listener: [
    'accept',
    'http1',
    'http2',
    'tunnel.ts',
    'https-redirect.ts',
    'protocol.ts',
    'respond.ts',
    'receive.ts',
    'message-body.ts',
    'request-head.ts',
    'timeouts.ts',
    'write-buffer.ts',
    'listener.ts',
  ],
  guard: ['explain.ts', 'admit.ts', 'gate.ts', 'purge.ts', 'access', 'limits', 'fields', 'client.ts'],
  origin: ['observed-origin.ts', 'group', 'http2', '.'],
  store: ['tiered', 'redis', 'disk', 'memory', '.'],
  'store/disk': ['.', 'space', 'index', 'bodies'],
  cache: [
    'cache.ts',
    'explain',
    'answers',
    'peers',
    'fetch',
    'invalidate',
    'context.ts',
    'collapse',
    'fleet.ts',
    'fill',
    'read',
    'lookup',
    'inquiry.ts',
    'answer.ts',
  ],
};

/** The files that may import each package. */
const packages: Readonly<Record<string, RegExp>> = {
  '@redis/client': /^store\/redis\/engine-links\.ts$/,
  '@smithy/signature-v4': /^origin\/signed-origin\.ts$/,
  commander: /^cli\//,
  '@opentelemetry/api': /^telemetry\/tracing\.ts$/,
  'http-proxy-3': /^listener\/tunnel\.ts$/,
  leven: /^config\//,
  'lru-cache': /^(store\/memory|guard|prefetch)\//,
  pino: /^telemetry\/log\.ts$/,
  'pino-pretty': /^telemetry\/log\.ts$/,
  'prom-client': /^telemetry\/metrics\.ts$/,
  'range-parser': /^semantics\/range\.ts$/,
  sax: /^media\/xml\.ts$/,
  'string-width': /^cli\/terminal\/style\.ts$/,
  'structured-headers': /^semantics\/structured-fields\.ts$/,
  undici: /^origin\/undici-(origin|parser)\.ts$/,
  'undici/lib/core/connect.js': /^origin\/undici-origin\.ts$/,
  'undici/lib/core/errors.js': /^origin\/undici-(origin|parser)\.ts$/,
  'undici/lib/dispatcher/client.js': /^origin\/undici-origin\.ts$/,
  'undici/lib/dispatcher/pool.js': /^origin\/undici-origin\.ts$/,
  zod: /^(config|admin)\//,
};

/** Files that may import only events.ts of telemetry. Only the others, which put a server together, may import loggers. */
const eventsOnly = /^(?!cli\/|main\.ts|fleet-main\.ts|worker-main\.ts|setup\/|telemetry\/)/;

/** Exported types, classes, functions and constants. */
const exportedName = /^export (?:abstract )?(?:async )?(?:const|function\*?|class|interface|type|enum) (\w+)/gm;

const bannedNames = new Set(['utils', 'helpers', 'common', 'shared', 'misc', 'manager', 'types']);

/** Static imports and re-exports at the start of a line, and dynamic imports of a literal. */
const importStatement = /^(?:import|export)\s(?:[^'"=;()]*?\sfrom\s+)?'([^']+)'|\bimport\('([^']+)'\)/gm;

/** A function literal assigned to a property: V8 treats it as old at once, and everything that it captures too. */
const oldFunction = /[\w\])]\.#?\w+ (?:\?\?)?= (?:async )?(?:\([^()]*\)|\w+)(?:: [^=\n]+)? =>/;

/** The files that a request executes. */
const requestRoad = /^(?:hit\.ts$|(?:listener|prefetch|guard|routing|delivery|cache|origin|store|semantics|http)\/)/;

/** Files that make such functions once per connection, or only for a request that has to wait. */
const notForEachRequest = new Set([
  'guard/limits/limited-origin.ts',
  'listener/http1/connection.ts',
  'listener/accept/open-listener.ts',
  'listener/accept/tls.ts',
  'origin/early-answer.ts',
  'origin/tls-closure.ts',
  'origin/undici-parser.ts',
]);

interface SourceFile {
  readonly name: string;
  readonly text: string;
  readonly lines: number;
  readonly imports: readonly string[];
}

const files: readonly SourceFile[] = readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith('.ts'))
  .map((entry) => {
    const path = join(entry.parentPath, entry.name);
    const text = readFileSync(path, 'utf8');
    const specifiers = [...text.matchAll(importStatement)];
    return {
      name: relative(root, path),
      text,
      lines: text.split('\n').length - 1,
      imports: specifiers.map(([, from, dynamic]) => from ?? dynamic ?? ''),
    };
  });

function resolved(file: SourceFile, specifier: string): string {
  return relative(root, join(dirname(join(root, file.name)), specifier));
}

function layerOf(name: string): number {
  const place = name.includes('/') ? name.slice(0, name.indexOf('/')) : name;
  return layers.findIndex((layer) => layer.includes(place));
}

/** Returns the imports of all files, relative or of packages, each with its file. */
function importsOf(isRelative: boolean): { file: SourceFile; specifier: string }[] {
  return files.flatMap((file) =>
    file.imports
      .filter((specifier) => specifier.startsWith('.') === isRelative)
      .map((specifier) => ({ file, specifier })),
  );
}

describe('the architecture of src', () => {
  it('finds the source', () => {
    expect(files.length).toBeGreaterThan(40);
    expect(importsOf(true).length).toBeGreaterThan(100);
  });

  it('knows every place', () => {
    expect(files.filter((file) => layerOf(file.name) === -1).map((file) => file.name)).toEqual([]);
  });

  it('assigns no function literal to a property per request (docs/performance.md)', () => {
    const road = files.filter(({ name }) => requestRoad.test(name) && !notForEachRequest.has(name));
    expect(oldFunction.test('this.#wake = (isPaid: boolean) => end(isPaid);')).toBe(true);
    expect(road.filter(({ text }) => oldFunction.test(text)).map(({ name }) => name)).toEqual([]);
  });

  it('imports downwards only', () => {
    const upward = importsOf(true)
      .map(({ file, specifier }) => ({ from: file.name, to: resolved(file, specifier) }))
      .filter(({ from, to }) => {
        const isSamePlace = from.split('/')[0] === to.split('/')[0] && from.includes('/');
        return !isSamePlace && layerOf(to) <= layerOf(from);
      })
      .map(({ from, to }) => `${from} → ${to}`);
    expect(upward).toEqual([]);
  });

  it.each(Object.entries(rooms))('imports downwards only within %s', (folder, order) => {
    const levelOf = (name: string): number => {
      const first = name.slice(folder.length + 1).split('/')[0] ?? '';
      const level = order.indexOf(first);
      return level !== -1 || !first.endsWith('.ts') ? level : order.indexOf('.');
    };
    const inside = files.filter(({ name }) => name.startsWith(`${folder}/`));
    const upward = inside.flatMap((file) =>
      file.imports
        .map((specifier) => (specifier.startsWith('.') ? resolved(file, specifier) : ''))
        .filter((to) => to.startsWith(`${folder}/`) && levelOf(to) < levelOf(file.name))
        .map((to) => `${file.name} → ${to}`),
    );
    expect(inside.filter(({ name }) => levelOf(name) === -1).map(({ name }) => name)).toEqual([]);
    expect(upward).toEqual([]);
  });

  it('has no import cycle', () => {
    const edges = new Map(
      files.map((file) => [
        file.name,
        file.imports.filter((specifier) => specifier.startsWith('.')).map((specifier) => resolved(file, specifier)),
      ]),
    );
    const cycles: string[] = [];
    const done = new Set<string>();
    const visit = (name: string, path: readonly string[]): void => {
      const at = path.indexOf(name);
      if (at !== -1) cycles.push([...path.slice(at), name].join(' → '));
      if (at !== -1 || done.has(name)) return;
      for (const next of edges.get(name) ?? []) visit(next, [...path, name]);
      done.add(name);
    };
    for (const name of edges.keys()) visit(name, []);
    expect(cycles).toEqual([]);
  });

  it('imports each package only in the files for it', () => {
    const strays = importsOf(false)
      .filter(({ specifier }) => !specifier.startsWith('node:'))
      .filter(({ file, specifier }) => packages[specifier]?.test(file.name) !== true)
      .map(({ file, specifier }) => `${file.name} → ${specifier}`);
    expect(strays).toEqual([]);
  });

  it('uses every package', () => {
    const used = new Set(importsOf(false).map(({ specifier }) => specifier));
    expect(Object.keys(packages).filter((name) => !used.has(name))).toEqual([]);
  });

  it('imports node:http, node:net and their kin only where connections are made, and where addresses are parsed', () => {
    const strays = importsOf(false)
      .filter(({ specifier }) => /^node:(http|https|http2|net|tls|dgram)$/.test(specifier))
      .filter(
        ({ file }) => !/^(embed|listener|admin|fleet|cli\/demo|cli\/admin|cli\/doctor|cli\/warm)\//.test(file.name),
      )
      // Connections to origins.
      .filter(({ file }) => !/^origin\/(http2\/[\w-]+|undici-origin|early-answer|tls-closure)\.ts$/.test(file.name))
      .filter(({ file }) => !/^(config\/address|guard\/client)\.ts$/.test(file.name))
      .map(({ file, specifier }) => `${file.name} → ${specifier}`);
    expect(strays).toEqual([]);
  });

  it('keeps loggers out of the core', () => {
    // Redaction is a rule about texts: a key is found by the text that it was shown as.
    const isPlain = (to: string) => to === 'telemetry/events.ts' || to === 'telemetry/redact.ts';
    const strays = importsOf(true)
      .map(({ file, specifier }) => ({ from: file.name, to: resolved(file, specifier) }))
      .filter(({ from, to }) => eventsOnly.test(from) && to.startsWith('telemetry/') && !isPlain(to))
      .map(({ from, to }) => `${from} → ${to}`);
    expect(strays).toEqual([]);
  });

  it.each(['semantics', 'http', 'bytes'])('keeps clocks, randomness and I/O out of %s', (place) => {
    const impure = files
      .filter((file) => file.name.startsWith(`${place}/`))
      .filter(
        (file) =>
          /\b(Date\.now|Math\.random|performance\.now|setTimeout|setInterval|process\.)/.test(file.text) ||
          file.imports.some((specifier) => specifier.startsWith('node:')),
      )
      .map((file) => file.name);
    expect(impure).toEqual([]);
  });

  it('reads clocks and randomness only in the outermost files', () => {
    const strays = files
      .filter((file) => !/^(main\.ts|setup\/system\.ts|cli\/)/.test(file.name))
      .filter((file) => /\b(Date\.now\(|Math\.random\(|performance\.now\(|new Date\(\))/.test(file.text))
      .map((file) => file.name);
    expect(strays).toEqual([]);
  });

  it('keeps proxy.ts within 80 lines', () => {
    expect(files.find((file) => file.name === 'proxy.ts')?.lines).toBeLessThanOrEqual(80);
  });

  it('has a header in each file', () => {
    expect(files.filter((file) => !file.text.startsWith('/**')).map((file) => file.name)).toEqual([]);
  });

  it('declares each exported name once', () => {
    const places = new Map<string, string[]>();
    for (const { name, text } of files) {
      for (const [, exported = ''] of text.matchAll(exportedName)) {
        places.set(exported, [...(places.get(exported) ?? []), name]);
      }
    }
    expect(places.size).toBeGreaterThan(500);
    const several = [...places].filter(([, names]) => new Set(names).size > 1);
    expect(several.map(([exported, names]) => `${exported}: ${names.join(', ')}`)).toEqual([]);
  });

  it('has no meaningless names', () => {
    const banned = files.filter((file) => file.name.split(/[/.]/).some((word) => bannedNames.has(word)));
    expect(banned.map((file) => file.name)).toEqual([]);
  });
});

/** The files of src whose code a browser can run too, so that the dashboard uses the words of the commands. */
const sharedWithBrowser = new Set(['src/cli/admin/explain-text.ts', 'src/cli/text-sections.ts']);

describe('the architecture of the dashboard', () => {
  const project = join(root, '..');
  const sources = readdirSync(join(project, 'dashboard/src'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => relative(project, join(entry.parentPath, entry.name)));
  const statements = sources.flatMap((name) =>
    [...readFileSync(join(project, name), 'utf8').matchAll(importStatement)].map(([text, from = '']) => ({
      name,
      isType: /^(?:import|export) type\b/.test(text),
      to: from.startsWith('.') ? relative(project, join(project, dirname(name), from)) : from,
    })),
  );

  it('finds the source', () => expect(statements.length).toBeGreaterThan(80));

  it('imports from the server only types, and code that a browser can run', () => {
    const strays = statements
      .filter(({ to, isType }) => to.startsWith('src/') && !isType && !sharedWithBrowser.has(to))
      .map(({ name, to }) => `${name} → ${to}`);
    expect(strays).toEqual([]);
    const needsNode = [...sharedWithBrowser].filter((name) =>
      /from 'node:|\bBuffer\b/.test(readFileSync(join(project, name), 'utf8')),
    );
    expect(needsNode).toEqual([]);
  });

  it('bundles two packages', () => {
    const packagesOf = statements.map(({ to }) => to).filter((to) => !/^(?:dashboard|src)\//.test(to));
    expect(new Set(packagesOf)).toEqual(new Set(['preact', 'preact/hooks', 'uplot']));
  });

  it('keeps the document and the network out of its model', () => {
    const impure = sources
      .filter((name) => name.startsWith('dashboard/src/model/'))
      .filter((name) =>
        /\b(?:document|window|location)\.|\b(?:fetch|setTimeout)\(|\bDate\.now|\bMath\.random/.test(
          readFileSync(join(project, name), 'utf8'),
        ),
      );
    expect(impure).toEqual([]);
  });

  it('is imported by no file of the server', () => {
    expect(
      importsOf(true).filter(({ file, specifier }) => resolved(file, specifier).startsWith('../dashboard')),
    ).toEqual([]);
  });
});

/** Reads of a clock, and timers: of JavaScript, and of a shell. A method such as `socket.setTimeout` and a turn of the event loop are none. */
const timing =
  /(?<![.\w])set(?:Timeout|Interval)\(|AbortSignal\.timeout\(|performance\.now\b|scheduler\.wait\(|\bsleep \d|import \{ (?!setImmediate\b)[^}]*\} from '(?:node:)?timers/;

/** The files of `test/` that may: each with the reason. `soak/` lives by the clock. */
const timed: Readonly<Record<string, string>> = {
  'clients/matrix/client.ts': 'gives up a program that hangs',
  'clients/matrix/relay.ts': 'measures what a table of the documents shows',
  'conformance/run.ts': 'gives up a suite that hangs',
  'embed/close.test.ts': 'polls in a program without imports',
  'faults/fleet.test.ts': 'faults that last, for as long as it is told',
  'faults/kill.test.ts': 'knows what the store must have written by the time of a kill',
  'fuzz/run.ts': 'a command that runs for as long as it is told',
  'reference/node-connection.ts': "a server's own time limit",
  'support/clocks/drip.ts': 'a peer whose slowness is the subject',
  'support/clocks/real-clock.ts': 'the clock of tests over sockets',
  'support/clocks/until.ts': 'polls',
  'support/engines/tcp-relay.ts': 'a line whose slowness is the subject',
  'support/origins/faulty-origin.ts': 'an origin whose slowness is the subject',
  'support/origins/versioned-origin.ts': 'an origin whose slowness is the subject',
  'support/processes/lock-holder.ts': 'keeps a process alive',
  'support/processes/rangeway-process.ts': 'gives up a process that hangs',
};

describe('the tests', () => {
  const tests = fileURLToPath(new URL('.', import.meta.url));
  const isLooked = (name: string) => name.endsWith('.ts') && !/(?:^|\/)node_modules\/|^soak\/|^architecture/.test(name);
  const timers = readdirSync(tests, { recursive: true, encoding: 'utf8' })
    .filter(isLooked)
    .filter((name) => timing.test(readFileSync(join(tests, name), 'utf8')));

  it('neither sleep nor measure time: they wait for the event itself, or move a clock', () => {
    expect(timers.filter((name) => timed[name] === undefined)).toEqual([]);
  });

  it('are allowed a clock only where one is used', () => {
    expect(Object.keys(timed).filter((name) => !timers.includes(name))).toEqual([]);
  });
});
