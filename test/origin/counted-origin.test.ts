/** Exchanges that are counted, and requests that give way to others. */

import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { CountedOrigin, createYieldingOrigin } from '../../src/origin/counted-origin.ts';
import type { ChargedClients, OriginRequest } from '../../src/origin/origin.ts';
import { createFakeOrigin } from '../support/origins/fake-origin.ts';

const request = (charged?: ChargedClients): OriginRequest => ({
  method: 'GET',
  target: '/',
  fields: [],
  body: undefined,
  bodySizeBytes: undefined,
  signal: new AbortController().signal,
  charged,
});

describe('a counted origin', () => {
  it('counts an exchange from its request to the end of its body', async () => {
    const origin = createFakeOrigin();
    const counted = new CountedOrigin(origin);
    const responses = [0, 1, 2].map(() => counted.fetch(request()));
    expect(counted.running).toBe(3);
    const [first, second, third] = [await origin.next(), await origin.next(), await origin.next()];
    first.respond({}, Buffer.from('body'));
    second.respond({}, Buffer.from('body'));
    third.head({ status: 204, framing: 'none' });
    const [read, closed, empty] = await Promise.all(responses);
    expect(empty?.status).toBe(204);
    expect(counted.running).toBe(2);
    for await (const _ of read?.body ?? []);
    expect(counted.running).toBe(1);
    closed?.body.close();
    closed?.body.close();
    expect(counted.running).toBe(0);
  });

  it('counts a failed exchange until it fails', async () => {
    const origin = createFakeOrigin();
    const counted = new CountedOrigin(origin);
    const failing = counted.fetch(request());
    (await origin.next()).fail(new ProxyError('client_gone'));
    await expect(failing).rejects.toThrow(ProxyError);
    expect(counted.running).toBe(0);
  });
});

describe('a yielding origin', () => {
  it('begins a transfer only where it may, and resumes it at any time', async () => {
    const origin = createFakeOrigin();
    let may = true;
    const yielding = createYieldingOrigin(origin, () => may);
    const charged: ChargedClients = { client: 'a', bodyClients: undefined };
    const first = yielding.fetch(request(charged));
    (await origin.next()).respond({}, Buffer.from('body'));
    await first;
    may = false;
    const resumed = yielding.fetch(request(charged));
    (await origin.next()).respond({}, Buffer.from('body'));
    expect((await resumed).status).toBe(200);
    const other = yielding.fetch(request({ client: 'a', bodyClients: undefined }));
    await expect(other).rejects.toMatchObject({ code: 'too_many_requests' });
    await expect(yielding.fetch(request())).rejects.toMatchObject({ code: 'too_many_requests' });
    expect(origin.requests).toBe(2);
  });
});
