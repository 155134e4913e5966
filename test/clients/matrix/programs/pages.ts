/** Web pages in Chromium: media elements, fetch, hls.js, dash.js and pdf.js. */

import { librarySource, otherOrigin, runInPage } from '../browser.ts';
import { type Client, check, checkBytes, checkShare, type Place } from '../client.ts';
import { pageCount, pageText } from '../formats/pdf.ts';
import { s3Origin } from '../origins/node-origins.ts';
import { nginxWithoutRanges, nginxWithRanges, pythonOrigin } from '../origins/program-origins.ts';
import { difficult, typical } from '../origins.ts';

/** Functions of the scripts below. An element must have its data at the position that it was sent to, and can end. */
const player = `
  const event = (name) => new Promise((resolve, reject) => {
    element.addEventListener(name, resolve, { once: true });
    element.addEventListener('error', () => reject(new Error('the player failed: ' + element.error?.message)), { once: true });
  });
  const known = async () => { if (element.readyState < 1) await event('loadedmetadata'); };
  const seek = async (second) => {
    await known();
    const seeked = event('seeked');
    element.currentTime = second;
    await seeked;
    if (element.readyState < 2) await event('canplay');
    if (element.currentTime !== second) throw new Error('the player is at ' + element.currentTime + ', not at ' + second);
  };
  const isBuffered = (second) =>
    Array.from({ length: element.buffered.length }, (_, at) => at).some(
      (at) => element.buffered.start(at) <= second && second < element.buffered.end(at));
`;

/** Returns the URL of a module with a source. */
const moduleOf = `
  const moduleOf = (text) => URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
`;

/** Seeks, plays to the end, plays from the start again, leaves, and opens the file again. */
const useElement = `async ({ tag, url }) => {
  const element = document.body.appendChild(document.createElement(tag));
  ${player}
  Object.assign(element, { preload: 'auto', muted: true, src: url });
  for (const second of [45, 5, 59.5]) await seek(second);
  const ended = event('ended');
  await element.play();
  await ended;
  await seek(0);
  const moved = event('timeupdate');
  await element.play();
  await moved;
  element.pause();
  element.removeAttribute('src');
  element.load();
  element.src = url;
  await seek(30);
}`;

const useHls = `async ({ url, source }) => {
  ${moduleOf}
  const { default: Hls } = await import(moduleOf(source));
  const element = document.body.appendChild(document.createElement('video'));
  ${player}
  const hls = new Hls({ maxBufferLength: 4, maxMaxBufferLength: 4 });
  const failed = new Promise((_, reject) => {
    hls.on(Hls.Events.ERROR, (_, data) => data.fatal && reject(new Error('hls.js: ' + data.details)));
  });
  hls.loadSource(url);
  hls.attachMedia(element);
  await Promise.race([failed, (async () => {
    for (const second of [45, 5]) await seek(second);
    if (!isBuffered(5)) throw new Error('the second is not buffered');
  })()]);
  hls.destroy();
}`;

const useDash = `async ({ url, source }) => {
  ${moduleOf}
  const { MediaPlayer } = await import(moduleOf(source));
  const element = document.body.appendChild(document.createElement('video'));
  ${player}
  const dash = MediaPlayer().create();
  const failed = new Promise((_, reject) => {
    dash.on(MediaPlayer.events.ERROR, ({ error }) => reject(new Error('dash.js: ' + error.message)));
  });
  dash.updateSettings({ streaming: { buffer: { bufferTimeDefault: 4, initialBufferLevel: 4 } } });
  dash.initialize(element, url, false);
  await Promise.race([failed, (async () => {
    for (const second of [45, 5]) await seek(second);
    if (!isBuffered(5)) throw new Error('the second is not buffered');
  })()]);
  dash.destroy();
}`;

const readPdf = `async ({ url, page, source, worker }) => {
  ${moduleOf}
  const pdf = await import(moduleOf(source));
  pdf.GlobalWorkerOptions.workerSrc = moduleOf(worker);
  const task = pdf.getDocument({ url, disableAutoFetch: true, disableStream: true });
  const document = await task.promise;
  const { items } = await (await document.getPage(page)).getTextContent();
  await task.destroy();
  return { pages: document.numPages, text: items.map(({ str }) => str).join('') };
}`;

