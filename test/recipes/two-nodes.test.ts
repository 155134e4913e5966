/** docs/recipes/two-nodes.md, as it is written, with Valkey and nginx; then what it says of an engine that is away. */

import { expect } from 'vitest';
import { itWith } from '../support/processes/programs.ts';
import { nginxTexts } from '../support/recipes/nginx-texts.ts';
import { Recipe } from '../support/recipes/recipe.ts';

itWith(['curl', 'nginx', 'valkey-server'], 'docs/recipes/two-nodes.md', async () => {
  await using recipe = await Recipe.open('two-nodes.md', {
    ports: [8080, 8081, 8082, 3000, 6379],
    texts: nginxTexts,
    servers: {
      'node origin.mjs': /the origin is ready/,
      'valkey-server ': /Ready to accept connections/,
      'nginx -p': /start worker process/,
    },
  });
  await recipe.follow();
  expect(recipe.left).toEqual([]);

  const outcome = async (): Promise<string> => {
    const command =
      "curl -s -o /dev/null -D - -r 0-99 -H 'Host: media.example.org' http://127.0.0.1:8080/film.mp4 | grep -iE '^(HTTP|Cache-Status)'";
    return (await recipe.run(command)).stdout.toString();
  };
  await expect.poll(outcome).toMatch(/ 206 [\s\S]*; hit;/);
  await recipe.server('valkey-server ').stop('SIGKILL');
  expect(await outcome()).toMatch(/ 206 [\s\S]*; hit;/);
});
