/** Hits of packed heads (a disk store with memory in front) get the same bytes as hits of a memory store, which packs nothing. */

import { expect, it, onTestFinished } from 'vitest';
import { createFieldChange, createPresentation } from '../../../src/guard/fields/presentation.ts';
import { createGate } from '../../../src/guard/gate.ts';
import type { HitRoad, ProxyRequest } from '../../../src/http/message.ts';
import { packResponse } from '../../../src/http/packed-response.ts';
import { createMemoryTier } from '../../../src/store/tiered/memory-tier.ts';
import { createTieredStore } from '../../../src/store/tiered/tiered-store.ts';
import { createAnsweringOrigin } from '../../support/origins/answering-origin.ts';
import { boundlessAllowances, openAccess } from '../../support/proxies/open-gate.ts';
import { openListener } from '../../support/proxies/open-listener.ts';
import { createWholeProxy, type WholeProxyOptions } from '../../support/proxies/whole-proxy.ts';
import { openTestStore } from '../../support/stores/disk-store.ts';
import { sampleMetadata } from '../../support/stores/stored-sample.ts';
import { patternBytes } from '../../support/values/pattern-body.ts';

const blockSizeBytes = 64 * 1024;
const bytes = patternBytes(0, 3000);
const usual = {
  date: 'Thu, 01 Jan 2026 00:00:00 GMT',
  etag: '"v1"',
  'content-type': 'image/webp',
  'last-modified': 'Wed, 01 Jan 2025 00:00:00 GMT',
  'cache-control': 'max-age=600',
};

const requests = [
  'GET',
  'HEAD',
  ...['Range: bytes=5-9', 'Range: bytes=0-1,100-101', 'Range: bytes=9000-'].map((line) => `GET ${line}`),
  ...['"v1"', 'W/"v1"', '"v2"', '*'].map((tag) => `GET If-None-Match: ${tag}`),
  ...[2024, 2025, 2026].map((year) => `GET If-Modified-Since: Wed, 01 Jan ${year} 00:00:00 GMT`),
  ...['"v1"', '"v2"', usual['last-modified']].map((validator) => `GET If-Range: ${validator}\r\nRange: bytes=5-9`),
];

/** Opens a listener, and returns the third response to each request: a hit, after the entry was found and a hit was prepared. */
async function answersOf(options: WholeProxyOptions): Promise<string[]> {
  const proxy = createWholeProxy({ ...options, blockSizeBytes });
  onTestFinished(() => proxy.close());
  // The proxy trusts clients at 127.0.0.1 with forwarding fields, which hits do not read.
  const peer = { address: '192.0.2.7', port: 40_000 };
  const hit: HitRoad = (head, { scheme }, receivedAt) =>
    proxy.handler.hit?.(head, { scheme, takesMovable: false, peer }, receivedAt);
  const handler = Object.assign((request: ProxyRequest) => proxy.handler(request), { hit });
  await using listener = await openListener(handler, { now: proxy.clock.now });
  await using client = await listener.connect();
  const answers: string[] = [];
  for (let round = 0; round < 3; round += 1) {
    answers.length = 0;
    // What was read of the packed heads is forgotten, as in a store with many entries.
    for (let other = 0; other < 256; other += 1) packResponse(sampleMetadata(other));
    for (const request of requests) {
      const [method, ...line] = request.split(' ');
      const fields = line.length === 0 ? '' : `${line.join(' ')}\r\n`;
      const got = await client.exchange(`${method} /file HTTP/1.1\r\nHost: files.example\r\n${fields}\r\n`);
      // A tag of our own has the name of the generation, which each store chooses.
      const lines = got.lines.map((each) => each.join(': ').replace(/"rw-[^"]+"/, '"own"'));
      answers.push([request, got.status, ...lines, Buffer.from(got.body).toString('hex')].join('\n'));
    }
  }
  // Only the first GET and the unsatisfiable ranges took the full path in the last rounds.
  expect(listener.requests.length).toBeLessThan(requests.length + 8);
  return answers;
}

const gateThat = (change: Partial<Parameters<typeof createFieldChange>[0]>) =>
  createGate({
    access: openAccess,
    allowances: boundlessAllowances,
    presentation: createPresentation({
      cors: undefined,
      security: undefined,
      change: createFieldChange({ remove: [], set: {}, add: {}, ...change }),
    }),
  });

it.each<[string, Record<string, string>, WholeProxyOptions]>([
  ['usual fields', usual, {}],
  [
    'fields in another order, with some of its own',
    { vary: 'accept-encoding', 'x-a': 'é', age: '5', ...usual, via: '1.1 a' },
    {},
  ],
  ['neither validators nor a date', { 'cache-control': 'max-age=600' }, {}],
  ['a weak validator', { ...usual, etag: 'W/"v1"' }, {}],
  ['a long head', { ...usual, 'x-long': 'a'.repeat(5000) }, {}],
  ['fields that the operator removes', usual, { gate: gateThat({ remove: ['etag'] }) }],
  ['fields that the operator sets', usual, { gate: gateThat({ set: { date: 'never', 'x-new': '1' } }) }],
])('%s', async (_, fields, options) => {
  const origin = () => createAnsweringOrigin({ bytes, fieldsOf: () => fields, hasRanges: true, asked: [] });
  const { store: disk } = await openTestStore({ blockSizeBytes });
  const store = createTieredStore(createMemoryTier({ maxSizeBytes: 1e6 }), disk, () => 0);
  const packed = await answersOf({ ...options, origin: origin(), createStore: () => store });
  expect(packed).toEqual(await answersOf({ ...options, origin: origin() }));
});
