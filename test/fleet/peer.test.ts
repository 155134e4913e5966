/** Inquiries to another process over its socket: answers and their bytes, failures, and processes that end. */

import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Span } from '../../src/bytes/span.ts';
import type { Answer, Representation } from '../../src/cache/answer.ts';
import { HolderLost, type PeerAnswer, type Version } from '../../src/cache/fleet.ts';
import type { Inquiry } from '../../src/cache/inquiry.ts';
import { createPeerHolder } from '../../src/fleet/peer-client.ts';
import { openPeerServer, type PeerServer, peerSocketPath } from '../../src/fleet/peer-server.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import type { Route } from '../../src/routing/router.ts';
import { createFakeClock, type FakeClock } from '../support/clocks/fake-clock.ts';
import { peersQuiet, watchPeers } from '../support/clocks/peer-quiet.ts';
import { admissionOf, createAsked } from '../support/proxies/peer-ground.ts';
import { createWholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

type Answering = (inquiry: Inquiry, given: Version | undefined) => Promise<PeerAnswer | undefined>;

const facts = {
  outcome: 'miss',
  reason: 'uri-miss',
  collapsed: true,
  status: { fwd: 'uri-miss', fwdStatus: 200, stored: true, collapsed: true, ttlSeconds: Number.POSITIVE_INFINITY },
} as const;
const response = {
  status: 200,
  fields: [
    ['etag', '"v1"'],
    ['x-text', 'ä\u00ff'],
  ],
  nominated: [['accept', null]],
  requestAt: 1,
  responseAt: 2,
} as const;
const learned = { unshared: undefined, refusal: undefined };

watchPeers();

let dir: string;
let clock: FakeClock;
let server: PeerServer | undefined;
let route: Route;
let leaving: AbortController;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-peer-'));
  clock = createFakeClock();
  leaving = new AbortController();
  const proxy = createWholeProxy({});
  route = proxy.route;
  await proxy.close();
});
afterEach(async () => {
  await server?.close();
  server = undefined;
  await rm(dir, { recursive: true, force: true });
});

async function serve(answerPeer: Answering, served: Route = route): Promise<void> {
  server = await openPeerServer({ dir, instance: 'a', cache: { answerPeer }, admission: admissionOf(served), clock });
}

const holder = () => createPeerHolder('a', peerSocketPath(dir, 'a'), clock);

/** Creates the inquiry of a request. */
const ask = (changes?: Partial<ProxyRequest>, onInterim?: Inquiry['onInterim']): Inquiry =>
  createAsked(route, leaving.signal, changes, onInterim);

/** Creates a representation of a pattern; `seen` records how it is used. */
function createSource(sizeBytes: number, more: Partial<Representation> = {}) {
  const seen = { opened: [] as Span[][], closed: 0, readerClosed: 0, readTo: 0 };
  const note = (what: 'closed' | 'readerClosed') => {
    seen[what] += 1;
  };
  const representation: Representation = {
    response,
    generation: 'g1',
    sizeBytes,
    peek: () => undefined,
    open: async (spans) => {
      seen.opened.push([...spans]);
      return {
        peek: () => undefined,
        read: async (offset, end) => {
          const to = Math.min(offset + 50_000, end, sizeBytes);
          seen.readTo = to;
          return offset < sizeBytes ? patternBytes(offset, to) : undefined;
        },
        close: () => note('readerClosed'),
      };
    },
    whenPresent: async () => true,
    close: () => note('closed'),
    ...more,
  };
  return { representation, seen };
}

const give = (representation: Representation): PeerAnswer => ({
  ...learned,
  answer: { ...facts, kind: 'representation', representation, isReuse: true, originBytes: () => 42 },
});

async function received(held: Promise<PeerAnswer | undefined>): Promise<Extract<Answer, { kind: 'representation' }>> {
  const answer = (await held)?.answer;
  if (answer?.kind !== 'representation') throw new Error('no representation');
  return answer;
}

