/** The parts of the soak that decide what is right. `npm run soak` runs the soak itself. */

import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { versionPiece } from '../support/origins/versioned-file.ts';
import { seededRandom } from '../support/stores/traces.ts';
import { testCertificate } from '../support/values/tls-certificate.ts';
import { AnswerCheck, versionField } from './answer-check.ts';
import { Clients, readBody } from './clients.ts';
import {
  allowedStalenessMs,
  cacheControlOf,
  fileAt,
  pathOf,
  type SoakFile,
  segmentsIn,
  soakFiles,
  textBody,
  versionOf,
} from './content.ts';
import { Excuses } from './excuses.ts';
import { Findings } from './findings.ts';
import { flatnessOf } from './flat.ts';
import { History } from './history.ts';
import { hostileHead, hostileHeads } from './hostile-heads.ts';
import { actionNames, planDisturbances, planVisit, rangeIn, rangesIn } from './plan.ts';
import { drawPlots, thinned } from './plots.ts';
import { vitestReport } from './report.ts';
import { percentile, type Sample, sumMetrics } from './samples.ts';
import { judge, type RunResult } from './verdict.ts';

const file: SoakFile = { kind: 'ranged', freshSeconds: 15, sizeBytes: 5000, file: 3 };
const nameOfVersion = (version: number): string => `3.${version}.${5000 + version}`;

/** Returns bytes of a version of the file. */
function bytesOf(version: number, start: number, end: number): Buffer {
  return Buffer.from(versionPiece(versionOf(file, version), start, end));
}

function parts(version: number, spans: readonly (readonly [number, number])[], size = 5000 + version): Buffer {
  const written = spans.flatMap(([start, end]) => [
    Buffer.from(`\r\n--b\r\nContent-Range: bytes ${start}-${end - 1}/${size}\r\n\r\n`),
    bytesOf(version, start, end),
  ]);
  return Buffer.concat([...written, Buffer.from('\r\n--b--\r\n')]);
}

describe('the check of an answer', () => {
  const flipped = bytesOf(1, 100, 200);
  flipped.writeUInt8((flipped[50] ?? 0) ^ 1, 50);
  const multipart = { 'content-type': 'multipart/byteranges; boundary=b' };
  const range = (text: string) => ({ 'content-range': text });

  it.each<[string, number, object, readonly Buffer[], RegExp | undefined]>([
    ['a whole body', 200, {}, [bytesOf(1, 0, 5001)], undefined],
    ['a whole body in pieces', 200, {}, [bytesOf(1, 0, 9), bytesOf(1, 9, 5001)], undefined],
    ['a body of another version', 200, {}, [bytesOf(2, 0, 5001)], /wrong bytes after offset 0/],
    ['a body of two versions', 200, {}, [bytesOf(1, 0, 4000), bytesOf(0, 4000, 5000)], /wrong bytes after offset 4000/],
    ['a body that is too short', 200, {}, [bytesOf(1, 0, 5000)], /ends at 5000 instead of 5001/],
    ['a body that is too long', 200, {}, [bytesOf(1, 0, 5002)], /wrong bytes/],
    ['a range', 206, range('bytes 100-199/5001'), [bytesOf(1, 100, 200)], undefined],
    ['a range of an unknown whole', 206, range('bytes 100-199/*'), [bytesOf(1, 100, 200)], undefined],
    ['a range with one wrong byte', 206, range('bytes 100-199/5001'), [flipped], /wrong bytes/],
    ['a range of other bytes', 206, range('bytes 100-199/5001'), [bytesOf(1, 101, 201)], /wrong bytes/],
    ['a range that is cut', 206, range('bytes 100-199/5001'), [bytesOf(1, 100, 150)], /ends at 150 instead of 200/],
    ['a range beyond the end', 206, range('bytes 100-5001/5001'), [], /Content-Range/],
    ['a range of another length', 206, range('bytes 100-199/5000'), [], /Content-Range/],
    ['a 206 without a range', 206, {}, [], /Content-Range undefined/],
    [
      'several ranges',
      206,
      multipart,
      [
        parts(1, [
          [0, 10],
          [100, 5001],
        ]),
      ],
      undefined,
    ],
    [
      'several ranges, of which one is wrong',
      206,
      multipart,
      [parts(1, [[0, 10]]).subarray(0, -9), parts(2, [[20, 30]], 5001)],
      /wrong bytes in the part bytes 20-29/,
    ],
    [
      'several ranges without an end',
      206,
      multipart,
      [
        parts(1, [
          [0, 10],
          [20, 30],
        ]).subarray(0, -9),
      ],
      /delimiter/,
    ],
    ['no parts at all', 206, multipart, [parts(1, [])], /0 parts/],
  ])('%s', (_, status, fields, chunks, fault) => {
    const run = () => {
      const check = new AnswerCheck(file, status, { [versionField]: nameOfVersion(1), ...fields });
      for (const chunk of chunks) check.take(chunk);
      check.end();
    };
    if (fault === undefined) expect(run).not.toThrow();
    else expect(run).toThrow(fault);
  });

  it('refuses the version of another file', () => {
    expect(() => new AnswerCheck(file, 200, { [versionField]: '4.0.5000' })).toThrow('has no version 4.0.5000');
    expect(() => new AnswerCheck(file, 200, {})).toThrow('no name of a version');
  });

  it('compares a text in its coding', () => {
    const text: SoakFile = { kind: 'gzip', freshSeconds: 1, sizeBytes: 900, file: 400 };
    const { sizeBytes } = versionOf(text, 2);
    const headers = { [versionField]: `400.2.${sizeBytes}`, 'content-encoding': 'gzip' };
    const check = new AnswerCheck(text, 200, headers);
    check.take(textBody(text, 2, 'gzip'));
    check.end();
    expect(() => new AnswerCheck(text, 200, headers).take(textBody(text, 2, 'identity'))).toThrow('wrong bytes');
  });
});

