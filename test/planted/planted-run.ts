/** Runs tests with planted faults: each fault in a copy of the checkout of its own, all of them as projects of one Vitest. */

import { access, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CliOptions, createVitest, type TestModule } from 'vitest/node';
import { isApart } from '../suites.ts';
import { copyCheckout, linkCopy } from '../support/processes/checkout.ts';
import type { WireName } from '../support/wire/wire-names.ts';
import { type PlantedFault, withFault } from './fault.ts';
import type { Failure, Outcome } from './report.ts';

export interface PlantedRunOptions {
  readonly maxWorkers: number;
  /** Called when the tests of a fault have ended, or all tests without a fault. */
  readonly onOutcome: (outcome: Outcome) => void;
  /** Aborted to stop the run. */
  readonly signal: AbortSignal;
}

/** The copy without a fault. */
const sound = 'sound';

/** Tests that wait for what a fault has prevented fail after this time, in milliseconds. */
const patienceMs = 20_000;
/** Tests without a fault may take as long as in `npm test`, in milliseconds. */
const usualPatienceMs = 60_000;

/** Copies the sound copy with a fault. Throws where the file does not have the text exactly once, or a test file is missing. */
async function plantIn(copy: string, soundCopy: string, fault: PlantedFault): Promise<void> {
  linkCopy(soundCopy, copy, fault.file);
  await writeFile(join(copy, fault.file), withFault(await readFile(join(soundCopy, fault.file), 'utf8'), fault));
  for (const test of fault.tests) await access(join(copy, 'test', test));
}

/** Runs the named tests of each fault with it, and all of them once without a fault. Throws where a fault cannot be planted. */
export async function runPlanted(faults: readonly PlantedFault[], options: PlantedRunOptions): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-planted-'));
  try {
    await copyCheckout(join(dir, sound));
    for (const fault of faults) await plantIn(join(dir, fault.name), join(dir, sound), fault);
    await runProjects(dir, faults, options);
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** A project of Vitest: the tests of one fault, or those of many that run together without a fault. */
interface Project {
  readonly name: string;
  readonly fault: PlantedFault | undefined;
  readonly copy: string;
  readonly wire: WireName | undefined;
  readonly isApart: boolean;
  readonly tests: readonly string[];
}

async function runProjects(dir: string, faults: readonly PlantedFault[], options: PlantedRunOptions): Promise<void> {
  const projects = [...soundProjects(faults), ...faults.map(projectOf)];
  const ended = new Map<string, TestModule[]>();
  const tell = (fault: PlantedFault | undefined): void => {
    const own = projects.filter((project) => project.fault === fault);
    const modules = own.flatMap(({ name }) => ended.get(name) ?? []);
    if (modules.length === own.flatMap(({ tests }) => tests).length) options.onOutcome(outcomeOf(fault, modules));
  };
  const vitestOptions: CliOptions = {
    root: dir,
    config: false,
    watch: false,
    maxWorkers: options.maxWorkers,
    // A fault may leave errors behind that no test waits for.
    dangerouslyIgnoreUnhandledErrors: true,
    reporters: [
      {
        onTestModuleEnd(module) {
          const { name } = module.project;
          ended.set(name, [...(ended.get(name) ?? []), module]);
          tell(projects.find((project) => project.name === name)?.fault);
        },
      },
    ],
    projects: projects.map(({ name, fault, copy, wire, isApart, tests }) => ({
      extends: true,
      test: {
        name,
        testTimeout: fault ? patienceMs : usualPatienceMs,
        hookTimeout: fault ? patienceMs : usualPatienceMs,
        setupFiles: [
          join(dir, copy, 'test/support/seed.ts'),
          ...(fault ? [join(dir, copy, 'test/planted/stop-when-found.ts')] : []),
        ],
        include: tests.map((test) => `${copy}/test/${test}`),
        isolate: isApart,
        env: wire === undefined ? {} : { RANGEWAY_WIRE: wire },
      },
    })),
  };
  // The copies consist of links. Modules are known by the names of the links, so that imports stay within their copy.
  const vitest = await createVitest(vitestOptions, { resolve: { preserveSymlinks: true } });
  options.signal.addEventListener('abort', () => void vitest.close(), { once: true });
  try {
    await vitest.start();
  } finally {
    await vitest.close();
  }
}

function projectOf(fault: PlantedFault): Project {
  const { name, wire, tests } = fault;
  return { name, fault, copy: name, wire, isApart: tests.some(isApartTest), tests };
}

/** The tests of all faults once, over each wire that they are named for. */
function soundProjects(faults: readonly PlantedFault[]): readonly Project[] {
  const groups = Map.groupBy(faults, ({ wire, tests }) =>
    [sound, wire, tests.some(isApartTest) ? 'apart' : undefined].filter((part) => part !== undefined).join('-'),
  );
  return [...groups].map(([name, group]) => ({
    name,
    fault: undefined,
    copy: sound,
    wire: group[0]?.wire,
    isApart: group.some(({ tests }) => tests.some(isApartTest)),
    tests: [...new Set(group.flatMap(({ tests }) => tests))],
  }));
}

function isApartTest(test: string): boolean {
  return isApart(`test/${test}`);
}

function outcomeOf(fault: PlantedFault | undefined, modules: readonly TestModule[]): Outcome {
  const failures: Failure[] = [];
  const broken: string[] = [];
  let passed = 0;
  for (const module of modules) {
    const file = module.relativeModuleId.replace(/^.*?\/test\//, '');
    for (const test of module.children.allTests()) {
      const { state, errors } = test.result();
      if (state === 'passed') passed += 1;
      if (state === 'failed') failures.push({ file, test: test.fullName, message: errors[0]?.message ?? '' });
    }
    broken.push(...module.errors().map(({ message }) => `${file}: ${message}`));
  }
  return { fault, failures, broken, passed };
}
