/** WebSocket, Server-Sent Events, and a call as in gRPC-web: what is not a file must come as it is sent. */

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { patternBytes } from '../../../support/values/pattern-body.ts';
import { type Client, check, checkBytes, type Place, within } from '../client.ts';
import { grpcFrame, liveOrigin } from '../origins/live-origin.ts';

async function sendOn({ url }: Place): Promise<void> {
  const { status } = await fetch(url('go'), { method: 'POST' });
  check(status === 204, `the status of the second request is ${status}`);
}

async function echo({ url }: Place): Promise<void> {
  const socket = new WebSocket(url('echo').replace(/^http/, 'ws'));
  socket.binaryType = 'arraybuffer';
  await once(socket, 'open');
  for (const length of [5, 60_000]) {
    const sent = patternBytes(0, length);
    const received = once(socket, 'message') as Promise<[MessageEvent<ArrayBuffer>]>;
    socket.send(sent);
    checkBytes('the echo', new Uint8Array((await received)[0].data), sent);
  }
  const closed = once(socket, 'close');
  socket.close();
  await closed;
}

/** Checks that bytes arrive, sends the origin on, and checks the rest. */
async function expectParts(place: Place, response: Response, parts: readonly Buffer[]): Promise<void> {
  check(response.status === 200 && response.body !== null, `the status is ${response.status}`);
  const reader = response.body.getReader();
  try {
    let received = Buffer.alloc(0);
    let expected = Buffer.alloc(0);
    for (const [at, part] of parts.entries()) {
      expected = Buffer.concat([expected, part]);
      while (received.length < expected.length) {
        const { done, value } = await reader.read();
        check(!done, `the response ended after ${received.length} bytes`);
        received = Buffer.concat([received, value]);
      }
      checkBytes('the response', received, expected);
      if (at === 0) await sendOn(place);
    }
  } finally {
    await reader.cancel();
  }
}

/** Returns a client that needs no program, and the live origin only. */
function live(name: string, run: (place: Place) => Promise<void>): Client {
  return {
    name,
    programs: [],
    origins: [liveOrigin],
    fileBytes: undefined,
    run: (place) => within(place, run(place)),
  };
}

export const liveClients: readonly Client[] = [
  live('WebSocket echo', echo),
  live('Server-Sent Events', async (place) => {
    const response = await fetch(place.url('events'), { headers: { accept: 'text/event-stream' } });
    const events = ['id: 1\ndata: first\n\n', 'id: 2\ndata: second\n\n'].map((text) => Buffer.from(text));
    await expectParts(place, response, events);
  }),
  live('gRPC-web: a call with a stream of answers', async (place) => {
    const body = grpcFrame('a request');
    const headers = { 'content-type': 'application/grpc-web+proto', 'x-grpc-web': '1' };
    const response = await fetch(place.url('call'), { method: 'POST', headers, body: new Uint8Array(body) });
    const hash = createHash('sha256').update(body).digest('hex');
    const rest = Buffer.concat([grpcFrame('more'), grpcFrame('grpc-status: 0\r\n', 0x80)]);
    await expectParts(place, response, [grpcFrame(`you sent ${hash}`), rest]);
  }),
];