describe('the versions that a response may have', () => {
  const history = new History();
  for (const at of [10_000, 20_000, 30_000]) history.change('/a', at);
  history.removeBefore('/purged', history.change('/purged', 10_000));
  history.removeBefore('/posted', history.change('/posted', 10_000), ['http']);

  it.each<[string, string, number, number, number, 'http' | 'https', RegExp | undefined]>([
    ['the current one', '/a', 3, 31_000, 31_100, 'http', undefined],
    ['one that begins while the request waits', '/a', 3, 29_000, 31_000, 'http', undefined],
    ['one that begins after the response', '/a', 3, 29_000, 29_900, 'http', /did not exist yet/],
    ['one that never was', '/a', 4, 31_000, 31_100, 'http', /did not exist yet/],
    ['one that was replaced just now', '/a', 2, 34_000, 34_100, 'http', undefined],
    ['one that was replaced too long ago', '/a', 2, 35_001, 35_100, 'http', /replaced 5001 ms before/],
    ['the first one of a file that never changed', '/b', 0, 1, 2, 'http', undefined],
    ['one before a purge', '/purged', 0, 11_000, 11_100, 'https', /was removed before the request/],
    ['one before an upload', '/posted', 0, 11_000, 11_100, 'http', /was removed before the request/],
    ['one before an upload to the other scheme', '/posted', 0, 11_000, 11_100, 'https', undefined],
  ])('%s', (_, path, version, askedAt, answeredAt, scheme, fault) => {
    const lowest = history.lowestOf(path, scheme);
    const served = { path, version, askedAt, answeredAt, lowest, allowedStalenessMs: 5000 };
    if (fault === undefined) expect(history.faultOf(served)).toBeUndefined();
    else expect(history.faultOf(served)).toMatch(fault);
  });

  it.each<[SoakFile, string | undefined, number]>([
    [{ ...file, freshSeconds: 15 }, 'max-age=15, stale-if-error=20', 38_000],
    [{ ...file, freshSeconds: 4 }, 'max-age=4, must-revalidate', 7000],
    [{ ...file, kind: 'whole' }, 'max-age=15, stale-if-error=20, stale-while-revalidate=5', 38_000],
    [{ ...file, kind: 'bare', freshSeconds: 0 }, undefined, 63_000],
  ])('%j is sent with %s, and may be served for %d ms after it was replaced', (each, control, ms) => {
    expect([cacheControlOf(each), allowedStalenessMs(each)]).toEqual([control, ms]);
  });
});

