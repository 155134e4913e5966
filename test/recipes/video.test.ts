/** docs/recipes/video.md, as it is written, with a player in Chromium. */

import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';
import { itWith } from '../support/processes/programs.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { Recipe } from '../support/recipes/recipe.ts';
import { withPage } from './browser.ts';

const film = join(projectDirectory, 'assets/demo/range-test.mp4');

itWith(['python3', 'curl', 'ffmpeg', 'chromium'], 'docs/recipes/video.md', async () => {
  await using recipe = await Recipe.open('video.md', {
    ports: [8080, 3000],
    servers: { 'python3 -m http.server': /Serving HTTP/ },
    environment: { PYTHONUNBUFFERED: '1' },
    async given(dir) {
      await mkdir(join(dir, 'films'));
      await copyFile(film, join(dir, 'films/film.mp4'));
    },
  });
  await recipe.follow();
  expect(recipe.left).toEqual([]);

  const bytes = await readFile(film);
  expect((await readFile(join(recipe.dir, 'part.bin'))).equals(bytes.subarray(1_000_000, 2_000_000))).toBe(true);
  expect((await readFile(join(recipe.dir, 'picture.png'))).subarray(1, 4).toString()).toBe('PNG');

  await withPage(async (page) => {
    await page.goto(`http://127.0.0.1:${recipe.port(8080)}/player.html`);
    const seek = `async (second) => {
      const video = document.querySelector('video');
      if (video.readyState < 1) await new Promise((resolve) => video.addEventListener('loadedmetadata', resolve));
      const seeked = new Promise((resolve) => video.addEventListener('seeked', resolve, { once: true }));
      video.currentTime = second;
      await seeked;
      return [video.currentTime, video.readyState >= 2];
    }`;
    for (const second of [45, 5]) expect(await page.evaluate(`(${seek})(${second})`)).toEqual([second, true]);
  });
  // The whole film once, and the page of the player.
  const atOrigin = recipe.server('python3').output();
  expect(atOrigin.match(/"GET \/film\.mp4 /g)).toHaveLength(1);
});
