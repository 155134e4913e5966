/**
 * Every way in which an origin ends a response, in every state of the client's windows (RFC 9113 §6.9): the client gets the
 * end of the response, and no reset before it (§8.1).
 */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { errorCode, getFields, H2RawClient, setting } from '../support/clients/h2-raw-client.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { openScriptedOrigin, type ScriptedOrigin } from '../support/origins/scripted-origin.ts';

/** The initial window of a connection and of a stream, in bytes (RFC 9113 §6.9.2). */
const wholeWindow = 65_535;

const head = (...lines: readonly string[]) =>
  ['HTTP/1.1 200 OK', 'Cache-Control: no-store', ...lines, '', ''].join('\r\n');
const chunked = head('Transfer-Encoding: chunked');
const text = 'x'.repeat(wholeWindow);
const chunk = `${wholeWindow.toString(16)}\r\n${text}\r\n`;

interface Form {
  readonly bytes: string;
  readonly method?: 'HEAD' | 'POST';
  readonly sizeBytes: number;
  /** The trailers that the client gets; undefined where it sends no TE: trailers. */
  readonly trailers?: readonly (readonly [string, string])[];
  /** Whether the origin ends the response by closing its connection. */
  readonly isCloseDelimited?: boolean;
}

const trailers = [['x-sum', '1']] as const;
const forms: Readonly<Record<string, Form>> = {
  'Content-Length: 0': { bytes: head('Content-Length: 0'), sizeBytes: 0 },
  'no chunk': { bytes: `${chunked}0\r\n\r\n`, sizeBytes: 0 },
  'no chunk, to POST': { bytes: `${chunked}0\r\n\r\n`, method: 'POST', sizeBytes: 0 },
  'no chunk, trailers': { bytes: `${chunked}0\r\nX-Sum: 1\r\n\r\n`, sizeBytes: 0, trailers },
  'no chunk and no trailers, with TE: trailers': { bytes: `${chunked}0\r\n\r\n`, sizeBytes: 0, trailers: [] },
  'no bytes, close-delimited': { bytes: head(), sizeBytes: 0, isCloseDelimited: true },
  'HEAD with a length': { bytes: head('Content-Length: 9'), method: 'HEAD', sizeBytes: 0 },
  'HEAD with chunks': { bytes: chunked, method: 'HEAD', sizeBytes: 0 },
  '204': { bytes: 'HTTP/1.1 204 No Content\r\n\r\n', sizeBytes: 0 },
  'a length that fills the window': {
    bytes: `${head(`Content-Length: ${wholeWindow}`)}${text}`,
    sizeBytes: wholeWindow,
  },
  'a chunk that fills the window': { bytes: `${chunked}${chunk}0\r\n\r\n`, sizeBytes: wholeWindow },
  'a chunk that fills the window, trailers': {
    bytes: `${chunked}${chunk}0\r\nX-Sum: 1\r\n\r\n`,
    sizeBytes: wholeWindow,
    trailers,
  },
  'a chunk that fills the window and no trailers, with TE: trailers': {
    bytes: `${chunked}${chunk}0\r\n\r\n`,
    sizeBytes: wholeWindow,
    trailers: [],
  },
  'close-delimited bytes that fill the window': {
    bytes: `${head()}${text}`,
    sizeBytes: wholeWindow,
    isCloseDelimited: true,
  },
};

let origin: ScriptedOrigin;
let server: RunningServer;

beforeAll(async () => {
  origin = await openScriptedOrigin(async ({ request, send, end }) => {
    const form = forms[decodeURIComponent(request.target.slice(1))];
    if (form === undefined) return await send(`${head('Content-Length: 500000')}${'y'.repeat(500_000)}`);
    await send(form.bytes);
    return form.isCloseDelimited === true ? end() : undefined;
  });
  const listen = [{ address: '127.0.0.1:0', http2: true }];
  const loaded = checkConfig({ listen, store: { type: 'memory' }, routes: [{ origin: origin.url }] }, '/');
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  server = await start(loaded.config);
});

afterAll(async () => {
  await server.close({ graceMs: 0 });
  await origin.close();
});

/** Sends the request for a form on a stream. POST ends with empty DATA, not with its HEADERS. */
function ask(client: H2RawClient, stream: number, name: string): void {
  const { method = 'GET', trailers } = forms[name] ?? {};
  const fields = getFields(`/${encodeURIComponent(name)}`, trailers === undefined ? [] : [['te', 'trailers']]);
  client.request(stream, [[':method', method], ...fields.slice(1)], { endStream: method !== 'POST' });
  if (method === 'POST') client.data(stream, '', { endStream: true });
}

describe.each([
  ['open', [], false],
  ['used up by a download that is not read', [[setting.windowSize, 1_000_000]], true],
  ['of no bytes from the start', [[setting.windowSize, 0]], false],
] as const)('a window that is %s', (_state, settings, isUsedUp) => {
  it.each(Object.entries(forms))('passes the end of %s', async (name, { sizeBytes, trailers }) => {
    await using client = await H2RawClient.open(Number(new URL(server.url).port), { settings });
    if (isUsedUp) {
      ask(client, 1, 'download');
      await client.until(() => client.outcome(1).body.length === wholeWindow);
    }
    ask(client, 3, name);
    // Content waits for the window, and so does the end behind it. Nothing is reset in the meantime.
    if (settings.length > 0 && sizeBytes > 0) {
      await untilQuiet(() => client.frames.length);
      expect(client.outcome(3).resetCode).toBeUndefined();
      client.windowUpdate(0, 1_000_000);
      client.windowUpdate(3, 1_000_000);
    }
    const { status, body, isEnded, resetCode, trailers: got } = await client.whenOver(3);
    expect([status, body.length, isEnded, resetCode, got]).toEqual([
      name === '204' ? 204 : 200,
      sizeBytes,
      true,
      undefined,
      trailers ?? [],
    ]);
    expect(await client.roundTrip()).toBe(true);
    expect([undefined, errorCode.none]).toContain(client.outcome(3).resetCode);
    expect(client.goawayCode).toBeUndefined();
  });
});
