/** The dashboard in Chromium, in front of the executable with two workers: every control, live updates, login, keyboard. */

import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect } from 'vitest';
import { SlowFileOrigin } from '../support/origins/slow-file-origin.ts';
import { openTaggedOrigin, type TaggedOrigin } from '../support/origins/tagged-origin.ts';
import { findProgram, itWith } from '../support/processes/programs.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { findFaults, launchBrowser, logIn, overflowPx, type PageLook, withPage } from './browser.ts';
import { ensureBuilt } from './built-dashboard.ts';

const token = 'a-token-for-tests-0123456789';

/** Large enough for many blocks; the origin sends one half, and the other when the test says so. */
const filmBytes = 4 * 1024 * 1024;

interface Ground {
  readonly browser: Browser;
  readonly tagged: TaggedOrigin;
  readonly films: Readonly<Record<'watched' | 'stopped', SlowFileOrigin>>;
  readonly dir: string;
  server: RangewayProcess & { readonly url: string };
  admin: string;
}

let ground: Ground;

const withRanges = { hasRanges: true, hasValidator: true };

function configOf(adminListen: string): object {
  const { tagged, films } = ground;
  return {
    listen: '127.0.0.1:0',
    workers: 2,
    log: { format: 'json' },
    store: { dir: 'store' },
    admin: { listen: adminListen, token: `file:${join(ground.dir, 'token')}` },
    routes: [
      { match: { pathPrefix: '/watched' }, origin: films.watched.url },
      { match: { pathPrefix: '/stopped' }, origin: films.stopped.url },
      { match: { pathPrefix: '/closed' }, origin: tagged.url, access: { allow: ['192.0.2.1'] } },
      { origin: tagged.url },
    ],
  };
}

