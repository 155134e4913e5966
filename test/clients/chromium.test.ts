import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { chromium, type Page } from 'playwright-core';
import { describe, expect } from 'vitest';
import type { LegacyStats } from '../../src/cli/demo/legacy-origin.ts';
import { wholeFileOrigins } from '../support/origins/whole-file-origins.ts';
import { findProgram, itWith } from '../support/processes/programs.ts';
import { startDemo } from '../support/processes/rangeway-process.ts';
import { withProxyBefore } from './proxied-file.ts';

const switches = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** Runs a test with a page of the installed browser. Every error that the page reports fails the test. */
async function withPage(test: (page: Page) => Promise<void>): Promise<void> {
  const browser = await chromium.launch({ executablePath: findProgram('chromium') ?? '', args: switches });
  try {
    const page = await browser.newPage();
    const faults: string[] = [];
    page.on('pageerror', (error) => faults.push(error.message));
    await test(page);
    expect(faults).toEqual([]);
  } finally {
    await browser.close();
  }
}

/** The result of `seek`: the position in seconds, and the player's readyState. */
interface Seen {
  readonly at: number;
  readonly ready: number;
}

/** Seeks, waits for the end of it, and returns the position of the player. */
const seek = `async (second) => {
  const video = document.querySelector('video');
  if (video.readyState < 1) await new Promise((resolve) => video.addEventListener('loadedmetadata', resolve));
  const seeked = new Promise((resolve) => video.addEventListener('seeked', resolve, { once: true }));
  video.currentTime = second;
  await seeked;
  return { at: video.currentTime, ready: video.readyState };
}`;

/** Returns the second that the picture shows: it has a bar whose length is the time that has passed. */
const look = `() => {
  const video = document.querySelector('video');
  const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
  const context = canvas.getContext('2d');
  context.drawImage(video, 0, 0);
  const isOrange = (x) => {
    const [red, green, blue] = context.getImageData(x, canvas.height - 7, 1, 1).data;
    return red > 200 && green > 140 && blue < 130;
  };
  let orange = 0;
  while (orange < canvas.width && isOrange(orange)) orange += 1;
  return (orange / canvas.width) * 60;
}`;

/** Seeks forth and back, and checks the frame at each second. */
async function expectSeeking(page: Page): Promise<void> {
  for (const second of [45, 5, 58, 30]) {
    const { at, ready } = await page.evaluate<Seen>(`(${seek})(${second})`);
    expect(at).toBe(second);
    expect(ready).toBeGreaterThanOrEqual(2);
    // On a busy machine the frame is drawn after the end of the seek.
    const missed = async () => Math.abs((await page.evaluate<number>(`(${look})()`)) - second);
    await expect.poll(missed, { message: `the frame at second ${second}` }).toBeLessThan(0.5);
  }
}

describe.each(wholeFileOrigins)('chromium, in front of $name', ({ programs, open }) => {
  itWith(['chromium', ...programs], 'seeks a video with its index at the end', async () =>
    withProxyBefore(
      open,
      ({ url }) =>
        withPage(async (page) => {
          // Any document of the proxy's origin: a canvas may read frames of the same origin only.
          await page.goto(new URL('/', url).href);
          await page.setContent(`<video src="${url}" preload="auto" muted></video>`);
          await expectSeeking(page);
        }),
      await readFile(fileURLToPath(new URL('../../assets/demo/range-test.mp4', import.meta.url))),
    ),
  );
});

describe('chromium, on the page of the demo', () => {
  itWith(['chromium'], 'seeks a video whose origin has no ranges, with one request to the origin', async () => {
    await using demo = await startDemo();
    await withPage(async (page) => {
      await page.goto(demo.url);
      await expectSeeking(page);
      const { stats } = (await (await fetch(`${demo.origin}/demo.json`)).json()) as { stats: LegacyStats };
      expect(stats.files['/range-test.mp4']).toMatchObject({ requests: 1 });
    });
  });

  itWith(['chromium'], 'does not seek the same video at the origin itself', async () => {
    await using demo = await startDemo();
    await withPage(async (page) => {
      await page.goto(demo.origin);
      await page.evaluate<Seen>(`(${seek})(45)`);
      expect(await page.evaluate<number>(`(${look})()`)).toBeLessThan(1);
    });
  });

  itWith(['chromium'], 'shows the response of Rangeway to each button', async () => {
    await using demo = await startDemo();
    await withPage(async (page) => {
      await page.goto(demo.url);
      const size = 2_115_429;
      for (const [button, head, body] of [
        ['First 100 bytes', `content-range: bytes 0-99/${size}`, 'ftypisom'],
        ['Last 100 bytes', `content-range: bytes ${size - 100}-${size - 1}/${size}`, 'ilst'],
        ['Two ranges', 'content-type: multipart/byteranges', 'ftypisom'],
        ['Past the end', `content-range: bytes */${size}`, ''],
      ] as const) {
        await page.getByRole('button', { name: new RegExp(`^${button}`) }).click();
        await page.locator('#reply-head', { hasText: head }).waitFor();
        expect(await page.locator('#reply-body').textContent(), button).toContain(body);
      }
      await page.locator('#log tr', { hasText: 'bytes=-100' }).locator('td', { hasText: '206' }).waitFor();
      expect(await page.locator('#trials pre').first().textContent()).toContain(`${demo.origin}/range-test.mp4`);
    });
  });
});
