/** What a server does now: put together from its processes, and sent to watchers once a second. */

import { describe, expect, it } from 'vitest';
import { admissionOf } from '../../src/admin/access.ts';
import { ActivityFeed, composeActivity, mostFills, mostWatchers } from '../../src/admin/activity.ts';
import type { FillStatus, WorkerActivity } from '../../src/admin/operations.ts';
import { Sessions, sessionLastsMs } from '../../src/admin/sessions.ts';
import type { ProxyResponse } from '../../src/http/message.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { turn } from '../support/clocks/turn.ts';
import { someActivity } from '../support/proxies/fake-operations.ts';

const fill = (id: string, startedAt: number) => ({ id, startedAt }) as FillStatus;

function workerWith(changes: Partial<WorkerActivity>): WorkerActivity {
  return {
    metrics: [],
    store: { entries: 3, memoryBytes: 10, memoryLimitBytes: 20, diskBytes: 100, diskLimitBytes: 1000, isShared: true },
    origins: [],
    fills: [],
    fillCount: 0,
    hottest: [],
    ...changes,
  };
}

describe('composeActivity', () => {
  const { at, startedAt, isReady, workers, requests, bytes, latency, connectionsOpen } = someActivity;
  const parts = { at, startedAt, isReady, workers, totals: { requests, bytes, latency, connectionsOpen } };

  it('adds up what each worker has, and takes what they share once', () => {
    const uri = 'http://a.test/';
    const readings = [
      workerWith({ fills: [fill('1-1', 5)], fillCount: 1, hottest: [{ uri, hits: 2, bytes: 20 }] }),
      workerWith({
        fills: [fill('2-1', 3)],
        fillCount: 1,
        hottest: [
          { uri: 'http://a.test/other', hits: 3, bytes: 1 },
          { uri, hits: 2, bytes: 1 },
        ],
      }),
    ];
    expect(composeActivity({ ...parts, readings })).toEqual({
      ...someActivity,
      store: {
        entries: 3,
        memoryBytes: 20,
        memoryLimitBytes: 40,
        diskBytes: 100,
        diskLimitBytes: 1000,
        isShared: true,
      },
      fills: [fill('2-1', 3), fill('1-1', 5)],
      fillCount: 2,
      hottest: [
        { uri, hits: 4, bytes: 21 },
        { uri: 'http://a.test/other', hits: 3, bytes: 1 },
      ],
    });
  });

  it('lists a bounded number of fills and URIs', () => {
    const fills = Array.from({ length: mostFills }, (_, at) => fill(`1-${at}`, at));
    const hottest = Array.from({ length: 100 }, (_, at) => ({ uri: `http://a.test/${at}`, hits: at, bytes: 0 }));
    const reading = workerWith({ fills, fillCount: 5000, hottest });
    const composed = composeActivity({ ...parts, readings: [reading, reading] });
    expect([composed.fills.length, composed.fillCount, composed.hottest.length]).toEqual([mostFills, 10_000, 20]);
  });

  it('is empty, not absent, while no process serves', () => {
    expect(composeActivity({ ...parts, readings: [] })).toMatchObject({
      store: {
        entries: 0,
        memoryBytes: 0,
        memoryLimitBytes: 0,
        diskBytes: null,
        diskLimitBytes: null,
        isShared: false,
      },
      fillCount: 0,
    });
  });
});

