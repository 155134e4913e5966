/** The URIs that are requested most: counted only while somebody reads them, bounded, and without secrets. */

import { describe, expect, it } from 'vitest';
import type { RequestEvent } from '../../src/telemetry/events.ts';
import { HottestTargets } from '../../src/telemetry/hottest.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';

function requestFor(target: string, bytesSent = 1): RequestEvent {
  return { kind: 'request', scheme: 'http', authority: 'a.test', target, bytesSent } as RequestEvent;
}

function createGround() {
  const clock = createFakeClock();
  const hottest = new HottestTargets(clock);
  const ask = (...targets: readonly string[]) => {
    for (const target of targets) hottest.count(requestFor(target));
  };
  const read = (limit = 20) => hottest.read(limit).map(({ uri, hits }) => [uri.replace('http://a.test', ''), hits]);
  return { clock, hottest, ask, read };
}

describe('the hottest targets', () => {
  it('count from the first reading on, the most requested first', () => {
    const { hottest, ask, read } = createGround();
    ask('/early');
    expect(read()).toEqual([]);
    ask('/a', '/b', '/b');
    expect(read()).toEqual([
      ['/b', 2],
      ['/a', 1],
    ]);
    expect(read(1)).toEqual([['/b', 2]]);
    hottest.count(requestFor('/b', 99));
    expect(hottest.read(1)).toEqual([{ uri: 'http://a.test/b', hits: 3, bytes: 101 }]);
  });

  it('forget everything when they are no longer read', () => {
    const { clock, ask, read } = createGround();
    read();
    ask('/a');
    clock.advance(9_999);
    expect(read()).toEqual([['/a', 1]]);
    clock.advance(10_000);
    expect(clock.pending).toBe(0);
    ask('/b');
    expect(read()).toEqual([]);
  });

  it('are those of about the last minute', () => {
    const { clock, ask, read } = createGround();
    read();
    ask('/a');
    for (let second = 0; second < 50; second += 1) {
      clock.advance(1000);
      expect(read(), String(second)).toEqual([['/a', 1]]);
    }
    for (let second = 0; second < 10; second += 1) {
      clock.advance(1000);
      read();
    }
    expect(read()).toEqual([]);
  });

  it('keep the most requested of very many, and a bounded length of each', () => {
    const { ask, read, hottest } = createGround();
    read();
    for (let count = 0; count < 20_000; count += 1) ask(`/${count}`, ...(count % 10 === 0 ? ['/hot'] : []));
    expect(read(1)).toEqual([['/hot', 2000]]);
    expect(hottest.read(100_000).length).toBeLessThanOrEqual(1000);
    for (let count = 0; count < 3000; count += 1) ask(`/${'a'.repeat(50_000)}`);
    expect(hottest.read(1)[0]?.uri).toMatch(/^http:\/\/a\.test\/a{1010}…$/);
  });

  it('contain no secret, and count requests that differ in one as one', () => {
    const { ask, read } = createGround();
    read();
    ask('/film?token=1&x=1', '/film?token=2&x=1');
    expect(read()).toEqual([['/film?token=[redacted]&x=1', 2]]);
  });
});
