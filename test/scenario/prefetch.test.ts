/** The next segments of a playlist that a client plays are fetched before the client asks for them (`fill.prefetch`). */

import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { createAccess } from '../../src/guard/access/access.ts';
import { createSignatureCheck, signTarget } from '../../src/guard/access/signed-url.ts';
import { plainPresentation } from '../../src/guard/fields/presentation.ts';
import { createGate } from '../../src/guard/gate.ts';
import type { PrefetchEvent } from '../../src/telemetry/events.ts';
import { turn } from '../support/clocks/turn.ts';
import { createMediaOrigin, type MediaFile, type MediaOrigin } from '../support/origins/media-origin.ts';
import { createLimitedGate } from '../support/proxies/limited-gate.ts';
import { boundlessAllowances } from '../support/proxies/open-gate.ts';
import {
  createWholeProxy,
  type Sent,
  type WholeProxy,
  type WholeProxyOptions,
} from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const size = 3000;

function playlist(...lines: (string | readonly string[])[]): MediaFile {
  return { bytes: ['#EXTM3U', '#EXT-X-TARGETDURATION:4', ...lines.flat()].join('\n') };
}

const names = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => `s${from + at}.ts`);
const segments = (from: number, to: number) =>
  Object.fromEntries(names(from, to).map((name) => [`/film/${name}`, { bytes: patternBytes(0, size) }]));
const paths = (...numbers: number[]) => numbers.map((number) => `/film/s${number}.ts`);

let proxy: WholeProxy;
afterEach(() => proxy.close());

/** Opens the proxy before a film of nine segments, or other files. */
function open(files: Readonly<Record<string, MediaFile>> = {}, options: WholeProxyOptions = {}): MediaOrigin {
  const film = { '/film/index.m3u8': playlist(names(1, 9), '#EXT-X-ENDLIST'), ...segments(1, 9) };
  const origin = createMediaOrigin({ ...film, ...files });
  proxy = createWholeProxy({ prefetch: {}, origin, originRanges: 'auto', ...options });
  return origin;
}

/** Gets a resource, and waits until what follows from it is over. */
async function get(target: string, sent: Sent = {}): Promise<string | undefined> {
  const client = proxy.send({ target, ...sent });
  await client.bytes();
  await turn();
  await turn();
  return await client.field('cache-status');
}

const events = () =>
  proxy.events
    .filter((event): event is PrefetchEvent => event.kind === 'prefetch')
    .map(({ result, key }) => `${result} ${key.slice(key.lastIndexOf('/') + 1)}`);

describe('a client that plays', () => {
  it('finds the next segments stored: each is fetched once, and none behind them', async () => {
    const origin = open();
    await get('/film/index.m3u8');
    expect(origin.taken()).toEqual(['/film/index.m3u8']);
    await get('/film/s1.ts');
    expect(origin.taken()).toEqual(paths(1, 2, 3));
    expect(await get('/film/s2.ts')).toBe('rangeway; hit; ttl=60');
    expect(origin.taken()).toEqual(paths(4));
    await get('/film/s3.ts');
    expect(origin.taken()).toEqual(paths(5));
    expect(events()).toEqual([
      'fetched s2.ts',
      'fetched s3.ts',
      'used s2.ts',
      'fetched s4.ts',
      'used s3.ts',
      'fetched s5.ts',
    ]);
  });

  it('causes nothing at the last segment, and nothing that is stored already', async () => {
    const origin = open();
    await get('/film/index.m3u8');
    await get('/film/s9.ts');
    await get('/film/s8.ts');
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(8, 9)]);
    await get('/film/s7.ts');
    expect(origin.taken()).toEqual(paths(7));
    expect(events()).toEqual([]);
  });

  it('causes nothing where it seeks within what was prefetched', async () => {
    const origin = open();
    await get('/film/index.m3u8');
    for (const target of paths(1, 2, 3, 2, 1, 3, 2)) await get(target);
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(1, 2, 3, 4, 5)]);
  });

  it('causes nothing by HEAD, or where the playlist is not known', async () => {
    const origin = open();
    await get('/film/s1.ts');
    await get('/film/index.m3u8');
    await get('/film/s4.ts', { method: 'HEAD' });
    expect(origin.requests.map(({ target, method }) => `${method} ${target}`)).toEqual([
      'GET /film/s1.ts',
      'GET /film/index.m3u8',
      'HEAD /film/s4.ts',
    ]);
  });

  it('is played from the playlist of another client, which is stored', async () => {
    const origin = open();
    await get('/film/index.m3u8', { peer: '192.0.2.99' });
    await get('/film/index.m3u8');
    await get('/film/s1.ts');
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(1, 2, 3)]);
  });
});

