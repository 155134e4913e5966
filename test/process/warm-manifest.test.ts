/** `rangeway warm --manifest` with DASH, through the executable, a running server and an origin. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { projectDirectory, type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';

const numbered =
  '<SegmentTemplate media="$RepresentationID$/$Number%03d$.m4s" initialization="$RepresentationID$/init.mp4" duration="2"/>';
const video = (...names: string[]) =>
  names.map((name) => `<Representation id="${name}" bandwidth="${name.slice(1)}" height="${name.slice(1)}"/>`).join('');

/** The documents of the origin. All other paths are segments. */
const documents: Record<string, string> = {
  '/film/index.mpd':
    '<MPD mediaPresentationDuration="PT5S"><BaseURL>media/</BaseURL>' +
    `<Period duration="PT4S"><AdaptationSet mimeType="video/mp4">${numbered}${video('v360', 'v720')}</AdaptationSet></Period>` +
    '<Period><AdaptationSet mimeType="audio/mp4"><Representation id="a"><BaseURL>sound.mp4</BaseURL>' +
    '<SegmentList><Initialization range="0-9"/><SegmentURL mediaRange="20-29"/></SegmentList></Representation></AdaptationSet></Period></MPD>',
  '/live.mpd':
    '<MPD type="dynamic" availabilityStartTime="2020-01-01T00:00:00" timeShiftBufferDepth="PT5H"><Period start="PT0S"><AdaptationSet><Representation id="v">' +
    '<SegmentTemplate media="live-$Time$" timescale="10"><SegmentTimeline><S t="0" d="36000" r="1"/></SegmentTimeline></SegmentTemplate>' +
    '</Representation></AdaptationSet></Period></MPD>',
  '/bad.mpd':
    '<MPD mediaPresentationDuration="PT2S">\n<Period><AdaptationSet><Representation>\n<SegmentTemplate media="$Part$"/></Representation>' +
    '<Representation><BaseURL>good.mp4</BaseURL></Representation></AdaptationSet></Period></MPD>',
  '/bomb.mpd': '<!DOCTYPE MPD [<!ENTITY a "aaaa">]>\n<MPD>&a;</MPD>',
};
const film = ['360', '720'].flatMap((height) =>
  ['init.mp4', '001.m4s', '002.m4s'].map((name) => `/film/media/v${height}/${name}`),
);

let dir: string;
let origin: Server;
let rangeway: RangewayProcess & { readonly url: string };
let asked: string[] = [];
/** The path whose answer waits, and the function that gets its request. */
let held: { readonly path: string; readonly arrive: () => void; readonly released: Promise<void> } | undefined;

