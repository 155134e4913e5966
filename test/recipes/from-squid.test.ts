/** docs/recipes/from-squid.md, as it is written, without Squid. */

import { expect } from 'vitest';
import { itWith } from '../support/processes/programs.ts';
import { Recipe } from '../support/recipes/recipe.ts';
import { LegacyOrigin } from '../support/recipes/side-by-side.ts';

itWith(['curl'], 'docs/recipes/from-squid.md', async () => {
  await using origin = new LegacyOrigin();
  await using recipe = await Recipe.open('from-squid.md', { ports: [8080, 3000] });
  await origin.open(recipe.port(3000));
  await recipe.follow();
  expect(recipe.left).toEqual([]);
  expect(origin.requests).toEqual(['/film.mp4', '/film.mp4 session=1']);
});
