/** Explanations as text. */

import { describe, expect, it } from 'vitest';
import type { ChosenExplanation } from '../../../src/cache/explain/explanation.ts';
import { formatExplanation } from '../../../src/cli/admin/explain-text.ts';
import type { Explanation } from '../../../src/delivery/explanation.ts';

const nothing: Explanation = {
  version: 1,
  at: 1_000_000,
  method: 'GET',
  uri: 'http://a.example/film.mp4',
  route: 'main',
  key: 'http://origin.example/ http://a.example/film.mp4',
  decision: { kind: 'fill', reason: 'uri-miss', forwardReason: 'uri-miss', cacheStatus: 'rangeway; fwd=uri-miss' },
  originQuestion: { method: 'GET', target: '/film.mp4', fields: [['range', 'bytes=0-262143']] },
  variant: [],
  entryCount: 0,
  entries: [],
  flights: [],
  origin: { isKnown: false, mayAsk: true, mayAskMore: true, refusal: undefined },
  plan: { range: { value: 'bytes=0-99' }, conditions: [], isMultipart: false, spans: [], asked: [] },
};

const chosen: ChosenExplanation = {
  generation: 'g1',
  status: 200,
  sizeBytes: 10_000,
  present: {
    bytes: 2048,
    runs: 2,
    spans: [
      { start: 0, end: 1024 },
      { start: 2048, end: 3072 },
    ],
  },
  isComplete: false,
  isInvalid: false,
  tags: ['http://a.example group'],
  receivedAt: 0,
  freshness: {
    lifetimeMs: 3_600_000,
    source: 's-maxage',
    field: 'cdn-cache-control',
    age: { ageFieldMs: 10_000, responseDelayMs: 250, apparentAgeMs: 12_000, residentMs: 90_000, ageMs: 102_000 },
    ttlMs: 3_498_000,
    stale: { whileRevalidateMs: 0, ifErrorMs: 604_800_000, forbiddenBy: 's-maxage' },
  },
  validators: {
    entityTag: { value: '"rw-g1"', strength: 'strong', owner: 'rangeway' },
    lastModified: { value: 'Wed, 01 Jan 2025 00:00:00 GMT', strength: 'weak' },
    conditions: [['if-modified-since', 'Wed, 01 Jan 2025 00:00:00 GMT']],
  },
};

const inPart: Explanation = {
  ...nothing,
  decision: {
    kind: 'complete',
    reason: 'partial',
    forwardReason: 'partial',
    cacheStatus: 'rangeway; fwd=partial; stored',
  },
  originQuestion: undefined,
  chosen,
  variant: [
    ['accept-language', 'de'],
    ['cookie:lang', null],
  ],
  entryCount: 3,
  entries: [
    {
      generation: 'g1',
      status: 200,
      sizeBytes: 10_000,
      isComplete: false,
      isFragment: false,
      differs: [],
      isUsable: true,
      isChosen: true,
    },
    {
      generation: 'g0',
      status: 200,
      sizeBytes: 10_000,
      isComplete: true,
      isFragment: false,
      pinnedUntil: 5,
      differs: ['accept-language', 'cookie:lang'],
      isUsable: true,
      isChosen: false,
    },
  ],
  flights: [
    {
      hasLanded: true,
      generation: 'g1',
      sizeBytes: 10_000,
      receivedBytes: 4000,
      readers: 1,
      transfers: [{ at: 5000, end: 6144 }],
    },
    { hasLanded: false, receivedBytes: 0, readers: 0, transfers: [] },
  ],
  plan: {
    status: 206,
    range: { value: 'bytes=500-8000', isObeyed: true },
    conditions: ['if-range'],
    outcome: 'proceed',
    isMultipart: false,
    asked: ['bytes=1024-2047', 'bytes=6144-8191'],
    spans: [
      {
        start: 500,
        end: 8001,
        hereBytes: 1548,
        inFlightBytes: 3072,
        originBytes: 2881,
        isCut: false,
        pieces: [
          { start: 500, end: 1024, from: 'here' },
          { start: 1024, end: 2048, from: 'origin' },
          { start: 2048, end: 3072, from: 'here' },
          { start: 3072, end: 6144, from: 'in-flight' },
          { start: 6144, end: 8001, from: 'origin' },
        ],
      },
    ],
  },
};

