/** Trace fields go to the origin with the request that brought them, and with no other. */

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { fieldValue } from '../../src/http/fields.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { OriginRequest } from '../../src/origin/origin.ts';
import { createWholeProxy, type WholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const mine = { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'v=1', baggage: 'user=7' };
const head = { fields: { etag: '"v1"', 'content-length': '10000', 'cache-control': 'max-age=60' } };
const body = patternBytes(0, 10_000);

const traced = ({ fields }: OriginRequest) => Object.keys(mine).map((name) => fieldValue(fields, name));
const cause = ({ causedBy }: OriginRequest) => Object.fromEntries(causedBy ?? []);

let proxy: WholeProxy;
beforeEach(() => {
  proxy = createWholeProxy({ originRanges: 'always', fill: { resumeAttempts: 1 } });
});
afterEach(() => proxy.close());

describe('the fields of a trace', () => {
  it.each(['GET', 'HEAD', 'OPTIONS'])('go to the origin with a %s', async (method) => {
    const client = proxy.send({ method, fields: mine });
    const { request, respond } = await proxy.origin.next();
    expect(traced(request)).toEqual(Object.values(mine));
    expect(request.causedBy).toBeUndefined();
    respond({ fields: { 'content-length': '0' } }, new Uint8Array());
    await client.bytes();
  });

  it('are no part of the key, nor of the stored response', async () => {
    const client = proxy.send({ fields: mine });
    const response = { ...head, fields: { ...head.fields, traceresponse: 'x', traceparent: 'y', tracestate: 'z' } };
    (await proxy.origin.next()).respond(response, body);
    await client.bytes();
    const other = proxy.send({ fields: { traceparent: `00-${'c'.repeat(32)}-${'d'.repeat(16)}-00` } });
    expect(await other.field('cache-status')).toContain('hit');
    expect([await other.field('traceresponse'), await other.field('traceparent')]).toEqual([undefined, undefined]);
    await other.bytes();
    expect(proxy.origin.requests).toBe(1);
  });

  it('do not go with the request that resumes a transfer, because other clients may read it by then', async () => {
    const client = proxy.send({ fields: mine });
    const first = await proxy.origin.next();
    first.head(head);
    await first.send(body.subarray(0, 5000));
    first.fail(new ProxyError('origin_reset'));
    const whole = client.bytes();
    await proxy.clock.whenPending(1);
    proxy.clock.advance(1000);
    const { request, respond } = await proxy.origin.next();
    expect(traced(request)).toEqual([undefined, undefined, undefined]);
    expect(cause(request)).toEqual(mine);
    respond(head, body);
    expect(await whole).toEqual(Buffer.from(body));
  });

  it('go with the first request that completes a stored part, because the client waits for it', async () => {
    const early = proxy.send({ fields: { range: 'bytes=0-99' } });
    const part = { etag: '"v1"', 'content-range': 'bytes 0-1023/10000', 'content-length': '1024' };
    (await proxy.origin.next()).respond({ status: 206, fields: { ...head.fields, ...part } }, body.subarray(0, 1024));
    await early.bytes();
    await proxy.fillsEnded(1);

    const late = proxy.send({ fields: { ...mine, range: 'bytes=5000-5099' } });
    const { request, respond } = await proxy.origin.next();
    expect(traced(request)).toEqual(Object.values(mine));
    respond(head, body);
    expect(await late.bytes()).toEqual(Buffer.from(body.subarray(5000, 5100)));
  });
});