describe('a prefetch', () => {
  it('has no credentials and no name of the client', async () => {
    const origin = open();
    await get('/film/index.m3u8');
    const fields = {
      'accept-encoding': 'br',
      'accept-language': 'en',
      'user-agent': 'player',
      referer: 'http://page.example/',
      origin: 'http://page.example',
      'x-forwarded-for': '192.0.2.1',
      'x-request-id': '7',
    };
    await get('/film/s1.ts', { fields });
    const [own] = origin.requests.filter(({ target }) => target === '/film/s2.ts');
    const sent = own?.fields.filter(([name]) => !/^(via|cdn-loop|host|x-forwarded-|x-real-ip|forwarded)/.test(name));
    expect(sent).toEqual([
      ['accept-encoding', 'br'],
      ['origin', 'http://page.example'],
    ]);
    expect(JSON.stringify(own?.fields)).not.toContain('192.0.2');
  });

  it('is not made for a client whose responses are for it alone', async () => {
    const fields = { etag: '"v1"', 'last-modified': 'Thu, 01 Jan 2015 00:00:00 GMT' };
    const plain = Object.fromEntries(Object.entries(segments(1, 9)).map(([path, file]) => [path, { ...file, fields }]));
    const origin = open(plain);
    await get('/film/index.m3u8');
    await get('/film/s1.ts', { fields: { cookie: 'session=1' } });
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(1)]);
    await get('/film/s1.ts');
    expect(origin.taken()).toEqual(paths(1, 2, 3));
  });

  it('of a response that is not stored is not repeated for a while', async () => {
    const origin = open({ '/film/s2.ts': { bytes: 'x', fields: { 'cache-control': 'no-store' } } });
    await get('/film/index.m3u8');
    await get('/film/s1.ts');
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(1, 2)]);
    await get('/film/s3.ts');
    expect(origin.taken()).toEqual(paths(3));
    expect(events()).toEqual(['failed s2.ts']);
    proxy.clock.advance(60_000);
    await get('/film/s3.ts');
    expect(origin.taken()).toEqual(paths(3, 4, 5));
  });

  it('of a segment that is not there is not repeated for a while', async () => {
    const origin = open();
    origin.files.delete('/film/s2.ts');
    await get('/film/index.m3u8');
    await get('/film/s1.ts');
    await get('/film/s1.ts');
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(1, 2)]);
  });

  it('counts as unused where no client asks for it', async () => {
    open();
    await get('/film/index.m3u8');
    await get('/film/s1.ts');
    proxy.clock.advance(11 * 60_000);
    await get('/film/index.m3u8');
    await get('/film/s5.ts');
    expect(events()).toContain('unused s2.ts');
    expect(events()).toContain('unused s3.ts');
  });
});

