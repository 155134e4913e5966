/** An origin that cuts, stalls or trickles costs a pause. No byte is fetched twice where it has ranges, and no versions are mixed. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askVerified, type Verified } from '../support/clients/versioned-client.ts';
import { until } from '../support/clocks/until.ts';
import {
  type FaultyOrigin,
  type FileKind,
  faultyPath,
  openFaultyOrigin,
  type Twist,
} from '../support/origins/faulty-origin.ts';
import { faultRounds, faultSeed } from '../support/processes/fault-rounds.ts';
import { type FaultServer, startFaultServer } from '../support/processes/fault-server.ts';
import { descriptorsOf, expectNothingKept, expectPromptEnd } from '../support/processes/process-remains.ts';
import { seededRandom } from '../support/stores/traces.ts';

const block = 16 * 1024;
const sizeBytes = 9 * block + 5000;
const bodyTimeoutSeconds = 1;
const resumeAttempts = 4;

const kinds = ['ranged', 'tagged', 'whole'] as const;
const ways = ['fin', 'rst'] as const;
/** Offsets around the edges of blocks and of the whole body. */
const offsets = [0, 1, 700, block - 1, block, block + 1, 4 * block, 5 * block - 3, sizeBytes - block, sizeBytes - 1];

const random = seededRandom(faultSeed);
/** How often the random test is repeated. */
const times = Math.ceil(faultRounds / 25);

