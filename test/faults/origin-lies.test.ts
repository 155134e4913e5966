/**
 * An origin that lies about its bytes, or changes them at any time, never deceives a client. Each complete response is the one
 * version that its head names; every other response ends as a visible cut or an error.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { askVerified, type Verified } from '../support/clients/versioned-client.ts';
import { recoversWithinMs, until } from '../support/clocks/until.ts';
import {
  type Asked,
  contentRange,
  type FaultyOrigin,
  type FileKind,
  faultyPath,
  fieldsOfVersion,
  openFaultyOrigin,
  type Reply,
  type Twist,
} from '../support/origins/faulty-origin.ts';
import { type FileVersion, nameOf } from '../support/origins/versioned-file.ts';
import { faultRounds, faultSeed } from '../support/processes/fault-rounds.ts';
import { type FaultServer, startFaultServer } from '../support/processes/fault-server.ts';
import { descriptorsOf, expectNothingKept, expectPromptEnd } from '../support/processes/process-remains.ts';
import { seededRandom } from '../support/stores/traces.ts';

const block = 16 * 1024;
const sizeBytes = 7 * block + 5000;
const part = { start: 3 * block + 10, end: 5 * block + 20 };
const partRange = `bytes=${part.start}-${part.end - 1}`;

const random = seededRandom(faultSeed);
const times = Math.max(1, Math.round(faultRounds / 50));

type TwistReply = (honest: Reply, asked: Asked) => Reply;

/** A lie in replies to requests for the whole, for a range, or for the rest of either. */
interface Lie {
  readonly name: string;
  readonly tell: TwistReply;
  /** Whether it is about ranges, so that no more ranges are requested from the origin. */
  readonly isDistrusted?: boolean;
}

const span = (reply: Reply) => reply.span;
const other = ({ file, version, sizeBytes: size }: FileVersion): FileVersion => ({
  file,
  version: version + 7,
  sizeBytes: size,
});
const smuggled = `HTTP/1.1 200 OK\r\nContent-Length: 9\r\nCache-Control: max-age=600\r\n\r\nsmuggled\n`;

/** Claims that a version is longer than it is. */
function longer(bytes: number, end: 'fin' | 'rst'): TwistReply {
  return (honest, { kind }) => {
    const { sizeBytes: size } = honest.version;
    const version = { ...honest.version, sizeBytes: size + bytes };
    const framing = span(honest).end - span(honest).start + bytes;
    if (honest.status === 200) return { ...honest, fields: fieldsOfVersion(kind, version), framing, end };
    const range = contentRange({ start: span(honest).start, end: span(honest).end + bytes }, size + bytes);
    return { ...honest, fields: { ...fieldsOfVersion(kind, version), 'content-range': range }, framing, end };
  };
}

/** Lies that any response can have. */
const framingLies: readonly Lie[] = [
  {
    name: 'a Content-Length that is too long',
    tell: longer(1000, 'fin'),
  },
  {
    name: 'a Content-Length that is too long by a byte, and a reset',
    tell: longer(1, 'rst'),
  },
  { name: 'noise after the body', tell: (honest) => ({ ...honest, extra: 'x'.repeat(3000) }) },
  { name: 'another response after the body', tell: (honest) => ({ ...honest, extra: smuggled }) },
  { name: 'chunks without a last one', tell: (honest) => ({ ...honest, framing: 'chunked-endless', end: 'fin' }) },
  { name: 'chunks, and a reset', tell: (honest) => ({ ...honest, framing: 'chunked-endless', end: 'rst' }) },
];

/** Twists a 206; a 200 stays as it is. */
const aboutPart =
  (tell: (honest: Reply) => Reply): TwistReply =>
  (honest) =>
    honest.status === 206 ? tell(honest) : honest;

/** As `aboutPart`, but the first reply is honest, so that the proxy knows the right length. */
const aboutLaterPart =
  (tell: (honest: Reply) => Reply): TwistReply =>
  (honest, { earlier }) =>
    honest.status === 206 && earlier > 0 ? tell(honest) : honest;

