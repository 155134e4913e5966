/** docs/recipes/downloads.md, as it is written. */

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { itWith } from '../support/processes/programs.ts';
import { Recipe } from '../support/recipes/recipe.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

itWith(['curl', 'wget', 'aria2c'], 'docs/recipes/downloads.md', async () => {
  await using recipe = await Recipe.open('downloads.md', {
    ports: [8080, 3000],
    servers: { 'node flaky.mjs': /listening/ },
    async given(dir) {
      await mkdir(join(dir, 'files'));
      await writeFile(join(dir, 'files/image.iso'), patternBytes(0, 8 * 1024 * 1024));
    },
  });
  await recipe.follow();
  expect(recipe.left).toEqual([]);
  // Two without Rangeway; one that broke off, and the last one.
  expect(
    recipe
      .server('node flaky.mjs')
      .output()
      .match(/transfer \d/g),
  ).toEqual(['transfer 1', 'transfer 2', 'transfer 3', 'transfer 4']);
});