describe('the excuses for a cut', () => {
  const excuses = new Excuses();
  excuses.begin('ranged', 10_000)(12_000);
  excuses.begin(undefined, 90_000);

  it.each<[string, 'ranged' | 'slow' | undefined, number, number, boolean]>([
    ['a request before the fault', 'ranged', 8000, 9999, false],
    ['a request that the fault meets', 'ranged', 8000, 10_000, true],
    ['a request in the aftermath', 'ranged', 32_000, 33_000, true],
    ['a request after the aftermath', 'ranged', 32_001, 33_000, false],
    ['a request to another origin', 'slow', 11_000, 12_000, false],
    ['an operation during a fault of an origin', undefined, 11_000, 12_000, false],
    ['an operation during a fault of the server', undefined, 99_000, 99_001, true],
    ['any request during a fault of the server that goes on', 'slow', 99_000, 99_001, true],
  ])('%s', (_, kind, from, until, expected) => expect(excuses.explain(kind, from, until)).toBe(expected));
});

describe('the rule of flatness', () => {
  const bound = { factor: 1.1, plus: 5 };
  const thirds = (...values: readonly number[]) => values.flatMap((value) => [value, value, value]);

  it.each<[string, readonly number[], boolean | undefined]>([
    ['equal', thirds(100, 100, 100), true],
    ['a warm-up', thirds(10, 100, 100), true],
    ['a growth within the bound', thirds(100, 100, 115), true],
    ['a growth beyond the bound', thirds(100, 100, 116), false],
    ['a peak', [100, 100, 100, 100, 100, 100, 100, 100, 900], true],
    ['a decrease', thirds(100, 100, 10), true],
    ['too few samples', [1, 2, 3, 4, 5, 6, 7, 8], undefined],
  ])('%s', (_, samples, expected) => expect(flatnessOf(samples, bound)?.isFlat).toBe(expected));
});

describe('the plan', () => {
  it('is the same for the same seed, and differs for another', () => {
    const visits = (seed: number) => {
      const random = seededRandom(seed);
      return Array.from({ length: 50 }, () => planVisit(random));
    };
    expect(visits(1)).toEqual(visits(1));
    expect(visits(1)).not.toEqual(visits(2));
    expect(planDisturbances(seededRandom(1), 180)).toEqual(planDisturbances(seededRandom(1), 180));
  });

  it('has each kind of request on each transport, and each file', () => {
    const random = seededRandom(1);
    const visits = Array.from({ length: 20_000 }, () => planVisit(random));
    expect(new Set(visits.map(({ action }) => action))).toEqual(new Set(actionNames));
    expect(new Set(visits.map(({ transport }) => transport)).size).toBe(4);
    expect(new Set(visits.map(({ file: { kind, file: number } }) => `${kind} ${number}`)).size).toBe(soakFiles.length);
  });

  it.each([180, 1800])('disturbs all thirds of %d seconds alike, and leaves the end alone', (seconds) => {
    const plan = planDisturbances(seededRandom(3), seconds);
    expect(new Set(plan.map(({ kind }) => kind)).size).toBe(12);
    expect(Math.max(...plan.map(({ atSeconds }) => atSeconds))).toBeLessThan(seconds - 8);
    const heavy = plan.filter(({ kind }) => !kind.startsWith('purge'));
    const ofThird = (third: number) => heavy.filter(({ atSeconds }) => Math.floor((3 * atSeconds) / seconds) === third);
    expect(ofThird(0).length - ofThird(2).length).toBeLessThanOrEqual(3);
    expect(Math.abs(ofThird(0).length - ofThird(1).length)).toBeLessThanOrEqual(1);
  });

  it('asks for ranges inside the body', () => {
    const random = seededRandom(4);
    for (const sizeBytes of [40, 700, 1_500_001]) {
      for (let round = 0; round < 200; round += 1) {
        const chances = Array.from({ length: 8 }, random);
        const [start = 0, last = sizeBytes - 1] = rangeIn(sizeBytes, chances).split('-').filter(Boolean).map(Number);
        expect(start <= last && last < sizeBytes, `${start}-${last} of ${sizeBytes}`).toBe(true);
        const several = rangesIn(sizeBytes, chances)
          .split(', ')
          .map((text) => text.split('-').map(Number));
        const numbers = several.flat();
        expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
        expect(numbers.at(-1)).toBeLessThan(sizeBytes);
      }
    }
  });

  it('names files by paths that the origins understand', () => {
    for (const each of soakFiles) expect(fileAt(pathOf(each))).toEqual(each);
    expect(fileAt('/other/1/2/3')).toBeUndefined();
    expect(fileAt('/ranged/1/2')).toBeUndefined();
    const [playlist] = soakFiles.filter(({ kind }) => kind === 'playlist');
    const text = playlist === undefined ? '' : textBody(playlist, 5, 'identity').toString();
    expect(segmentsIn(text).map(fileAt)).toEqual([expect.anything(), expect.anything(), expect.anything()]);
  });

  it('has no version that is shorter than the first', () => {
    for (const each of soakFiles) {
      const first = versionOf(each, 0).sizeBytes;
      for (const version of [1, 9, 10, 99, 100, 12_345]) {
        expect(versionOf(each, version).sizeBytes, pathOf(each)).toBeGreaterThanOrEqual(first);
      }
    }
  });

  it('has every hostile head, and random bytes', () => {
    const names = new Set(Array.from({ length: 100 }, (_, at) => hostileHead([at / 100, 0.3, 0.7]).name));
    expect(names).toEqual(new Set([...hostileHeads.map(({ name }) => name), 'random bytes']));
  });
});