async function readAll(representation: Representation, spans: readonly Span[]): Promise<Buffer> {
  const reader = await representation.open(spans, leaving.signal);
  const chunks: Uint8Array[] = [];
  for (const { start, end } of spans) {
    for (let offset = start; offset < end; ) {
      const chunk = reader.peek(offset, end) ?? (await reader.read(offset, end));
      if (chunk === undefined) break;
      chunks.push(chunk);
      offset += chunk.length;
    }
  }
  reader.close();
  return Buffer.concat(chunks);
}

const until = (isSo: () => boolean) => expect.poll(isSo).toBe(true);

describe('an inquiry', () => {
  it('arrives complete, with the version that the client is reading', async () => {
    let taken: Inquiry | undefined;
    let given: Version | undefined;
    await serve(async (inquiry, version) => {
      taken = inquiry;
      given = version;
      return undefined;
    });
    const asked = ask();
    const version = { generation: 'g0', validator: '"v0"', sizeBytes: undefined };
    expect(await holder().answer(asked, version)).toBeUndefined();
    const factsOf = ({ request, key, uriOrigin, client, originTarget, originFields, policy }: Inquiry) => {
      const { method, scheme, authority, target, fields, peer, receivedAt } = request;
      const { query, ...rest } = { ...policy, query: undefined };
      return {
        method,
        scheme,
        authority,
        target,
        fields,
        peer,
        receivedAt,
        key,
        uriOrigin,
        client,
        originTarget,
        originFields,
        rest,
      };
    };
    expect(factsOf(taken as Inquiry)).toEqual(factsOf(asked));
    expect(given).toEqual(version);
  });

  const others: readonly (readonly [string, (known: Route) => Route])[] = [
    ['another origin', (known) => ({ ...known, originUrl: new URL('http://elsewhere.example') })],
    ['another rule', (known) => ({ ...known, cache: { ...known.cache, pinSeconds: 1 } })],
    ['another prefix', (known) => ({ ...known, match: { hosts: [], pathPrefix: '/only' } })],
  ];
  it.each(others)('is not answered where its route has %s', async (_, change) => {
    await serve(() => Promise.reject(new Error('it was asked')), change(route));
    expect(await holder().answer(ask())).toBeUndefined();
  });

  it('whose answer is not shared learns why', async () => {
    const refusal = { reason: 'private', status: 200, at: 7 };
    await serve(async () => ({ answer: undefined, unshared: 'personal', refusal }));
    expect(await holder().answer(ask())).toEqual({ answer: undefined, unshared: 'personal', refusal });
  });

  it('fails as it has failed in the other process', async () => {
    const fields = [['retry-after', '3']] as const;
    await serve(() => Promise.reject(new ProxyError('origin_busy', { detail: 'why', fields })));
    const failure = await holder()
      .answer(ask())
      .catch((thrown: unknown) => thrown);
    expect(failure).toBeInstanceOf(ProxyError);
    expect(failure).toMatchObject({ code: 'origin_busy', status: 503, detail: 'why', fields });
  });

  it('gets the interim responses before its answer', async () => {
    await serve(async ({ onInterim }) => {
      onInterim({ status: 103, fields: [['link', '</style.css>']] });
      return undefined;
    });
    const interim: unknown[] = [];
    await holder().answer(ask({}, (head) => interim.push(head)));
    expect(interim).toEqual([{ status: 103, fields: [['link', '</style.css>']] }]);
  });

  it('is aborted in the other process when its client leaves', async () => {
    let signal: AbortSignal | undefined;
    await serve(({ request }) => {
      ({ signal } = request);
      return new Promise(() => {});
    });
    const answer = holder().answer(ask());
    await until(() => signal !== undefined);
    leaving.abort(new ProxyError('client_gone'));
    await expect(answer).rejects.toMatchObject({ code: 'client_gone' });
    await until(() => signal?.aborted === true);
  });
});