/** Returns the lines of one label, without the label. */
function linesOf(explanation: Explanation, label: string): string[] {
  const lines = formatExplanation(explanation).split('\n');
  const at = lines.findIndex((line) => line.startsWith(label));
  if (at === -1) return [];
  const rest = lines.slice(at + 1);
  const count = rest.findIndex((line) => !line.startsWith('   '));
  return [lines[at] ?? '', ...rest.slice(0, count)].map((line) => line.slice(13));
}

describe('an explanation', () => {
  it.each([
    [undefined, []],
    [[], ['nothing: it is the last segment of its playlist']],
    [['/2.ts', '/all.ts bytes=0-9'], ['the next segments of its playlist: /2.ts, /all.ts bytes=0-9']],
  ])('of a request that prefetches %j', (prefetch, lines) => {
    expect(linesOf({ ...nothing, prefetch }, 'prefetch')).toEqual(lines);
  });

  it('of a request with nothing stored', () => {
    expect(formatExplanation(nothing)).toBe(`GET http://a.example/film.mp4

decision     fill: nothing is stored under this key
             Cache-Status: rangeway; fwd=uri-miss
response     known when the origin has answered
route        main
key          http://origin.example/ http://a.example/film.mp4
stored       nothing under this key
range        bytes=0-99: obeyed where the response allows it
origin       asked GET /film.mp4 with Range: bytes=0-262143
             not known whether it gives ranges
`);
  });

  it('of a request with an incomplete entry', () => {
    expect(formatExplanation(inPart)).toBe(`GET http://a.example/film.mp4

decision     complete: what is stored holds a part of what is wanted; the rest is fetched
             Cache-Status: rangeway; fwd=partial; stored
response     206, 7501 of 10000 bytes
             bytes 500-8000: 1548 here, 3072 in flight, 2881 to fetch (here 500-1023, to fetch
               1024-2047, here 2048-3071, in flight 3072-6143, to fetch 6144-8000)
             the origin would be asked for bytes=1024-2047, bytes=6144-8191
route        main
key          http://origin.example/ http://a.example/film.mp4
variant      Accept-Language: de
             cookie lang: (not sent)
stored       g1: 200, 10000 bytes, in part (this one)
             g0: 200, 10000 bytes, complete (replaced, kept for clients that resume; differs in
               Accept-Language, cookie lang)
             and 1 more
bytes        2048 of 10000 here: 0-1023, 2048-3071
freshness      1 h          lifetime: s-maxage in CDN-Cache-Control
             - 12 s         age when it came: Age 10 s + delay 0.25 s, or by Date 12 s
             - 1 min 30 s   since then
             = 58 min 18 s  left
             stale: forbidden by s-maxage
validators   ETag "rw-g1": strong, Rangeway's own
             Last-Modified Wed, 01 Jan 2025 00:00:00 GMT: weak
             parts cannot be combined
             validated with If-Modified-Since: Wed, 01 Jan 2025 00:00:00 GMT
shared       with all clients
tags         http://a.example group
conditions   If-Range: the response is sent
range        bytes=500-8000: obeyed
origin       not known whether it gives ranges
in flight    g1: 4000 bytes received of 10000, from byte 5000 to 6144, 1 reading
             a request to the origin that is not answered yet
`);
  });

  it.each<[Partial<Explanation['origin']>, string]>([
    [{}, 'not known whether it gives ranges'],
    [{ isKnown: true }, 'it gives ranges'],
    [{ mayAskMore: false }, 'it has sent the whole in place of a part, and is asked for no further part for a while'],
    [{ mayAsk: false, mayAskMore: false }, 'it is not asked for ranges'],
    [{ mayAsk: false, refusal: 'it answered 416' }, 'it is not asked for ranges for a while: it answered 416'],
  ])('says of the ranges of an origin (%j): %s', (origin, text) => {
    expect(linesOf({ ...nothing, origin: { ...nothing.origin, ...origin } }, 'origin').join(' ')).toContain(text);
  });

  it('has the last response that was not stored', () => {
    const notStored = { reason: 'private', status: 200, at: 0, agoMs: 3_725_000 };
    expect(linesOf({ ...nothing, notStored }, 'not stored')).toEqual([
      'the last response (200), 1 h 2 min ago: it has private',
    ]);
    const unknown = { reason: 'origin_whatever', status: undefined, at: 0, agoMs: 1230 };
    expect(linesOf({ ...nothing, notStored: unknown }, 'not stored')).toEqual([
      'the last response, 1.23 s ago: origin_whatever',
    ]);
  });

  it.each<[Explanation['decision'], string[]]>([
    [
      { kind: 'revalidate', reason: 'request', directive: 'max-age', serveStaleUntil: 1_090_500 },
      [
        'revalidate: the request demands a validation (max-age)',
        'if the origin fails it is served stale, for 1 min 30 s more',
      ],
    ],
    [
      { kind: 'stale', reason: 'request', directive: 'max-stale' },
      ['stale: what is stored is stale, and the request accepts that (max-stale)'],
    ],
    [
      { kind: 'join', reason: 'vary-miss' },
      ['join: another request has asked the origin already, and this one waits for it'],
    ],
    [{ kind: 'pass', reason: 'something-new' }, ['pass: something-new']],
  ])('of the decision %j', (decision, want) => expect(linesOf({ ...nothing, decision }, 'decision')).toEqual(want));

  it('says that an entry without a validator is fetched anew, and that the response depends on the revalidation', () => {
    const explanation: Explanation = {
      ...inPart,
      decision: { kind: 'revalidate', reason: 'stale' },
      originQuestion: { method: 'GET', target: '/', fields: [] },
    };
    expect(linesOf(explanation, 'decision')).toEqual([
      'revalidate: what is stored is stale',
      'it has no validator, and is fetched anew',
    ]);
    expect(linesOf(explanation, 'response')[0]).toBe('if what is stored is still current: 206, 7501 of 10000 bytes');
  });

  it.each([
    [{ value: 'bytes=0-9', isObeyed: false, reason: 'if-range' }, 'bytes=0-9: ignored: If-Range does not hold'],
    [{ value: 'x', isObeyed: false, reason: 'something-new' }, 'x: ignored: something-new'],
  ])('of the range %j', (range, want) => {
    expect(linesOf({ ...nothing, plan: { ...nothing.plan, range } }, 'range')).toEqual([want]);
  });

  it.each<[Partial<ChosenExplanation['freshness']>, number, string]>([
    [{ source: 'none', field: undefined, lifetimeMs: 0 }, 0, '  0 s          lifetime: none is stated'],
    [{ source: 'expires', field: 'expires' }, 0, '  1 h          lifetime: Expires'],
    [{ ttlMs: -90_000 }, 3, '= -1 min 30 s  it is stale'],
    [
      { stale: { whileRevalidateMs: 30_000, ifErrorMs: 604_800_000 } },
      4,
      'stale: 30 s while it is validated, 7 d when the origin fails',
    ],
    [
      { stale: { whileRevalidateMs: 0, ifErrorMs: 0, forbiddenBy: 'request' } },
      4,
      'stale: forbidden by the request (no-cache)',
    ],
  ])('of the freshness %j', (freshness, at, want) => {
    const explanation = { ...inPart, chosen: { ...chosen, freshness: { ...chosen.freshness, ...freshness } } };
    expect(linesOf(explanation, 'freshness')[at]?.replace(/ +/g, ' ')).toBe(want.replace(/ +/g, ' '));
  });

  it('breaks every line at 100 characters where a space allows it', () => {
    const key = `http://origin.example/ http://a.example/${'long/'.repeat(40)}`;
    const variant = [['user-agent', 'Mozilla/5.0 (X11; Linux x86_64) '.repeat(20).trim()]] as const;
    const lines = formatExplanation({ ...inPart, key, variant }).split('\n');
    const long = lines.filter((line) => line.length > 100);
    expect(long).toEqual([expect.stringMatching(/^ {15}http:\/\/a\.example\/\S+$/)]);
  });

  it('has no control characters, whatever is in a key or a field', () => {
    const key = 'http://a/\u001b[2J\u0007\u009b31m\u202e';
    const text = formatExplanation({ ...nothing, key, route: 'a\tb' });
    expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    expect(text).toContain('http://a/\u{fffd}[2J\u{fffd}\u{fffd}31m\u{fffd}');
  });
});
