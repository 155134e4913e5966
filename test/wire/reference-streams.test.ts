/** Random streams of valid and damaged requests, on our server and on Node's: ours answers the same, or refuses. */

import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { errorResponse } from '../../src/delivery/problem.ts';
import type { Handler } from '../../src/http/message.ts';
import { toProxyError } from '../../src/http/proxy-error.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import { turn } from '../support/clocks/turn.ts';
import { openListener, type TestListener, textResponse } from '../support/proxies/open-listener.ts';
import { streamText } from '../support/values/request-arbitraries.ts';

/** More runs than the default find rarer differences. */
const { RANGEWAY_TEST_RUNS = '100' } = process.env;
const runs = Number(RANGEWAY_TEST_RUNS);
const timeout = 60_000 + 50 * runs;

/** The last request, sent after every stream. */
const after = 'GET /after HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n';

/** Returns the request in a field of the response: method, authority, target, body and trailers. */
const echo: Handler = async ({ method, target, authority, body }) => {
  let text = '';
  try {
    for await (const piece of body ?? []) text += Buffer.from(piece).toString('latin1');
  } catch (thrown) {
    return errorResponse(toProxyError(thrown));
  }
  const asked = [method, authority, target, text, body?.trailers?.() ?? []];
  return textResponse('', { fields: [['asked', encodeURIComponent(JSON.stringify(asked))]] });
};

/** The request as the handler saw it, or the status of a refusal. */
type Answer = string | number;

/** Sends a stream in these pieces, and returns all answers to it. */
async function answersOf(listener: TestListener, ...pieces: readonly string[]): Promise<Answer[]> {
  await using client = await listener.connect();
  for (const piece of pieces) {
    client.send(piece);
    // The server runs in this process: it reads each piece before the next one is sent.
    if (piece !== pieces.at(-1)) for (let passed = 0; passed < 5; passed += 1) await turn();
  }
  const answers: Answer[] = [];
  const reading = (async () => {
    for (let response = await client.response(); response !== undefined; response = await client.response()) {
      const [asked] = rawValues(response, 'asked');
      if (asked !== undefined) answers.push(decodeURIComponent(asked));
      else if (response.status >= 200) answers.push(response.status);
    }
  })();
  // A request that has no answer by the time others have theirs waits for more bytes.
  for (let count = 0; count < 2; count += 1) {
    await using other = await listener.connect();
    await other.exchange('GET /settled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  }
  client.end();
  await reading;
  return answers;
}

/** Node's parser obeys a `Connection: close` among the trailers, where it has no meaning (RFC 9110 §6.5.1). */
const closingTrailer = /\r\n0+(?:;[^\r\n]*)?\r\n(?:[^\r\n]+\r\n)*connection:[ \t]*close[ \t]*\r\n/i;

/** Describes the first answer where our server did more than Node's, or ended silently where Node's went on; or undefined. */
function differenceOf(ours: readonly Answer[], others: readonly Answer[]): string | undefined {
  const at = ours.findIndex((answer, index) => answer !== others[index]);
  if (at < 0 && ours.length === others.length) return undefined;
  const [answer, other] = at < 0 ? [undefined, others[ours.length]] : [ours[at], others[at]];
  const isRefusal = typeof answer === 'number' && at === ours.length - 1;
  // Allowed: our server refuses earlier, or still waits for bytes where Node's refuses.
  if (isRefusal || (answer === undefined && typeof other === 'number')) return undefined;
  return `answer ${at}: ours ${answer}, the other ${other}`;
}

describe('a stream of requests', () => {
  let own: TestListener;
  let reference: TestListener;
  beforeAll(async () => {
    own = await openListener(echo, { carrier: 'tcp' });
    reference = await openListener(echo, { carrier: 'node-http' });
  });
  afterAll(async () => {
    await own[Symbol.asyncDispose]();
    await reference[Symbol.asyncDispose]();
  });

  it("is answered as Node's server answers it, or refused", { timeout }, async () => {
    let answered = 0;
    const property = fc.asyncProperty(streamText, async (stream) => {
      const [ours, others] = await Promise.all([answersOf(own, stream + after), answersOf(reference, stream + after)]);
      if (closingTrailer.test(stream)) ours.length = Math.min(ours.length, others.length);
      expect(differenceOf(ours, others), JSON.stringify({ stream, ours, others })).toBeUndefined();
      answered += ours.filter((answer) => typeof answer === 'string').length;
    });
    await fc.assert(property, { numRuns: runs });
    // Enough random streams stay valid.
    expect(answered).toBeGreaterThan(runs / 2);
  });

  it('has the same answers in one piece and in two', { timeout }, async () => {
    const property = fc.asyncProperty(streamText, fc.noBias(fc.nat(999)), async (stream, part) => {
      const bytes = stream + after;
      const place = Math.floor((part / 1000) * bytes.length);
      const [whole, cut] = await Promise.all([
        answersOf(own, bytes),
        answersOf(own, bytes.slice(0, place), bytes.slice(place)),
      ]);
      expect(cut, JSON.stringify({ stream, place })).toEqual(whole);
    });
    await fc.assert(property, { numRuns: runs });
  });
});