describe('the feed', () => {
  function openFeed() {
    const clock = createFakeClock();
    let readings = 0;
    const read = async () => ({ ...someActivity, at: ++readings });
    const feed = new ActivityFeed({ read, after: clock.after });
    return { clock, feed, readings: () => readings };
  }

  function streamOf({ body }: ProxyResponse) {
    if (body.kind !== 'stream') throw new Error('no stream');
    return body.stream;
  }

  /** Reads events; returns the number of the reading that an event is of, or undefined at the end. */
  function readerOf(response: ProxyResponse) {
    const iterator = streamOf(response)[Symbol.asyncIterator]();
    return async () => {
      const { value, done } = await iterator.next();
      if (done === true) return undefined;
      const [, data = ''] = /^retry: 1000\nevent: activity\ndata: (.*)\n\n$/.exec(Buffer.from(value).toString()) ?? [];
      return (JSON.parse(data) as { at: number }).at;
    };
  }

  it('sends an event at once and one each second, and reads once for all watchers', async () => {
    const { clock, feed, readings } = openFeed();
    expect(clock.pending).toBe(0);
    const one = readerOf(feed.open('GET', () => true));
    expect(await one()).toBe(1);
    const other = readerOf(feed.open('GET', () => true));
    expect(await other()).toBe(1);
    for (let second = 2; second < 10; second += 1) {
      clock.advance(1000);
      expect([await one(), await other(), readings()]).toEqual([second, second, second]);
    }
  });

  it('reads nothing without a watcher', async () => {
    const { clock, feed, readings } = openFeed();
    const response = feed.open('GET', () => true);
    expect(await readerOf(response)()).toBe(1);
    streamOf(response).close();
    expect([feed.watchers, clock.pending]).toEqual([0, 0]);
    clock.advance(60_000);
    expect(readings()).toBe(1);
    expect(await readerOf(feed.open('GET', () => true))()).toBe(2);
  });

  it('skips events for a watcher that does not read', async () => {
    const { clock, feed } = openFeed();
    const slow = readerOf(feed.open('GET', () => true));
    const quick = readerOf(feed.open('GET', () => true));
    for (let second = 1; second <= 100; second += 1) {
      expect(await quick()).toBe(second);
      clock.advance(1000);
    }
    expect(await quick()).toBe(101);
    expect(await slow()).toBe(101);
  });

  it('goes on after a reading that failed', async () => {
    const clock = createFakeClock();
    let isBroken = true;
    const read = () => (isBroken ? Promise.reject(new Error('no')) : Promise.resolve(someActivity));
    const feed = new ActivityFeed({ read, after: clock.after });
    const next = readerOf(feed.open('GET', () => true))();
    await turn();
    isBroken = false;
    clock.advance(1000);
    expect(await next).toBe(someActivity.at);
  });

  it('ends the stream of a session with the session, and no other', async () => {
    const { clock, feed } = openFeed();
    const sessions = new Sessions({ now: clock.now, random: (size) => Buffer.alloc(size, feed.watchers) });
    const watch = () => {
      const cookie = sessions.open();
      const fields = [['cookie', `rangeway_session=${cookie}`]] as const;
      return { cookie, next: readerOf(feed.open('GET', admissionOf({ fields }, sessions))) };
    };
    const token = readerOf(feed.open('GET', admissionOf({ fields: [['authorization', 'Bearer t']] }, sessions)));
    const [one, other] = [watch(), watch()];
    expect([await token(), await one.next(), await other.next()]).toEqual([1, 1, 1]);
    sessions.end(one.cookie);
    feed.dismiss();
    expect([await one.next(), feed.watchers]).toEqual([undefined, 2]);
    clock.advance(1000);
    expect([await token(), await other.next()]).toEqual([2, 2]);
    clock.advance(sessionLastsMs);
    expect([await token(), await other.next()]).toEqual([3, undefined]);
    expect(feed.watchers).toBe(1);
  });

  it('has a bounded number of watchers, and room again when one leaves', () => {
    const { feed } = openFeed();
    const responses = Array.from({ length: mostWatchers }, () => feed.open('GET', () => true));
    expect(feed.open('GET', () => true).status).toBe(503);
    streamOf(responses[0] as ProxyResponse).close();
    expect(feed.open('GET', () => true).status).toBe(200);
  });

  it('answers HEAD without a watcher', () => {
    const { feed } = openFeed();
    const { status, body, fields } = feed.open('HEAD', () => true);
    expect([status, body.kind, feed.watchers]).toEqual([200, 'none', 0]);
    expect(fields).toEqual(feed.open('GET', () => true).fields);
  });

  it('can end all streams, and opens others', async () => {
    const { feed } = openFeed();
    const next = readerOf(feed.open('GET', () => true));
    expect(await next()).toBe(1);
    feed.disconnect();
    expect([await next(), feed.watchers]).toEqual([undefined, 0]);
    expect(await readerOf(feed.open('GET', () => true))()).toBe(2);
  });

  it('ends all streams when it is closed, and opens no more', async () => {
    const { clock, feed } = openFeed();
    const next = readerOf(feed.open('GET', () => true));
    expect(await next()).toBe(1);
    const last = next();
    feed.close();
    expect(await last).toBeUndefined();
    expect([feed.watchers, clock.pending, feed.open('GET', () => true).status]).toEqual([0, 0, 503]);
  });
});
