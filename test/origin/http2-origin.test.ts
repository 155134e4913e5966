/** HTTP/2 connections to an origin: when they are opened, shared, retired and given up. */

import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { createOriginGroup } from '../../src/origin/group/origin-group.ts';
import { createHttp2Origin } from '../../src/origin/http2/http2-origin.ts';
import type { Origin, OriginResponse } from '../../src/origin/origin.ts';
import { uint32 } from '../support/clients/h2-raw-client.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import {
  endHeaders,
  endStream,
  type FrameExchange,
  frame,
  lines,
  openFrameOrigin,
} from '../support/origins/http2-frames.ts';
import { openHttp2Server } from '../support/origins/http2-server.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { testAuthority, testClientCertificate } from '../support/values/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

const tls = { ca: testAuthority, rejectUnauthorized: true };

function open(url: string, overrides: Partial<Parameters<typeof createHttp2Origin>[0]> = {}): Origin {
  return createHttp2Origin({ ...originOptions({ url, tls }), clock: realClock, ...overrides });
}

/** SETTINGS_MAX_CONCURRENT_STREAMS. */
const allowing = (streams: number) => Buffer.concat([Buffer.of(0, 3), uint32(streams)]);
const answer = ({ send, stream }: FrameExchange): void => {
  send(
    frame('headers', endHeaders, stream, lines([':status', '200'])),
    frame('data', endStream, stream, Buffer.from('good')),
  );
};
const textOf = async (response: Promise<OriginResponse>): Promise<string> =>
  response.then(
    async (head) => (await readBody(head)).bytes.toString(),
    (thrown: unknown) => codeOf(thrown),
  );

