/** Runs tables of frames that a client sends: the outcome for the client, the requests at the handler, and no effect on others. */

import { describe, expect, it } from 'vitest';
import { openH2Server, type TestH2Server } from '../proxies/h2-listener.ts';
import { textResponse } from '../proxies/open-listener.ts';
import { encodeFields } from './h2-hpack.ts';
import { flag, getFields, type H2RawClient, postFields } from './h2-raw-client.ts';

/** The outcome for the client: a GOAWAY and a close; a reset stream on an open connection; a response; a close; or nothing. */
export type Outcome =
  | { readonly goaway: number }
  | { readonly reset: number; readonly stream?: number }
  | { readonly status: number }
  | 'closed'
  | 'ignored';

/** One row of a table. */
export interface Row {
  readonly name: string;
  send(client: H2RawClient): void;
  readonly sees: Outcome;
  /** Targets of the requests that reach the handler. */
  readonly asked?: readonly string[];
}

/** Flags of a HEADERS frame with a whole field section, and of one with a whole request. */
export const open = flag.endHeaders;
export const whole = flag.endHeaders | flag.endStream;

/** The field section of a GET. */
export const block = encodeFields(getFields('/'));

/** Opens stream 1 with a request whose body is to follow. */
export function begin(client: H2RawClient): void {
  client.request(1, postFields('/wait'), { endStream: false });
}

/** Opens a server that answers after it has read the body; at `/wait` it never answers. */
export function openFrameServer(): Promise<TestH2Server> {
  return openH2Server(async ({ target, body }) => {
    if (target === '/wait') return await new Promise(() => {});
    for await (const _chunk of body ?? []);
    return textResponse('well');
  });
}

/** Waits for the outcome of the frames, and returns it. */
async function outcomeOf(client: H2RawClient): Promise<Outcome> {
  const over = client.until(() => {
    const { isEnded, resetCode } = client.outcome(1);
    return client.goawayCode !== undefined || isEnded || resetCode !== undefined;
  });
  await Promise.race([over, client.roundTrip()]);
  await client.roundTrip();
  const { status, resetCode } = client.outcome(1);
  if (client.goawayCode !== undefined) return { goaway: client.goawayCode };
  if (client.isClosed) return 'closed';
  if (resetCode !== undefined) return { reset: resetCode };
  return status === undefined ? 'ignored' : { status };
}

/** Declares a test for each row. It sends the frames on one connection, and checks that another connection still works. */
export function expectRows(groups: readonly (readonly [string, readonly Row[]])[]): void {
  describe.each(groups)('%s', (_group, rows) => {
    it.each(rows)('$name', async ({ send, sees, asked = [] }) => {
      await using listener = await openFrameServer();
      await using bystander = await listener.connect();
      await using client = await listener.connect();
      send(client);
      expect(await outcomeOf(client)).toEqual(sees);
      expect(listener.requests.map(({ target }) => target)).toEqual(asked);
      if (typeof sees === 'object' && 'goaway' in sees) await client.closed;
      bystander.request(1, getFields('/other'));
      expect((await bystander.whenOver(1)).status).toBe(200);
      bystander.socket.destroy();
      client.socket.destroy();
      await expect.poll(() => listener.sockets.size).toBe(0);
      expect(listener.requests.filter(({ target }) => target === '/wait').every(({ signal }) => signal.aborted)).toBe(
        true,
      );
    });
  });
}
