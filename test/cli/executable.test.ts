import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
      stderr: `rangeway needs Node 24 or newer; this is v${version}. Install a newer one: https://nodejs.org\n`,
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
