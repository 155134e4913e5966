/**
 * Range fields that were, or could be, attacks: the bytes that the client gets, and the bytes that the origin sends. A client
 * gets at most the whole file plus 4 KiB. The origin sends at most the whole file plus one block where the file is stored, and
 * at most twice the whole file where it is relayed.
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { parseRange } from '../../src/semantics/range.ts';
import { RawClient, type RawResponse, rawValues } from '../support/clients/raw-client.ts';
import { type CountingOrigin, openCountingOrigin, type RangeHabit } from '../support/origins/counting-origin.ts';
import { isPeriodic } from '../support/values/periodic-body.ts';
import { countTextSteps } from '../support/values/text-steps.ts';

/** Larger than the default of `fill.completeBelowBytes`. */
const size = 1_500_000;
const block = 65_536;
/** The bytes that a response may have besides those of the file: the heads of parts. */
const framing = 4096;

const ranges = (count: number, spec: (index: number) => string) =>
  Array.from({ length: count }, (_, at) => spec(at)).join(',');

/** The status for a stored file, and the number of its bytes in the response, or of the parts of a multipart. */
type Row = readonly [name: string, range: string, status: 200 | 206 | 416, got?: number | `${number} parts`];

const rows: readonly Row[] = [
  ['CVE-2011-3192, as it was sent', `bytes=0-,${ranges(1300, (at) => `5-${at}`)}`, 200],
  ['CVE-2011-3192, with valid ranges', `bytes=0-,${ranges(99, (at) => `5-${at + 5}`)}`, 206, size],
  ['the whole a thousand times', `bytes=${ranges(1000, () => '0-')}`, 200],
  ['the whole ninety times', `bytes=${ranges(90, () => '0-')}`, 206, size],
  ['the whole three times', 'bytes=0-,0-,0-', 206, size],
  ['CVE-2017-7529, suffixes whose sum is 2^63', `bytes=-${size + 623},-${2n ** 63n - BigInt(size + 623)}`, 206, size],
  ['CVE-2017-7529, a suffix beyond 2^63', `bytes=-9223372036854775809`, 206, size],
  ['CVE-2017-7529, a negative first position', 'bytes=--623-', 200],
  ['a negative last position', 'bytes=0--1', 200],
  ['a hundred ranges of a byte, adjoining', `bytes=${ranges(100, (at) => `${at}-${at}`)}`, 206, 100],
  ['a hundred ranges of a byte, two apart', `bytes=${ranges(100, (at) => `${2 * at}-${2 * at}`)}`, 206, '100 parts'],
  [
    'a hundred ranges of a byte, far apart',
    `bytes=${ranges(100, (at) => `${1000 * at}-${1000 * at}`)}`,
    206,
    '100 parts',
  ],
  ['a hundred and one ranges', `bytes=${ranges(101, (at) => `${1000 * at}-${1000 * at}`)}`, 200],
  ['ten ranges that overlap', `bytes=${ranges(10, (at) => `${at * 100}-${at * 100 + 150}`)}`, 206, 1051],
  [
    'ten ranges in descending order',
    `bytes=${ranges(10, (at) => `${90_000 - at * 10_000}-${90_000 - at * 10_000}`)}`,
    206,
    '10 parts',
  ],
  ['a range twenty times', `bytes=${ranges(20, () => '7-16')}`, 206, 10],
  ['nearly the whole fifty times', `bytes=${ranges(50, (at) => `${at}-${size - 1 - at}`)}`, 206, size],
  ['both halves and the whole', `bytes=0-749999,750000-,0-`, 206, size],
  [
    'all of it in a hundred parts with gaps',
    `bytes=${ranges(100, (at) => `${at * 15_000}-${at * 15_000 + 14_900}`)}`,
    206,
    '100 parts',
  ],
  ['ninety suffixes', `bytes=${ranges(90, (at) => `-${at + 1}`)}`, 206, 90],
  ['a thousand suffixes of one byte', `bytes=${ranges(1000, () => '-1')}`, 200],
  ['suffixes of no bytes', `bytes=${ranges(50, () => '-0')}`, 416],
  ['a first position of 2^53', 'bytes=9007199254740992-', 416],
  ['a first position of 2^64', 'bytes=18446744073709551616-', 416],
  ['a last position of 2^64', 'bytes=1499999-18446744073709551616', 206, 1],
  ['positions of four thousand digits', `bytes=${'9'.repeat(4000)}-${'9'.repeat(4001)}`, 416],
  ['leading zeros', `bytes=${'0'.repeat(4000)}7-${'0'.repeat(4000)}16`, 206, 10],
  ['a last position before the first one', 'bytes=16-7', 200],
  ['white space', `bytes=${' \t'.repeat(3000)}7-16${' '.repeat(1000)}`, 206, 10],
  ['white space inside a range', 'bytes=7 - 16', 200],
  ['empty members', `bytes=${','.repeat(8000)}7-16`, 206, 10],
  ['empty members alone', `bytes=${','.repeat(8000)}`, 200],
  ['a field longer than is parsed', `bytes=${','.repeat(8192)}7-16`, 200],
  ['five thousand ranges', `bytes=${ranges(5000, (at) => `${at}-${at}`).slice(0, 30_000)}`, 200],
  ['another unit', 'items=0-1', 200],
  ['no unit', '0-1', 200],
  ['two units', 'bytes=0-1,bytes=4-5', 200],
  ['hexadecimal digits', 'bytes=0x0-0x9', 200],
  ['an exponent', 'bytes=0-1e9', 200],
  ['digits of another script', 'bytes=\u0660-\u0669', 200],
];