let dir: string;
let origin: FaultyOrigin;
let server: FaultServer;
let descriptors: number;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-cuts-'));
  origin = await openFaultyOrigin();
  const options = { originUrl: origin.url, dir, blockSizeBytes: block, bodyTimeoutSeconds, resumeAttempts };
  // One route learns that its origin has ranges, the others that it has none.
  server = await startFaultServer({ ...options, routes: [...kinds] });
  descriptors = descriptorsOf(server);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await origin[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

let lastFile = 0;
function newPath(kind: FileKind, bytes = sizeBytes): string {
  lastFile += 1;
  return faultyPath({ route: kind, kind, sizeBytes: bytes, file: lastFile });
}

const ask = (path: string, range?: string): Promise<Verified> => askVerified({ base: server.url, path, range });

/** Ends the nth reply at the nth of these offsets of the file, if it includes that. All others are honest. */
function cutsAt(at: readonly number[], end: 'fin' | 'rst' | 'stall'): Twist {
  return (honest, { earlier }) => {
    const cut = at[earlier] ?? Number.POSITIVE_INFINITY;
    const { start, end: spanEnd } = honest.span;
    return start <= cut && cut < spanEnd ? { ...honest, end, cutAfterBytes: cut - start } : honest;
  };
}

async function expectWhole(path: string, name: string): Promise<void> {
  const { status, isComplete, bytes } = await ask(path);
  expect([status, isComplete, bytes], name).toEqual([200, true, origin.versionOf(path).sizeBytes]);
}

/** Whether no byte may be sent twice. Bytes in transit may be lost when a connection is reset. */
const isCounted = (kind: FileKind, way: 'fin' | 'rst'): boolean => kind === 'ranged' && way === 'fin';

/** Waits until a path is served whole from the store. */
function untilHit(path: string): Promise<void> {
  return until(`${path} is a hit`, async () => {
    const { isHit, isComplete } = await ask(path);
    return isHit && isComplete;
  });
}

describe('an origin that cuts its connection once', () => {
  const cases = kinds.flatMap((kind) => ways.map((way) => [kind, way] as const));

  it.each(cases)('%s, by %s, at many offsets of a full response: the client gets it whole', async (kind, way) => {
    await Promise.all(
      offsets.map(async (offset) => {
        const path = newPath(kind);
        origin.twist(path, cutsAt([offset], way));
        await expectWhole(path, `${kind}, cut at ${offset}`);
        expect(origin.requestsFor(path), `${kind}, cut at ${offset}`).toBe(2);
        if (isCounted(kind, way)) expect(origin.bytesFor(path), `cut at ${offset}`).toBeLessThanOrEqual(sizeBytes);
        await untilHit(path);
        expect(origin.requestsFor(path), `${kind}, cut at ${offset}`).toBe(2);
      }),
    );
  });

  it.each(cases)('%s, by %s, at many offsets of a range: the client gets it whole', async (kind, way) => {
    const [first, last] = [2 * block + 77, 7 * block + 99];
    await Promise.all(
      offsets.map(async (offset) => {
        const path = newPath(kind);
        origin.twist(path, cutsAt([offset], way));
        const { status, isComplete, bytes } = await ask(path, `bytes=${first}-${last}`);
        expect([status, isComplete, bytes], `${kind}, cut at ${offset}`).toEqual([206, true, last - first + 1]);
        // The rest is fetched now, unless it was before.
        await expectWhole(path, `${kind}, cut at ${offset}`);
        if (isCounted(kind, way)) expect(origin.bytesFor(path), `cut at ${offset}`).toBeLessThanOrEqual(sizeBytes);
      }),
    );
  });
});

describe(`an origin that cuts its connection five times in one transfer (seed ${faultSeed})`, () => {
  const largeBytes = 4_000_001;

  it(`${times} times: the client gets it whole`, { timeout: 60_000 + times * 5000 }, async () => {
    const cutFiveTimes = async (kind: FileKind, way: 'fin' | 'rst'): Promise<void> => {
      const at = Array.from({ length: 5 }, () => Math.floor(random() * largeBytes)).sort((a, b) => a - b);
      const path = newPath(kind, largeBytes);
      origin.twist(path, cutsAt(at, way));
      const name = `${path}, cut at ${at.join()} by ${way}`;
      await expectWhole(path, name);
      await untilHit(path);
      expect(origin.requestsFor(path), name).toBe(6);
      // With ranges, each byte is sent once. Without, the bytes before the cut are sent again, and compared.
      const wanted = kind === 'ranged' ? largeBytes * 1.05 : at.reduce((sum, offset) => sum + offset, largeBytes);
      if (way === 'fin') expect(origin.bytesFor(path), name).toBeLessThanOrEqual(wanted);
    };
    for (let time = 1; time <= times; time += 1) {
      await Promise.all(kinds.map((kind) => cutFiveTimes(kind, ways[time % ways.length] ?? 'fin')));
    }
  });

  it('at the same offset, without progress: it is resumed resumeAttempts times, then the client is cut off', async () => {
    const path = newPath('ranged');
    origin.twist(path, (honest) => ({
      ...honest,
      end: 'fin',
      cutAfterBytes: Math.max(0, 5 * block - honest.span.start),
    }));
    const { status, isComplete, bytes } = await ask(path);
    expect([status, isComplete, bytes]).toEqual([200, false, 5 * block]);
    expect(origin.requestsFor(path)).toBe(1 + resumeAttempts);
    origin.twist(path, undefined);
    await expectWhole(path, 'later');
    expect(origin.bytesFor(path)).toBeLessThanOrEqual(sizeBytes);
  });
});

describe('an origin that is slow', () => {
  const cases = kinds.flatMap((kind) => [0, 700, 4 * block, sizeBytes - 1].map((offset) => [kind, offset] as const));

  it('and stalls for longer than bodyTimeoutSeconds gets another request', async () => {
    const stall = async ([kind, offset]: (typeof cases)[number]): Promise<void> => {
      const path = newPath(kind);
      origin.twist(path, cutsAt([offset, offset + 1], 'stall'));
      await expectWhole(path, `${path} stalls at ${offset}`);
      await untilHit(path);
      if (kind === 'ranged') expect(origin.bytesFor(path), `stalls at ${offset}`).toBeLessThanOrEqual(sizeBytes);
    };
    await Promise.all(cases.map(stall));
  });

  it('and trickles is waited for', async () => {
    const trickle = async (kind: FileKind): Promise<void> => {
      const path = newPath(kind, 20_000);
      origin.twist(path, (honest) => ({ ...honest, pieceBytes: 1000, pauseMs: (bodyTimeoutSeconds * 1000) / 8 }));
      await expectWhole(path, path);
      expect(origin.requestsFor(path), path).toBe(1);
    };
    await Promise.all(kinds.map(trickle));
  });
});

describe('content that changes while its origin cuts the connection', () => {
  const cases = (['ranged', 'tagged', 'weak', 'whole'] as const).flatMap((kind) =>
    [0, 1].map((growthBytes) => [kind, growthBytes] as const),
  );

  it.each(cases)(
    '%s, longer by %i: the client is cut off, and the next one gets the new content',
    async (kind, growthBytes) => {
      await Promise.all(
        offsets.slice(1).map(async (offset) => {
          const path = faultyPath({
            route: kind === 'weak' ? 'tagged' : kind,
            kind,
            sizeBytes,
            file: 1_000_000 + lastFile,
          });
          lastFile += 1;
          origin.twist(path, (honest, asked) => {
            if (asked.earlier > 0) return honest;
            origin.change(path, growthBytes);
            return { ...honest, end: 'fin', cutAfterBytes: offset };
          });
          const { status, isComplete, version } = await ask(path);
          expect([status, isComplete, version?.version], `cut at ${offset}`).toEqual([200, false, 0]);
          await until(`${path} comes whole`, async () => (await ask(path)).isComplete);
          expect((await ask(path)).version?.version, `cut at ${offset}`).toBe(1);
        }),
      );
    },
  );
});

describe('after all these tests', () => {
  it('nothing stays open, the store is intact, and the server ends promptly', async () => {
    await expectNothingKept(server, descriptors);
    expect(server.output()).not.toMatch(/"level":"(?:error|fatal)"/);
    expect(server.output()).not.toMatch(/"level":"warn"[^\n]*"event":"store"/);
    await expectPromptEnd(server);
  });
});
