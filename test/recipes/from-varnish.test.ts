/** docs/recipes/from-varnish.md, as it is written; then both programs side by side. */

import { expect } from 'vitest';
import { findProgram, itWith } from '../support/processes/programs.ts';
import { Recipe } from '../support/recipes/recipe.ts';
import { expectSameAnswers, expectStaleAnswers, LegacyOrigin } from '../support/recipes/side-by-side.ts';

itWith(['curl', 'varnishd'], 'docs/recipes/from-varnish.md', async () => {
  await using origin = new LegacyOrigin();
  await using recipe = await Recipe.open('from-varnish.md', {
    ports: [8080, 8081, 3000],
    // Without the jail: as root it takes the rights on the work directory away.
    texts: { 'varnishd -F': `${findProgram('varnishd')} -j none -F` },
    servers: { 'varnishd -F': /Child launched OK|said Child starts/ },
  });
  await origin.open(recipe.port(3000));
  await recipe.follow();
  expect(recipe.left).toEqual([]);

  origin.requests.length = 0;
  await expectSameAnswers(origin, recipe.port(8081), recipe.port(8080));
  await expectStaleAnswers(origin, [
    // It answers with what it has while it asks, and says no word about it but the age.
    { port: recipe.port(8081), isStale: (headers) => Number(headers.get('age')) > 1 },
    { port: recipe.port(8080), isStale: (headers) => /ttl=-/.test(headers.get('cache-status') ?? '') },
  ]);
});