function withSpan(honest: Reply, start: number, end: number): Reply {
  const { sizeBytes: size } = honest.version;
  const moved = { start: Math.max(0, Math.min(start, size - 1)), end: Math.max(1, Math.min(end, size)) };
  return {
    ...honest,
    span: moved,
    fields: { ...honest.fields, 'content-range': contentRange(moved, size) },
  };
}

const without = (fields: Reply['fields'], name: string): Reply['fields'] =>
  Object.fromEntries(Object.entries(fields).filter(([each]) => each !== name));

const partLies: readonly Lie[] = [
  {
    name: 'a later part than was requested',
    tell: aboutPart((honest) => withSpan(honest, span(honest).start + block, span(honest).end + block)),
    isDistrusted: true,
  },
  {
    name: 'an earlier part than was requested',
    tell: aboutPart((honest) => withSpan(honest, 0, 100)),
    isDistrusted: true,
  },
  {
    name: 'a shorter part than was requested',
    tell: aboutPart((honest) => withSpan(honest, span(honest).start, span(honest).start + 2 * block)),
  },
  {
    name: 'a part that begins earlier and ends later',
    tell: aboutPart((honest) => withSpan(honest, span(honest).start - 77, span(honest).end + 77)),
    isDistrusted: true,
  },
  {
    name: 'a part of another length',
    tell: aboutLaterPart((honest) => ({
      ...honest,
      fields: { ...honest.fields, 'content-range': contentRange(span(honest), honest.version.sizeBytes + 1) },
    })),
  },
  {
    name: 'a part of another version',
    tell: aboutPart((honest) => {
      const version = other(honest.version);
      const range = contentRange(span(honest), version.sizeBytes);
      return { ...honest, version, fields: { ...fieldsOfVersion('ranged', version), 'content-range': range } };
    }),
  },
  {
    name: 'a part without a validator',
    tell: aboutPart((honest) => ({ ...honest, fields: without(honest.fields, 'etag') })),
  },
  {
    name: 'a part without a Content-Range',
    tell: aboutPart((honest) => ({ ...honest, fields: without(honest.fields, 'content-range') })),
    isDistrusted: true,
  },
  {
    name: 'a part that is shorter than its Content-Range',
    tell: aboutPart((honest) => ({ ...honest, span: { start: span(honest).start, end: span(honest).end - 10 } })),
    isDistrusted: true,
  },
  {
    name: 'a part that is shorter than its Content-Range, in chunks',
    tell: aboutPart((honest) => ({
      ...honest,
      span: { start: span(honest).start, end: span(honest).end - 10 },
      framing: 'chunked',
    })),
    isDistrusted: true,
  },
  {
    name: '416 for a satisfiable range',
    tell: aboutPart((honest) => ({
      ...honest,
      status: 416,
      span: { start: 0, end: 0 },
      fields: { 'content-range': `bytes */${honest.version.sizeBytes}` },
    })),
    isDistrusted: true,
  },
  {
    name: '416 with another length',
    tell: aboutLaterPart((honest) => ({
      ...honest,
      status: 416,
      span: { start: 0, end: 0 },
      fields: { 'content-range': 'bytes */10' },
    })),
  },
  {
    name: '200 after 206',
    tell: aboutPart((honest) => ({
      ...honest,
      status: 200,
      span: { start: 0, end: honest.version.sizeBytes },
      fields: without(honest.fields, 'content-range'),
    })),
  },
];

/** A 206 to a request without a range. */
const unasked: Lie = {
  name: 'a part that was not requested',
  tell: (honest) => {
    if (honest.status === 206) return honest;
    const fields = {
      ...honest.fields,
      'content-range': contentRange({ start: 0, end: 1000 }, honest.version.sizeBytes),
    };
    return { ...honest, status: 206, fields, span: { start: 0, end: 1000 } };
  },
};

const lies = [...framingLies, ...partLies, unasked];