const fetchRange = `async ({ url }) => {
  const response = await fetch(url, { headers: { range: 'bytes=900000-900999' } });
  const bytes = [...new Uint8Array(await response.arrayBuffer())];
  return { status: response.status, range: response.headers.get('content-range'), bytes };
}`;

const programs = ['chromium'];
/** Without ranges a player may wait for ever. */
const withoutMs = 5000;

async function useMedia(place: Place, tag: 'video' | 'audio', name: string): Promise<void> {
  await runInPage(place, useElement, { tag, url: place.url(name) });
}

export const pages: readonly Client[] = [
  {
    name: 'Chromium `<video>`',
    programs: [...programs, 'ffmpeg'],
    origins: difficult,
    fileBytes: ({ sizes }) => sizes['film.mp4'],
    withoutMs,
    run: (place) => useMedia(place, 'video', 'film.mp4'),
  },
  {
    name: 'Chromium `<audio>`',
    programs: [...programs, 'ffmpeg'],
    origins: typical,
    fileBytes: ({ sizes }) => sizes['sound.mp4'],
    withoutMs,
    run: (place) => useMedia(place, 'audio', 'sound.mp4'),
  },
  {
    name: 'Chromium, fetch() with Range from another origin',
    programs,
    origins: [pythonOrigin, nginxWithRanges, s3Origin],
    fileBytes: ({ sizes }) => sizes['file.bin'],
    withoutMs,
    async run(place) {
      const got = await runInPage<{ status: number; range: string; bytes: number[] }>(
        place,
        fetchRange,
        { url: place.url('file.bin') },
        await otherOrigin(),
      );
      check(got.status === 206, `the status is ${got.status}`);
      check(got.range === `bytes 900000-900999/${place.fixtures.file.length}`, `Content-Range is ${got.range}`);
      checkBytes('the range', Buffer.from(got.bytes), place.fixtures.file.subarray(900_000, 901_000));
    },
  },
  {
    name: 'hls.js, byte ranges',
    programs: [...programs, 'ffmpeg', 'npm:hls.js'],
    origins: [pythonOrigin, nginxWithRanges],
    fileBytes: undefined,
    withoutMs,
    async run(place) {
      const source = await librarySource('hls.js/dist/hls.min.mjs');
      await runInPage(place, useHls, { url: place.url('hls/film.m3u8'), source });
      checkShare(place, place.fixtures.film.length);
    },
  },
  {
    name: 'dash.js, byte ranges',
    programs: [...programs, 'ffmpeg', 'npm:dashjs'],
    origins: [pythonOrigin, nginxWithRanges],
    fileBytes: undefined,
    withoutMs,
    async run(place) {
      const source = await librarySource('dashjs/dist/modern/esm/dash.all.min.js');
      await runInPage(place, useDash, { url: place.url('dash/film.mpd'), source });
      checkShare(place, place.fixtures.film.length);
    },
  },
  {
    name: 'pdf.js: one page',
    programs: [...programs, 'npm:pdfjs-dist'],
    origins: [pythonOrigin, nginxWithoutRanges, nginxWithRanges],
    fileBytes: ({ sizes }) => sizes['paper.pdf'],
    withoutMs,
    async run(place) {
      const source = await librarySource('pdfjs-dist/build/pdf.min.mjs');
      const worker = await librarySource('pdfjs-dist/build/pdf.worker.min.mjs');
      const argument = { url: place.url('paper.pdf'), page: 50, source, worker };
      const got = await runInPage<{ pages: number; text: string }>(place, readPdf, argument);
      check(got.pages === pageCount && got.text === pageText(50), `the text is ${got.text}`);
      // The first request is for the whole, which pdf.js ends when it knows that there are ranges. Much of it may have come by then.
      check(
        place.requests().some(({ range }) => range !== undefined),
        'pdf.js read the whole document',
      );
    },
  },
];
