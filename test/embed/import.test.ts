/** A program that imports Rangeway and does not use it. */

import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { runProgram } from '../support/processes/programs.ts';

/** Prints how the process differs after the import of the module that is its argument. */
const program = `
  import 'node:http';
  import { createRequire } from 'node:module';
  // Node opens its standard output at the first use.
  process.stdout.write('');
  const look = () => ({
    resources: process.getActiveResourcesInfo().sort(),
    listeners: process.eventNames().map((name) => String(name) + ' ' + process.listenerCount(name)).sort(),
    globals: Reflect.ownKeys(globalThis).map(String).sort(),
    environment: { ...process.env },
    directory: process.cwd(),
    umask: process.umask(),
    title: process.title,
  });
  const before = look();
  await import(process.argv[1]);
  const after = look();
  after.globals = after.globals.filter((name) => !before.globals.includes(name));
  before.globals = [];
  const modules = Object.keys(createRequire(import.meta.url)('node:module')._cache);
  console.log(JSON.stringify({ before, after, modules }));`;

describe("import 'rangeway'", () => {
  it('opens nothing, changes nothing, and lets the process end', async () => {
    const entry = new URL('../../src/index.ts', import.meta.url).href;
    const directory = fileURLToPath(new URL('../..', import.meta.url));
    const run = await runProgram(process.execPath, ['--input-type=module', '--eval', program, entry], directory);
    const { before, after, modules } = JSON.parse(run.stdout.toString());
    // zod keeps its registry and its configuration there, for all copies of it in a process.
    const { globals, ...others } = after;
    expect(globals.filter((name: string) => !name.startsWith('__zod_'))).toEqual([]);
    expect({ ...others, globals: [] }).toEqual(before);
    // This module replaces the dispatcher of the program's own fetch, on Node 24.
    expect(modules).toContainEqual(expect.stringMatching(/undici\/lib\/dispatcher\/pool\.js$/));
    expect(modules).not.toContainEqual(expect.stringMatching(/undici\/lib\/global\.js$/));
  });
});
