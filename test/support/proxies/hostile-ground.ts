/** A whole Rangeway between raw bytes and an origin that records what it gets: what becomes of a hostile stream. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../../src/config/load.ts';
import type { ErrorCode } from '../../../src/http/proxy-error.ts';
import { start } from '../../../src/main.ts';
import type { ServerEvent } from '../../../src/telemetry/events.ts';
import { RawClient, type RawResponse, rawValues } from '../clients/raw-client.ts';
import type { ReadRequest } from '../clients/strict-request.ts';
import { turn } from '../clocks/turn.ts';
import { readRecorded } from '../origins/recorded-requests.ts';
import { openRecordingOrigin } from '../origins/recording-origin.ts';
import { expectRefusal } from '../values/expect-refusal.ts';

/** What must become of a stream of bytes. An error code alone is `refused`. */
export type Verdict =
  /** The client gets this error and nothing else, the connection ends, and the origin sees nothing. */
  | ErrorCode
  /** The origin sees this one request, and the client its answer. */
  | Passed
  /** We answer by ourselves; the origin sees nothing. */
  | { readonly kind: 'answered'; readonly status: number; readonly isLast: boolean }
  /** The body breaks off: the origin sees nothing, or a request that is cut; the client gets this error. */
  | { readonly kind: 'broken'; readonly code: ErrorCode }
  /** The client ends in the middle: it gets nothing, and the origin sees nothing, or a request that is cut. */
  | { readonly kind: 'ended' }
  /** The connection ends without a word, and the origin sees nothing. */
  | { readonly kind: 'lost' };

interface Passed {
  readonly kind: 'passed';
  /** Method and target. */
  readonly line: string;
  readonly body: string;
  /** Field lines that differ from those of a plain GET, as `name: value` in lower case. `-name` is one that is not there. */
  readonly fields: readonly string[];
  /** Whether the connection ends after the answer. */
  readonly isLast: boolean;
}

/** One hostile stream. */
export type HostileRow = readonly [name: string, bytes: string, verdict: Verdict];

/** The origin gets this request: method and target, body, and the fields that a plain GET has not. */
export function passed(line: string, body = '', ...fields: readonly string[]): Passed {
  return { kind: 'passed', line, body, fields, isLast: false };
}

/** As `passed`, and the connection ends after it. */
export function passedLast(line: string, body = '', ...fields: readonly string[]): Passed {
  return { ...passed(line, body, ...fields), isLast: true };
}

/** What has no authority that a route could have; that is seen on the road, and the connection goes on. */
export const unroutable: Verdict = { kind: 'answered', status: 400, isLast: false };

/** What is refused in the middle of its body. */
export const broken: Verdict = { kind: 'broken', code: 'malformed_request' };

/** What the client ends in its middle. */
export const ended: Verdict = { kind: 'ended' };

