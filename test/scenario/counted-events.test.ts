/** The events from which the cache metrics are counted: fills that begin, how each ends, and results of validations. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const fields = { etag: '"v1"', 'cache-control': 'max-age=60', 'content-length': '10000' };
const body = patternBytes(0, 10_000);
let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'always', fill: { resumeAttempts: 2 } });
});
afterEach(() => proxy.close());

const fillKinds = () =>
  proxy.events.flatMap((event) => {
    if ((event.kind === 'begun' || event.kind === 'called_off') && event.what === 'fill') return [event.kind];
    return event.kind === 'fill' ? [event.result] : [];
  });

async function fetchWhole(): Promise<void> {
  const client = proxy.send();
  (await proxy.origin.next()).respond({ fields }, body);
  await client.bytes();
  await proxy.fillsEnded(1);
}

async function fetchPart(): Promise<void> {
  const client = proxy.send({ fields: { range: 'bytes=0-99' } });
  const part = { ...fields, 'content-range': 'bytes 0-1023/10000', 'content-length': '1024' };
  (await proxy.origin.next()).respond({ status: 206, fields: part }, body.subarray(0, 1024));
  await client.bytes();
  await proxy.fillsEnded(1);
}

describe('a fill', () => {
  it('begins and is stored', async () => {
    await fetchWhole();
    expect(fillKinds()).toEqual(['begun', 'stored']);
    expect(proxy.fillEvents()).toMatchObject([{ resumptions: 0, bytes: 10_000 }]);
  });

  it('reports how often it was resumed', async () => {
    const client = proxy.send();
    const first = await proxy.origin.next();
    first.head({ fields });
    await first.send(body.subarray(0, 5000));
    first.fail(new ProxyError('origin_reset'));
    const whole = client.bytes();
    await proxy.clock.whenPending(1);
    proxy.clock.advance(1000);
    (await proxy.origin.next()).respond({ fields }, body);
    await whole;
    await proxy.fillsEnded(1);
    expect(proxy.fillEvents()).toMatchObject([{ result: 'stored', resumptions: 1 }]);
  });

  it('is called off when a limit does not let it begin', async () => {
    await fetchPart();
    const client = proxy.send({ fields: { range: 'bytes=5000-5099' } });
    (await proxy.origin.next()).fail(new ProxyError('origin_busy'));
    expect(await client.status()).toBe(503);
    await client.bytes();
    expect(fillKinds()).toEqual(['begun', 'kept', 'begun', 'called_off']);
  });
});

describe('a validation', () => {
  it.each<[result: string, answer: (exchange: FakeExchange) => void]>([
    ['confirmed', (exchange) => exchange.respond({ status: 304, fields }, new Uint8Array())],
    ['replaced', (exchange) => exchange.respond({ fields: { ...fields, etag: '"v2"' } }, body)],
    ['failed', (exchange) => exchange.respond({ status: 503, fields: { 'content-length': '0' } }, new Uint8Array())],
    ['failed', (exchange) => exchange.fail(new ProxyError('origin_timeout'))],
  ])('is reported as %s', async (result, answer) => {
    await fetchWhole();
    proxy.clock.advance(61_000);
    const client = proxy.send();
    answer(await proxy.origin.next());
    await client.status();
    await client.bytes();
    const reported = proxy.events.filter((event: ServerEvent) => event.kind === 'revalidation');
    expect(reported).toEqual([{ kind: 'revalidation', result }]);
  });

  it('is not reported when its client has left', async () => {
    await fetchWhole();
    proxy.clock.advance(61_000);
    const client = proxy.send({ fields: { range: 'bytes=0-9' } });
    const { request } = await proxy.origin.next();
    await client.leave();
    await proxy.closeCache();
    expect(request.signal.aborted).toBe(true);
    expect(proxy.events.filter(({ kind }) => kind === 'revalidation')).toEqual([]);
  });
});

describe('the request event', () => {
  it.each([
    ['bytes=0-9,5000-5009', true],
    ['bytes=0-9', false],
  ])('of %s reports a multipart response: %s', async (range, isMultipart) => {
    await fetchWhole();
    await proxy.send({ fields: { range } }).bytes();
    expect(proxy.requestEvents().at(-1)).toMatchObject({ status: 206, isMultipart });
  });
});