const sample = (change: Partial<Sample> = {}): Sample => ({
  atMs: 0,
  residentBytes: 400e6,
  descriptors: 100,
  storeBytes: 20e6,
  memoryTierBytes: 0,
  entries: 10,
  connections: 3,
  fills: 0,
  loopLagMs: 10,
  perSecond: { hit: 1, miss: 1, error: 0, refused: 0 },
  bytesPerSecond: 1,
  hitShare: 0.5,
  p50Ms: 1,
  p99Ms: 2,
  ...change,
});

describe('the verdict', () => {
  const grown = (change: Partial<Sample>) => [
    ...Array.from({ length: 6 }, () => sample()),
    ...Array.from({ length: 3 }, () => sample(change)),
  ];
  const good: RunResult = {
    samples: grown({}),
    findings: new Findings(),
    maxStoreBytes: 24e6,
    kills: 2,
    restarts: 2,
    damagedBlocks: 0,
    ranToTheEnd: true,
    exitCode: 0,
    leftOver: [],
    errorLines: [],
    hits: 1,
    misses: 1,
    missingActions: [],
  };
  const found = new Findings();
  found.add('bytes', 'GET /a: wrong bytes');

  it.each<[string, Partial<RunResult>, string | undefined]>([
    ['a good run', {}, undefined],
    ['a wrong byte', { findings: found }, 'GET /a: wrong bytes'],
    ['memory that grows', { samples: grown({ residentBytes: 600e6 }) }, '381 MiB → 572 MiB'],
    ['descriptors that grow', { samples: grown({ descriptors: 200 }) }, '100 → 200'],
    ['a store that grows', { samples: grown({ storeBytes: 23.9e6 * 2 }) }, 'MiB are allowed'],
    ['a store beyond its size', { samples: [...grown({}), sample({ storeBytes: 24e6 + 1 })] }, 'it took'],
    ['no samples', { samples: [] }, 'too few samples'],
    ['a worker that ended by itself', { restarts: 3 }, '3 workers were replaced, but 2 were killed'],
    ['a server that ended', { ranToTheEnd: false }, 'the server ended while it was under load'],
    ['a server that ends with an error', { exitCode: 1 }, 'exit code after SIGTERM was 1'],
    ['a damaged block', { damagedBlocks: 1 }, '1 blocks had a wrong checksum'],
    ['a fill that runs on', { leftOver: ['rangeway_fills_running is 1 instead of 0'] }, 'is 1 instead of 0'],
    ['an error in the log', { errorLines: ['Error: x'] }, 'Error: x'],
    ['a run without hits', { hits: 0 }, 'no response was a hit'],
    ['a run without misses', { misses: 0 }, 'no response was a miss'],
    ['a run without resumed downloads', { missingActions: ['resume'] }, 'no client sent "resume"'],
  ])('%s', (_, change, breach) => {
    const rulings = judge({ ...good, ...change });
    const breaches = rulings.flatMap((ruling) => ruling.breaches);
    if (breach === undefined) expect(breaches).toEqual([]);
    else expect(breaches.join('\n')).toContain(breach);
    const { numPassedTests, numFailedTests } = vitestReport(rulings) as Record<string, number>;
    expect(numFailedTests).toBe(rulings.filter((ruling) => ruling.breaches.length > 0).length);
    expect((numPassedTests ?? 0) + (numFailedTests ?? 0)).toBe(rulings.length);
  });
});

