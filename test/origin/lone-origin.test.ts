/** A lone origin: idempotent requests whose connection broke off before a response are sent again, and no others. */

import { describe, expect, it } from 'vitest';
import type { BodyStream } from '../../src/http/message.ts';
import { createOriginGroup } from '../../src/origin/group/origin-group.ts';
import type { Origin, OriginRequest } from '../../src/origin/origin.ts';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { openScriptedOrigin, type Play } from '../support/origins/scripted-origin.ts';
import { originOptions } from './origin-options.ts';

const good = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood';
const cut: Play = (exchange) => exchange.cut();
const end: Play = (exchange) => exchange.end();
const partialHead: Play = async (exchange) => {
  await exchange.send('HTTP/1.1 200 OK\r\nContent-');
  exchange.cut();
};
const interimThenCut: Play = async (exchange) => {
  await exchange.send('HTTP/1.1 103 Early Hints\r\n\r\n');
  exchange.cut();
};
const headThenCut: Play = async (exchange) => {
  await exchange.send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n');
  exchange.cut();
};
const abc: BodyStream = {
  async *[Symbol.asyncIterator]() {
    yield Buffer.from('abc');
  },
  close: () => undefined,
};

/** Creates a lone origin that sends a request again at most once. */
function createLoneOrigin(url: string): Origin {
  return createOriginGroup({
    members: [
      { url: new URL(url), origin: createUndiciOrigin(originOptions({ url, connections: 1 })), host: undefined },
    ],
    choice: 'first',
    retries: { attempts: 1, budgetPercent: 0 },
    health: { failures: 1, restMs: 60_000 },
    clock: realClock,
    random: () => 0.5,
    onHealth: (_url, isWell, reason) => {
      throw new Error(`a lone origin became ${isWell ? 'well' : 'ill'}: ${reason}`);
    },
  });
}

describe('a lone origin', () => {
  it.each<[name: string, script: Play[], overrides: Partial<OriginRequest>, want: string, sent: number]>([
    ['a GET that is answered', [good], {}, 'good', 1],
    ['a GET that is cut off', [cut, good], {}, 'good', 2],
    ['a GET whose connection is ended', [end, good], {}, 'good', 2],
    ['a GET that is cut off in the head', [partialHead, good], {}, 'good', 2],
    ['an OPTIONS that is cut off', [cut, good], { method: 'OPTIONS' }, 'good', 2],
    ['a HEAD that is cut off', [cut, 'HTTP/1.1 200 OK\r\n\r\n'], { method: 'HEAD' }, '', 2],
    ['a GET that is cut off twice', [cut, cut, good], {}, 'origin_reset', 2],
    ['a GET that is cut off after an interim response', [interimThenCut, good], {}, 'origin_reset', 1],
    ['a GET that is cut off in the body', [headThenCut, good], {}, 'origin_reset', 1],
    ['a GET with an ill-framed answer', ['nonsense\r\n\r\n', good], {}, 'origin_ill_framed', 1],
    ['a GET with a short body', [cut, good], { body: abc, bodySizeBytes: 3 }, 'good', 2],
    ['a POST', [cut, good], { method: 'POST' }, 'origin_reset', 1],
    ['a DELETE, which is idempotent', [cut, good], { method: 'DELETE' }, 'good', 2],
    ['a PUT with a short body', [cut, good], { method: 'PUT', body: abc, bodySizeBytes: 3 }, 'good', 2],
    ['a POST with a short body', [cut, good], { method: 'POST', body: abc, bodySizeBytes: 3 }, 'origin_reset', 1],
    ['a PATCH', [cut, good], { method: 'PATCH' }, 'origin_reset', 1],
    ['a GET that gets 503', ['HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno', good], {}, 'no', 1],
  ])('%s', async (_name, script, overrides, want, sent) => {
    await using server = await openScriptedOrigin(...script);
    const origin = createLoneOrigin(server.url);
    const got = await origin.fetch(originRequest(overrides)).then(readBody, (thrown: unknown) => codeOf(thrown));
    expect(typeof got === 'string' ? got : (got.error ?? got.bytes.toString())).toBe(want);
    expect(server.requests.length).toBe(sent);
    await origin.close();
    await server.allClosed();
  });

  it('sends a request again whose kept-alive connection was closed', async () => {
    await using server = await openScriptedOrigin(good, cut, good);
    const origin = createLoneOrigin(server.url);
    await readBody(await origin.fetch(originRequest()));
    expect((await readBody(await origin.fetch(originRequest()))).bytes.toString()).toBe('good');
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 1, 2]);
    await origin.close();
  });

  it('does not send again for a client that has left', async () => {
    const aborter = new AbortController();
    await using server = await openScriptedOrigin((exchange) => {
      aborter.abort();
      exchange.cut();
    }, good);
    const origin = createLoneOrigin(server.url);
    const fetching = origin.fetch(originRequest({ signal: aborter.signal }));
    await expect(fetching).rejects.toMatchObject({ code: 'client_gone' });
    expect(server.requests.length).toBe(1);
    await origin.close();
  });

  it('passes interim responses on', async () => {
    await using server = await openScriptedOrigin(`HTTP/1.1 103 Early Hints\r\n\r\n${good}`);
    const origin = createLoneOrigin(server.url);
    const statuses: number[] = [];
    await readBody(await origin.fetch(originRequest({ onInterim: ({ status }) => statuses.push(status) })));
    expect(statuses).toEqual([103]);
    await origin.close();
  });
});