/** A GET with these field lines besides Host, each with its end. */
export function get(fields = '', target = '/x'): string {
  return `GET ${target} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;
}

/** A POST with these field lines besides Host, and what comes after its head. */
export function post(fields: string, rest = ''): string {
  return `POST /x HTTP/1.1\r\nHost: a\r\n${fields}\r\n${rest}`;
}

/** Comes after every stream: read after what is passed, never after what is refused. */
const after = 'GET /after HTTP/1.1\r\nHost: a\r\n\r\n';

/** The running server, and the origin behind it. */
export interface HostileGround extends AsyncDisposable {
  /** Sends the pieces, each by itself, and compares what becomes of them. A failure tells the bytes. */
  judge(pieces: readonly string[], verdict: Verdict): Promise<void>;
  /** Sends the bytes, whatever they are, and tells what has come of them. */
  survey(bytes: string): Promise<Survey>;
}

/** What has come of some bytes. */
export interface Survey {
  /** How many answers of the origin the client got. */
  readonly answers: number;
  /** What the origin was asked in whole, each read alike by every reader. */
  readonly seen: readonly ReadRequest[];
}

/** Runs the rows, one after the other, against one server: each in one piece, and in two. */
export function judgeAll(groups: Readonly<Record<string, readonly HostileRow[]>>): void {
  const opening = openHostileGround();
  describe.each(Object.entries(groups))('%s', (_group, rows) => {
    it.each(rows)('%s', async (_name, bytes, verdict) => {
      const ground = await opening;
      await ground.judge([bytes], verdict);
      const middle = Math.floor(bytes.length / 2);
      await ground.judge([bytes.slice(0, middle), bytes.slice(middle)], verdict);
    });
  });
  describe('the table', () => {
    it('has no stream twice', async () => {
      await using _ground = await opening;
      const streams = Object.values(groups).flatMap((rows) => rows.map(([, bytes]) => bytes));
      expect(streams.filter((stream, at) => streams.indexOf(stream) < at)).toEqual([]);
    });
  });
}

/** Starts both. */
export async function openHostileGround(): Promise<HostileGround> {
  const origin = await openRecordingOrigin();
  const events: ServerEvent[] = [];
  const loaded = checkConfig(
    { listen: '127.0.0.1:0', store: { type: 'memory' }, pseudonym: 'edge', routes: [{ origin: origin.url }] },
    '/',
  );
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  const server = await start(loaded.config, { emit: (event) => events.push(event) });
  const port = Number(new URL(server.url).port);

  /** Lets all come to the origin that is still on its way: what is asked last is answered last. */
  const askLast = async (): Promise<void> => {
    await using client = await RawClient.open(port);
    await client.exchange('GET /settled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  };

  const settle = async (): Promise<void> => {
    await askLast();
    await expect
      .poll(() => origin.recorded().some(({ isMidway, isClosed }) => isMidway && !isClosed), { interval: 5 })
      .toBe(false);
  };

  const othersSeen = async () => (await readRecorded(origin)).filter(({ target }) => target !== '/settled');

  const plainFields = async (): Promise<string[]> => {
    await using client = await RawClient.open(port);
    await client.exchange(get());
    return (await readRecorded(origin)).flatMap(linesOf);
  };
  const plain = await plainFields();

  return {
    judge: (pieces, verdict) =>
      judge(pieces, verdict).catch((error: Error) => {
        error.message = `${JSON.stringify(pieces.map((piece) => piece.slice(0, 1000)))}\n${error.message}`;
        throw error;
      }),
    async survey(bytes) {
      origin.reset();
      await using client = await RawClient.open(port);
      client.send(bytes);
      const counted = { answers: 0 };
      const over = countAnswers(client, counted);
      await askLast();
      await askLast();
      await expect
        .poll(async () => (await othersSeen()).length - counted.answers, { interval: 5 })
        .toBeLessThanOrEqual(0);
      // What is not answered by now waits for more.
      client.end();
      await over;
      await settle();
      return { ...counted, seen: await othersSeen() };
    },
    async [Symbol.asyncDispose]() {
      await server.close({ graceMs: 0 });
      await origin[Symbol.asyncDispose]();
    },
  };

  async function judge(pieces: readonly string[], verdict: Verdict): Promise<void> {
    origin.reset();
    events.length = 0;
    {
      await using client = await RawClient.open(port);
      const last = pieces.at(-1) ?? '';
      await sendApart(client, [...pieces.slice(0, -1), isEnded(verdict) ? last : last + after]);
      if (isEnded(verdict)) client.end();
      await judgeClient(client, pieces.join(''), verdict);
    }
    await settle();
    const seen = await othersSeen();
    const own = seen.filter(({ target }) => target !== '/after');
    expect(own.map(({ method, target }) => `${method} ${target}`)).toEqual(isPassed(verdict) ? [verdict.line] : []);
    expect(seen.length - own.length).toBe(isKept(verdict) ? 1 : 0);
    for (const { bytes: recorded } of origin.recorded()) {
      if (!isKept(verdict)) expect(recorded).not.toContain('after');
    }
    if (isPassed(verdict)) {
      expect(own[0]?.body).toBe(verdict.body);
      expect(own.flatMap(linesOf).sort()).toEqual(expectedLines(plain, verdict.fields));
    }
    if (typeof verdict === 'string') {
      expect(events.filter(({ kind }) => kind === 'refusal')).toMatchObject([{ error: verdict }]);
    }
  }
}

/** Each piece is read before the next one is sent: the server runs in this process. */
async function sendApart(client: RawClient, [first = '', ...others]: readonly string[]): Promise<void> {
  client.send(first);
  for (const piece of others) {
    for (let passed = 0; passed < 5; passed += 1) await turn();
    client.send(piece);
  }
}

async function judgeClient(client: RawClient, bytes: string, verdict: Verdict): Promise<void> {
  const response = await finalResponse(client, bytes.trimStart().startsWith('HEAD ') ? 'HEAD' : 'GET');
  if (typeof verdict === 'string') expectRefusal(response, verdict);
  else if (verdict.kind === 'broken') expectRefusal(response, verdict.code);
  else if (verdict.kind === 'lost' || verdict.kind === 'ended') expect(response).toBeUndefined();
  else {
    expect(response?.status).toBe(verdict.kind === 'passed' ? 200 : verdict.status);
    expect(response === undefined ? [] : rawValues(response, 'connection')).toEqual([
      verdict.isLast ? 'close' : 'keep-alive',
    ]);
    if (!verdict.isLast) {
      expect((await client.response())?.body.toString()).toBe('ok');
      return;
    }
  }
  expect(await client.rest()).toBe('');
}

async function countAnswers(client: RawClient, counted: { answers: number }): Promise<void> {
  for (;;) {
    const response = await client.response();
    if (response === undefined) return;
    if (response.body.toString() === 'ok') counted.answers += 1;
  }
}

async function finalResponse(client: RawClient, method: string): Promise<RawResponse | undefined> {
  for (;;) {
    const response = await client.response(method);
    if (response === undefined || response.status >= 200) return response;
  }
}

function isPassed(verdict: Verdict): verdict is Passed {
  return typeof verdict !== 'string' && verdict.kind === 'passed';
}

function isEnded(verdict: Verdict): boolean {
  return typeof verdict !== 'string' && verdict.kind === 'ended';
}

/** Whether what follows is read. */
function isKept(verdict: Verdict): boolean {
  return typeof verdict !== 'string' && (verdict.kind === 'passed' || verdict.kind === 'answered') && !verdict.isLast;
}

function linesOf({ fields }: ReadRequest): string[] {
  return fields.map(([name, value]) => `${name.toLowerCase()}: ${value}`);
}

function expectedLines(plain: readonly string[], changes: readonly string[]): string[] {
  const names = new Set(changes.map((change) => /^-?([^:]*)/.exec(change)?.[1]));
  const kept = plain.filter((line) => !names.has(line.slice(0, line.indexOf(':'))));
  return [...kept, ...changes.filter((change) => !change.startsWith('-'))].sort();
}
