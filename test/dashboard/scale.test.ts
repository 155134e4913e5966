/** The built page in a browser, with invented data: very many entries and fills, and every view in each look. */

import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findProgram, itWith } from '../support/processes/programs.ts';
import { findFaults, launchBrowser, logIn, overflowPx, withPage } from './browser.ts';
import { builtDirectory, ensureBuilt } from './built-dashboard.ts';
import { type FakePage, openFakePage } from './fake-page.ts';

let browser: Browser;
let served: FakePage;

beforeAll(async () => {
  if (findProgram('chromium') === undefined) return;
  ensureBuilt();
  [browser, served] = await Promise.all([
    launchBrowser(),
    openFakePage(builtDirectory, { entries: 100_000, fills: 1000, workers: 2 }),
  ]);
});

afterAll(async () => {
  await browser?.close();
  await served?.[Symbol.asyncDispose]();
});

describe('the built page', () => {
  it('has the licences of what is in it', async () => {
    ensureBuilt();
    const { readFile } = await import('node:fs/promises');
    const text = await readFile(`${builtDirectory}/LICENSES.md`, 'utf8');
    for (const name of ['preact', 'uplot']) expect(text).toContain(`## ${name} `);
    expect(text).toContain('Permission is hereby granted');
  });

  itWith(['chromium'], 'has few rows in the document for 1,000 fills, wherever it is scrolled to', () =>
    withPage(browser, {}, async (page) => {
      await logIn(page, served.url, 'any');
      await page.getByRole('link', { name: /^Fills/ }).click();
      await page.getByText('1,000 fills').waitFor();
      const rows = page.locator('tr.fill');
      const view = page.getByRole('region', { name: 'Fills, longest-running first' });
      expect(await page.getByRole('table').getAttribute('aria-rowcount')).toBe('1001');
      for (const [share, first, last] of [
        [0, 2, 40],
        [0.5, 450, 550],
        [1, 960, 1001],
      ] as const) {
        await view.evaluate((element, at) => {
          element.scrollTop = at * element.scrollHeight;
        }, share);
        const middle = rows.nth(8);
        await expect.poll(async () => Number(await middle.getAttribute('aria-rowindex'))).toBeGreaterThanOrEqual(first);
        expect(Number(await middle.getAttribute('aria-rowindex'))).toBeLessThanOrEqual(last);
        expect(await rows.count()).toBeLessThan(40);
        expect(await rows.nth(8).isVisible()).toBe(true);
      }
      // The events of the server change the visible rows only.
      const before = await rows.nth(8).textContent();
      await expect.poll(() => rows.nth(8).textContent()).not.toBe(before);
      expect(await rows.count()).toBeLessThan(40);
    }),
  );

  itWith(['chromium'], 'says when the server is away, and connects again by itself', () =>
    withPage(browser, {}, async (page) => {
      const few = { entries: 10, fills: 1, workers: 1 };
      const first = await openFakePage(builtDirectory, few);
      await logIn(page, first.url, 'any');
      await first[Symbol.asyncDispose]();
      const notice = page.getByText(
        /^The server does not answer\. What you see is from \d\d:\d\d:\d\d\. Trying again…$/,
      );
      await notice.waitFor();
      await page.getByText('no connection', { exact: true }).waitFor();
      await using _second = await openFakePage(builtDirectory, few, Number(new URL(first.url).port));
      await page.getByText('live', { exact: true }).waitFor();
      await notice.waitFor({ state: 'detached' });
    }),
  );

  itWith(['chromium'], 'says which figures are of one machine, where machines share the store', () =>
    withPage(browser, {}, async (page) => {
      const note = page.getByText(
        'These figures are of this machine only. The store is shared: its entries are those of all machines.',
      );
      const few = { entries: 10, fills: 1, workers: 1 };
      await using shared = await openFakePage(builtDirectory, { ...few, isShared: true });
      await logIn(page, shared.url, 'any');
      await note.waitFor();
      await page.getByText('Engine, of all machines', { exact: true }).waitFor();
      expect(await findFaults(page)).toEqual([]);
      await page.getByRole('link', { name: /^Fills/ }).click();
      await page.getByRole('heading', { name: 'Running fills' }).waitFor();
      await note.waitFor();
      await page.getByRole('link', { name: /^Entries/ }).click();
      await page.getByRole('heading', { name: 'Stored entries' }).waitFor();
      expect(await note.count()).toBe(0);
      // The session is that of the host, whatever the port.
      await page.goto(served.url);
      await page.getByText('Disk', { exact: true }).waitFor();
      expect(await note.count()).toBe(0);
    }),
  );

  itWith(['chromium'], 'finds fills by their URI', () =>
    withPage(browser, {}, async (page) => {
      await logIn(page, `${served.url}#/fills`, 'any');
      await page.getByLabel('Find in the URI').fill('show-00');
      await expect.poll(async () => page.getByRole('table').getAttribute('aria-rowcount')).toBe('201');
      await page.getByLabel('Find in the URI').fill('no such');
      await page.getByText('No running fill has “no such” in its URI.').waitFor();
    }),
  );

  itWith(['chromium'], 'has one page of 100,000 entries in the document', () =>
    withPage(browser, {}, async (page) => {
      await logIn(page, `${served.url}#/entries`, 'any');
      await page.getByText('1–50 of 100,000').waitFor();
      const rows = page.locator('table.entries tbody tr');
      expect(await rows.count()).toBe(50);
      await page.getByLabel('On a page').selectOption('200');
      await page.getByText('1–200 of 100,000').waitFor();
      expect(await rows.count()).toBe(200);
      await page.getByRole('button', { name: 'Next' }).click();
      await page.getByText('201–400 of 100,000').waitFor();
      expect(await rows.count()).toBe(200);
      expect(await page.evaluate('document.querySelectorAll("*").length')).toBeLessThan(6000);
    }),
  );
});

