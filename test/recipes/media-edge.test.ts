/** docs/recipes/media-edge.md, as it is written. */

import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { itWith } from '../support/processes/programs.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { Recipe } from '../support/recipes/recipe.ts';

itWith(['python3', 'curl', 'openssl'], 'docs/recipes/media-edge.md', async () => {
  await using recipe = await Recipe.open('media-edge.md', {
    ports: [8443, 8080, 3000],
    texts: { '0.0.0.0': '127.0.0.1' },
    servers: { 'python3 -m http.server': /Serving HTTP/ },
    environment: { PYTHONUNBUFFERED: '1' },
    async given(dir) {
      await mkdir(join(dir, 'films'));
      await copyFile(join(projectDirectory, 'assets/demo/range-test.mp4'), join(dir, 'films/film.mp4'));
    },
  });
  await recipe.follow();
  expect(recipe.left).toEqual([]);
  // One transfer of each URL, and no signature reaches the origin.
  const requests = recipe
    .server('python3')
    .output()
    .match(/"GET .*?"/g);
  expect(requests).toEqual(['"GET /film.mp4 HTTP/1.1"', '"GET /film.mp4?quality=high HTTP/1.1"']);
});
