/** docs/recipes/development.md, as it is written, with Vite and with webpack, and a page in Chromium that reloads itself. */

import { copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { itWith } from '../support/processes/programs.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { Recipe } from '../support/recipes/recipe.ts';
import { withPage } from './browser.ts';

const programs = ['python3', 'curl', 'npx', 'chromium', 'npm:webpack', 'npm:webpack-cli', 'npm:webpack-dev-server'];

itWith(programs, 'docs/recipes/development.md', async () => {
  await using recipe = await Recipe.open('development.md', {
    ports: [8080, 4000, 5173],
    servers: {
      'python3 -m http.server': /Serving HTTP/,
      'npx vite': /ready in/,
      'npx webpack serve': /Loopback: http/,
    },
    environment: { PYTHONUNBUFFERED: '1', NO_COLOR: '1' },
    async given(dir) {
      await mkdir(join(dir, 'staging'));
      await copyFile(join(projectDirectory, 'assets/demo/range-test.mp4'), join(dir, 'staging/film.mp4'));
      // The packages that the reader has installed. Vite writes into the folder.
      await mkdir(join(dir, 'node_modules/.bin'), { recursive: true });
      const bin = (folder: string, name: string) =>
        symlink(join(projectDirectory, folder, 'node_modules/.bin', name), join(dir, 'node_modules/.bin', name));
      await bin('.', 'vite');
      await bin('test/clients', 'webpack');
    },
  });
  const url = `http://127.0.0.1:${recipe.port(8080)}`;
  const stored = async () => (await recipe.run('rangeway ls --config rangeway.json')).stdout.toString();

  /** Opens the page, changes the title, and waits until the page shows it. The WebSocket goes through Rangeway. */
  const change = async (page: Page, title: string): Promise<void> => {
    const sockets: string[] = [];
    page.on('websocket', (socket) => {
      sockets.push(socket.url());
    });
    const shown = () => page.locator('h1').textContent();
    await page.goto(url);
    await expect.poll(shown).toBe('Second title');
    await expect.poll(() => sockets).not.toEqual([]);
    // Written again, because a development server that has just started may not watch the file yet.
    const changed = async () => {
      await writeFile(join(recipe.dir, 'title.js'), `export const title = '${title}';\n`);
      return await shown();
    };
    await expect.poll(changed, { interval: 500 }).toBe(title);
    expect(sockets.filter((socket) => !socket.startsWith(url.replace('http', 'ws')))).toEqual([]);
    await expect.poll(() => page.locator('video').evaluate((video: HTMLVideoElement) => video.duration)).toBe(60);
  };

  await withPage(async (page) => {
    for (const section of ['What you have', 'With Vite', 'What you write', 'Check']) await recipe.follow(section);
    await change(page, 'Title by Vite');
    await recipe.server('npx vite').stop('SIGTERM');

    for (const section of ['What you have', 'With webpack', 'Check']) await recipe.follow(section);
    await change(page, 'Title by webpack');
    await page.goto('about:blank');
  });
  expect(recipe.left).toEqual([]);
  // Only the film.
  expect((await stored()).trim().split('\n')).toEqual([
    expect.stringMatching(/^SIZE/),
    expect.stringContaining(`${url}/media/film.mp4`),
  ]);
});
