import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LegacyOrigin, openLegacyOrigin } from '../../../src/cli/demo/legacy-origin.ts';
import { readPackageFolder } from '../../../src/setup/package-files.ts';
import { realClock } from '../../support/clocks/real-clock.ts';

const files = readPackageFolder('assets/demo');

let origin: LegacyOrigin;

beforeAll(async () => {
  origin = await openLegacyOrigin({ files, bytesPerSecond: 1e9, clock: realClock, isFollowed: true });
});

afterAll(() => origin.close());

describe('the legacy origin', () => {
  it.each([
    ['/', 'text/html; charset=utf-8'],
    ['/demo.js', 'text/javascript; charset=utf-8'],
    ['/range-test.mp4', 'video/mp4'],
    ['/download.bin', 'application/octet-stream'],
  ])('%s: a Range and a condition change nothing', async (path, mediaType) => {
    const plain = await fetch(origin.url + path);
    const body = Buffer.from(await plain.arrayBuffer());
    const headers = { range: 'bytes=0-9', 'if-modified-since': 'Wed, 01 Jan 2020 00:00:00 GMT' };
    const ranged = await fetch(origin.url + path, { headers });
    expect(ranged.status).toBe(200);
    expect(Buffer.from(await ranged.arrayBuffer()).equals(body)).toBe(true);
    expect(ranged.headers.get('content-type')).toBe(mediaType);
    expect(ranged.headers.get('content-length')).toBe(String(body.length));
    expect(ranged.headers.get('last-modified')).toBe('Wed, 01 Jan 2020 00:00:00 GMT');
    for (const name of ['accept-ranges', 'etag', 'content-range']) expect(ranged.headers.get(name), name).toBeNull();
  });

  it('sends the bytes of the video file', async () => {
    const file = await readFile(new URL('../../../assets/demo/range-test.mp4', import.meta.url));
    const body = Buffer.from(await (await fetch(`${origin.url}/range-test.mp4`)).arrayBuffer());
    expect(body.equals(file)).toBe(true);
  });

  it('sends the report in chunks and without a validator', async () => {
    const response = await fetch(`${origin.url}/report.csv`);
    const text = await response.text();
    expect(response.headers.get('transfer-encoding')).toBe('chunked');
    for (const name of ['content-length', 'last-modified', 'etag', 'accept-ranges']) {
      expect(response.headers.get(name), name).toBeNull();
    }
    expect(text.split('\n').slice(0, 2)).toEqual(['day,requests,megabytes', '1,7919,44']);
    expect(text.split('\n').slice(-2)).toEqual(['4000,3845,528', '']);
  });

  it('generates the same download each time, of bytes that do not repeat', async () => {
    const hashes = [0, 1].map(async () => {
      const body = Buffer.from(await (await fetch(`${origin.url}/download.bin`)).arrayBuffer());
      const blocks = new Set<string>();
      for (let at = 0; at < body.length; at += 65_536) {
        blocks.add(
          createHash('sha256')
            .update(body.subarray(at, at + 65_536))
            .digest('hex'),
        );
      }
      expect(blocks.size).toBe(256);
      return createHash('sha256').update(body).digest('hex');
    });
    expect(await hashes[0]).toBe(await hashes[1]);
  });

  it.each([
    ['GET', '/README.md', 404],
    ['GET', '/..%2fREADME.md', 404],
    ['GET', '/nothing', 404],
    ['POST', '/', 405],
    ['HEAD', '/range-test.mp4', 200],
  ])('%s %s: %d', async (method, path, status) => {
    const response = await fetch(origin.url + path, { method });
    expect(response.status).toBe(status);
    expect(await response.text()).toBe('');
  });

  it('counts requests, ranges and bytes', async () => {
    const counting = await openLegacyOrigin({ files, bytesPerSecond: 1e9, clock: realClock, isFollowed: true });
    await (await fetch(`${counting.url}/poster.svg`, { headers: { range: 'bytes=0-1' } })).arrayBuffer();
    const { length } = Buffer.from(await (await fetch(`${counting.url}/poster.svg`)).arrayBuffer());
    await fetch(`${counting.url}/poster.svg`, { method: 'HEAD' });
    expect(counting.stats()).toEqual({
      requests: 2,
      bytes: 2 * length,
      files: {
        '/poster.svg': { requests: 2, rangeRequests: 1, bytes: 2 * length, latestBytes: length, sizeBytes: length },
      },
    });
    expect(await (await fetch(`${counting.url}/demo.json`)).json()).toMatchObject({
      origin: counting.url,
      stats: counting.stats(),
    });
    await counting.close();
  });

  it.each([
    ['0.0.0.0', '127.0.0.1'],
    ['127.0.0.1', '127.0.0.1'],
    ['::', '[::1]'],
  ])('listens on %s, and is reached from this machine at %s', async (host, reached) => {
    const options = { files, bytesPerSecond: 1e9, clock: realClock, listen: { host, port: 0 }, isFollowed: false };
    const listening = await openLegacyOrigin(options);
    expect(new URL(listening.url).hostname).toBe(reached);
    const facts = await (await fetch(`${listening.url}/demo.json`)).json();
    expect(facts).toMatchObject({ origin: listening.url, isFollowed: false });
    await listening.close();
  });

  it('sends events to an open page, and ends the stream when it closes', async () => {
    const closing = await openLegacyOrigin({ files, bytesPerSecond: 1e9, clock: realClock, isFollowed: true });
    closing.publish('request', { target: '/before' });
    const response = await fetch(`${closing.url}/demo-events`);
    expect(response.headers.get('content-type')).toBe('text/event-stream');
    closing.publish('request', { target: '/after' });
    await closing.close();
    const text = await response.text();
    expect(text).toMatch(/^event: stats\ndata: \{"requests":0,.*\}\n\n/);
    for (const target of ['/before', '/after']) {
      expect(text).toContain(`event: request\ndata: {"target":"${target}"}\n\n`);
    }
  });
});
