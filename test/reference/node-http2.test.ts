/**
 * Faults of Node's own HTTP/2, each reproduced without the listener: the reasons for an implementation of our own
 * (`src/listener/http2`). A row that fails names a reason that a newer Node has removed.
 */

import { createServer, type ServerHttp2Stream } from 'node:http2';
import { describe, expect, it } from 'vitest';
import {
  errorCode,
  getFields,
  H2RawClient,
  postFields,
  type StreamOutcome,
  setting,
} from '../support/clients/h2-raw-client.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';

interface Row {
  readonly name: string;
  readonly respond: (stream: ServerHttp2Stream) => void;
  readonly settings?: readonly (readonly [number, number])[];
  readonly request: (client: H2RawClient) => void;
  /** The outcome with Node. */
  readonly is: Partial<StreamOutcome> & { readonly goaway?: number | undefined };
  /** The outcome that RFC 9113 demands. */
  readonly shouldBe: string;
}

const full = Buffer.alloc(65_535);
const spent = [[setting.windowSize, 0]] as const;

const rows: readonly Row[] = [
  {
    name: 'a response without content is reset before its end where the window has no room',
    respond(stream) {
      stream.respond({ ':status': 200 });
      stream.end();
    },
    settings: spent,
    request: (client) => client.request(1, getFields()),
    is: { status: 200, isEnded: false, resetCode: errorCode.none, goaway: undefined },
    shouldBe: 'ended by an empty DATA frame (§6.9.1), and not reset (§8.1)',
  },
  {
    name: 'trailers are lost where the window has no room',
    respond(stream) {
      stream.respond({ ':status': 200 }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'x-sum': '1' }));
      stream.end();
    },
    settings: spent,
    request: (client) => client.request(1, getFields()),
    is: { isEnded: false, trailers: [], goaway: undefined },
    shouldBe: 'followed by its trailers, which no window holds back (§6.9)',
  },
  {
    name: 'the last write, made in the callback of an earlier one, goes out without the end',
    respond(stream) {
      stream.respond({ ':status': 200 });
      stream.write(full.subarray(0, 16_384), () => stream.end(full.subarray(32_768)));
      stream.write(full.subarray(16_384, 32_768));
    },
    request: (client) => client.request(1, getFields()),
    is: { isEnded: false, resetCode: errorCode.none, goaway: undefined },
    shouldBe: 'ended with the frame that fills the window',
  },
  {
    name: 'content beyond Content-Length ends the connection',
    respond: (stream) => stream.respond({ ':status': 200 }, { endStream: true }),
    request(client) {
      client.request(1, postFields('/', [['content-length', '1']]), { endStream: false });
      client.data(1, 'ab', { endStream: true });
    },
    is: { status: undefined, goaway: errorCode.internal },
    shouldBe: 'a reset of the stream with PROTOCOL_ERROR (§8.1.1)',
  },
  {
    name: 'a stream below the last one is silently ignored',
    respond: (stream) => stream.respond({ ':status': 200 }, { endStream: true }),
    request(client) {
      client.request(3, getFields());
      client.request(1, getFields());
    },
    is: { status: undefined, resetCode: undefined, goaway: undefined },
    shouldBe: 'a connection error PROTOCOL_ERROR (§5.1.1)',
  },
  {
    name: 'a request without an authority is reset before any listener sees it',
    respond: (stream) => stream.respond({ ':status': 400 }, { endStream: true }),
    request: (client) =>
      client.request(
        1,
        getFields().filter(([name]) => name !== ':authority'),
      ),
    is: { status: undefined, resetCode: errorCode.protocol, goaway: undefined },
    shouldBe: '400 (RFC 9110 §7.2), though a reset is allowed (§8.1.1)',
  },
];

describe('node:http2 alone', () => {
  it.each(rows)('$name', async ({ respond, settings = [], request, is, shouldBe }) => {
    const server = createServer();
    server.on('session', (session) => session.on('error', () => {}));
    server.on('stream', (stream) => {
      stream.on('error', () => {});
      respond(stream as ServerHttp2Stream);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    await using client = await H2RawClient.open(port, { settings });
    request(client);
    await untilQuiet(() => client.frames.length);
    const outcome = { ...client.outcome(1), goaway: client.goawayCode };
    expect(outcome, `It should be: ${shouldBe}.`).toMatchObject(is);
    server.close();
  });
});