describe('access and limits', () => {
  it('are those of signed URLs: the playlist lists them, and the store knows them without their signatures', async () => {
    const secret = 'a secret of some length';
    const sign = (target: string) =>
      signTarget({ authority: 'files.example', target, keyId: 'k', expires: 4_000_000_000 }, secret);
    const signedUrls = createSignatureCheck(new Map([['k', secret]]), { now: () => 0, decoy: 'decoy' });
    const credentials = { realm: '', basic: undefined, bearer: undefined, apiKey: undefined, signedUrls };
    const access = createAccess({
      allow: undefined,
      deny: undefined,
      credentials: { ...credentials, areForwarded: false },
    });
    const gate = createGate({ access, allowances: boundlessAllowances, presentation: plainPresentation });
    const origin = open({ '/film/index.m3u8': playlist(paths(1, 2, 3, 4).map(sign)) }, { gate });
    await get(sign('/film/index.m3u8'));
    await get(sign('/film/s1.ts'));
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(1, 2, 3)]);
    expect(await get(sign('/film/s2.ts'))).toBe('rangeway; hit; ttl=60');
    expect(await proxy.send({ target: '/film/s3.ts' }).status()).toBe(403);
  });

  it('keep a client from having bytes fetched that it does not take', async () => {
    const amplification = { factor: 10, freeBytes: 5 * size, windowMs: 1_000_000 };
    const origin = open({}, { gate: createLimitedGate({ amplification }) });
    await get('/film/index.m3u8');
    for (const target of paths(1, 3, 5)) await get(target, { fields: { range: 'bytes=0-0' } });
    expect(events().filter((event) => event.startsWith('fetched'))).toHaveLength(3);
    expect(events().slice(-2)).toEqual(['skipped s6.ts', 'skipped s7.ts']);
    // Another client has a limit of its own.
    origin.taken();
    proxy.clock.advance(1000);
    await get('/film/s5.ts', { peer: '192.0.2.99' });
    expect(origin.taken()).toEqual(expect.arrayContaining(paths(6, 7)));
  });

  it('pay back what the client uses', async () => {
    const amplification = { factor: 10, freeBytes: 5 * size, windowMs: 1_000_000 };
    open({}, { gate: createLimitedGate({ amplification }) });
    await get('/film/index.m3u8');
    for (const target of paths(1, 2, 3, 4, 5, 6, 7, 8, 9)) await get(target);
    expect(events().filter((event) => event.startsWith('used'))).toHaveLength(8);
    expect(events().filter((event) => event.startsWith('skipped'))).toEqual([]);
  });
});