describe('a representation', () => {
  it('arrives with its head, its facts, and the bytes of its spans in order', async () => {
    const { representation, seen } = createSource(400_000);
    await serve(async () => give(representation));
    const { representation: got, isReuse, originBytes, ...others } = await received(holder().answer(ask()));
    expect({ ...others, isReuse }).toEqual({ ...facts, kind: 'representation', isReuse: true });
    expect(got.response).toEqual(response);
    expect([got.generation, got.sizeBytes]).toEqual(['g1', 400_000]);
    const spans = [
      { start: 10, end: 300_000 },
      { start: 0, end: 5 },
    ];
    expect(await readAll(got, spans)).toEqual(Buffer.concat(spans.map(({ start, end }) => patternBytes(start, end))));
    expect(originBytes()).toBe(42);
    expect(seen.opened).toEqual([spans]);
    await until(() => seen.readerClosed > 0 && seen.closed > 0);
  });

  it('of unknown length has its length once it has ended', async () => {
    const { representation } = createSource(60_000);
    const growing = Object.defineProperty({ ...representation }, 'sizeBytes', { value: undefined, writable: true });
    await serve(async () => give(growing));
    const { representation: got } = await received(holder().answer(ask()));
    expect(got.sizeBytes).toBeUndefined();
    Object.assign(growing, { sizeBytes: 60_000 });
    expect(await readAll(got, [{ start: 0, end: Number.POSITIVE_INFINITY }])).toEqual(
      Buffer.from(patternBytes(0, 60_000)),
    );
    expect(got.sizeBytes).toBe(60_000);
  });

  it('reports when bytes are present, and can be opened after such a wait was aborted', async () => {
    const asked: number[] = [];
    let isWaitOver = false;
    const { representation } = createSource(1000, {
      whenPresent: (end, signal) => {
        asked.push(end);
        if (Number.isFinite(end)) return Promise.resolve(true);
        return new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            isWaitOver = true;
            reject(signal.reason);
          });
        });
      },
    });
    await serve(async () => give(representation));
    const { representation: got } = await received(holder().answer(ask()));
    expect(await got.whenPresent(7, leaving.signal)).toBe(true);
    const patience = new AbortController();
    const waiting = got.whenPresent(Number.POSITIVE_INFINITY, patience.signal);
    patience.abort(new Error('for too long'));
    await expect(waiting).rejects.toThrow('for too long');
    expect(await readAll(got, [{ start: 0, end: 1000 }])).toEqual(Buffer.from(patternBytes(0, 1000)));
    expect(asked).toEqual([7, Number.POSITIVE_INFINITY]);
    expect(isWaitOver).toBe(true);
  });

  it('is closed in the other process when it is closed unopened', async () => {
    const { representation, seen } = createSource(10);
    await serve(async () => give(representation));
    (await received(holder().answer(ask()))).representation.close();
    await until(() => seen.closed > 0);
    expect(seen.opened).toEqual([]);
  });

  it('is read no faster than the reader reads, and no further once that is closed', async () => {
    const { representation, seen } = createSource(100_000_000);
    await serve(async () => give(representation));
    const { representation: got } = await received(holder().answer(ask()));
    const reader = await got.open([{ start: 0, end: 100_000_000 }], leaving.signal);
    await reader.read(0, 100_000_000);
    let last = -1;
    await expect
      .poll(
        () => {
          const isStill = last === seen.readTo;
          last = seen.readTo;
          return isStill;
        },
        { interval: 50 },
      )
      .toBe(true);
    expect(seen.readTo).toBeLessThan(8_000_000);
    reader.close();
    await until(() => seen.readerClosed > 0);
  });

  it('fails as it has failed in the other process', async () => {
    const { representation } = createSource(100, {
      open: async () => ({
        peek: () => undefined,
        read: () => Promise.reject(new ProxyError('generation_changed', { detail: 'another validator' })),
        close: () => {},
      }),
    });
    await serve(async () => give(representation));
    const { representation: got } = await received(holder().answer(ask()));
    await expect(readAll(got, [{ start: 0, end: 100 }])).rejects.toMatchObject({
      code: 'generation_changed',
      detail: 'another validator',
    });
  });
});

