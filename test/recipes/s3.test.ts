/** docs/recipes/s3.md, as it is written, before a server that verifies signatures. */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { openBucket } from '../support/origins/s3-bucket.ts';
import { itWith } from '../support/processes/programs.ts';
import { Recipe } from '../support/recipes/recipe.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const film = patternBytes(0, 3_000_000);
const key = { id: 'AKIAEXAMPLE', secret: 'a/secret+key' };

itWith(['curl'], 'docs/recipes/s3.md', async () => {
  const options = { keys: () => [key], region: 'eu-central-1', objects: { '/media/film.mp4': film } };
  await using bucket = await openBucket(options);
  await using recipe = await Recipe.open('s3.md', {
    ports: [8080],
    texts: { 'https://my-bucket.s3.eu-central-1.amazonaws.com': bucket.url },
    environment: { AWS_ACCESS_KEY_ID: key.id, AWS_SECRET_ACCESS_KEY: key.secret },
  });
  await recipe.follow();
  expect(recipe.left).toEqual([]);

  expect((await readFile(join(recipe.dir, 'part.bin'))).equals(film.subarray(1_000_000, 2_000_000))).toBe(true);
  // The page itself asked without a key, and the deletion had none.
  const [unsigned, ...others] = bucket.requests;
  expect(unsigned).toMatchObject({ verdict: 'AccessDenied', keyId: '' });
  const refused = others.filter(({ verdict }) => verdict !== 'ok');
  expect(refused.map(({ method, url }) => `${method} ${url}`)).toEqual(['DELETE /media/film.mp4']);
  expect(others.some(({ url }) => url.includes('?'))).toBe(false);
  expect(recipe.server('rangeway').output()).not.toContain(key.secret);
});
