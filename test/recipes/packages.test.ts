/** docs/recipes/packages.md, as it is written, before indexes with one package. */

import { cp, mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { makePackages, packageText, writeNpmIndex } from '../clients/matrix/fixtures.ts';
import { itWith } from '../support/processes/programs.ts';
import { Recipe } from '../support/recipes/recipe.ts';

itWith(['python3', 'pip3', 'npm', 'curl'], 'docs/recipes/packages.md', async () => {
  await using recipe = await Recipe.open('packages.md', {
    ports: [8080, 4873, 3141],
    servers: { 'python3 -m http.server': /Serving HTTP/ },
    environment: { PYTHONUNBUFFERED: '1' },
    async given(dir) {
      const made = join(dir, 'made');
      await mkdir(made);
      await makePackages(made);
      await writeNpmIndex({ dir: made }, '/');
      await cp(join(made, 'npm'), join(dir, 'npm-index'), { recursive: true });
      await cp(join(made, 'simple'), join(dir, 'pip-index/simple'), { recursive: true });
    },
  });
  const installed = (folder: string) => readFile(join(recipe.dir, folder, 'node_modules/blue-heron/index.js'), 'utf8');
  const [npmIndex, pipIndex] = ['python3 -m http.server 4873', 'python3 -m http.server 3141'];

  for (const section of ['What you have', 'What you write', 'Check']) await recipe.follow(section);
  expect(await installed('app')).toBe(packageText);
  const requestsTo = (index: string) =>
    recipe
      .server(index)
      .output()
      .match(/"GET \S+/g)
      ?.toSorted();
  expect(requestsTo(npmIndex)).toEqual(['"GET /blue-heron', '"GET /blue-heron.tgz']);
  expect(requestsTo(pipIndex)).toEqual([
    '"GET /simple/blue-heron/',
    '"GET /simple/blue-heron/blue_heron-1.2.3-py3-none-any.whl',
  ]);

  for (const index of [npmIndex, pipIndex]) await recipe.server(index).stop('SIGTERM');
  await recipe.follow('While the index is away');
  expect(await installed('other')).toBe(packageText);
  expect(await readdir(join(recipe.dir, 'more-wheels'))).toEqual(await readdir(join(recipe.dir, 'wheels')));
  expect(recipe.left).toEqual([]);
});