/** The replies for a path in which the origin lies. */
interface Habit {
  readonly name: string;
  readonly when: (earlier: number) => boolean;
}
const habits: readonly Habit[] = [
  { name: 'in its first reply', when: (earlier) => earlier === 0 },
  { name: 'in its second reply', when: (earlier) => earlier === 1 },
  { name: 'in all replies but the first', when: (earlier) => earlier > 0 },
  { name: 'always', when: () => true },
];
const kinds = ['ranged', 'tagged', 'whole'] as const;

/** Each lie has a route of its own, which has not been lied to before. */
const routeOf = (lie: Lie, habit: Habit, kind: FileKind): string =>
  `lie-${lies.indexOf(lie)}-${habits.indexOf(habit)}-${kind}`;
const lieRoutes = lies.flatMap((lie) => habits.flatMap((habit) => kinds.map((kind) => routeOf(lie, habit, kind))));

let dir: string;
let origin: FaultyOrigin;
let server: FaultServer;
let descriptors: number;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-lies-'));
  origin = await openFaultyOrigin();
  const routes = [...lieRoutes, 'flapping', 'changing'];
  const options = { originUrl: origin.url, dir, blockSizeBytes: block, resumeAttempts: 2 };
  server = await startFaultServer({ ...options, routes, stubborn: ['flapping'] });
  descriptors = descriptorsOf(server);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await origin[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

let lastFile = 0;
function newPath(route: string, kind: FileKind): string {
  lastFile += 1;
  return faultyPath({ route, kind, sizeBytes, file: lastFile });
}

/** The version that each entity tag stands for, including tags that the proxy made. */
const versionOfTag = new Map<string, string>();

/** Sends a request, and verifies the response against the version, the entity tag and the length that its head states. */
async function ask(path: string, range?: string): Promise<Verified> {
  const verified = await askVerified({ base: server.url, path, range });
  const { status, isComplete, version, headers, bytes } = verified;
  const name = `${path} ${range ?? ''}: ${status} ${isComplete ? 'complete' : 'cut'} after ${bytes}`;
  if (status !== 200 && status !== 206) expect(status, name).toBeGreaterThanOrEqual(500);
  const { etag } = headers;
  if (version === undefined || etag === undefined) return verified;
  const known = versionOfTag.get(etag) ?? nameOf(version);
  versionOfTag.set(etag, known);
  expect(nameOf(version), `${name}, as ${etag}`).toBe(known);
  return verified;
}

/** Waits until the current version arrives whole. */
function untilRight(path: string, range?: string): Promise<void> {
  return until(`${path} ${range ?? ''} comes whole`, async () => {
    const { status, isComplete, version } = await ask(path, range);
    return isComplete && status < 300 && version?.version === origin.versionOf(path).version;
  });
}

const originLines = (route: string): string[] =>
  server
    .output()
    .split('\n')
    .filter((line) => line.includes('"event":"origin"') && line.includes(`"route":"${route}"`));

describe('an origin that lies', () => {
  async function expectRight(lie: Lie, habit: Habit, kind: FileKind): Promise<void> {
    const route = routeOf(lie, habit, kind);
    await Promise.all(
      [undefined, partRange, 'bytes=-9000', `bytes=${part.start}-`].map(async (range) => {
        const path = newPath(route, kind);
        origin.twist(path, (honest, asked) => {
          const reply = habit.when(asked.earlier) ? lie.tell(honest, asked) : honest;
          if (asked.earlier > 0) return reply;
          // The first reply ends early, so that the rest must be requested.
          return { ...reply, end: 'fin', cutAfterBytes: block + 9 };
        });
        await ask(path, range);
        await Promise.all([ask(path), ask(path, partRange)]);
        origin.twist(path, undefined);
        await untilRight(path, range);
      }),
    );
    // One line names the first URL, and one the origin, once several paths have shown the lie.
    const lines = originLines(route);
    expect(lines.length, lines.join('\n')).toBeLessThanOrEqual(2);
    const isNoticed = kind === 'ranged' && habit.name !== 'in its first reply';
    if (lie.isDistrusted === true && isNoticed) expect(lines, `${lie.name}, ${habit.name}`).not.toHaveLength(0);
  }

  it.each(lies)('$name', { timeout: 4 * recoversWithinMs }, async (lie) => {
    const cases = habits.flatMap((habit) => kinds.map((kind) => [habit, kind] as const));
    const all = cases.map(([habit, kind]) =>
      expectRight(lie, habit, kind).catch((error: unknown) => {
        throw new Error(`${habit.name}, ${kind}`, { cause: error });
      }),
    );
    await Promise.all(all);
  });
});

describe(`an inconsistent origin (seed ${faultSeed})`, () => {
  const maxRequests = 400 * times;
  const pick = <T>(values: readonly [T, ...T[]]): T => values[Math.floor(random() * values.length)] ?? values[0];

  function someRange(): string | undefined {
    const start = Math.floor(random() * sizeBytes);
    const length = 1 + Math.floor(random() * 4 * block);
    return pick([undefined, `bytes=${start}-`, `bytes=-${length}`, `bytes=${start}-${start + length - 1}`]);
  }

  /** Sends random requests, eight at a time; returns the number of complete responses. */
  async function askAround(paths: readonly string[], between: () => void): Promise<number> {
    let left = maxRequests;
    let complete = 0;
    const one = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        between();
        const path = paths[Math.floor(random() * paths.length)] ?? '';
        const { status, isComplete } = await ask(path, someRange());
        if (isComplete && status < 300) complete += 1;
      }
    };
    await Promise.all(Array.from({ length: 8 }, one));
    return complete;
  }

  it('that sends 206 or 200 at random, and cuts either: complete responses are right', {
    timeout: 60_000 + 20_000 * times,
  }, async () => {
    const flap: Twist = (honest) => {
      const whole = { start: 0, end: honest.version.sizeBytes };
      const turned =
        honest.status === 206 && random() < 0.4
          ? { ...honest, status: 200, span: whole, fields: without(honest.fields, 'content-range') }
          : honest;
      const length = turned.span.end - turned.span.start;
      return random() < 0.3 ? { ...turned, end: 'fin', cutAfterBytes: Math.floor(random() * length) } : turned;
    };
    const paths: string[] = [];
    const complete = await askAround(paths, () => {
      // A new file now and then, so that there is always something to fetch.
      if (paths.length === 4 && random() < 0.8) return;
      const path = newPath('flapping', 'ranged');
      origin.twist(path, flap);
      paths[paths.length === 4 ? Math.floor(random() * 4) : paths.length] = path;
    });
    // A transfer is given up after too many cuts without progress.
    expect(complete).toBeGreaterThan(maxRequests * 0.9);
    expect(originLines('flapping')).toEqual([]);
  });

  it('that changes its files at random, and cuts responses: complete responses are of one version', {
    timeout: 60_000 + 20_000 * times,
  }, async () => {
    const cut: Twist = (honest, { path }) => {
      const length = honest.span.end - honest.span.start;
      const fields = { ...honest.fields, 'cache-control': `max-age=${pick([0, 1])}` };
      if (random() < 0.3) origin.change(path);
      return random() < 0.3
        ? { ...honest, fields, end: 'fin', cutAfterBytes: Math.floor(random() * length) }
        : { ...honest, fields };
    };
    const paths = (['ranged', 'tagged', 'weak', 'whole'] as const).flatMap((kind) =>
      [1, 2].map(() => newPath('changing', kind)),
    );
    for (const path of paths) origin.twist(path, cut);
    const complete = await askAround(paths, () => {
      if (random() < 0.1) origin.change(paths[Math.floor(random() * paths.length)] ?? '');
    });
    expect(complete).toBeGreaterThan(maxRequests / 4);
    for (const path of paths) origin.twist(path, undefined);
    for (const path of paths) await until(`${path} comes whole`, async () => (await ask(path)).isComplete);
  });
});

describe('after all these tests', () => {
  it('nothing stays open, the store is intact, and the server ends promptly', async () => {
    await expectNothingKept(server, descriptors);
    expect(server.output()).not.toMatch(/"level":"(?:error|fatal)"/);
    expect(server.output()).not.toMatch(/"level":"warn"[^\n]*"event":"store"/);
    await expectPromptEnd(server);
  });
});
