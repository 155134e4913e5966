/** Minimum rates at which clients must read responses and send request bodies, on a fake clock. */

import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { type ClientProgress, createRateLimits, createUploadPace } from '../../src/listener/timeouts.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';

interface Limits {
  readonly responseTimeoutMs?: number;
  readonly minBytesPerSecond?: number;
  readonly idleTimeoutMs?: number;
}

/** One client, and the errors that it is given up with. */
function setUp(limits: Limits) {
  const clock = createFakeClock(0);
  const client = { isBehind: false, takenBytes: 0 };
  const errors: ProxyError[] = [];
  const { responseTimeoutMs = 0, minBytesPerSecond = 0, idleTimeoutMs = 10_000 } = limits;
  const pace = createRateLimits({ ...clock, limits: { responseTimeoutMs, minBytesPerSecond, idleTimeoutMs } });
  const watch = (watched: ClientProgress = client) => pace.watch(watched, (error) => errors.push(error));
  return { clock, client, errors, watch };
}

/** Advances the clock by `count` seconds; the client takes `bytes` bytes in each. */
function takePerSecond(
  clock: { advance(ms: number): void },
  client: { takenBytes: number },
  bytes: number,
  count: number,
): void {
  for (let second = 0; second < count; second += 1) {
    clock.advance(1_000);
    client.takenBytes += bytes;
  }
}

describe('the time limit of a response', () => {
  it('ends the response, whether or not the client is behind', () => {
    const { clock, errors, watch } = setUp({ responseTimeoutMs: 60_000 });
    watch();
    clock.advance(59_000);
    expect(errors).toEqual([]);
    clock.advance(6_000);
    expect(errors).toEqual([
      expect.objectContaining({ code: 'client_gone', detail: 'the response took more than 60000 ms' }),
    ]);
    expect(errors[0]).toBeInstanceOf(ProxyError);
    clock.advance(600_000);
    expect(errors.length).toBe(1);
  });

  it('does not apply to a response that is over', () => {
    const { clock, errors, watch } = setUp({ responseTimeoutMs: 60_000 });
    watch()();
    clock.advance(600_000);
    expect(errors).toEqual([]);
    expect(clock.pending).toBe(0);
  });
});

describe('the minimum bytes per second', () => {
  it.each([
    [0, 1],
    [1, 1],
    [99, 1],
    [101, 0],
    [5_000, 0],
  ])('are 100, and the client takes %i: %i responses are ended', (bytes, count) => {
    const { clock, client, errors, watch } = setUp({ minBytesPerSecond: 100 });
    client.isBehind = true;
    watch();
    takePerSecond(clock, client, bytes, 60);
    expect(errors.length).toBe(count);
  });

  it('are an average: a pause within the window is no fault', () => {
    const { clock, client, errors, watch } = setUp({ minBytesPerSecond: 100 });
    client.isBehind = true;
    watch();
    for (let round = 0; round < 10; round += 1) {
      takePerSecond(clock, client, 0, 8);
      takePerSecond(clock, client, 1_000, 2);
    }
    expect(errors).toEqual([]);
  });

  it('apply to a client only while it is behind', () => {
    const { clock, client, errors, watch } = setUp({ minBytesPerSecond: 100 });
    watch();
    takePerSecond(clock, client, 0, 600);
    client.isBehind = true;
    takePerSecond(clock, client, 0, 8);
    client.isBehind = false;
    takePerSecond(clock, client, 0, 600);
    client.isBehind = true;
    takePerSecond(clock, client, 0, 8);
    expect(errors).toEqual([]);
    takePerSecond(clock, client, 0, 8);
    expect(errors.map(({ detail }) => detail)).toEqual(['the client took 0 bytes in 10000 ms']);
  });

  it('apply to each client separately', () => {
    const { clock, client, errors, watch } = setUp({ minBytesPerSecond: 100 });
    client.isBehind = true;
    watch();
    watch({ isBehind: false, takenBytes: 0 });
    takePerSecond(clock, client, 0, 60);
    expect(errors.length).toBe(1);
  });
});

it.each<[string, Limits]>([
  ['no limits', {}],
  ['a rate over no time', { minBytesPerSecond: 100, idleTimeoutMs: 0 }],
])('%s: clients are not checked', (_name, limits) => {
  const { clock, watch } = setUp(limits);
  watch();
  expect(clock.pending).toBe(0);
});

describe('the minimum bytes per second of an upload', () => {
  const begin = (minUploadBytesPerSecond: number, idleTimeoutMs = 120_000) => {
    const clock = createFakeClock(0);
    const client = { isBehind: true, takenBytes: 0 };
    const errors: ProxyError[] = [];
    const pace = createUploadPace({ ...clock, limits: { minUploadBytesPerSecond, idleTimeoutMs } });
    const end = pace.watch(client, (error) => errors.push(error));
    return { clock, client, errors, end };
  };

  it('end an upload that trickles', () => {
    const { clock, client, errors } = begin(64);
    takePerSecond(clock, client, 1, 300);
    expect(errors).toEqual([
      expect.objectContaining({
        code: 'request_timeout',
        status: 408,
        detail: expect.stringMatching(/sent 1\d\d bytes/),
      }),
    ]);
  });

  it.each<[name: string, rate: number, seconds: number, bytes: number]>([
    ['a slow but steady upload', 64, 1, 70],
    ['an upload that pauses for a minute between its parts', 64, 60, 6_000],
    ['any upload, where there is no limit', 0, 1, 0],
  ])('let %s go on', (_name, rate, seconds, bytes) => {
    const { clock, client, errors, end } = begin(rate);
    for (let at = 0; at < 1_200; at += seconds) {
      clock.advance(seconds * 1_000);
      client.takenBytes += bytes;
    }
    expect(errors).toEqual([]);
    end();
    clock.advance(10_000);
    expect(clock.pending).toBe(0);
  });

  it('do not apply while the origin is waited for', () => {
    const { clock, client, errors } = begin(64);
    for (let round = 0; round < 10; round += 1) {
      client.isBehind = round % 2 === 0;
      takePerSecond(clock, client, 1, 60);
    }
    expect(errors).toEqual([]);
  });
});