async function startServer(adminListen: string): Promise<void> {
  const { dir } = ground;
  const environment = { TMPDIR: join(dir, 'tmp'), XDG_CACHE_HOME: dir, XDG_RUNTIME_DIR: '' };
  ground.server = await startConfigured(dir, configOf(adminListen), environment);
  const [, admin = ''] = await ground.server.waitFor(/administered on (http:[^\s",]+)/);
  ground.admin = `${admin}/`;
}

beforeAll(async () => {
  if (findProgram('chromium') === undefined) return;
  ensureBuilt();
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-dashboard-'));
  await mkdir(join(dir, 'tmp'));
  await writeFile(join(dir, 'token'), token, { mode: 0o600 });
  const films = {
    watched: await SlowFileOrigin.open(filmBytes, withRanges),
    stopped: await SlowFileOrigin.open(filmBytes, withRanges),
  };
  const [browser, tagged] = await Promise.all([launchBrowser(), openTaggedOrigin()]);
  ground = { browser, tagged, films, dir } as unknown as Ground;
  await startServer('127.0.0.1:0');
});

afterAll(async () => {
  if (ground === undefined) return;
  const { browser, server, tagged, films, dir } = ground;
  await browser.close();
  await Promise.all([films.watched, films.stopped, tagged].map((origin) => origin[Symbol.asyncDispose]()));
  await server[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

/** Asks the server for a path as a client does. Resolves with the status and Cache-Status, once the body is read. */
async function ask(path: string, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const response = await fetch(ground.server.url + path, { headers });
  await response.arrayBuffer();
  return `${response.status} ${response.headers.get('cache-status')}`;
}

/** Fetches a path into the store, and waits until it is a hit. */
async function store(path: string): Promise<string> {
  await ask(path);
  await expect.poll(() => ask(path)).toContain('hit');
  return ground.server.url + path;
}

async function callApi(method: string, path: string, body?: object): Promise<Response> {
  return fetch(`${ground.admin}api/v1/${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/** Declares a test in a page that is logged in, at a place of the dashboard. */
function itInside(name: string, fragment: string, test: (page: Page) => Promise<void>, look: PageLook = {}): void {
  itWith(['chromium'], name, () =>
    withPage(ground.browser, look, async (page) => {
      await logIn(page, ground.admin + fragment, token);
      await test(page);
    }),
  );
}

/** Returns the words of an element, in one line. */
async function wordsOf(place: Locator): Promise<string> {
  return (await place.innerText()).replace(/\s+/g, ' ');
}

function region(page: Page, name: string | RegExp): Locator {
  return page.getByRole('region', { name });
}

describe('login', () => {
  itWith(['chromium'], 'takes the token and no other, holds after a reload, and ends by a button', () =>
    withPage(ground.browser, {}, async (page) => {
      await page.goto(ground.admin);
      await page.getByLabel('Token of the admin listener').fill('wrong');
      await page.getByRole('button', { name: 'Log in' }).click();
      await page.getByText('This is not the token.').waitFor();
      await logIn(page, ground.admin, token);
      await page.reload();
      await page.getByText('live', { exact: true }).waitFor();
      expect(await page.evaluate('document.cookie')).toBe('');
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByText('You are logged out.').waitFor();
      expect(await page.evaluate('fetch("api/v1/entries").then(({ status }) => status)')).toBe(401);
    }),
  );

  itWith(['chromium'], 'takes a code of a link once, and removes it from the address', () =>
    withPage(ground.browser, {}, async (page) => {
      const { code } = (await (await callApi('POST', 'session-codes', {})).json()) as { code: string };
      await page.goto(`${ground.admin}#code=${code}`);
      await page.getByText('live', { exact: true }).waitFor();
      expect(page.url()).toBe(ground.admin);
      await page.getByRole('button', { name: 'Log out' }).click();
      await page.getByText('You are logged out.').waitFor();
      await page.goto('about:blank');
      await page.goto(`${ground.admin}#code=${code}`);
      await page.getByText('The code of this link is used up or too old.').waitFor();
      expect(page.url()).toBe(ground.admin);
    }),
  );

  itInside('asks again when the session has ended', '#/entries', async (page) => {
    await page.getByRole('button', { name: 'Refresh' }).waitFor();
    await page.context().clearCookies();
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('Your session has ended. Log in again.').waitFor();
    await page.getByLabel('Token of the admin listener').fill(token);
    await page.keyboard.press('Enter');
    // The place is still in the address.
    await region(page, 'Stored entries').waitFor();
  });

  itInside('makes calls that other sites cannot make', '#/change', async (page) => {
    const path = await store('/csrf/100/one');
    const called = page.waitForRequest((request) => request.url().endsWith('/api/v1/purge'));
    await page.getByRole('textbox', { name: 'URL or path' }).fill(path);
    await page.getByRole('button', { name: 'Purge…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Expire' }).click();
    expect((await called).headers()).toMatchObject({ 'x-rangeway-request': '1', 'content-type': 'application/json' });
    const bare = `fetch('api/v1/purge', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{"all":true}' })`;
    expect(await page.evaluate(`${bare}.then(({ status }) => status)`)).toBe(403);
  });
});

describe('the overview', () => {
  itInside('shows what clients get, as it happens', '', async (page) => {
    const uri = await store('/overview/30000/film');
    for (let count = 0; count < 20; count += 1) await ask('/overview/30000/film');
    const figures = region(page, 'Figures');
    await expect.poll(() => wordsOf(figures)).toMatch(/Requests (?!0\/s|–)[<\d.,]+\/s/);
    await expect.poll(() => wordsOf(figures)).toMatch(/Hits, by requests \d+(\.\d)? %/);
    expect(await wordsOf(figures)).toMatch(/p50 <?[\d.]+ m?s p95 <?[\d.]+ m?s p99 <?[\d.]+ m?s/);
    await expect.poll(() => wordsOf(region(page, 'Most requested'))).toContain('/overview/30000/film');
    await expect.poll(() => wordsOf(region(page, 'Latest decisions'))).toMatch(/hit .*\/overview\/30000\/film/);
    expect(await wordsOf(region(page, 'Workers'))).toMatch(
      /up .*worker \d+ process \d+ serving worker \d+ process \d+ serving/,
    );
    expect(await wordsOf(region(page, 'Origins'))).toContain(`${ground.tagged.url}/ healthy`);
    await expect.poll(() => wordsOf(region(page, 'Store'))).toMatch(/\d entr(y|ies) Disk .* of .* Memory .* of /);
    // The charts have their numbers as text too.
    const chart = page.getByRole('figure', { name: 'Throughput' });
    expect(await chart.getByRole('img').getAttribute('aria-label')).toMatch(
      /^Throughput: in the last minute .*\/s sent/,
    );
    await chart.getByText('Numbers').click();
    await expect.poll(() => chart.locator('tbody tr').count()).toBeGreaterThan(1);
    await page.getByText('1 min', { exact: true }).click();
    expect(await page.getByRole('radio', { name: '1 min' }).isChecked()).toBe(true);
    // The most requested URL leads to its entry.
    await region(page, 'Most requested').getByRole('link').first().click();
    await region(page, 'Stored entries').waitFor();
    expect(page.url()).toContain('by=url');
    expect(uri).toContain('/overview/');
  });
});

describe('fills', () => {
  itInside('are shown while they run, with their bytes in the map of the entry', '#/fills', async (page) => {
    await page.getByText('No transfer from an origin is running.').waitFor();
    const reading = ask('/watched/film');
    const row = page.locator('tr.fill', { hasText: '/watched/film' });
    await expect.poll(async () => (await row.count()) > 0 && wordsOf(row)).toMatch(/50 %, 2 MB of 4.1 MB/);
    expect(await page.getByRole('link', { name: /^Fills/ }).innerText()).toContain('1');
    await row.getByRole('link').click();
    const coverage = region(page, 'Coverage');
    await expect
      .poll(() => wordsOf(coverage))
      .toMatch(/2 MB of 4.1 MB \(50 %\) are stored, in 1 run; .* 2 MB are arriving\./);
    const slider = coverage.getByRole('slider');
    await slider.focus();
    await page.keyboard.press('End');
    expect(await slider.getAttribute('aria-valuetext')).toMatch(/^bytes [\d,]+–4,194,303: arriving$/);
    await page.keyboard.press('Home');
    expect(await slider.getAttribute('aria-valuetext')).toMatch(/^bytes 0–[\d,]+: stored/);
    await coverage.getByText('Runs of bytes').click();
    expect(await wordsOf(coverage.getByRole('table'))).toContain('arriving');
    ground.films.watched.goOn();
    expect(await reading).toContain('200');
    await expect.poll(() => wordsOf(coverage)).toContain('All 4.1 MB are stored');
    await page.getByText('complete', { exact: true }).waitFor();
    await expect.poll(() => wordsOf(region(page, 'Decision history'))).toMatch(/miss/);
    await page.getByRole('link', { name: 'Fills' }).click();
    await page.getByText('No transfer from an origin is running.').waitFor();
  });

  itInside('are stopped after a confirmation', '#/fills', async (page) => {
    const reading = ask('/stopped/film').catch((error: Error) => error.message);
    const row = page.locator('tr.fill', { hasText: '/stopped/film' });
    const button = row.getByRole('button', { name: /^Stop the fill of / });
    await button.click();
    const dialog = page.getByRole('dialog', { name: 'Stop this fill?' });
    await expect.poll(() => wordsOf(dialog)).toMatch(/1 client that reads it is disconnected/);
    expect(await findFaults(page)).toEqual([]);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    expect(await row.count()).toBe(1);
    await button.click();
    await dialog.getByRole('button', { name: 'Stop the fill' }).click();
    await page.getByText('The fill was stopped.').waitFor();
    await row.waitFor({ state: 'detached' });
    expect(await reading).toMatch(/terminated|fetch failed/);
  });
});

describe('entries', () => {
  beforeAll(async () => {
    if (ground === undefined) return;
    for (let number = 1; number <= 60; number += 1)
      await ask(`/list/${number * 10}/file-${String(number).padStart(2, '0')}`);
    while (!(await ask('/list/600/file-60')).includes('hit'));
  });

  const rowsOf = (page: Page) => page.locator('table.entries tbody tr');

  itInside('are found by text, URL, prefix, host and tag', '#/entries', async (page) => {
    const { url } = ground.server;
    const { host } = new URL(url);
    for (const [kind, text, count] of [
      ['contains', 'list/120/', 1],
      ['url', `${url}/list/120/file-12`, 1],
      ['prefix', `${url}/list/1`, 11],
      ['tag', 'list', 50],
      ['host', host, 50],
    ] as const) {
      await page.getByLabel('Show where').selectOption(kind);
      await page.getByLabel('Text').fill(text);
      await page.getByLabel('Text').press('Enter');
      await expect.poll(() => rowsOf(page).count(), { message: kind }).toBe(count);
      expect(page.url()).toContain(kind === 'contains' ? 'text=' : `by=${kind}`);
    }
    await page.getByLabel('Text').fill('no-such-tag');
    await page.getByText('No stored entry where').waitFor();
    await page.getByRole('link', { name: 'Show all entries' }).click();
    await expect.poll(() => rowsOf(page).count()).toBe(50);
  });

  itInside('are sorted in both orders, and shown page by page', '#/entries?by=tag&text=list&limit=25', async (page) => {
    const first = rowsOf(page).first();
    await page.getByRole('button', { name: 'Size' }).click();
    await expect.poll(() => wordsOf(first)).toContain('file-60');
    expect(await page.getByRole('columnheader', { name: 'Size' }).getAttribute('aria-sort')).toBe('descending');
    await page.getByRole('button', { name: 'Size' }).click();
    await expect.poll(() => wordsOf(first)).toContain('file-01');
    expect(await page.getByRole('columnheader', { name: 'Size' }).getAttribute('aria-sort')).toBe('ascending');
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('26–50').waitFor();
    await expect.poll(() => wordsOf(first)).toContain('file-26');
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByText('51–60').waitFor();
    expect(await rowsOf(page).count()).toBe(10);
    expect(await page.getByRole('button', { name: 'Next' }).isDisabled()).toBe(true);
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.getByText('26–50').waitFor();
    for (const sort of ['Age', 'Used', 'URI']) {
      await page.getByRole('button', { name: sort, exact: true }).click();
      await expect.poll(() => rowsOf(page).count(), { message: sort }).toBe(25);
    }
    await expect.poll(() => wordsOf(first)).toContain('file-01');
  });

  itInside('show their facts, and can be warmed, expired and removed', '#/entries?text=file-07', async (page) => {
    await rowsOf(page).getByRole('link').click();
    await expect
      .poll(() => wordsOf(region(page, 'Facts')))
      .toMatch(/Status 200 Type video\/mp4 Length 70 B.*Tags list/);
    expect(await wordsOf(region(page, 'Stored fields'))).toContain('surrogate-key list');
    await expect.poll(() => wordsOf(region(page, 'Coverage'))).toContain('All 70 B are stored');
    await page.getByRole('button', { name: 'Warm' }).click();
    await page.getByText('Warmed: status 200, 70 B read.').waitFor();
    await page.getByRole('button', { name: 'Expire…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Expire' }).click();
    await page.getByText('to be validated', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Remove…' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByText('not stored any more').waitFor();
  });

  itInside('are purged from their row', '#/entries?text=file-08', async (page) => {
    await page.getByRole('button', { name: /^Purge http/ }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Hard: remove it').click();
    await dialog.getByRole('button', { name: 'Purge' }).click();
    await page.getByText('Purged: 1 entry removed.').waitFor();
    await page.getByText('No stored entry where').waitFor();
  });
});

describe('purging', () => {
  const modes = {
    Soft: {
      choice: 'Soft: validate it before its next use',
      action: 'Expire',
      said: /^Purged: .* before the next use\.$/,
      after: 'fwd-status=304',
    },
    Hard: {
      choice: 'Hard: remove it',
      action: 'Remove',
      said: /^Purged: [\d,]+ (entr|key).* removed\.$/,
      after: 'fwd=uri-miss',
    },
  } as const;
  /** What is typed for each kind, and whether the confirmation must show the URL: the others select more than it can show. */
  const kinds: Readonly<Record<string, { text?: (uri: string, folder: string) => string; isShown: boolean }>> = {
    URL: { text: (uri) => uri, isShown: true },
    Prefix: { text: (uri) => uri.slice(0, -3), isShown: true },
    Host: { text: (uri) => new URL(uri).host, isShown: false },
    Tag: { text: (_uri, folder) => folder, isShown: true },
    Everything: { isShown: false },
  };

  for (const [mode, { choice, action, said, after }] of Object.entries(modes)) {
    for (const [kind, { text, isShown }] of Object.entries(kinds)) {
      itInside(`${mode.toLowerCase()}, by ${kind.toLowerCase()}`, '#/change', async (page) => {
        const folder = `purge${mode}${kind}`.toLowerCase();
        const uri = await store(`/${folder}/100/one`);
        const form = region(page, 'Purge');
        await form.getByText(kind, { exact: true }).click();
        if (text !== undefined) await form.getByRole('textbox').fill(text(uri, folder));
        await form.getByText(choice).click();
        await form.getByRole('button', { name: 'Purge…' }).click();
        const dialog = page.getByRole('dialog');
        if (isShown)
          await dialog
            .getByRole('listitem')
            .filter({ hasText: `/${folder}/100/` })
            .waitFor();
        await dialog.getByRole('button', { name: 'Cancel' }).click();
        expect(await ask(`/${folder}/100/one`)).toContain('hit');
        await form.getByRole('button', { name: 'Purge…' }).click();
        await dialog.getByRole('button', { name: action }).click();
        await page.getByText(said).waitFor();
        expect(await ask(`/${folder}/100/one`)).toContain(after);
      });
    }
  }

  itInside('says why an order cannot be carried out', '#/change', async (page) => {
    const form = region(page, 'Purge');
    await form.getByRole('textbox').fill('example.org/film');
    await form.getByRole('button', { name: 'Purge…' }).click();
    await page.getByRole('dialog').getByText('expected a whole URL such as').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Expire' }).click();
    await page.locator('.message.bad', { hasText: 'expected a whole URL such as' }).waitFor();
    await page.getByRole('button', { name: 'Close this message' }).click();
    expect(await page.locator('.message').count()).toBe(0);
    // A group needs the origin that it belongs to.
    await form.getByText('Group', { exact: true }).click();
    await form.getByRole('textbox', { name: 'Group', exact: true }).fill('films');
    await form.getByLabel('Origin of the group').fill(ground.server.url);
    await form.getByRole('button', { name: 'Purge…' }).click();
    await page.getByRole('dialog').getByText('Nothing is stored for it now.').waitFor();
  });
});

describe('warming', () => {
  itInside('fetches URLs into the store, and says which it could not fetch', '#/change', async (page) => {
    const { url } = ground.server;
    const form = region(page, 'Warm');
    await form.getByLabel('URLs or paths').fill(`${url}/warm/500/one\n${url}/warm/600/two\n${url}/nothing`);
    await form.getByLabel('Fields of the requests').fill('no field');
    await form.getByRole('button', { name: 'Warm' }).click();
    await form.getByText('A field is “Name: value”, and this line is not: no field').waitFor();
    await form.getByLabel('Fields of the requests').fill('Accept-Language: de');
    await form.getByRole('button', { name: 'Warm' }).click();
    await page.getByText('Warmed: 2 of 3 URLs.').waitFor();
    expect(await wordsOf(form.getByRole('list'))).toMatch(
      /\/nothing 0 B read 404 .*\/warm\/500\/one 500 B read 200 .*\/warm\/600\/two 600 B read 200/,
    );
    expect(await ask('/warm/500/one')).toContain('hit');
  });
});

describe('explaining', () => {
  itInside('draws the answer, and says it in words', '#/explain', async (page) => {
    const uri = await store('/explain/10000/film');
    await page.getByLabel('URL or path').fill(uri);
    await page.getByLabel('Range').fill('500-999');
    await page.keyboard.press('Enter');
    const answer = region(page, 'GET: hit');
    const drawing = answer.getByRole('img', { name: /^Request, key, stored response, origin: hit/ });
    await drawing.waitFor();
    const texts = await drawing.locator('text').allTextContents();
    expect(texts).toEqual(
      expect.arrayContaining(['bytes=500-999', 'not asked', 'The whole: 10,000 bytes', 'The response: 206, 500 bytes']),
    );
    expect(await drawing.locator('.bytes-part title').allTextContents()).toContain('bytes 500–999: stored');
    await expect
      .poll(() => wordsOf(region(page, 'In words')))
      .toMatch(/decision hit: what is stored is fresh .* range bytes=500-999: obeyed/);
    expect(new URL(page.url()).hash).toContain('range=500-999');
  });

  itInside('draws what would be fetched', '#/explain', async (page) => {
    await page.getByLabel('URL or path').fill(`${ground.server.url}/explain/20000/absent`);
    await page.getByRole('button', { name: 'Explain' }).click();
    const drawing = region(page, 'GET: fill').getByRole('img');
    await drawing.waitFor();
    expect(await drawing.locator('text').allTextContents()).toEqual(
      expect.arrayContaining(['Nothing is stored.', 'asked GET', '/explain/20000/absent']),
    );
  });

  itInside('says what Rangeway answers by itself, and what is wrong with a question', '#/explain', async (page) => {
    await page.getByLabel('URL or path').fill(`${ground.server.url}/closed/100/one`);
    await page.getByRole('button', { name: 'Explain' }).click();
    await expect.poll(() => wordsOf(region(page, 'The answer'))).toMatch(/without the cache: 403 /);
    await page.getByText('Fields and client').click();
    await page.getByLabel('Fields of the request').fill('no field');
    await page.getByRole('button', { name: 'Explain' }).click();
    await page.getByText('A field is “Name: value”, and this line is not: no field').waitFor();
    await page.getByLabel('Fields of the request').fill('');
    await page.getByLabel('Address of the client').fill('192.0.2.1');
    await page.getByLabel('Method').selectOption('HEAD');
    await page.getByRole('button', { name: 'Explain' }).click();
    await region(page, /^HEAD: /).waitFor();
  });
});

describe('the keyboard alone', () => {
  itInside('reaches the content, chooses, confirms, and comes back to where it was', '', async (page) => {
    const uri = await store('/keys/100/one');
    // Beyond the last control of a dialog the focus is in the browser itself, which the page sees as its body.
    const focused = () =>
      page.evaluate<string>(
        '(({ activeElement: { tagName, textContent, name } }) => tagName === "BODY" ? tagName : textContent || name || tagName)(document)',
      );
    const isMarked = () => page.evaluate<boolean>('getComputedStyle(document.activeElement).outlineStyle !== "none"');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('Skip to the content');
    await page.keyboard.press('Enter');
    expect(await page.evaluate('document.activeElement.id')).toBe('main');
    // From the content back to the views.
    for (let count = 0; count < 30 && !(await focused()).startsWith('Purge'); count += 1)
      await page.keyboard.press('Shift+Tab');
    expect(await focused()).toMatch(/^Purge/);
    expect(await isMarked()).toBe(true);
    await page.keyboard.press('Enter');
    await region(page, 'Purge').waitFor();
    // The new view has the focus. The first control is the choice of the kind: the arrow goes to the next one.
    await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('main');
    await page.keyboard.press('Tab');
    await page.keyboard.press('ArrowRight');
    await page.getByLabel('Beginning of the URLs').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.type(uri);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    expect(await focused()).toBe('Purge…');
    expect(await isMarked()).toBe(true);
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    // The focus begins on the harmless button, and stays inside.
    expect(await focused()).toBe('Cancel');
    const inside = new Set<string>();
    for (let count = 0; count < 6; count += 1) {
      await page.keyboard.press('Tab');
      inside.add(await focused());
    }
    expect(
      [...inside].filter((name) => !['Cancel', 'Expire', 'BODY'].includes(name) && !name.startsWith('Purge every URL')),
    ).toEqual([]);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    expect(await focused()).toBe('Purge…');
    expect(await ask('/keys/100/one')).toContain('hit');
  });

  itInside('reaches every control of every view', '', async (page) => {
    await store('/keys/200/two');
    for (const fragment of ['#/', '#/fills', '#/entries', '#/explain', '#/change']) {
      await page.goto(ground.admin + fragment);
      await page.getByText('live', { exact: true }).waitFor();
      await page.evaluate(
        'document.activeElement.blur(); globalThis.reached = new Set(); addEventListener("focusin", ({ target }) => reached.add(target))',
      );
      // Of a set of radio buttons the checked one stands for all.
      const findMissed = () =>
        page.evaluate<readonly string[]>(
          `[...document.querySelectorAll('a[href], button:not(:disabled), input, select, textarea, summary')]
            .filter((each) => each.checkVisibility() && (each.type !== 'radio' || each.checked) && !reached.has(each))
            .map((each) => each.outerHTML.slice(0, 120))`,
        );
      let missed: readonly string[] = ['all'];
      // Some controls appear when their data have arrived, so their number is not known before.
      for (let step = 0; step < 600 && missed.length > 0; step += 1) {
        await page.keyboard.press('Tab');
        if (step % 20 === 19) missed = await findMissed();
      }
      expect(missed, fragment).toEqual([]);
    }
  });
});

describe('the look', () => {
  itInside('is chosen by a switch and kept', '', async (page) => {
    const ground = () => page.evaluate<string>('getComputedStyle(document.documentElement).backgroundColor');
    const light = await ground();
    const next = () => page.getByRole('button', { name: /^Colours: / }).click();
    await next();
    expect(await page.getByRole('button', { name: 'Colours: light' }).count()).toBe(1);
    expect(await ground()).toBe(light);
    await next();
    const dark = await ground();
    expect(dark).not.toBe(light);
    await page.reload();
    await page.getByText('live', { exact: true }).waitFor();
    expect(await ground()).toBe(dark);
    await next();
    expect(await ground()).toBe(light);
  });

  for (const look of [
    { scheme: 'light', width: 1280 },
    { scheme: 'dark', width: 1280 },
    { scheme: 'light', width: 390 },
    { scheme: 'dark', width: 390 },
  ] as const) {
    itInside(
      `has no fault that axe finds, and fits: ${look.scheme}, ${look.width} pixels`,
      '',
      async (page) => {
        const uri = await store('/look/100000/film');
        await expect.poll(() => wordsOf(region(page, 'Latest decisions'))).toContain('/look/');
        expect(await findFaults(page)).toEqual([]);
        expect(await overflowPx(page)).toBe(0);
        await page.goto(`${ground.admin}#/entries?text=/look/`);
        await page.locator('table.entries a', { hasText: 'film' }).click();
        await region(page, 'Decision history').waitFor();
        expect(await findFaults(page)).toEqual([]);
        expect(await overflowPx(page)).toBe(0);
        await page.goto(`${ground.admin}#/explain?${new URLSearchParams({ url: uri, range: '0-99' })}`);
        await region(page, 'In words').waitFor();
        expect(await findFaults(page)).toEqual([]);
        expect(await overflowPx(page)).toBe(0);
      },
      look,
    );
  }

  itInside('has no motion for those who asked for less', '', async (page) => {
    await page.emulateMedia({ reducedMotion: 'reduce' });
    expect(await page.evaluate('document.getAnimations().length')).toBe(0);
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    await expect.poll(() => page.evaluate('document.getAnimations().length')).toBeGreaterThan(0);
  });
});

describe('the stream', () => {
  const see = (page: Page, state: 'hidden' | 'visible') =>
    page.evaluate(
      `Object.defineProperty(document, 'visibilityState', { configurable: true, value: '${state}' }); document.dispatchEvent(new Event('visibilitychange'))`,
    );

  itInside('stops while the page is hidden, and goes on when it is seen again', '', async (page) => {
    const isStream = (request: { url(): string }) => request.url().endsWith('/activity/stream');
    const ended = page.waitForEvent('requestfailed', isStream);
    await see(page, 'hidden');
    await ended;
    await page.getByText('paused', { exact: true }).waitFor();
    const begun = page.waitForEvent('request', isStream);
    await see(page, 'visible');
    await begun;
    await page.getByText('live', { exact: true }).waitFor();
  });

  itInside('says when the server is away, and asks to log in to the one that comes after it', '', async (page) => {
    const { host } = new URL(ground.admin);
    await ground.server.stop('SIGTERM');
    await page.getByText(/The server does not answer\. What you see is from \d\d:\d\d:\d\d\. Trying again…/).waitFor();
    await startServer(host);
    // Sessions end with the server.
    await page.getByText('Your session has ended. Log in again.').waitFor();
    await page.getByLabel('Token of the admin listener').fill(token);
    await page.keyboard.press('Enter');
    await page.getByText('live', { exact: true }).waitFor();
  });
});
