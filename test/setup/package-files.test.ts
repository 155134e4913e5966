/** The files of the package, as a checkout has them. test/packages/binary.test.ts has them inside the single executable. */

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { programArguments, readPackageFile, readPackageFolder, version } from '../../src/setup/package-files.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';

describe('the files of the package', () => {
  it('are read by their path in it', () => {
    const path = 'config.schema.json';
    expect(readPackageFile(path)).toEqual(readFileSync(join(projectDirectory, path)));
    expect(version).toMatch(/^\d+\.\d+\.\d+/);
  });

  it('are all there, with the names below their folder', () => {
    const inDemo = readPackageFolder('assets/demo');
    expect([...inDemo.keys()]).toEqual(
      expect.arrayContaining(['index.html', 'demo.css', 'demo.js', 'poster.svg', 'range-test.mp4']),
    );
    const all = readPackageFolder('assets');
    expect([...all.keys()]).toEqual([...inDemo.keys()].map((name) => `demo/${name}`));
    expect(all.get('demo/demo.js')).toEqual(inDemo.get('demo.js'));
  });

  it('are none where there is no such folder', () => {
    expect(readPackageFolder('assets/no-such-folder')).toEqual(new Map());
    expect(() => readPackageFile('no-such-file')).toThrow('ENOENT');
  });

  it('are started by the executable of the package', () => {
    expect(programArguments()).toEqual(['--disable-sigusr1', join(projectDirectory, 'bin/rangeway.js')]);
  });
});
