/** The parts of a hit (the fields of its response, and of a request to the origin), and a whole hit. */

import { representationFields } from '../../src/delivery/response-fields.ts';
import { forwardedRequestFields, forwardedResponseFields } from '../../src/guard/fields/forwarding.ts';
import { memoizeByObject } from '../../src/http/collections.ts';
import type { Fields } from '../../src/http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { selectSpan } from '../../src/semantics/range.ts';
import { createFakeClock } from '../../test/support/clocks/fake-clock.ts';
import { createAnsweringOrigin } from '../../test/support/origins/answering-origin.ts';
import { defaultCaching } from '../../test/support/proxies/default-caching.ts';
import { RoadGround } from '../../test/support/proxies/road-ground.ts';
import type { MicroCase } from '../micro-case.ts';
import { now, request, requestFields, sizeBytes, stored } from '../micro-sample.ts';

const rules = {
  match: { hosts: [], pathPrefix: '/' },
  stripPathPrefix: false,
  host: 'origin',
  originUrl: new URL('http://origin.example:8080'),
  cache: defaultCaching,
} as const;
const client = { address: '192.0.2.7', forwardedFor: [] };
const forward = memoizeByObject((fields: Fields) => forwardedResponseFields(fields, '1.1', 'rangeway-1'));
const facts = { status: { hit: true, ttlSeconds: 86_340 } };
const terms = { facts, isReuse: true, isPartial: true, now, forward };

let passedMs = 0;
const startAt = Date.UTC(2026, 0, 1);

/** A handler with one stored object of 64 KiB. */
const ground = new RoadGround({
  // `now` of the fake clock throws after too many readings in one turn of the event loop; this one does not.
  clock: { ...createFakeClock(startAt), now: () => startAt + passedMs },
  origin: createAnsweringOrigin({
    bytes: new Uint8Array(65_536),
    fieldsOf: () => Object.fromEntries(stored.fields.filter(([name]) => name !== 'vary')),
    hasRanges: false,
    asked: [],
  }),
});
await ground.ask();
passedMs = 60_100;
const line: ProxyRequest = { ...request, authority: 'files.example', target: '/file', receivedAt: ground.clock.now() };
const ranges = Array.from({ length: 64 }, (_, at) => `bytes=${at * 1000}-${at * 1000 + 1023}`);
const requests = ranges.map((range): ProxyRequest => {
  return { ...line, fields: requestFields.map((field) => (field[0] === 'range' ? ['range', range] : field)) };
});
const whole = { bytesSent: 1024, complete: true };
const ask = (asked: ProxyRequest | undefined) => ground.handler(asked ?? line) as ProxyResponse;

export const cases: readonly MicroCase[] = [
  { name: 'selectSpan', call: (turn) => selectSpan(ranges[turn & 63] ?? '', sizeBytes) },
  { name: 'representationFields, of a part', call: () => representationFields(stored, terms) },
  { name: 'forwardedRequestFields', call: () => forwardedRequestFields(request, client, rules, 'rangeway-1') },
  {
    name: 'a hit, from the request to the response',
    call: (turn) => {
      const response = ask(requests[turn & 63]);
      response.onDelivered?.(whole);
      ground.events.length = 0;
      return response;
    },
  },
];