const views = [
  ['overview', '#/', 'Latest decisions'],
  ['fills', '#/fills', 'Running fills'],
  ['entries', '#/entries', 'Stored entries'],
  [
    'entry',
    `#/entry?${new URLSearchParams({ key: 'https://origin-a.example.org/ https://media.example.org/podcasts/show-000003.mp3', generation: 'g3' })}`,
    'Decision history',
  ],
  ['explain', `#/explain?${new URLSearchParams({ url: 'http://a.example/film.mp4', range: '500-8000' })}`, 'In words'],
  ['purge', '#/change', 'Warm'],
] as const;

describe('the width of the window', () => {
  itWith(['chromium'], 'is enough for every view, from 320 pixels on', () =>
    withPage(browser, {}, async (page) => {
      await logIn(page, served.url, 'any');
      for (const width of [320, 600, 768, 900, 1024, 1920]) {
        await page.setViewportSize({ width, height: 800 });
        for (const [name, fragment, heading] of views) {
          await page.goto(served.url + fragment);
          await page.getByRole('heading', { name: heading, exact: true }).waitFor();
          expect(await overflowPx(page), `${name} at ${width}`).toBe(0);
        }
      }
    }),
  );
});

// Each colour scheme once and each width once: a fault of contrast is one of the scheme, a fault of layout one of the width.
describe.each([
  { scheme: 'light', width: 1280 },
  { scheme: 'dark', width: 390 },
] as const)('$scheme, $width pixels wide', (look) => {
  itWith(['chromium'], 'the login has no fault that axe finds', () =>
    withPage(browser, look, async (page) => {
      await page.goto(served.url);
      await page.getByRole('button', { name: 'Log in' }).waitFor();
      expect(await findFaults(page)).toEqual([]);
      expect(await overflowPx(page)).toBe(0);
    }),
  );

  for (const [name, fragment, heading] of views) {
    itWith(['chromium'], `${name}: axe finds no fault, and nothing is wider than the window`, () =>
      withPage(browser, look, async (page) => {
        await logIn(page, served.url + fragment, 'any');
        await page.getByRole('heading', { name: heading, exact: true }).waitFor();
        // Open what is folded, so that it is looked at too.
        for (const summary of await page.locator('details > summary').all()) await summary.click();
        expect(await findFaults(page)).toEqual([]);
        expect(await overflowPx(page)).toBe(0);
      }),
    );
  }
});
