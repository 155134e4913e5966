/** npm, pip and git, before a package index and a repository that the suite has made. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Client, check, checkFile, type Place, runIn } from '../client.ts';
import { packageName, packageText, packageVersion, writeNpmIndex } from '../fixtures.ts';
import { cuttingOrigin } from '../origins/node-origins.ts';
import { apacheOrigin, pythonOrigin } from '../origins/program-origins.ts';
import { typical } from '../origins.ts';

/** Clones a repository, and checks the commit and the file. */
async function clone(place: Place, url: string): Promise<void> {
  const { dir, fixtures } = place;
  await runIn(place, 'git', ['clone', '--quiet', url, 'clone']);
  const { stdout } = await runIn(place, 'git', ['-C', 'clone', 'rev-parse', 'HEAD']);
  check(stdout.toString().trim() === fixtures.commit, `the commit is ${stdout}`);
  await checkFile(join(dir, 'clone', 'file.bin'), fixtures.file);
}

export const packageTools: readonly Client[] = [
  {
    name: 'npm install',
    programs: ['npm'],
    origins: [pythonOrigin, apacheOrigin],
    fileBytes: undefined,
    async run(place) {
      const { root, prefix, fixtures, dir } = place;
      const registry = `${prefix}/npm/`;
      await writeNpmIndex(fixtures, registry);
      const flags = [
        '--no-audit',
        '--no-fund',
        '--no-update-notifier',
        '--fetch-retries=0',
        '--cache',
        join(dir, 'cache'),
      ];
      const install = ['install', '--prefix', dir, '--registry', root + registry, `${packageName}@${packageVersion}`];
      await runIn(place, 'npm', [...flags, ...install]);
      const text = await readFile(join(dir, 'node_modules', packageName, 'index.js'), 'utf8');
      check(text === packageText, `the package has ${text}`);
    },
  },
  ...[
    { name: 'pip download', flags: [] },
    { name: 'pip download, fast-deps', flags: ['--use-feature=fast-deps'] },
  ].map(
    ({ name, flags }): Client => ({
      name,
      programs: ['python3', 'pip3'],
      origins: [pythonOrigin],
      fileBytes: undefined,
      async run(place) {
        const { url, fixtures, dir, requests } = place;
        const quiet = ['--quiet', '--disable-pip-version-check', '--no-cache-dir', '--retries', '0', ...flags];
        const args = ['--index-url', url('simple/'), '--dest', dir, `${packageName}==${packageVersion}`];
        await runIn(place, 'python3', ['-m', 'pip', 'download', ...quiet, ...args]);
        const wheel = 'blue_heron-1.2.3-py3-none-any.whl';
        await checkFile(join(dir, wheel), await readFile(join(fixtures.dir, 'simple', packageName, wheel)));
        const isLazy = requests().some(({ range }) => range !== undefined);
        check(isLazy === flags.length > 0, isLazy ? 'pip used ranges' : 'pip used no range');
      },
    }),
  ),
  {
    name: 'git clone, dumb HTTP',
    programs: ['git'],
    origins: [...typical, cuttingOrigin],
    fileBytes: undefined,
    run: (place) => clone(place, place.url('repo.git')),
  },
  {
    name: 'git clone, smart HTTP',
    programs: ['git'],
    origins: [apacheOrigin],
    fileBytes: undefined,
    run: (place) => clone(place, `${place.root}/git${place.prefix}/repo.git`),
  },
];
