/** HLS playlists: the URLs and byte ranges in them. */

import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parsePlaylist } from '../../src/media/playlist.ts';

const base = 'http://media.example/film/index.m3u8?v=1';

function targetsOf(...lines: string[]) {
  const playlist = parsePlaylist(['#EXTM3U', ...lines].join('\n'), base);
  expect(playlist).toMatchObject({ kind: 'media' });
  return playlist.kind === 'media' ? playlist.targets : [];
}

describe('the segments of a media playlist', () => {
  it('are in the order of play, with maps and repetitions, without keys and parts', () => {
    const lines = [
      '#EXTM3U',
      '#EXT-X-MAP:URI="i.mp4"',
      '#EXT-X-KEY:METHOD=AES-128,URI="key"',
      '#EXT-X-PART:DURATION=0.3,URI="p0.m4s"',
      'b.m4s',
      '#EXT-X-BYTERANGE:10@0',
      'all.ts',
      '#EXT-X-BYTERANGE:10',
      'all.ts',
      'b.m4s',
    ];
    const playlist = parsePlaylist(lines.join('\n'), base);
    const film = 'http://media.example/film';
    expect(playlist).toMatchObject({
      kind: 'media',
      segments: [
        { url: `${film}/i.mp4` },
        { url: `${film}/b.m4s` },
        { url: `${film}/all.ts`, span: { start: 0, end: 10 } },
        { url: `${film}/all.ts`, span: { start: 10, end: 20 } },
        { url: `${film}/b.m4s` },
      ],
    });
  });

  it.each([
    [{ targets: 2, characters: 1000 }, 'it has more than 2 segments'],
    [{ targets: 9, characters: 80 }, 'the URLs of its segments have more than 80 characters together'],
  ])('are bounded by the limits of the caller: %j', (limits, reason) => {
    expect(parsePlaylist('#EXTM3U\na\nb\nc', base, undefined, limits)).toEqual({ kind: 'invalid', reason });
  });
});

describe('a media playlist', () => {
  it.each<[what: string, lines: string[], want: object[]]>([
    [
      'segments',
      ['#EXTINF:4,', 'a.m4s', '', '#EXTINF:4,', '/b.ts?x#y'],
      [{ url: 'http://media.example/film/a.m4s' }, { url: 'http://media.example/b.ts?x' }],
    ],
    ['one segment twice', ['a.m4s', 'a.m4s'], [{ url: 'http://media.example/film/a.m4s' }]],
    ['a segment of another host', ['//cdn.example/a'], [{ url: 'http://cdn.example/a' }]],
    [
      'a map, a key and parts',
      [
        '#EXT-X-MAP:URI="init.mp4"',
        '#EXT-X-KEY:METHOD=AES-128,URI="k,1.key",IV=0x1',
        '#EXT-X-PART:DURATION=0.3,URI="p0.m4s"',
        '#EXT-X-KEY:METHOD=NONE',
        '#EXT-X-KEY:METHOD=SAMPLE-AES,URI="skd://key"',
      ],
      ['init.mp4', 'k,1.key', 'p0.m4s'].map((name) => ({ url: `http://media.example/film/${name}` })),
    ],
    [
      'byte ranges: those that follow each other are one',
      ['#EXT-X-BYTERANGE:100@0', 'all.ts', '#EXT-X-BYTERANGE:50', 'all.ts', '#EXT-X-BYTERANGE:10@500', 'all.ts'],
      [
        { url: 'http://media.example/film/all.ts', range: 'bytes=0-149' },
        { url: 'http://media.example/film/all.ts', range: 'bytes=500-509' },
      ],
    ],
    [
      'a map with a byte range, and the whole file besides',
      ['#EXT-X-MAP:URI="all.mp4",BYTERANGE="720@0"', 'all.mp4'],
      [{ url: 'http://media.example/film/all.mp4' }],
    ],
    [
      'variables',
      ['#EXT-X-DEFINE:NAME="dir",VALUE="x/y"', '{$dir}/a.ts'],
      [{ url: 'http://media.example/film/x/y/a.ts' }],
    ],
    ['comments and unknown tags', ['# no tag', '#EXT-X-NEW:1', 'a'], [{ url: 'http://media.example/film/a' }]],
  ])('has %s', (_what, lines, want) => expect(targetsOf(...lines)).toEqual(want));

  it('is live without its end', () => {
    expect(parsePlaylist('#EXTM3U\r\na.ts\r\n', base)).toMatchObject({ isEndless: true });
    expect(parsePlaylist('#EXTM3U\r\na.ts\r\n#EXT-X-ENDLIST\r\n', base)).toMatchObject({ isEndless: false });
  });
});

