import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { wireNames } from './test/support/wire/wire-names.ts';

/** Chance is given fewer tries over wires, which are slow; a number that is asked for holds for them too. */
const { RANGEWAY_TEST_RUNS = '30' } = process.env;

/** The processes that are started run our source, which need not be made ready for each of them anew. */
const NODE_COMPILE_CACHE = fileURLToPath(new URL('node_modules/.cache/node-compile-cache', import.meta.url));

/** These have a process each: they change all of it, or count what it has. */
const apart = [
  // What carries listeners.
  'test/wire/over-*.test.ts',
  // What has run, as V8 counts it.
  'test/fuzz/fuzzer.test.ts',
  // Memory.
  'test/hostile/kept-texts.test.ts',
  // Descriptors, sockets and timers.
  'test/setup/succession.test.ts',
  'test/store/disk-store-fault.test.ts',
];

export default defineConfig({
  test: {
    env: { NODE_COMPILE_CACHE },
    // All that our modules remember they would find out again, so that test files can share them: reading them anew took a fifth of the time.
    isolate: false,
    // What is waited for comes soon, but on a machine that is busy with something else.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 20_000 } },
    projects: [
      { extends: true, test: { name: 'tests', include: ['test/**/*.test.ts', ...apart.map((files) => `!${files}`)] } },
      { extends: true, test: { name: 'apart', include: apart, isolate: true } },
      // The scenarios once more, with a listener, sockets and a strict client between the client and the proxy.
      ...wireNames.map((name) => ({
        extends: true as const,
        test: {
          name,
          include: ['test/scenario/*.test.ts'],
          env: { NODE_COMPILE_CACHE, RANGEWAY_WIRE: name, RANGEWAY_TEST_RUNS },
        },
      })),
    ],
  },
});
