import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

const executable = fileURLToPath(new URL('../../bin/rangeway.js', import.meta.url));
const dir = mkdtempSync(join(tmpdir(), 'rangeway-executable-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

/** Runs the executable after some preloaded code, and returns its exit code and output. */
function runAfter(preloaded: string, ...argv: string[]) {
  return runIn(process.env, preloaded, ...argv);
}

/** Does the same as runAfter in the environment `env`. */
function runIn(env: NodeJS.ProcessEnv, preloaded: string, ...argv: string[]) {
  const preload = join(dir, 'preload.cjs');
  writeFileSync(preload, preloaded);
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--require', preload, executable, ...argv], {
    encoding: 'utf8',
    env,
  });
  return { status, stdout, stderr };
}

/** Creates a copy of the checkout without its dependencies. */
function createCheckout(): string {
  const checkout = mkdtempSync(join(dir, 'checkout-'));
  for (const name of ['bin', 'src', 'package.json']) {
    cpSync(join(dirname(executable), '..', name), join(checkout, name), { recursive: true });
  }
  return checkout;
}

/** Runs an npm script with the Node of this test, and these options of every Node. */
function runNpm(checkout: string, script: string, options: string) {
  const { PATH = '' } = process.env;
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${PATH}`, NODE_OPTIONS: options };
  const { status, stderr } = spawnSync('npm', ['--silent', ...script.split(' ')], {
    encoding: 'utf8',
    cwd: checkout,
    env,
  });
  return { status, stderr };
}

function oldNodeLine(version: string): string {
  const install = 'Install Node 26 (https://nodejs.org), or run "npm ci" and then "npm start -- …" in this checkout';
  return `rangeway needs Node 24 or newer; ${process.execPath} is ${version}. ${install}: it brings its own.\n`;
}

function pretendVersion(version: string): string {
  return `
    Object.defineProperty(process, 'version', { value: 'v${version}' });
    Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } });
  `;
}

describe('bin/rangeway.js', () => {
  it.each(['12.22.12', '20.20.2', '23.11.1'])('refuses Node %s in one line', (version) => {
    expect(runAfter(pretendVersion(version), '--version')).toEqual({
      status: 1,
      stdout: '',
      stderr: oldNodeLine(`v${version}`),
    });
  });

  it('has no syntax that an old Node cannot read', () => {
    const text = readFileSync(executable, 'utf8').replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '');
    // Nullish coalescing and assignment, optional chaining, private members, static blocks, regular expressions with v, digits
    // with _, `await` at the top level.
    const newer = /\?\?|\?\.\D|&&=|\|\|=|\.#|\bstatic \{|\/v\b|\d_\d|^await\b/m;
    for (const line of ['a ??= 1;', 'b?.c();', 'const big = 1_000;', 'await import(x);']) expect(line).toMatch(newer);
    expect(text).toContain('import(');
    expect(text).not.toMatch(newer);
  });

  it.each([
    ['npm start', 'start'],
    ['npm run demo', 'run demo'],
  ])('%s says the same in a checkout without dependencies, at once', (_line, script) => {
    const checkout = createCheckout();
    const preload = join(dir, 'old.cjs');
    // npm itself runs with the version that it has.
    writeFileSync(preload, `if (/rangeway\\.js$/.test(process.argv[1])) {${pretendVersion('20.20.2')}}`);
    expect(runNpm(checkout, script, `--require ${preload}`)).toEqual({ status: 1, stderr: oldNodeLine('v20.20.2') });
  });

  it('says that the dependencies of a checkout are missing', () => {
    expect(runNpm(createCheckout(), 'start', '')).toEqual({
      status: 1,
      stderr: 'rangeway: its dependencies are not installed: run "npm ci" in this checkout first\n',
    });
  });

  it.each(['24.0.0', '100.1.0'])('accepts Node %s', (version) => {
    expect(runAfter(pretendVersion(version), '--version')).toMatchObject({ status: 0, stderr: '' });
  });

  it('silences the experimental warning of node:sqlite, and no other', () => {
    const warnWhenSilenced = `
      let { emitWarning } = process;
      Object.defineProperty(process, 'emitWarning', { get: () => emitWarning, set: (silenced) => {
        emitWarning = silenced;
        process.emitWarning('SQLite is an experimental feature and might change at any time', 'ExperimentalWarning');
        process.emitWarning('SQLite is slow today');
        process.emitWarning('Something else is an experimental feature', 'ExperimentalWarning');
        process.emitWarning('It is old', { type: 'DeprecationWarning', code: 'DEP9999' });
      } });
    `;
    const { stderr } = runAfter(warnWhenSilenced, 'check', '/nowhere.json');
    expect(stderr).not.toContain('SQLite is an experimental feature');
    expect(stderr).toContain('Warning: SQLite is slow today');
    expect(stderr).toContain('ExperimentalWarning: Something else is an experimental feature');
    expect(stderr).toContain('[DEP9999] DeprecationWarning: It is old');
  });

  it('keeps Node’s compile cache beside the dependencies, or in NODE_COMPILE_CACHE', () => {
    const printPlaces = `
      const { getCompileCacheDir } = require('node:module');
      process.on('exit', () => console.log(getCompileCacheDir() + '|' + process.env.NODE_COMPILE_CACHE));
    `;
    const placesIn = (NODE_COMPILE_CACHE: string | undefined) => {
      const { stdout } = runIn({ ...process.env, NODE_COMPILE_CACHE }, printPlaces, '--version');
      const [used, ofWorkers] = stdout.split('\n').at(-2)?.split('|') ?? [];
      return [dirname(used ?? ''), ofWorkers];
    };

    const own = join(dirname(executable), '../node_modules/.cache/node-compile-cache');
    expect(placesIn(undefined)).toEqual([own, own]);
    const configured = join(dir, 'compile-cache');
    expect(placesIn(configured)).toEqual([configured, configured]);
  });

  it('passes on the exit code', () => {
    expect(runAfter('', 'check', '/nowhere.json')).toMatchObject({ status: 2, stdout: '' });
  });
});