it('a relayed response arrives with its body, its trailers, and its count of origin bytes', async () => {
  let isClosed = false;
  const trailers = [['x-sum', '1']] as const;
  const body = {
    trailers: () => trailers,
    close: () => {
      isClosed = true;
    },
    async *[Symbol.asyncIterator]() {
      yield patternBytes(0, 70_000);
      yield patternBytes(70_000, 70_001);
    },
  };
  const head = { status: 201, fields: [['x', 'y']], version: '2', framing: 'chunked', sizeBytes: undefined } as const;
  const relay = { response: { ...head, body }, requestAt: 1, responseAt: 2, evaluated: true };
  await serve(async () => ({ ...learned, answer: { ...facts, kind: 'relay', relay, originBytes: () => 70_001 } }));
  const answer = (await holder().answer(ask()))?.answer;
  if (answer?.kind !== 'relay') throw new Error('no relay');
  const { body: got, ...others } = answer.relay.response;
  expect(others).toEqual(head);
  const chunks: Uint8Array[] = [];
  for await (const chunk of got) chunks.push(chunk);
  expect(Buffer.concat(chunks)).toEqual(Buffer.from(patternBytes(0, 70_001)));
  expect(got.trailers?.()).toEqual(trailers);
  expect(answer.originBytes()).toBe(70_001);
  expect(isClosed).toBe(true);
});

describe('a process', () => {
  it('that does not exist is lost', async () => {
    await expect(holder().answer(ask())).rejects.toBeInstanceOf(HolderLost);
  });

  it('that ends while it answers or sends bytes is lost', async () => {
    let isAsked = false;
    await serve(() => {
      isAsked = true;
      return new Promise(() => {});
    });
    const lost = expect(holder().answer(ask())).rejects.toBeInstanceOf(HolderLost);
    await until(() => isAsked);
    await server?.close();
    await lost;
    const { representation } = createSource(10_000_000);
    await serve(async () => give(representation));
    const { representation: got } = await received(holder().answer(ask()));
    const reading = readAll(got, [{ start: 0, end: Number.POSITIVE_INFINITY }]);
    const cut = expect(reading).rejects.toBeInstanceOf(HolderLost);
    await server?.close();
    await cut;
  });

  it('that does not react is lost after a time; one that sends signs of life is not', async () => {
    const silent = createServer(() => {}).listen(peerSocketPath(dir, 'a'));
    await once(silent, 'listening');
    const lost = holder().answer(ask());
    await clock.whenPending(1);
    clock.advance(15_000);
    await expect(lost).rejects.toBeInstanceOf(HolderLost);
    silent.close();
    await once(silent, 'close');

    const answering = Promise.withResolvers<PeerAnswer | undefined>();
    await serve(() => answering.promise);
    const patient = holder().answer(ask());
    await clock.whenPending(2);
    for (let seconds = 0; seconds < 60; seconds += 3) {
      clock.advance(3_000);
      await peersQuiet();
    }
    answering.resolve(undefined);
    expect(await patient).toBeUndefined();
  });

  it('is not disturbed by bytes that are no inquiry', async () => {
    await serve(async () => undefined);
    for (const noise of ['GET / HTTP/1.1\r\n\r\n', '\x01\0\0\0\x04{}[]', '\x02\0\0\0\0', '\xff\xff\xff\xff\xff\xff']) {
      const socket = connect(peerSocketPath(dir, 'a'));
      socket.on('error', () => {});
      socket.resume();
      socket.write(noise, 'latin1');
      await peersQuiet();
      socket.destroy();
    }
    expect(await holder().answer(ask())).toBeUndefined();
  });

  // Other systems may have a shorter queue of connections.
  it.runIf(process.platform === 'linux')('answers many inquiries of one tick', async () => {
    await serve(async () => undefined);
    const asked = Array.from({ length: 1500 }, () => holder().answer(ask()));
    expect(await Promise.all(asked)).toEqual(asked.map(() => undefined));
  });

  it('opens no socket where other users could reach it', async () => {
    await chmod(dir, 0o755);
    await expect(serve(async () => undefined)).rejects.toThrow('mode 0700');
  });
});
