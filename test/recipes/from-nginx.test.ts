/** docs/recipes/from-nginx.md, as it is written; then both programs side by side, and the directives of its tables. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { findProgram, itWith } from '../support/processes/programs.ts';
import { nginxTexts } from '../support/recipes/nginx-texts.ts';
import { readOptionTables } from '../support/recipes/option-tables.ts';
import { Recipe, recipesDirectory } from '../support/recipes/recipe.ts';
import { expectSameAnswers, expectStaleAnswers, LegacyOrigin } from '../support/recipes/side-by-side.ts';

itWith(['curl', 'nginx'], 'docs/recipes/from-nginx.md', async () => {
  await using origin = new LegacyOrigin();
  await using recipe = await Recipe.open('from-nginx.md', {
    ports: [8080, 8081, 3000],
    texts: nginxTexts,
    servers: { 'nginx -p': /start worker process/ },
  });
  await origin.open(recipe.port(3000));
  await recipe.follow();
  expect(recipe.left).toEqual([]);

  await expectSameAnswers(origin, recipe.port(8081), recipe.port(8080));
  await expectStaleAnswers(origin, [
    { port: recipe.port(8081), isStale: (headers) => /STALE|UPDATING/.test(headers.get('x-cache-status') ?? '') },
    { port: recipe.port(8080), isStale: (headers) => /ttl=-/.test(headers.get('cache-status') ?? '') },
  ]);
});

itWith(['nginx'], 'docs/recipes/from-nginx.md names directives that nginx knows', async () => {
  const [page, program] = await Promise.all([
    readFile(join(recipesDirectory, 'from-nginx.md'), 'utf8'),
    readFile(findProgram('nginx') ?? '', 'latin1'),
  ]);
  const names = readOptionTables(page).flatMap(({ theirs }) =>
    theirs.map((text) => /^\$?([\w-]+=?)/.exec(text)?.[1] ?? text),
  );
  expect(names.length).toBeGreaterThan(60);
  // Those of the commercial version.
  const absent = names.filter((name) => !program.includes(name));
  expect(new Set(absent)).toEqual(new Set(['health_check', 'proxy_cache_purge']));
});
