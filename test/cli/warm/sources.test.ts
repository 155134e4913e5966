/** Sitemaps and playlists: what is read, what is left out, and where reading ends. */

import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { FetchDocument } from '../../../src/cli/warm/fetch-through.ts';
import { maxSitemapBytes, parseSitemap } from '../../../src/cli/warm/sitemap.ts';
import { findInManifest, findInSitemap, findInSitemapFile } from '../../../src/cli/warm/sources.ts';

const site = 'https://www.example';

/** Answers from a table; `asked` has the URLs in order. */
function documents(table: Record<string, string | Uint8Array>) {
  const asked: string[] = [];
  const fetchDocument: FetchDocument = async (url) => {
    asked.push(url);
    const text = table[url];
    if (text === undefined) return { kind: 'failed', reason: 'the answer was 404' };
    return { kind: 'fetched', url, bytes: typeof text === 'string' ? Buffer.from(text) : text };
  };
  return { asked, fetchDocument };
}

const urlset = (...urls: string[]) => `<urlset>${urls.map((url) => `<url><loc>${url}</loc></url>`).join('')}</urlset>`;
const index = (...urls: string[]) =>
  `<sitemapindex>${urls.map((url) => `<sitemap><loc>${url}</loc></sitemap>`).join('')}</sitemapindex>`;

describe('a sitemap', () => {
  it.each<[what: string, bytes: string | Uint8Array, want: object]>([
    [
      'XML',
      `<?xml version="1.0"?>\n${urlset(' http://a/?b=1&amp;c=2 ')}`,
      { kind: 'urls', urls: ['http://a/?b=1&c=2'] },
    ],
    ['CDATA', '<urlset><url><loc><![CDATA[http://a/]]></loc></url></urlset>', { kind: 'urls', urls: ['http://a/'] }],
    [
      'prefixes',
      '<s:urlset xmlns:s="x"><s:url><s:loc>http://a/</s:loc></s:url></s:urlset>',
      { kind: 'urls', urls: ['http://a/'] },
    ],
    [
      'images, which are no pages',
      '<urlset><url><loc>http://a/</loc><image:image><image:loc>http://a/i</image:loc></image:image></url></urlset>',
      { kind: 'urls', urls: ['http://a/'] },
    ],
    ['gzip', gzipSync(urlset('http://a/')), { kind: 'urls', urls: ['http://a/'] }],
    ['text', 'http://a/\r\nhttp://b/\n', { kind: 'urls', urls: ['http://a/', 'http://b/'] }],
    ['an index', index('http://a/1.xml'), { kind: 'index', urls: ['http://a/1.xml'] }],
    ['other XML', '<html></html>', { kind: 'invalid', reason: 'it is no sitemap: its root element is <html>' }],
    ['other text', 'hello', { kind: 'invalid', reason: 'it is neither XML nor a list of URLs' }],
    ['XML that is cut', '<urlset><url>', { kind: 'invalid' }],
    ['damaged gzip', Uint8Array.of(0x1f, 0x8b, 1, 2), { kind: 'invalid' }],
    ['an entity that does not exist', urlset('http://a/&lol;'), { kind: 'invalid' }],
    [
      'a bomb',
      gzipSync(Buffer.alloc(maxSitemapBytes + 1, ' ')),
      { kind: 'invalid', reason: `it has more than ${maxSitemapBytes} bytes` },
    ],
  ])('is read from %s', async (_what, bytes, want) => {
    expect(await parseSitemap(typeof bytes === 'string' ? Buffer.from(bytes) : bytes)).toMatchObject(want);
  });

  it('is read with its index; each once, and none of another host', async () => {
    const { asked, fetchDocument } = documents({
      [`${site}/s.xml`]: index(
        `${site}/s.xml`,
        `${site}/1.xml`,
        `${site}/2.xml`,
        `${site}/1.xml`,
        'http://evil.example/s.xml',
      ),
      [`${site}/1.xml`]: urlset(`${site}/a`, 'http://evil.example/b', `${site}:8443/c`),
    });
    const found = await findInSitemap(`${site}/s.xml`, fetchDocument);
    expect(asked).toEqual([`${site}/s.xml`, `${site}/1.xml`, `${site}/2.xml`]);
    expect(found.targets).toEqual([{ url: `${site}/a` }]);
    expect(found.faults).toEqual([`${site}/2.xml: the answer was 404`]);
    expect([...found.otherHosts]).toEqual([
      ['evil.example', 2],
      ['www.example:8443', 1],
    ]);
  });

  it('ends where indexes contain indexes for ever', async () => {
    let asked = 0;
    const endless: FetchDocument = async (url) => {
      asked += 1;
      return { kind: 'fetched', url, bytes: Buffer.from(index(`${site}/${asked}.xml`)) };
    };
    const found = await findInSitemap(`${site}/s.xml`, endless);
    expect(asked).toBe(4);
    expect(found.faults).toEqual([`${site}/3.xml: indexes in indexes are read 3 deep only`]);
  });

  it('ends where an index has too many sitemaps', async () => {
    const urls = Array.from({ length: 5000 }, (_, at) => `${site}/${at}.xml`);
    const { asked, fetchDocument } = documents({ [`${site}/s.xml`]: index(...urls) });
    const found = await findInSitemap(`${site}/s.xml`, fetchDocument);
    expect(asked).toHaveLength(2000);
    expect(found.faults).toContain('more than 2000 documents: the others are left out');
  });

  it('from a file may name any host', async () => {
    const { fetchDocument } = documents({});
    const found = await findInSitemapFile(
      's.xml',
      Buffer.from(urlset('http://a/', 'http://b/', 'nothing')),
      fetchDocument,
    );
    expect(found.targets).toEqual([{ url: 'http://a/' }, { url: 'http://b/' }]);
    expect([...found.otherHosts]).toEqual([['no URL', 1]]);
  });
});

