/** The input of the micro-benchmarks: a player's range request for a video, and the stored response. */

import type { CachePolicy } from '../src/cache/inquiry.ts';
import type { Fields } from '../src/http/fields.ts';
import type { ProxyRequest } from '../src/http/message.ts';
import type { StoredResponse } from '../src/http/stored-response.ts';
import { defaultCaching } from '../test/support/proxies/default-caching.ts';
import { quietFillPolicy } from '../test/support/proxies/quiet-fill-policy.ts';

/** Time of the request, in epoch milliseconds: a minute after the response was stored. */
export const now = Date.UTC(2026, 0, 2, 12, 1);

/** The size of the representation, in bytes. */
export const sizeBytes = 1024 ** 3;

/** The fields of a request from a browser's video player. */
export const requestFields: Fields = [
  ['host', 'media.example.org'],
  ['user-agent', 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'],
  ['accept', 'video/webm,video/ogg,video/*;q=0.9,application/ogg;q=0.7,audio/*;q=0.6,*/*;q=0.5'],
  ['accept-language', 'en-GB,en;q=0.5'],
  ['accept-encoding', 'identity'],
  ['range', 'bytes=73400320-73465855'],
  ['connection', 'keep-alive'],
  ['referer', 'https://www.example.org/watch/4711'],
];

export const request: ProxyRequest = {
  method: 'GET',
  scheme: 'http',
  authority: 'media.example.org',
  target: '/library/2026/01/the-film.mp4?token=abc',
  version: '1.1',
  fields: requestFields,
  body: undefined,
  bodySizeBytes: undefined,
  peer: { address: '192.0.2.7', port: 50_000 },
  receivedAt: now,
  signal: new AbortController().signal,
  sendInterim: () => {},
};

/** The stored response to that request. */
export const stored: StoredResponse = {
  status: 200,
  fields: [
    ['date', 'Fri, 02 Jan 2026 12:00:00 GMT'],
    ['server', 'nginx'],
    ['content-type', 'video/mp4'],
    ['last-modified', 'Wed, 01 Jan 2025 00:00:00 GMT'],
    ['etag', '"5e0be100-40000000"'],
    ['cache-control', 'public, max-age=86400'],
    ['vary', 'Accept-Encoding'],
    ['access-control-allow-origin', '*'],
  ],
  nominated: [['accept-encoding', 'identity']],
  requestAt: now - 60_100,
  responseAt: now - 60_000,
};

/** The cache policy of a default configuration. */
export const policy: CachePolicy = {
  ...defaultCaching,
  isEnabled: true,
  wantsDigest: false,
  fill: quietFillPolicy,
  closeDelimited: 'store',
  maxRanges: 100,
};
