import { accessSync, constants, statfsSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { apart, carried, carriedRandom, packages, quickWires, thorough } from './test/suites.ts';
import { wireNames } from './test/support/wire/wire-names.ts';

/** Random tests run fewer times over wires, which are slow, unless a number is stated. */
const { RANGEWAY_TEST_RUNS = '10' } = process.env;

/** Compile cache that all started processes share, so that each source file is compiled once. */
const NODE_COMPILE_CACHE = fileURLToPath(new URL('node_modules/.cache/node-compile-cache', import.meta.url));

/** Where `npm test` writes: in memory where there is room, which saves a sixth of its processor time and all waiting for disks. */
const memoryDir = '/dev/shm';
const neededBytes = 2 * 1024 ** 3;

function directoryOfQuickTests(): string {
  try {
    accessSync(memoryDir, constants.W_OK);
    const { bavail, bsize } = statfsSync(memoryDir);
    return bavail * bsize >= neededBytes ? memoryDir : tmpdir();
  } catch {
    return tmpdir();
  }
}

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
  const env = { NODE_COMPILE_CACHE, ...(isQuick && { TMPDIR: directoryOfQuickTests() }) };
  const apartNow = apart.filter((pattern) => mode === 'all' || thorough.includes(pattern) === (mode === 'rest'));
  return {
    test: {
      env,
      // Test files share the modules of a process: loading the modules for each file took a fifth of the time.
      isolate: false,
      // Most tests wait for sockets, timers and processes: one file more than there are cores keeps all cores busy.
      maxWorkers: availableParallelism() + 1,
      setupFiles: ['./test/support/seed.ts'],
      reporters: ['./test/support/reports/folder-reporter.ts'],
      // Long timeouts: a busy machine delays the events that a test waits for.
      testTimeout: 60_000,
      hookTimeout: 60_000,
      expect: { poll: { timeout: 20_000 } },
      projects: [
        { extends: true, test: { name: 'tests', include: [...tests, ...excluding([...apart, ...packages])] } },
        { extends: true, test: { name: 'apart', include: apartNow, isolate: true } },
        ...(isQuick ? [] : [packagesProject]),
        // Some scenarios again, with a listener, sockets and a strict client between the client and the proxy.
        ...(isQuick ? quickWires : wireNames).map((name) => ({
          extends: true as const,
          test: {
            name,
            include: [
              ...(mode === 'rest' && quickWires.includes(name) ? [] : carried),
              ...(isQuick ? [] : carriedRandom),
            ],
            env: { ...env, RANGEWAY_WIRE: name, RANGEWAY_TEST_RUNS },
          },
        })),
      ],
    },
  };
});