const table = rows.map(([name, range, status, got = status === 416 ? 0 : size]) => [name, range, status, got] as const);

let server: RunningServer;
let origins: Readonly<Record<RangeHabit, CountingOrigin>>;

const habits: readonly RangeHabit[] = ['parts', 'whole', 'deaf'];

beforeAll(async () => {
  const opened = await Promise.all(
    habits.map(async (habit) => [habit, await openCountingOrigin(habit, size)] as const),
  );
  origins = Object.fromEntries(opened) as typeof origins;
  const config = {
    listen: '127.0.0.1:0',
    store: { type: 'memory', maxSizeBytes: '512MB', blockSizeBytes: block },
    routes: habits.map((habit) => ({ match: { hosts: [`${habit}.test`] }, origin: origins[habit].url })),
  };
  const loaded = checkConfig(config, '/');
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  server = await start(loaded.config);
});
afterAll(async () => {
  await server.close({ graceMs: 0 });
  await Promise.all(habits.map((habit) => origins[habit][Symbol.asyncDispose]()));
});

let files = 0;
/** Returns a path for which nothing is stored. */
function freshPath(kind: 'stored' | 'relayed'): string {
  files += 1;
  return `/${kind}/${files}`;
}

async function ask(habit: RangeHabit, method: string, path: string, fields: string, body = ''): Promise<RawResponse> {
  await using client = await RawClient.open(Number(new URL(server.url).port));
  const length = body === '' ? '' : `Content-Length: ${body.length}\r\n`;
  return await client.exchange(`${method} ${path} HTTP/1.1\r\nHost: ${habit}.test\r\n${fields}${length}\r\n${body}`);
}

const latin1 = (text: string) => Buffer.from(text, 'utf8').toString('latin1');

async function attack(habit: RangeHabit, path: string, range: string): Promise<RawResponse> {
  const origin = origins[habit];
  origin.reset();
  const response = await ask(habit, 'GET', path, `Range: ${latin1(range)}\r\n`);
  await expect.poll(() => origin.running, { interval: 2 }).toBe(0);
  return response;
}

/** Checks that every byte of a response is the byte of the file at its position. Returns the number of bytes, or of parts. */
function contentOf({ status, lines, body }: RawResponse): number | string {
  const type = rawValues({ lines }, 'content-type')[0] ?? '';
  const [contentRange = ''] = rawValues({ lines }, 'content-range');
  if (!type.startsWith('multipart')) {
    const start = status === 206 ? Number(/^bytes (\d+)-/.exec(contentRange)?.[1]) : 0;
    expect(isPeriodic(body, start)).toBe(true);
    return body.length;
  }
  const text = body.toString('latin1');
  const heads = [...text.matchAll(/Content-Range: bytes (\d+)-(\d+)\/\d+\r\n\r\n/g)];
  const spans = heads.map(({ index, 0: head, 1: first, 2: last }) => {
    const at = index + head.length;
    expect(isPeriodic(body.subarray(at, at + Number(last) - Number(first) + 1), Number(first))).toBe(true);
    return [Number(first), Number(last)] as const;
  });
  const ordered = spans.toSorted(([a], [b]) => a - b);
  expect(ordered.every(([first], at) => at === 0 || first > (ordered[at - 1]?.[1] ?? 0))).toBe(true);
  return `${spans.length} parts`;
}

/** Checks that a request to the origin has one range, or several that cannot overlap. */
function expectHarmless(range: string | undefined): void {
  if (range === undefined || !range.startsWith('bytes=')) return;
  const parsed = parseRange(range, { maxRanges: 100 });
  if (parsed.kind === 'ignored') throw new Error(`the origin was asked for "${range.slice(0, 200)}"`);
  const { specs } = parsed;
  if (specs.length === 1) return;
  for (const [at, spec] of specs.entries()) {
    const before = specs[at - 1];
    if (spec.kind === 'suffix') throw new Error(`the origin was asked for "${range}"`);
    if (before !== undefined) expect(before.kind === 'closed' ? before.last + 1 : Infinity).toBeLessThan(spec.first);
  }
}