describe('connections', () => {
  it('are opened one at a time, and shared', async () => {
    await using server = await openHttp2Server({}, (stream) => stream.respond({}, { endStream: true }));
    const origin = open(server.url);
    await Promise.all(Array.from({ length: 60 }, () => origin.fetch(originRequest())));
    expect(server.sessions.length).toBe(1);
    await origin.close();
  });

  it('are opened up to the limit where the origin allows few streams; further requests wait', async () => {
    const held: FrameExchange[] = [];
    const arrived: (() => void)[] = [];
    await using server = await openFrameOrigin({ settings: allowing(2) }, (exchange) => {
      held.push(exchange);
      for (const wake of arrived.splice(0)) wake();
    });
    const whenHeld = async (count: number) => {
      while (held.length < count) await new Promise<void>((resolve) => arrived.push(resolve));
    };
    const origin = open(server.url, { connections: 2 });
    // Once the first request is answered, the settings have arrived.
    const first = textOf(origin.fetch(originRequest()));
    await whenHeld(1);
    answer(held[0] as FrameExchange);
    expect(await first).toBe('good');

    const answers = Array.from({ length: 9 }, () => textOf(origin.fetch(originRequest())));
    await whenHeld(5);
    const streams = held.slice(1, 5).map(({ connection }) => connection);
    expect(streams.toSorted()).toEqual([1, 1, 2, 2]);
    for (let count = 1; count <= 9; count++) {
      await whenHeld(count + 1);
      answer(held[count] as FrameExchange);
    }
    expect(await Promise.all(answers)).toEqual(Array.from({ length: 9 }, () => 'good'));
    expect(new Set(server.exchanges.map(({ connection }) => connection)).size).toBe(2);
    await origin.close();
  });

  it('carry no more requests of one client than its share', async () => {
    const held: FrameExchange[] = [];
    await using server = await openFrameOrigin({ settings: allowing(2) }, (exchange) => void held.push(exchange));
    const origin = open(server.url, { connections: 2, connectionsPerClient: 1 });
    const ask = (client: string) =>
      textOf(origin.fetch(originRequest({ charged: { client, bodyClients: undefined } })));
    const greedy = Array.from({ length: 6 }, () => ask('a'));
    await expect.poll(() => held.length).toBe(2);
    const other = ask('b');
    await expect.poll(() => held.length).toBe(3);
    answer(held[2] as FrameExchange);
    expect(await other).toBe('good');
    expect(held.length).toBe(3);
    for (let count = 0; count < 7; count += 1) {
      await expect.poll(() => held.length).toBeGreaterThan(count);
      if (count !== 2) answer(held[count] as FrameExchange);
    }
    expect(await Promise.all(greedy)).toEqual(Array.from({ length: 6 }, () => 'good'));
    await origin.close();
  });

  it('carry spare requests only up to half of the share of their client; further ones fail at once', async () => {
    const held: FrameExchange[] = [];
    await using server = await openFrameOrigin({ settings: allowing(4) }, (exchange) => void held.push(exchange));
    const origin = open(server.url, { connections: 1, connectionsPerClient: 1 });
    const charged = (isSpare: boolean) => ({ client: 'a', bodyClients: undefined, isSpare });
    const ask = (isSpare: boolean) => textOf(origin.fetch(originRequest({ charged: charged(isSpare) })));
    const first = ask(false);
    await expect.poll(() => held.length).toBe(1);
    answer(held[0] as FrameExchange);
    expect(await first).toBe('good');
    const spare = [ask(true), ask(true)];
    expect(await ask(true)).toBe('origin_busy');
    await expect.poll(() => held.length).toBe(3);
    const needed = [ask(false), ask(false)];
    await expect.poll(() => held.length).toBe(5);
    for (const exchange of held.slice(1)) answer(exchange);
    expect(await Promise.all([...spare, ...needed])).toEqual(['good', 'good', 'good', 'good']);
    await origin.close();
  });

  it('time out where the origin allows no streams', async () => {
    await using server = await openFrameOrigin({ settings: allowing(0) }, () => undefined);
    const origin = open(server.url, { headersTimeoutMs: 300, connections: 1 });
    expect(await textOf(origin.fetch(originRequest()))).toBe('origin_timeout');
    await origin.close();
  });

  it('are closed after a time without requests', async () => {
    const clock = createFakeClock();
    await using server = await openHttp2Server({}, (stream) => stream.respond({}, { endStream: true }));
    const origin = open(server.url, { clock, keepAliveTimeoutMs: 4000 });
    await readBody(await origin.fetch(originRequest()));
    await clock.whenPending(1);
    const closed = once(server.sessions[0] as never, 'close');
    clock.advance(4000);
    await closed;
    await readBody(await origin.fetch(originRequest()));
    expect(server.sessions.length).toBe(2);
    await origin.close();
  });

  it('that cannot be made fail all waiting requests, at once', async () => {
    let connections = 0;
    const server = createServer((socket) => {
      connections += 1;
      socket.on('error', () => undefined).once('data', () => socket.destroy());
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const origin = open(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const failures = await Promise.all(Array.from({ length: 20 }, () => textOf(origin.fetch(originRequest()))));
    expect(new Set(failures)).toEqual(new Set(['origin_tls_failed']));
    expect(connections).toBe(1);
    await origin.close();
    server.close();
    await once(server, 'close');
  });

  it('that are not answered in time fail', async () => {
    const server = createServer((socket) => socket.on('error', () => undefined).resume()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const origin = open(url, { connectTimeoutMs: 300 });
    expect(await textOf(origin.fetch(originRequest()))).toBe('origin_connect_timeout');
    await origin.close();
    server.close();
    await once(server, 'close');
  });

  it('are not waited for by a client that leaves', async () => {
    const server = createServer((socket) => socket.on('error', () => undefined).resume()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const origin = open(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const leaving = new AbortController();
    const gone = textOf(origin.fetch(originRequest({ signal: leaving.signal })));
    leaving.abort();
    expect(await gone).toBe('client_gone');
    await origin.close();
    server.close();
  });

  it('verify the origin by its URL', async () => {
    await using server = await openHttp2Server({}, (stream) => stream.respond({}, { endStream: true }));
    const origin = open(server.url, { tls: { rejectUnauthorized: true } });
    expect(await textOf(origin.fetch(originRequest()))).toBe('origin_certificate_refused');
    const other = open(server.url.replace('127.0.0.1', '127.0.0.2'));
    expect(await textOf(other.fetch(originRequest({ fields: [['host', 'localhost']] })))).toMatch(/^origin_/);
    expect(server.requests.length).toBe(0);
    await Promise.all([origin.close(), other.close()]);
  });
});

describe('a client', () => {
  it('that sends its body slowly does not make the origin time out', async () => {
    await using server = await openHttp2Server({}, (stream) => {
      stream.resume().on('end', () => stream.respond({}, { endStream: true }));
    });
    await using silent = await openFrameOrigin({}, () => undefined);
    const origin = open(server.url, { headersTimeoutMs: 800 });
    const other = open(silent.url, { headersTimeoutMs: 800 });
    const body = {
      async *[Symbol.asyncIterator]() {
        yield Buffer.from('a');
        // A request that gets no answer serves as the clock: when it times out, this one would have timed out before.
        await expect.poll(() => server.requests.length).toBe(1);
        expect(await textOf(other.fetch(originRequest()))).toBe('origin_timeout');
        yield Buffer.from('b');
      },
      close: () => undefined,
    };
    expect((await origin.fetch(originRequest({ method: 'PUT', body }))).status).toBe(200);
    expect(server.sessions.length).toBe(1);
    await Promise.all([origin.close(), other.close()]);
  });

  it.each([
    [60_000, ''],
    [65_536, 'fields_too_large'],
    [300_000, 'fields_too_large'],
  ])('with fields of %i bytes does not affect other clients', async (bytes, want) => {
    await using server = await openHttp2Server({}, (stream) => stream.respond({}, { endStream: true }));
    const origin = open(server.url);
    await origin.fetch(originRequest());
    expect(await textOf(origin.fetch(originRequest({ fields: [['x-large', '~'.repeat(bytes)]] })))).toBe(want);
    await origin.fetch(originRequest());
    expect(server.sessions.length).toBe(1);
    await origin.close();
  });
});

describe('an origin that goes away', () => {
  it('finishes running streams, and gets later requests over another connection', async () => {
    const begun = Promise.withResolvers<FrameExchange>();
    await using server = await openFrameOrigin({}, (exchange) => begun.resolve(exchange), answer);
    const origin = open(server.url);
    const first = textOf(origin.fetch(originRequest()));
    const exchange = await begun.promise;
    exchange.send(frame('goaway', 0, 0, uint32(exchange.stream, 0)));
    // Until the GOAWAY has arrived, requests still use the old connection.
    while (server.exchanges.at(-1)?.connection !== 2) await textOf(origin.fetch(originRequest()));
    answer(exchange);
    expect(await first).toBe('good');
    await origin.close();
  });

  it('has no more closing connections than the limit of other ones', async () => {
    const held: FrameExchange[] = [];
    const arrived: (() => void)[] = [];
    await using server = await openFrameOrigin({}, (exchange) => {
      const isFirst = held.every(({ connection }) => connection !== exchange.connection);
      if (isFirst) exchange.send(frame('goaway', 0, 0, uint32(exchange.stream, 0)));
      held.push(exchange);
      for (const wake of arrived.splice(0)) wake();
    });
    await using another = await openFrameOrigin({}, answer);
    const [origin, other] = [open(server.url, { connections: 1 }), open(another.url)];
    // Until the GOAWAY has arrived, requests still use the old connection.
    const reach = async (connection: number) => {
      while (held.at(-1)?.connection !== connection) {
        const news = new Promise<void>((resolve) => arrived.push(resolve));
        await Promise.race([textOf(origin.fetch(originRequest())), news]);
      }
    };
    await reach(2);
    const reached = reach(3);
    // A third connection would be open by the time that these requests are answered.
    for (let count = 0; count < 3; count++) await textOf(other.fetch(originRequest()));
    expect(held.at(-1)?.connection).toBe(2);
    held[0]?.socket.destroy();
    await reached;
    await Promise.all([origin.close(), other.close()]);
  });

  it.each<[name: string, play: (exchange: FrameExchange) => void]>([
    ['GOAWAY that leaves them out', ({ send }) => send(frame('goaway', 0, 0, uint32(0, 0)))],
    ['REFUSED_STREAM', ({ send, stream }) => send(frame('reset', 0, stream, uint32(7)))],
  ])('gets requests again after %s, whatever their method, and with the body that was sent', async (_name, play) => {
    await using server = await openFrameOrigin({}, play, answer);
    const group = createOriginGroup({
      members: [{ url: new URL(server.url), origin: open(server.url), host: undefined }],
      choice: 'first',
      retries: { attempts: 1, budgetPercent: 0 },
      health: { failures: 1, restMs: 1 },
      clock: realClock,
      random: () => 0.5,
      onHealth: () => undefined,
    });
    const body = {
      async *[Symbol.asyncIterator]() {
        yield Buffer.from('body');
      },
      close() {},
    };
    expect(await textOf(group.fetch(originRequest({ method: 'POST', body, bodySizeBytes: 4 })))).toBe('good');
    expect(server.exchanges.length).toBe(2);
    await group.close();
  });

  it('gets an upload again after REFUSED_STREAM, though some of its body was sent', async () => {
    const whole = 'the beginning, and the rest of it';
    const rest = Promise.withResolvers<void>();
    let streams = 0;
    await using server = await openHttp2Server({}, (stream) => {
      streams += 1;
      const isFirst = streams === 1;
      const chunks: Buffer[] = [];
      stream.on('error', () => {});
      stream.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        if (isFirst) stream.close(7);
        else rest.resolve();
      });
      stream.on('end', () => {
        if (isFirst) return;
        stream.respond({});
        stream.end(Buffer.concat(chunks));
      });
    });
    const group = createOriginGroup({
      members: [{ url: new URL(server.url), origin: open(server.url), host: undefined }],
      choice: 'first',
      retries: { attempts: 1, budgetPercent: 0 },
      health: { failures: 1, restMs: 1 },
      clock: realClock,
      random: () => 0.5,
      onHealth: () => undefined,
    });
    const body = {
      async *[Symbol.asyncIterator]() {
        yield Buffer.from(whole.slice(0, 13));
        // The rest comes from the client only when the second attempt is under way.
        await rest.promise;
        yield Buffer.from(whole.slice(13));
      },
      close() {},
    };
    const request = originRequest({ method: 'POST', body, bodySizeBytes: whole.length });
    expect(await textOf(group.fetch(request))).toBe(whole);
    expect(streams).toBe(2);
    await group.close();
  });

  it('may require HTTP/1.1 from then on', async () => {
    await using server = await openHttp2Server({ allowHTTP1: true }, (stream) => stream.close(13));
    server.server.on('request', (_request, response) => response.end('by HTTP/1.1'));
    const origin = open(server.url);
    await expect(origin.fetch(originRequest())).rejects.toMatchObject({ code: 'origin_reset', isUnsent: true });
    // The server of this test answers over either protocol.
    const response = await origin.fetch(originRequest());
    expect([response.version, (await readBody(response)).bytes.toString()]).toEqual(['1.1', 'by HTTP/1.1']);
    await origin.close();
  });

  it('leaves nothing behind when it dies under many streams', async () => {
    await using server = await openHttp2Server({}, (stream, { connection }) => {
      stream.respond({});
      stream.write('good');
      if (connection === 1 && server.requests.length === 50) stream.session?.socket.destroy();
      if (connection > 1) stream.end();
    });
    const origin = open(server.url);
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, async () => {
        const response = await origin.fetch(originRequest()).catch(codeOf);
        return typeof response === 'string' ? response : (await readBody(response)).error;
      }),
    );
    expect(new Set(outcomes)).toEqual(new Set(['origin_reset']));
    expect(await textOf(origin.fetch(originRequest()))).toBe('good');
    await origin.close();
  });
});

describe('a client certificate', () => {
  const shown = { ...tls, ...testClientCertificate };
  it.each([
    ['is shown', shown, '200'],
    ['is missing where the origin requires one', tls, 'origin_reset|origin_tls_failed'],
  ])('%s', async (_name, tlsOptions, want) => {
    await using server = await openHttp2Server({ requestCert: true, ca: testClientCertificate.cert }, (stream) => {
      const socket = stream.session?.socket as TLSSocket | undefined;
      stream.respond({ ':status': socket?.authorized === true ? 200 : 403 });
      stream.end();
    });
    const origin = open(server.url, { tls: tlsOptions });
    const got = await origin.fetch(originRequest()).then(({ status }) => String(status), codeOf);
    expect(got).toMatch(new RegExp(`^(${want})$`));
    await origin.close();
  });
});