describe('a prefetch that runs', () => {
  /** A proxy before a scripted origin, which has answered the playlist. */
  async function openScripted(options: WholeProxyOptions = {}): Promise<void> {
    proxy = createWholeProxy({ prefetch: {}, ...options });
    const client = proxy.send({ target: '/film/index.m3u8' });
    const { bytes } = playlist(names(1, 9));
    const fields = { 'cache-control': 'max-age=60', etag: '"v1"' };
    (await proxy.origin.next()).respond({ fields }, Buffer.from(bytes));
    await client.bytes();
    await turn();
  }

  const fields = { 'cache-control': 'max-age=60', etag: '"v1"', 'content-length': String(size) };
  const body = patternBytes(0, size);
  const waiting = () => proxy.origin.waiting.map(({ request }) => request.target);

  /** Plays the first segment; returns the exchange of the prefetch that follows, whose head is sent. */
  async function begin(head: Readonly<Record<string, string>> = fields) {
    const first = proxy.send({ target: '/film/s1.ts' });
    (await proxy.origin.next()).respond({ fields }, body);
    await first.bytes();
    await turn();
    expect(waiting()).toEqual(paths(2));
    const exchange = await proxy.origin.next();
    exchange.head({ fields: head });
    await turn();
    return exchange;
  }

  it('begins when the origin answers the client, and the client joins it; the next one follows', async () => {
    await openScripted();
    const first = proxy.send({ target: '/film/s1.ts' });
    await turn();
    expect(waiting()).toEqual(paths(1));
    (await proxy.origin.next()).head({ fields });
    await first.status();
    await turn();
    expect(waiting()).toEqual(paths(2));
    const second = proxy.send({ target: '/film/s2.ts' });
    await turn();
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await exchange.send(body.subarray(0, 1500));
    expect(await second.readUntil(1500)).toEqual(Buffer.from(body.subarray(0, 1500)));
    // The client has caught up.
    expect(waiting()).toEqual(paths(3));
    await exchange.send(body.subarray(1500));
    exchange.end();
    expect(await second.bytes()).toEqual(Buffer.from(body));
    await turn();
    expect(waiting()).toEqual(paths(3));
    expect(events()).toEqual(['fetched s2.ts', 'used s2.ts']);
    await first.leave();
  });

  it('is followed by the next one when it is over, where the client does not catch up', async () => {
    await openScripted();
    const exchange = await begin();
    await exchange.send(body.subarray(0, 1500));
    expect(waiting()).toEqual([]);
    await exchange.send(body.subarray(1500));
    exchange.end();
    await turn();
    await turn();
    expect(waiting()).toEqual(paths(3));
  });

  it('is followed by the next segments of the latest request', async () => {
    await openScripted();
    const exchange = await begin();
    const seek = proxy.send({ target: '/film/s6.ts' });
    (await proxy.origin.next()).respond({ fields }, body);
    await seek.bytes();
    await turn();
    expect(waiting()).toEqual([]);
    await exchange.send(body);
    exchange.end();
    await turn();
    await turn();
    expect(waiting()).toEqual(paths(7));
  });

  it('ends where it takes too long', async () => {
    await openScripted();
    const exchange = await begin();
    await exchange.send(body.subarray(0, 1100));
    proxy.clock.advance(60_000);
    await turn();
    await turn();
    expect(exchange.isClosed).toBe(true);
    expect(events()).toEqual(['failed s2.ts']);
  });

  it('goes on for a client that reads it, where it takes too long', async () => {
    await openScripted();
    const exchange = await begin();
    const client = proxy.send({ target: '/film/s2.ts' });
    await client.status();
    await exchange.send(body.subarray(0, 1100));
    proxy.clock.advance(60_000);
    await turn();
    await turn();
    await exchange.send(body.subarray(1100));
    exchange.end();
    expect(await client.bytes()).toEqual(Buffer.from(body));
  });

  it('has a bounded size, which is stated', async () => {
    await openScripted({ prefetch: { segmentBytes: 9000 } });
    const exchange = await begin({ ...fields, 'content-length': '20000' });
    expect(exchange.isClosed).toBe(true);
    expect(events()).toEqual(['failed s2.ts']);
  });

  it('has a bounded size, which is not stated', async () => {
    await openScripted({ prefetch: { segmentBytes: 9000 } });
    const exchange = await begin({ 'cache-control': 'max-age=60' });
    for (let at = 0; at < 9; at += 1) await exchange.send(patternBytes(at * 1000, (at + 1) * 1000));
    expect(exchange.isClosed).toBe(false);
    void exchange.send(patternBytes(9000, 10_000));
    await turn();
    await turn();
    expect(exchange.isClosed).toBe(true);
    expect(events()).toEqual(['failed s2.ts']);
  });

  it.each([
    ['half of the connections, with that of the client', 4, paths(2)],
    ['half of the connections', 3, []],
  ])('is one of at most: %s', async (_, mostExchanges, want) => {
    await openScripted({ prefetch: { mostExchanges } });
    const first = proxy.send({ target: '/film/s1.ts' });
    (await proxy.origin.next()).head({ fields });
    await first.status();
    await turn();
    expect(waiting()).toEqual(want);
    await first.leave();
  });

  it.each([
    [1, []],
    [2, paths(6)],
  ])('is one of at most %i for all clients', async (concurrent, want) => {
    await openScripted({ prefetch: { concurrent } });
    await begin();
    const other = proxy.send({ target: '/film/s5.ts', peer: '192.0.2.99' });
    (await proxy.origin.next()).respond({ fields }, body);
    await other.bytes();
    await turn();
    expect(waiting()).toEqual(want);
  });

  it('gives way: it is looked at again with a later request', async () => {
    await openScripted({ prefetch: { mostExchanges: 2 } });
    const first = proxy.send({ target: '/film/s1.ts' });
    const exchange = await proxy.origin.next();
    exchange.head({ fields });
    await first.status();
    await turn();
    expect(waiting()).toEqual([]);
    expect(events()).toEqual(['skipped s2.ts', 'skipped s3.ts']);
    await exchange.send(body);
    exchange.end();
    await first.bytes();
    await turn();
    proxy.clock.advance(1000);
    await proxy.send({ target: '/film/s1.ts' }).bytes();
    await turn();
    expect(waiting()).toEqual(paths(2));
  });
});