describe('the clients', () => {
  it.each([
    ['keep', 'http', 'GET'],
    ['tls', 'https', 'GET'],
    ['tls', 'https', 'POST'],
  ] as const)('over %s repeat over %s what a kept connection lost: %s', async (transport, scheme, method) => {
    const received: string[] = [];
    const endOn = (name: string): RequestListener => {
      const known = new WeakSet<object>();
      return (request, response) => {
        received.push(`${request.method} ${name}`);
        // As a worker that was killed: the connection ends in place of the second response.
        if (known.has(request.socket)) return void request.socket.destroy();
        known.add(request.socket);
        response.end('body');
      };
    };
    const plain = createServer(endOn('http'));
    const tls = createTlsServer(testCertificate, endOn('https'));
    const clients = new Clients(`http://${await listen(plain)}`, `https://${await listen(tls)}`);
    const ask = async (asked: string) => {
      const answered = await clients.ask(transport, { method: asked, path: '/', fields: {} });
      return await readBody(answered, () => {});
    };
    try {
      expect(await ask('GET')).toBe(true);
      const again = await ask(method).catch(() => false);
      expect(again).toBe(method === 'GET');
      const repeated = method === 'GET' ? [`GET ${scheme}`] : [];
      expect(received).toEqual([`GET ${scheme}`, `${method} ${scheme}`, ...repeated]);
    } finally {
      clients.close();
      for (const server of [plain, tls]) {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    }
  });

  /** Opens a server on a free port, and returns its authority. */
  async function listen(server: Server): Promise<string> {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
});

describe('the report', () => {
  it('sums metrics over their labels, and keeps each', () => {
    const metrics = sumMetrics('# HELP a b\na{x="1"} 2\na{x="2"} 3\nb 0.5\n\n');
    expect(Object.fromEntries(metrics)).toEqual({ a: 5, 'a{x="1"}': 2, 'a{x="2"}': 3, b: 0.5 });
  });

  it('takes percentiles of sorted values', () => {
    expect([percentile([1, 2, 3, 4], 0.5), percentile([1, 2, 3, 4], 0.99), percentile([], 0.5)]).toEqual([3, 4, 0]);
  });

  it('joins points into means', () => {
    expect(thinned([1, 3, 5, 7, 9], 3)).toEqual([2, 6, 9]);
    expect(thinned([1, 3], 3)).toEqual([1, 3]);
  });

  it('draws a small file, whatever the length of the run', () => {
    const times = Array.from({ length: 5000 }, (_, at) => at * 1000);
    const lines = [{ name: 'a < b', values: times.map((time) => time % 77) }];
    const plots = Array.from({ length: 8 }, () => ({ title: 'plot', lines, format: String }));
    const marks = Array.from({ length: 120 }, (_, at) => ({ atMs: at * 40_000, group: `kind ${at % 5}` }));
    const svg = drawPlots('title', times, plots, marks);
    expect(svg.length).toBeLessThan(60_000);
    expect(svg).toContain('a &lt; b');
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
  });
});