beforeAll(async () => {
  origin = createServer(async (request, response) => {
    const { url = '' } = request;
    asked.push(url);
    if (url === held?.path) {
      held.arrive();
      await held.released;
    }
    // Segments of the film are not stored: a second request for one of them would reach the origin.
    const isStored = !url.startsWith('/film/media/v');
    response.writeHead(200, { 'cache-control': isStored ? 'max-age=600' : 'no-store', etag: '"1"' });
    response.end(documents[url] ?? Buffer.alloc(100));
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  dir = await mkdtemp(join(tmpdir(), 'rangeway-manifest-'));
  rangeway = await startConfigured(dir, {
    listen: '127.0.0.1:0',
    admin: { listen: 'unix:./admin.sock' },
    store: { type: 'memory' },
    routes: [{ origin: `http://127.0.0.1:${(origin.address() as AddressInfo).port}` }],
  });
});
afterAll(async () => {
  await rangeway[Symbol.asyncDispose]();
  origin.close().closeAllConnections();
  await rm(dir, { recursive: true, force: true });
});
beforeEach(() => {
  asked = [];
  held = undefined;
});

/** Runs `rangeway warm --manifest`. `use` may do something while it runs. */
async function warm(
  path: string,
  args: readonly string[] = [],
  use: (child: ReturnType<typeof spawn>) => Promise<void> = async () => {},
) {
  const command = [join(projectDirectory, 'bin/rangeway.js'), 'warm', '--manifest', rangeway.url + path, ...args];
  const child = spawn(process.execPath, command, {
    env: { ...process.env, RANGEWAY_ADMIN: `unix:${join(dir, 'admin.sock')}` },
  });
  child.stdin.end();
  const ended = Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  await use(child);
  const [stdout, stderr, [code]] = await ended;
  return { code: code as number, stdout, stderr };
}

describe('rangeway warm --manifest with DASH', () => {
  it('asks the origin for the manifest and for each segment exactly once', async () => {
    const run = await warm('/film/index.mpd');
    expect(run, rangeway.output()).toMatchObject({ code: 0, stderr: '' });
    expect(asked.toSorted()).toEqual(['/film/index.mpd', ...film, '/film/media/sound.mp4'].toSorted());
    // Both ranges are of a block that is fetched once.
    for (const range of ['bytes=0-9', 'bytes=20-29']) expect(run.stdout).toMatch(new RegExp(`^206 .* ${range} `, 'm'));
    expect(run.stdout).toMatch(/^9 URLs, /m);
  });

  it('takes the stream of --rendition only', async () => {
    const run = await warm('/film/index.mpd', ['--rendition', '360p', '--json']);
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('line 1: Period: it has no such stream; it has none with pictures');
    expect(asked.filter((path) => path.endsWith('.m4s')).toSorted()).toEqual(film.slice(1, 3));
  });

  it('takes the segments of a live manifest that are available now', async () => {
    documents['/live.mpd'] = (documents['/live.mpd'] ?? '').replace(
      '2020-01-01T00:00:00',
      new Date(Date.now() - 5_400_000).toISOString(),
    );
    expect(await warm('/live.mpd')).toMatchObject({ code: 0, stderr: '' });
    expect(asked.toSorted()).toEqual(['/live-0', '/live.mpd']);
  });

  it('names what it cannot read, with its line, and fetches the rest', async () => {
    const run = await warm('/bad.mpd');
    expect(run).toMatchObject({
      code: 1,
      stderr: `rangeway: ${rangeway.url}/bad.mpd: line 3: SegmentTemplate: media="$Part$": $Part$ is not known\n`,
    });
    expect(asked.toSorted()).toEqual(['/bad.mpd', '/good.mp4']);
  });

  it('refuses a manifest with entities', async () => {
    const run = await warm('/bomb.mpd');
    expect(run).toMatchObject({ code: 1, stdout: '0 URLs, 0 B; 1 failed\n' });
    expect(run.stderr).toContain('/bomb.mpd: line 1: its DOCTYPE declares something, which is refused');
  });

  it('goes on after Ctrl-C with what is left', async () => {
    const notes = join(dir, 'notes');
    const args = ['--rendition', 'best', '--jobs', '1', '--resume', notes];
    documents['/film/long.mpd'] =
      `<MPD mediaPresentationDuration="PT10S"><Period><AdaptationSet mimeType="video/mp4">${numbered}${video('v720')}</AdaptationSet></Period></MPD>`;
    const segments = ['init.mp4', '001.m4s', '002.m4s', '003.m4s', '004.m4s', '005.m4s'].map(
      (name) => `/film/v720/${name}`,
    );
    const arrived = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    held = { path: '/film/v720/003.m4s', arrive: arrived.resolve, released: released.promise };
    const stopped = await warm('/film/long.mpd', args, async (child) => {
      await arrived.promise;
      child.kill('SIGINT');
    });
    expect(stopped).toMatchObject({ code: 1 });
    expect(stopped.stderr).toBe(`rangeway: stopped; the same command goes on: ${notes} has what is done\n`);
    expect(asked).toEqual(['/film/long.mpd', ...segments.slice(0, 4)]);
    expect(await readFile(notes, 'utf8')).toContain('/film/v720/002.m4s');

    // The server goes on with what it has begun, and does not ask for it again.
    released.resolve();
    const resumed = await warm('/film/long.mpd', args);
    expect(resumed).toMatchObject({ code: 0, stderr: '' });
    expect(asked).toEqual(['/film/long.mpd', ...segments]);
    expect(resumed.stdout).toMatch(/^3 URLs, 300 B; 4 fetched before$/m);
    expect(await readdir(dir)).not.toContain('notes');
  });
});