describe('the playlist', () => {
  it('is the newest version of a live one', async () => {
    const live = { fields: { 'cache-control': 'max-age=1', etag: '"1"' } };
    const origin = open({ '/film/index.m3u8': { ...playlist(names(1, 3)), ...live } });
    await get('/film/index.m3u8');
    await get('/film/s2.ts');
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(2, 3)]);
    await get('/film/s3.ts');
    expect(origin.taken()).toEqual([]);
    proxy.clock.advance(2000);
    origin.files.set('/film/index.m3u8', {
      ...playlist(names(3, 6)),
      fields: { 'cache-control': 'max-age=1', etag: '"2"' },
    });
    await get('/film/index.m3u8');
    await get('/film/s3.ts');
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(4, 5)]);
    // It lists this segment no more.
    await get('/film/s2.ts');
    expect(origin.taken()).toEqual([]);
  });

  it('of a stream is used, that of the others and the master playlist are not', async () => {
    const origin = open({
      '/film/master.m3u8': {
        bytes: '#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nindex.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=2\nhigh.m3u8',
      },
      '/film/high.m3u8': playlist('h1.ts', 'h2.ts', 'h3.ts'),
      ...Object.fromEntries([1, 2, 3].map((at) => [`/film/h${at}.ts`, { bytes: 'high' }])),
    });
    for (const name of ['master', 'index', 'high']) await get(`/film/${name}.m3u8`);
    origin.taken();
    await get('/film/h1.ts');
    expect(origin.taken()).toEqual(['/film/h1.ts', '/film/h2.ts', '/film/h3.ts']);
  });

  it('may have tokens in its URLs, and URLs of other hosts, which are left out', async () => {
    const file = { bytes: 'segment' };
    const list = playlist('/a?token=1&x=%20y', '//other.example/b', 'http://files.example/c?token=2');
    const origin = open({
      '/film/index.m3u8': list,
      '/a?token=1&x=%20y': file,
      '/b': file,
      '/c?token=2': file,
    });
    await get('/film/index.m3u8');
    await get('/a?token=1&x=%20y');
    expect(origin.taken()).toEqual(['/a?token=1&x=%20y', '/c?token=2', '/film/index.m3u8']);
  });

  it('may be known by its media type, and be compressed', async () => {
    const { bytes } = playlist(names(1, 9));
    const origin = open({
      '/film?play': {
        bytes: gzipSync(bytes),
        fields: {
          'cache-control': 'max-age=60',
          'content-type': 'application/vnd.apple.mpegurl; charset=utf-8',
          'content-encoding': 'gzip',
        },
      },
      '/s2.ts': { bytes: 'segment' },
      '/s1.ts': { bytes: 'segment' },
    });
    await get('/film?play');
    // A thread decompresses it.
    const next = async () => {
      await get('/s1.ts');
      return origin.taken();
    };
    await expect.poll(next).toContain('/s2.ts');
  });

  it.each([
    ['damaged', { bytes: '#EXTM3U\n#EXT-X-BYTERANGE:x\ns1.ts\ns2.ts' }],
    ['no playlist', { bytes: 's1.ts\ns2.ts' }],
    ['too large', { bytes: `#EXTM3U\n#${'x'.repeat(1024 * 1024)}\ns1.ts\ns2.ts` }],
    [
      'of an unknown coding',
      { bytes: '#EXTM3U\ns1.ts\ns2.ts', fields: { 'cache-control': 'max-age=60', 'content-encoding': 'x' } },
    ],
    ['not stored', { bytes: '#EXTM3U\ns1.ts\ns2.ts', fields: { 'cache-control': 'no-store' } }],
  ])('is not used where it is %s', async (_, file) => {
    const origin = open({ '/film/index.m3u8': file });
    await get('/film/index.m3u8');
    await get('/film/s1.ts');
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(1)]);
  });
});

