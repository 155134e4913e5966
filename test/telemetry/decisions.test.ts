/** What is remembered of requests and of the entries of a key: which, how many, for how long, and without secrets. */

import { beforeEach, describe, expect, it } from 'vitest';
import { Decisions } from '../../src/telemetry/decisions.ts';
import type { FillEvent, RequestEvent } from '../../src/telemetry/events.ts';

const key = 'http://origin.test/ http://files.example/film?token=hunter2';

const request: RequestEvent = {
  kind: 'request',
  method: 'GET',
  scheme: 'http',
  authority: 'files.example',
  target: '/film?token=hunter2',
  version: '1.1',
  peer: '192.0.2.1',
  client: undefined,
  user: undefined,
  route: 'films',
  key,
  status: 206,
  range: 'bytes=0-9',
  bytesSent: 10,
  complete: true,
  isMultipart: false,
  outcome: 'miss',
  reason: 'uri-miss',
  apartBy: ['cookie:sid'],
  collapsed: false,
  originBytes: 1000,
  headMs: 5,
  durationMs: 7,
  error: undefined,
  errorDetail: undefined,
};

const fill: FillEvent = {
  kind: 'fill',
  key,
  generation: 'g',
  bytes: 1000,
  resumptions: 2,
  isPart: false,
  result: 'stored',
  durationMs: 12.4,
  error: undefined,
  errorDetail: undefined,
};

let now = 0;
let pending: (() => void)[] = [];
let decisions: Decisions;
beforeEach(() => {
  now = 1_000;
  pending = [];
  decisions = new Decisions({
    worker: 3,
    now: () => now,
    after(_delayMs, callback) {
      pending.push(callback);
      return () => {
        pending = pending.filter((each) => each !== callback);
      };
    },
  });
});

const statuses = () => decisions.read({}, 1000).map((each) => ('status' in each ? each.status : each.event));

describe('a request', () => {
  it('is remembered with everything that was decided, and without secrets', () => {
    decisions.note(request);
    const [decision, ...more] = decisions.read({}, 10);
    expect(more).toEqual([]);
    expect(decision).toEqual({
      at: 1_000,
      worker: 3,
      method: 'GET',
      uri: 'http://files.example/film?token=[redacted]',
      range: 'bytes=0-9',
      status: 206,
      outcome: 'miss',
      reason: 'uri-miss',
      collapsed: false,
      originBytes: 1000,
      sentBytes: 10,
      headMs: 5,
      durationMs: 7,
      apartBy: ['cookie:sid'],
      error: undefined,
      traceId: undefined,
    });
    expect(JSON.stringify(decisions.read({ key }, 10))).not.toContain('hunter2');
  });

  it('that was a plain hit is remembered only while someone reads', () => {
    decisions.note({ ...request, outcome: 'hit', status: 200 });
    decisions.note({ ...request, outcome: 'hit', status: 201, error: 'client_gone' });
    expect(statuses()).toEqual([201]);
    decisions.note({ ...request, outcome: 'hit', status: 202 });
    for (const end of pending) end();
    decisions.note({ ...request, outcome: 'hit', status: 203 });
    expect(statuses()).toEqual([202, 201]);
    for (const end of pending) end();
    decisions.look();
    decisions.note({ ...request, outcome: 'hit', status: 204 });
    expect(statuses()).toEqual([204, 202, 201]);
  });

  it('is forgotten after a thousand others; the newest come first', () => {
    for (let at = 0; at < 1500; at += 1) decisions.note({ ...request, status: at });
    const all = statuses();
    expect([all.length, all[0], all.at(-1)]).toEqual([1000, 1499, 500]);
    expect(decisions.read({}, 2)).toMatchObject([{ status: 1499 }, { status: 1498 }]);
  });

  it('keeps no long text, and none that a client chose as a part of a larger one', () => {
    decisions.note({ ...request, target: `/${'x'.repeat(100_000)}`, key: `k ${'y'.repeat(100_000)}` });
    const [decision] = decisions.read({}, 1);
    expect(JSON.stringify(decision).length).toBeLessThan(3000);
    expect(decisions.read({ key: `k ${'y'.repeat(100_000)}` }, 1)).toHaveLength(1);
  });
});

describe('the decisions of one resource', () => {
  const other = { ...request, target: '/other', key: 'http://origin.test/ http://files.example/other', status: 404 };

  it.each([
    ['its key', { key }],
    ['its URI', { uri: 'http://files.example/film?token=hunter2' }],
    ['its URI as it was shown', { uri: 'http://files.example/film?token=[redacted]' }],
  ])('are found by %s, with what happened to its entries', (_by, choice) => {
    decisions.note(request);
    decisions.note(other);
    now = 2_000;
    decisions.note(fill);
    now = 3_000;
    decisions.note({ kind: 'removal', cause: 'evicted', keys: ['another', key] });
    now = 4_000;
    decisions.note({ kind: 'removal', cause: 'purged', keys: [key] });
    expect(decisions.read(choice, 10)).toMatchObject([
      { at: 4_000, event: 'purged', detail: 'An operator removed what was stored.' },
      { at: 3_000, event: 'evicted' },
      {
        at: 2_000,
        event: 'filled',
        detail: 'A transfer of 1000 bytes from the origin ended after 12 ms, resumed 2 times: whole and stored.',
      },
      { at: 1_000, status: 206 },
    ]);
    expect(decisions.read(choice, 2)).toHaveLength(2);
    // Without a choice, only requests are read.
    expect(statuses()).toEqual([404, 206]);
  });

  it('are none for an unknown one', () => {
    decisions.note(request);
    for (const choice of [{ key: 'none' }, { uri: 'http://files.example/film' }, { uri: 'film?token=hunter2' }]) {
      expect(decisions.read(choice, 10)).toEqual([]);
    }
  });
});
