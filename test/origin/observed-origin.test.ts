/** The events of exchanges with an origin, for every outcome. */

import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createObservedOrigin, type ExchangeEnd, type ExchangeTracer } from '../../src/origin/observed-origin.ts';
import type { OriginRequest, OriginResponse } from '../../src/origin/origin.ts';
import { progressStepBytes, type ServerEvent } from '../../src/telemetry/events.ts';
import { createFakeOrigin, type FakeExchange } from '../support/origins/fake-origin.ts';

const request: OriginRequest = {
  method: 'GET',
  target: '/file?token=secret',
  fields: [['host', 'files.example']],
  body: undefined,
  bodySizeBytes: undefined,
  signal: new AbortController().signal,
};
const ended = {
  kind: 'exchange',
  route: 'files',
  origin: 'http://origin.example',
  method: 'GET',
  status: 200,
  isResent: false,
  receivedBytes: 6,
  reportedBytes: 0,
  headMs: 1,
  durationMs: 2,
  isFailed: false,
  error: undefined,
  errorDetail: undefined,
};
const bytes = new Uint8Array(6);

/** Sends a request to an observed origin. Its clock advances by 1 ms at each reading. */
function observe(
  sent: Partial<OriginRequest> = {},
  tracer?: ExchangeTracer,
  url = 'http://user:secret@origin.example/',
) {
  const events: ServerEvent[] = [];
  const origin = createFakeOrigin();
  let time = 0;
  const observed = createObservedOrigin(origin, {
    route: 'files',
    url: new URL(url),
    emit: (event) => events.push(event),
    now: () => time++,
    tracer,
  });
  const response = observed.fetch({ ...request, ...sent });
  response.catch(() => undefined);
  return { events, origin, response, ends: () => events.slice(1) };
}

const read = async ({ body }: OriginResponse) => {
  let size = 0;
  for await (const chunk of body) size += chunk.length;
  return size;
};

describe('an exchange', () => {
  it('is reported when it begins, and when the body has been read', async () => {
    const { events, origin, response, ends } = observe();
    expect(events).toEqual([{ kind: 'begun', what: 'exchange' }]);
    (await origin.next()).respond({}, bytes);
    const received = await response;
    expect(ends()).toEqual([]);
    expect(await read(received)).toBe(6);
    received.body.close();
    expect(ends()).toEqual([ended]);
  });

  it('with a long body reports its progress, and at its end what was reported', async () => {
    const { origin, response, ends } = observe();
    const chunk = new Uint8Array(progressStepBytes / 2 + 1);
    const exchange = await origin.next();
    exchange.head({});
    for (let count = 0; count < 3; count += 1) void exchange.send(chunk);
    exchange.end();
    expect(await read(await response)).toBe(3 * chunk.length);
    const reportedBytes = 2 * chunk.length;
    expect(ends()).toEqual([
      { kind: 'progress', what: 'received', route: 'files', bytes: reportedBytes },
      { ...ended, receivedBytes: 3 * chunk.length, reportedBytes },
    ]);
  });

  it.each<[what: string, answer: (exchange: FakeExchange) => void, end: object]>([
    [
      'without a body',
      (exchange) => exchange.respond({ status: 304, framing: 'none' }, new Uint8Array()),
      { status: 304, receivedBytes: 0, durationMs: 2 },
    ],
    [
      'that is refused',
      (exchange) => exchange.fail(new ProxyError('origin_refused', { detail: 'ECONNREFUSED' })),
      {
        status: undefined,
        receivedBytes: 0,
        headMs: undefined,
        durationMs: 1,
        isFailed: true,
        error: 'origin_refused',
        errorDetail: 'ECONNREFUSED',
      },
    ],
  ])('%s is reported as over at once', async (_what, answer, end) => {
    const { origin, response, ends } = observe();
    answer(await origin.next());
    await response.catch(() => undefined);
    expect(ends()).toEqual([{ ...ended, ...end }]);
  });

  it('that breaks off reports the bytes received', async () => {
    const { origin, response, ends } = observe();
    const exchange = await origin.next();
    exchange.head();
    const reading = read(await response);
    await exchange.send(bytes);
    exchange.fail(new ProxyError('origin_body_short'));
    await expect(reading).rejects.toMatchObject({ code: 'origin_body_short' });
    expect(ends()).toEqual([{ ...ended, isFailed: true, error: 'origin_body_short' }]);
  });

  it.each(['closed', 'left'])('whose body is %s early has no error', async (how) => {
    const { origin, response, ends } = observe();
    const exchange = await origin.next();
    exchange.head();
    const { body } = await response;
    void exchange.send(bytes);
    for await (const _chunk of body) {
      if (how === 'closed') body.close();
      break;
    }
    expect([exchange.isClosed, ...ends()]).toEqual([true, ended]);
  });

  it('reports that it was sent again, and the path of a Unix socket', async () => {
    const { origin, response, ends } = observe({ isResent: true }, undefined, 'unix:/run/app.sock');
    (await origin.next()).respond({}, bytes);
    await read(await response);
    expect(ends()).toEqual([{ ...ended, isResent: true, origin: 'unix:/run/app.sock' }]);
  });

  it('is sent with the fields of its trace and within the trace, and ends it once', async () => {
    const ends: ExchangeEnd[] = [];
    let isWithin = false;
    const tracer: ExchangeTracer = {
      begin: ({ fields }, url) => ({
        fields: [...fields, ['traceparent', url.hostname]],
        run(action) {
          isWithin = true;
          return action();
        },
        end: (end) => void ends.push(end),
      }),
    };
    const { origin, response } = observe({}, tracer);
    const exchange = await origin.next();
    expect([isWithin, exchange.request.fields.at(-1)]).toEqual([true, ['traceparent', 'origin.example']]);
    exchange.respond({ status: 206 }, bytes);
    const received = await response;
    await read(received);
    received.body.close();
    expect(ends).toEqual([{ status: 206, receivedBytes: 6, error: undefined }]);
  });
});