describe('byte ranges of one file', () => {
  const file = { bytes: patternBytes(0, 40_000) };
  const range = (first: number, last: number) => ({ fields: { range: `bytes=${first}-${last}` } });

  it('that a playlist lists are fetched as ranges', async () => {
    const lines = [0, 1, 2, 3].flatMap((at) => [`#EXT-X-BYTERANGE:8192@${at * 8192}`, 'all.ts']);
    const origin = open({ '/film/index.m3u8': playlist(lines), '/film/all.ts': file });
    await get('/film/index.m3u8');
    await get('/film/all.ts', range(0, 8191));
    expect(origin.taken()).toEqual([
      '/film/all.ts bytes=0-8191',
      '/film/all.ts bytes=16384-24575',
      '/film/all.ts bytes=8192-16383',
      '/film/index.m3u8',
    ]);
    expect(await get('/film/all.ts', range(8192, 16_383))).toBe('rangeway; hit; ttl=60');
    expect(origin.taken()).toEqual(['/film/all.ts bytes=24576-32767']);
    expect(events().filter((event) => event.startsWith('used'))).toHaveLength(1);
  });

  it('are not fetched for a client that wants the whole', async () => {
    const lines = [0, 1, 2].flatMap((at) => [`#EXT-X-BYTERANGE:1024@${at * 1024}`, 'all.ts']);
    const origin = open({ '/film/index.m3u8': playlist(lines), '/film/all.ts': file });
    await get('/film/index.m3u8');
    await get('/film/all.ts');
    expect(origin.taken()).toEqual(['/film/all.ts', '/film/index.m3u8']);
    expect(events()).toEqual([]);
  });

  it('with an index in the file are taken to be of one length', async () => {
    const manifest = `<MPD mediaPresentationDuration="PT10S"><Period><AdaptationSet><Representation><BaseURL>all.mp4</BaseURL>
      <SegmentBase indexRange="100-199"><Initialization range="0-99"/></SegmentBase></Representation></AdaptationSet></Period></MPD>`;
    const origin = open({ '/film/index.mpd': { bytes: manifest }, '/film/all.mp4': file });
    await get('/film/index.mpd');
    await get('/film/all.mp4', range(1024, 5119));
    expect(origin.taken()).toEqual([
      '/film/all.mp4 bytes=1024-5119',
      '/film/all.mp4 bytes=5120-13311',
      '/film/index.mpd',
    ]);
    expect(await get('/film/all.mp4', range(5120, 9215))).toBe('rangeway; hit; ttl=60');
    expect(origin.taken()).toEqual(['/film/all.mp4 bytes=13312-17407']);
    await get('/film/all.mp4', range(36_864, 39_999));
    expect(origin.taken()).toEqual(['/film/all.mp4 bytes=36864-']);
  });
});

describe('a DASH manifest', () => {
  it('lists the segments of each Representation', async () => {
    const manifest = `<MPD mediaPresentationDuration="PT40S"><Period><AdaptationSet>
      <SegmentTemplate media="$RepresentationID$-$Number$" initialization="$RepresentationID$-i" duration="10"/>
      <Representation id="a"/><Representation id="b"/></AdaptationSet></Period></MPD>`;
    const all = ['a', 'b'].flatMap((id) => ['i', 1, 2, 3, 4].map((at) => [`/film/${id}-${at}`, { bytes: 'x' }]));
    const origin = open({ '/film/index.mpd': { bytes: manifest }, ...Object.fromEntries(all) });
    await get('/film/index.mpd');
    await get('/film/b-i');
    expect(origin.taken()).toEqual(['/film/b-1', '/film/b-2', '/film/b-i', '/film/index.mpd']);
    await get('/film/b-3');
    expect(origin.taken()).toEqual(['/film/b-3', '/film/b-4']);
  });
});

describe('the explanation', () => {
  it('names the next segments, and causes no prefetch', async () => {
    const origin = open();
    expect((await proxy.explain({ target: '/film/s1.ts' })).prefetch).toBeUndefined();
    await get('/film/index.m3u8');
    origin.taken();
    expect((await proxy.explain({ target: '/film/s1.ts' })).prefetch).toEqual(paths(2, 3));
    expect((await proxy.explain({ target: '/film/s9.ts' })).prefetch).toEqual([]);
    expect((await proxy.explain({ target: '/film/index.m3u8' })).prefetch).toBeUndefined();
    await turn();
    expect(origin.taken()).toEqual([]);
  });
});

describe('without the option', () => {
  it('nothing is prefetched', async () => {
    const origin = open();
    await proxy.close();
    proxy = createWholeProxy({ origin });
    await get('/film/index.m3u8');
    await get('/film/s1.ts');
    expect(origin.taken()).toEqual(['/film/index.m3u8', ...paths(1)]);
  });
});