describe('a master playlist', () => {
  const text = [
    '#EXTM3U',
    '#EXT-X-DEFINE:NAME="t",VALUE="7"',
    '#EXT-X-SESSION-KEY:METHOD=AES-128,URI="s.key"',
    '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="aac",NAME="English, loud",URI="en/a.m3u8"',
    '#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="cc",INSTREAM-ID="CC1"',
    '#EXT-X-STREAM-INF:BANDWIDTH=800000,RESOLUTION=640x360,CODECS="avc1.4d401e,mp4a.40.2",AUDIO="aac"',
    '360.m3u8?t={$t}',
    '#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH=1,URI="i.m3u8"',
  ].join('\n');

  it('has streams, media and I-frames', () => {
    const film = 'http://media.example/film';
    expect(parsePlaylist(text, base)).toEqual({
      kind: 'master',
      renditions: [{ url: `${film}/360.m3u8?t=7`, bandwidth: 800_000, height: 360, groups: ['AUDIO aac'] }],
      media: [{ url: `${film}/en/a.m3u8`, group: 'AUDIO aac' }],
      frames: [`${film}/i.m3u8`],
      targets: [{ url: `${film}/s.key` }],
      variables: new Map([['t', '7']]),
    });
  });
});

describe('a playlist that cannot be used', () => {
  it.each<[reason: string, text: string]>([
    ['it is no HLS playlist', '<html>'],
    ['it is no HLS playlist', ''],
    ['line 2: it is no http or https URL', '#EXTM3U\nfile:///etc/passwd'],
    ['line 2: it is no http or https URL', '#EXTM3U\nhttp://user:secret@media.example/'],
    ['line 2: its URI is no http or https URL', '#EXTM3U\n#EXT-X-MAP:URI="data:x"'],
    ['line 3: the byte range "1-2" is not length@offset', '#EXTM3U\n#EXT-X-BYTERANGE:1-2\na'],
    ['line 2: EXT-X-DEFINE defines nothing', '#EXTM3U\n#EXT-X-DEFINE:IMPORT="x"'],
    ['it has both streams and segments', '#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\na\nb'],
    ['it has more than 200000 segments', `#EXTM3U\n${'a\n'.repeat(200_001)}`],
  ])('says that %s', (reason, text) => {
    const playlist = parsePlaylist(text, base);
    expect(playlist.kind === 'invalid' ? playlist.reason : playlist.kind).toContain(reason);
  });

  it('never throws, and yields http URLs only', () => {
    const line = fc.oneof(
      fc.string(),
      fc.constantFrom(
        '#EXT-X-MAP:URI="a",BYTERANGE="5@1"',
        '#EXT-X-BYTERANGE:7',
        '#EXT-X-STREAM-INF:A="',
        'a',
        '#EXT-X-KEY:URI="x:y"',
      ),
    );
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        const playlist = parsePlaylist(['#EXTM3U', ...lines].join('\n'), base);
        if (playlist.kind === 'invalid') return;
        for (const { url } of playlist.targets) expect(url).toMatch(/^https?:\/\//);
      }),
    );
  });
});
