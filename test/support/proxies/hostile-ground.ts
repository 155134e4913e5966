/** A whole server between raw bytes and an origin that records its requests: the verdicts on hostile streams. */

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

/** The required outcome for a stream of bytes. An error code by itself means: refused. */
export type Verdict =
  /** The client gets this error and nothing else, the connection ends, and the origin sees nothing. */
  | ErrorCode
  /** The origin sees this one request, and the client gets its response. */
  | Passed
  /** The proxy answers by itself; the origin sees nothing. */
  | { readonly kind: 'answered'; readonly status: number; readonly isLast: boolean }
  /** The body is broken: the client gets this error; the origin sees nothing, or a request that is cut. */
  | { readonly kind: 'broken'; readonly code: ErrorCode }
  /** The client ends its side early: it gets nothing; the origin sees nothing, or a request that is cut. */
  | { readonly kind: 'ended' }
  /** The connection closes without a response, and the origin sees nothing. */
  | { readonly kind: 'lost' };

interface Passed {
  readonly kind: 'passed';
  /** Method and target. */
  readonly line: string;
  readonly body: string;
  /** Field lines that differ from those of a plain GET, as `name: value` in lower case. `-name`: that field is absent. */
  readonly fields: readonly string[];
  /** Whether the connection closes after the response. */
  readonly isLast: boolean;
}

/** One hostile stream. */
export type HostileRow = readonly [name: string, bytes: string, verdict: Verdict];

/** Verdict: the origin gets this request (method and target, body, and the fields that a plain GET does not have). */
export function passed(line: string, body = '', ...fields: readonly string[]): Passed {
  return { kind: 'passed', line, body, fields, isLast: false };
}

/** Verdict: as `passed`, and the connection closes after the response. */
export function passedLast(line: string, body = '', ...fields: readonly string[]): Passed {
  return { ...passed(line, body, ...fields), isLast: true };
}

/** Verdict: the authority is invalid, which only the proxy notices; it answers 400, and the connection stays open. */
export const unroutable: Verdict = { kind: 'answered', status: 400, isLast: false };

/** Verdict: refused in the middle of the body. */
export const broken: Verdict = { kind: 'broken', code: 'malformed_request' };

/** Verdict: the client ends its side in the middle of the request. */
export const ended: Verdict = { kind: 'ended' };

/** Returns a GET with these field lines besides Host, each with its CRLF. */
export function get(fields = '', target = '/x'): string {
  return `GET ${target} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;
}

/** Returns a POST with these field lines besides Host, and `rest` after its head. */
export function post(fields: string, rest = ''): string {
  return `POST /x HTTP/1.1\r\nHost: a\r\n${fields}\r\n${rest}`;
}

/** A request that is sent after every stream: the server must read it after a passed request, and never after a refused one. */
const after = 'GET /after HTTP/1.1\r\nHost: a\r\n\r\n';

/** The running server, and the origin behind it. */
export interface HostileGround extends AsyncDisposable {
  /** Sends the pieces one by one, and checks the outcome against the verdict. A failure shows the bytes. */
  judge(pieces: readonly string[], verdict: Verdict): Promise<void>;
  /** Sends any bytes, and returns their outcome. */
  survey(bytes: string): Promise<Survey>;
}

/** The outcome of some bytes. */
export interface Survey {
  /** Number of origin responses that the client got. */
  readonly answers: number;
  /** The complete requests that the origin got. All readers have read them alike. */
  readonly seen: readonly ReadRequest[];
}

/** Declares a test for each row, all against one server: each stream is sent in one piece, and in two. */
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
    it('has no duplicate stream', async () => {
      await using _ground = await opening;
      const streams = Object.values(groups).flatMap((rows) => rows.map(([, bytes]) => bytes));
      expect(streams.filter((stream, at) => streams.indexOf(stream) < at)).toEqual([]);
    });
  });
}

/** Starts the server and its origin. */
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

  /** Waits until earlier requests have reached the origin: this last request is answered after them. */
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
      // A request without a response by now waits for more bytes.
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

/** Sends pieces one by one. Turns of the event loop let the server, which runs in this process, read each piece first. */
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

/** Returns whether the server reads the next request on the connection. */
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
