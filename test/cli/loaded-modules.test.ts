/** Which packages a start of the program loads: each costs processor time at every start. */

import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const executable = fileURLToPath(new URL('../../bin/rangeway.js', import.meta.url));
const dir = mkdtempSync(join(tmpdir(), 'rangeway-loaded-modules-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

const list = join(dir, 'loaded.txt');
const preload = join(dir, 'preload.mjs');
writeFileSync(
  preload,
  `import { writeFileSync } from 'node:fs';
   import { registerHooks } from 'node:module';
   const loaded = [];
   registerHooks({
     load(url, context, nextLoad) {
       loaded.push(url);
       return nextLoad(url, context);
     },
   });
   process.on('exit', () => writeFileSync(${JSON.stringify(list)}, loaded.join('\\n')));`,
);

const env = { ...process.env, SECRET: `k1:${'s'.repeat(40)}` };

/** Names a server that does not run, so that a command finds no other one. */
const nowhere = ['--dir', join(dir, 'store')];

function config(name: string, value: object): string {
  const path = join(dir, name);
  writeFileSync(path, JSON.stringify({ routes: [{ origin: 'http://127.0.0.1:3000' }], ...value }));
  return path;
}

/** Runs the executable to its end, and returns the packages that it has loaded, and whether it has loaded the server. */
function loadedBy(...argv: string[]) {
  const { error } = spawnSync(process.execPath, ['--import', preload, executable, ...argv], {
    env,
    input: 'a password\n',
  });
  if (error !== undefined) throw error;
  const urls = readFileSync(list, 'utf8').split('\n');
  rmSync(list);
  const packages = urls.flatMap((url) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? []);
  return { packages: [...new Set(packages)].sort(), server: urls.some((url) => url.endsWith('/src/main.ts')) };
}

describe('a start loads', () => {
  it.each([
    [['--version']],
    [['--help']],
    [['ls', '--help']],
    [['completion', 'bash']],
    [['purge', '/film.mp4', ...nowhere]],
    [['reload', ...nowhere]],
    [['health', ...nowhere]],
    [['dashboard', ...nowhere]],
    [['health', '--admin', '127.0.0.1:1', '--token', 'env:SECRET']],
    [['explain', '/film.mp4', ...nowhere]],
    [['sign', 'http://127.0.0.1/film.mp4', '--secret', 'env:SECRET']],
  ])('for %j the parser of the command line and nothing else', (argv) => {
    expect(loadedBy(...argv)).toEqual({ packages: ['commander', 'leven'], server: false });
  });

  it.each([[['ls', ...nowhere]], [['top', ...nowhere]]])('for %j no server and no schema', (argv) => {
    const { packages, server } = loadedBy(...argv);
    expect(server).toBe(false);
    expect(packages).toContain('string-width');
    expect(packages).not.toContain('zod');
  });

  it('for hash-password no server and no schema', () => {
    expect(loadedBy('hash-password')).toEqual({ packages: ['commander', 'leven', 'lru-cache'], server: false });
  });

  it.each(['reload --config', 'check'])('for %s FILE the schemas, and no server', (command) => {
    const argv = [...command.split(' '), config('good.json', {})];
    expect(loadedBy(...argv)).toEqual({ packages: ['commander', 'leven', 'zod'], server: false });
  });

  it('for a server no package that only other commands or metrics need', () => {
    // It fails as soon as all is loaded.
    const listen = `unix:${join(dir, 'missing', 'socket')}`;
    const { packages, server } = loadedBy('--config', config('server.json', { listen, store: { type: 'memory' } }));
    expect(server).toBe(true);
    expect(packages).toContain('pino');
    for (const name of ['prom-client', 'string-width']) expect(packages).not.toContain(name);
  });
});
