/** Playlists in the bodies of responses: which responses are read, and their streams. */

import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import { isPlaylist, maxPlaylistBytes, readStreams } from '../../src/prefetch/read-playlist.ts';

const url = 'http://media.example/film/list';
const text = '#EXTM3U\na.ts\nb.ts\n';
const streams = [[{ url: 'http://media.example/film/a.ts' }, { url: 'http://media.example/film/b.ts' }]];

const read = (bytes: Uint8Array | string, fields: Fields = []) =>
  readStreams(Buffer.from(bytes), { url, fields, now: 0 });

describe('a response may be a playlist', () => {
  it.each<[target: string, type: string | undefined, want: boolean]>([
    ['/a.m3u8', undefined, true],
    ['/a.M3U8?x=y.ts', 'text/plain', true],
    ['/a.mpd', undefined, true],
    ['/a.m3u', undefined, true],
    ['/a.ts', 'video/mp2t', false],
    ['/a.ts?x=.m3u8', 'video/mp2t', false],
    ['/play', 'application/vnd.apple.mpegurl', true],
    ['/play', 'Audio/MPEGURL ; charset=utf-8', true],
    ['/play', 'application/dash+xml', true],
    ['/play', 'application/xml', false],
    ['/play', undefined, false],
  ])('%s of type %s: %s', (target, type, want) => {
    expect(isPlaylist(target, type === undefined ? [] : [['content-type', type]])).toBe(want);
  });
});

describe('the streams', () => {
  it.each<[what: string, bytes: Uint8Array | string, coding: string | undefined]>([
    ['plain text', text, undefined],
    ['identity', text, 'identity'],
    ['gzip', gzipSync(text), 'gzip'],
    ['x-gzip in capitals', gzipSync(text), 'X-GZIP'],
    ['brotli', brotliCompressSync(text), 'br'],
    ['deflate', deflateSync(text), 'deflate'],
    ['zstd', zstdCompressSync(text), 'zstd'],
  ])('are read from %s', async (_, bytes, coding) => {
    expect(await read(bytes, coding === undefined ? [] : [['content-encoding', coding]])).toEqual(streams);
  });

  it.each<[what: string, bytes: Uint8Array | string, coding: string | undefined]>([
    ['a coding that is not known', text, 'compress'],
    ['two codings', gzipSync(gzipSync(text)), 'gzip, gzip'],
    ['a damaged coding', text, 'gzip'],
    ['a body that is too large without its coding', gzipSync(text + ' '.repeat(maxPlaylistBytes)), 'gzip'],
    ['no playlist', 'a.ts', undefined],
    ['a master playlist', '#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\na.m3u8', undefined],
    ['an empty playlist', '#EXTM3U', undefined],
    ['a page', '<html><body>404</body></html>', undefined],
    ['too many segments', `#EXTM3U\n${'a\n'.repeat(20_001)}`, undefined],
  ])('are none in %s', async (_, bytes, coding) => {
    expect(await read(bytes, coding === undefined ? [] : [['content-encoding', coding]])).toEqual([]);
  });

  it('of a live manifest are those that are available at the time of the response', async () => {
    const manifest = `\u{feff}<?xml version="1.0"?><MPD type="dynamic" availabilityStartTime="1970-01-01T00:00:00Z"><Period start="PT0S">
      <AdaptationSet><Representation><SegmentTemplate media="$Number$" duration="2"/></Representation></AdaptationSet></Period></MPD>`;
    const [stream] = await readStreams(Buffer.from(manifest), { url, fields: [], now: 6000 });
    expect(stream?.map((segment) => segment.url)).toEqual([1, 2, 3].map((at) => `http://media.example/film/${at}`));
  });
});