describe('a playlist', () => {
  const master = `${site}/m.m3u8`;
  const table = {
    [master]: [
      '#EXTM3U',
      '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="x",URI="a.m3u8"',
      '#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="b",NAME="x",URI="b.m3u8"',
      '#EXT-X-STREAM-INF:BANDWIDTH=9,RESOLUTION=1280x720,AUDIO="b"\n720.m3u8',
      '#EXT-X-STREAM-INF:BANDWIDTH=2,RESOLUTION=640x360,AUDIO="a"\n360.m3u8',
      '#EXT-X-STREAM-INF:BANDWIDTH=5\nhttp://evil.example/v.m3u8',
    ].join('\n'),
    ...Object.fromEntries(
      ['a', 'b', '720', '360'].map((name) => [
        `${site}/${name}.m3u8`,
        `#EXTM3U\n${name}.ts\nhttp://evil.example/${name}.ts\n`,
      ]),
    ),
  };

  it.each<[choice: Parameters<typeof findInManifest>[1], names: string[]]>([
    ['all', ['m.m3u8', '720.m3u8', '720.ts', '360.m3u8', '360.ts', 'a.m3u8', 'a.ts', 'b.m3u8', 'b.ts']],
    ['best', ['m.m3u8', '720.m3u8', '720.ts', 'b.m3u8', 'b.ts']],
    ['lowest', ['m.m3u8', '360.m3u8', '360.ts', 'a.m3u8', 'a.ts']],
    [{ height: 360 }, ['m.m3u8', '360.m3u8', '360.ts', 'a.m3u8', 'a.ts']],
  ])('is read with the streams %j', async (choice, names) => {
    const { asked, fetchDocument } = documents(table);
    const found = await findInManifest(master, choice, fetchDocument, 0);
    expect(found.targets).toEqual(names.map((name) => ({ url: `${site}/${name}` })));
    expect(found.faults).toEqual([]);
    expect(asked.filter((url) => !url.startsWith(site))).toEqual([]);
    expect(found.otherHosts.get('evil.example')).toBeGreaterThan(0);
  });

  it.each<[want: string, text: string]>([
    ['it is no DASH manifest: its root element is <html>', '<!doctype html><html><p></html>'],
    ['line 1: MPD: it has no Period', '<?xml version="1.0"?><MPD></MPD>'],
    ['it is no HLS playlist: its first line is not #EXTM3U', 'hello'],
  ])('says: %s', async (want, text) => {
    const { fetchDocument } = documents({ [master]: text });
    expect((await findInManifest(master, 'all', fetchDocument, 0)).faults).toEqual([`${master}: ${want}`]);
  });

  it('names the streams that there are', async () => {
    const { fetchDocument } = documents(table);
    const { faults } = await findInManifest(master, { height: 1080 }, fetchDocument, 0);
    expect(faults).toEqual([`${master}: it has no such stream; it has 720p, 360p, one without a height`]);
  });

  it('that contains itself is read once', async () => {
    const text = `#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n${master}\n#EXT-X-STREAM-INF:BANDWIDTH=1\nx.m3u8`;
    const { asked, fetchDocument } = documents({ [master]: text, [`${site}/x.m3u8`]: text });
    const found = await findInManifest(master, 'all', fetchDocument, 0);
    expect(asked).toEqual([master, `${site}/x.m3u8`]);
    expect(found.faults).toEqual([`${site}/x.m3u8: it is a master playlist, too`]);
  });
});
