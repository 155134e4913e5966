import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { wireNames } from './test/support/wire/wire-names.ts';

/** Random tests run fewer times over wires, which are slow, unless a number is stated. */
const { RANGEWAY_TEST_RUNS = '10' } = process.env;

/** Compile cache that all started processes share, so that each source file is compiled once. */
const NODE_COMPILE_CACHE = fileURLToPath(new URL('node_modules/.cache/node-compile-cache', import.meta.url));

/** Test files that take long, need other programs, or repeat suites over other wires: see test/README.md. */
const thorough = [
  'test/bench/road.test.ts',
  'test/clients/*.test.ts',
  'test/dashboard/{browser,scale}.test.ts',
  'test/faults/*.test.ts',
  'test/contract/shared-store.test.ts',
  'test/contract/redis-{store,cluster,local}.test.ts',
  'test/store/{redis-store,redis-client,local-tier}.test.ts',
  'test/listener/http1/given-back.test.ts',
  'test/origin/timeouts.test.ts',
  'test/process/{client-limits,fields,large-body,leaks,load,local-tier,log,machines}.test.ts',
  'test/process/ranges-from-disk.test.ts',
  'test/process/{reload,secrets,systemd,terminal-output,workers,workers-fill}.test.ts',
  'test/recipes/!(index).test.ts',
  'test/scenario/{random-ranges,random-traffic-disk,random-traffic-engine}.test.ts',
  'test/store/{disk-store-kill,sharing-processes}.test.ts',
  'test/wire/http2-storm.test.ts',
  'test/wire/over-*.test.ts',
];

/** Test files of the packages, which are built for them. */
const packages = ['test/packages/*.test.ts'];

/** Test files that each run in their own process: they change global state, or count resources of the process. */
const apart = [
  // They change the default carrier of listeners.
  'test/wire/over-*.test.ts',
  // It counts executed code by V8's coverage.
  'test/fuzz/fuzzer.test.ts',
  // They count memory.
  'test/guard/debts-memory.test.ts',
  'test/hostile/kept-texts.test.ts',
  // They count descriptors, sockets and timers.
  'test/setup/succession.test.ts',
  'test/store/disk-store-fault.test.ts',
];

/** The packages are built once for all tests of them, and only where such a test runs. */
const packagesProject = {
  extends: true as const,
  test: { name: 'packages', include: packages, globalSetup: 'test/support/packages/build-packages.ts' },
};

const excluding = (files: readonly string[]): string[] => files.map((pattern) => `!${pattern}`);

/**
 * The modes: `test`, the default, is what `npm test` runs; `all` is everything; `rest` is everything that `test` leaves out.
 */
export default defineConfig(({ mode }) => {
  const isQuick = mode === 'test';
  const tests = mode === 'rest' ? thorough : ['test/**/*.test.ts', ...(isQuick ? excluding(thorough) : [])];
  const apartNow = apart.filter((pattern) => mode === 'all' || thorough.includes(pattern) === (mode === 'rest'));
  return {
    test: {
      env: { NODE_COMPILE_CACHE },
      // Test files share the modules of a process: loading the modules for each file took a fifth of the time.
      isolate: false,
      // Most tests wait for sockets, timers and processes: one file more than there are cores keeps all cores busy.
      maxWorkers: availableParallelism() + 1,
      setupFiles: ['./test/support/seed.ts'],
      reporters: ['./test/support/reports/folder-reporter.ts'],
      // Long timeouts: a busy machine delays the events that a test waits for.
      testTimeout: 180_000,
      hookTimeout: 180_000,
      expect: { poll: { timeout: 60_000 } },
      projects: [
        { extends: true, test: { name: 'tests', include: [...tests, ...excluding([...apart, ...packages])] } },
        { extends: true, test: { name: 'apart', include: apartNow, isolate: true } },
        ...(isQuick ? [] : [packagesProject]),
        // The scenarios again, with a listener, sockets and a strict client between the client and the proxy.
        ...(isQuick ? [] : wireNames).map((name) => ({
          extends: true as const,
          test: {
            name,
            // Random traffic over an engine tests the store, and starts the engine: once is enough.
            include: ['test/scenario/!(random-traffic-engine).test.ts'],
            env: { NODE_COMPILE_CACHE, RANGEWAY_WIRE: name, RANGEWAY_TEST_RUNS },
          },
        })),
      ],
    },
  };
});