describe.each(habits)('at an origin with the habit "%s",', (habit) => {
  it.each(table)('%s: stored', async (_name, range, status, got) => {
    const origin = origins[habit];
    const path = freshPath('stored');
    for (const isCold of [true, false]) {
      const response = await attack(habit, path, range);
      expect([response.status, response.isWhole]).toEqual([status, true]);
      expect(response.body.length).toBeLessThanOrEqual(size + framing);
      if (status !== 416) expect(contentOf(response)).toBe(got);
      expect(origin.bytes).toBeLessThanOrEqual(isCold ? size + block : size);
      for (const asked of origin.asked) expectHarmless(asked.range);
      // A range in another unit is for the origin, and its answer is not stored.
      const isStored = range.startsWith('bytes=');
      if (!isCold && isStored && response.status === 200) expect(origin.bytes).toBe(0);
    }
  });

  it.each(table)('%s: relayed', async (_name, range) => {
    const origin = origins[habit];
    const response = await attack(habit, freshPath('relayed'), range);
    expect([200, 206, 416]).toContain(response.status);
    expect(response.isWhole).toBe(true);
    // A multipart is that of the origin, with a part for each of the disjoint ranges in the request to it.
    expect(response.body.length).toBeLessThanOrEqual(size + framing);
    if (response.status === 200) expect(contentOf(response)).toBe(size);
    // The first response of the origin cannot be used. It is closed, and its bytes in transit count.
    expect(origin.bytes).toBeLessThanOrEqual(2 * size);
    for (const asked of origin.asked) expectHarmless(asked.range);
  });

  it.each(['POST', 'PUT'])('%s with hostile ranges gets the response to its method', async (method) => {
    const origin = origins[habit];
    origin.reset();
    const [, range = ''] = rows[1] ?? [];
    const response = await ask(habit, method, freshPath('relayed'), `Range: ${range}\r\n`, 'body');
    expect([response.status, response.body.length]).toEqual([200, size]);
    for (const asked of origin.asked) expectHarmless(asked.range);
  });

  it('HEAD with hostile ranges costs the origin nothing', async () => {
    const origin = origins[habit];
    for (const [, range] of rows) {
      origin.reset();
      const response = await ask(habit, 'HEAD', freshPath('stored'), `Range: ${latin1(range)}\r\n`);
      expect([200, 206, 416]).toContain(response.status);
      expect(origin.bytes).toBe(0);
      for (const asked of origin.asked) expectHarmless(asked.range);
    }
  });

  it.each([
    ['"v1"', 206],
    ['W/"v1"', 200],
    ['"v2"', 200],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 200],
    ['"', 200],
    ['*', 200],
  ])('If-Range: %s with a range gets %i', async (ifRange, status) => {
    const path = freshPath('stored');
    for (const isCold of [true, false]) {
      const response = await ask(habit, 'GET', path, `Range: bytes=7-16,7-16\r\nIf-Range: ${ifRange}\r\n`);
      expect([isCold, response.status, contentOf(response)]).toEqual([isCold, status, status === 206 ? 10 : size]);
    }
  });
});

describe('a Range field', () => {
  it.each([
    ['ten thousand ranges', `bytes=${ranges(10_000, (at) => `${2 * at}-${2 * at}`)}`],
    ['four megabytes', `bytes=0-0,${'0-0,'.repeat(1_000_000)}`],
  ])('with %s exceeds the limit of a head: 431, without a request to the origin', async (_name, range) => {
    const origin = origins.parts;
    origin.reset();
    await using client = await RawClient.open(Number(new URL(server.url).port));
    client.send(`GET /stored/large HTTP/1.1\r\nHost: parts.test\r\nRange: ${range}\r\n\r\n`);
    const response = await client.response();
    expect(response?.status).toBe(431);
    expect(origin.asked).toEqual([]);
  });

  it('in two lines is ignored', async () => {
    const response = await ask('parts', 'GET', freshPath('stored'), 'Range: bytes=0-0\r\nRange: bytes=5-5\r\n');
    expect([response.status, response.body.length]).toEqual([200, size]);
  });

  it('of 30 KB and five thousand ranges is not parsed, and a shorter one is parsed in linear time', () => {
    const long = `bytes=${ranges(5000, (at) => `${1_000 + at}-`)}`;
    expect(long.length).toBeGreaterThan(30_000);
    expect(countTextSteps(() => parseRange(long, { maxRanges: 100 }))).toBe(0);
    const read = `bytes=${ranges(2000, () => '0-')}`;
    expect(countTextSteps(() => parseRange(read, { maxRanges: 100 }))).toBeLessThan(12 * read.length);
  });
});
