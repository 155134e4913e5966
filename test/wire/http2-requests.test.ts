/** Requests over HTTP/2 (RFC 9113 §8.3), on streams of a real connection. */

import { once } from 'node:events';
import { connect } from 'node:http2';
import { describe, expect, it } from 'vitest';
import type { ProxyError } from '../../src/http/proxy-error.ts';
import { streamWindowBytes } from '../../src/listener/http2/connection.ts';
import { encodeFields } from '../support/clients/h2-hpack.ts';
import { errorCode, flag, frameBytes, frameType, getFields, postFields } from '../support/clients/h2-raw-client.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { openH2Server } from '../support/proxies/h2-listener.ts';
import { testNow, textResponse } from '../support/proxies/open-listener.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const mebibyte = 1024 * 1024;

describe('a request', () => {
  it('has the values of its pseudo-fields and fields', async () => {
    await using server = await openH2Server(() => textResponse('x'), { now: () => testNow });
    await using client = await server.connect();
    client.request(
      1,
      getFields('/a?b=c', [
        ['accept', 'text/*'],
        ['cookie', 'a=1'],
        ['te', 'trailers'],
        ['cookie', 'b=2'],
        ['x', ''],
        ['cookie', 'c=3'],
      ]),
    );
    await client.whenOver(1);
    const [request] = server.requests;
    expect({ ...request, peer: undefined }).toEqual({
      method: 'GET',
      scheme: 'http',
      authority: 'a',
      target: '/a?b=c',
      version: '2',
      fields: [
        ['host', 'a'],
        ['accept', 'text/*'],
        ['cookie', 'a=1; b=2; c=3'],
        ['te', 'trailers'],
        ['x', ''],
      ],
      body: undefined,
      bodySizeBytes: undefined,
      peer: undefined,
      receivedAt: testNow,
      takesMovable: false,
    });
    expect(request?.peer.address).toBe('127.0.0.1');
  });

  it.each<[host: string, status: number]>([
    ['a:80', 200],
    ['A', 200],
    ['a:443', 400],
    ['b', 400],
  ])('with Host %s beside the authority "a" gets %i', async (host, status) => {
    await using server = await openH2Server(() => textResponse('well'));
    await using client = await server.connect();
    client.request(1, getFields('/', [['host', host]]));
    await client.whenOver(1);
    expect(client.outcome(1).status).toBe(status);
  });

  it('has a body, of known length where it has Content-Length', async () => {
    await using server = await openH2Server(async ({ body, bodySizeBytes }) => {
      const chunks: Uint8Array[] = [];
      for await (const chunk of body ?? []) chunks.push(chunk);
      return textResponse(`${bodySizeBytes}: ${Buffer.concat(chunks)}`);
    });
    await using client = await server.connect();
    client.request(1, postFields('/', [['content-length', '6']]), { endStream: false });
    client.data(1, 'foo');
    client.data(1, 'bar', { endStream: true });
    expect((await client.whenOver(1)).body.toString()).toBe('6: foobar');
    client.request(3, postFields('/'), { endStream: false });
    client.data(3, 'foo', { endStream: true });
    expect((await client.whenOver(3)).body.toString()).toBe('undefined: foo');
    client.request(5, postFields('/', [['content-length', '0']]));
    expect((await client.whenOver(5)).body.toString()).toBe('0: ');
  });

  it('whose content comes in small frames, and is read later, has all bytes in order', async () => {
    const sent = patternBytes(0, 40_000);
    const arrived = Promise.withResolvers<void>();
    await using server = await openH2Server(async ({ body }) => {
      await arrived.promise;
      const chunks: Uint8Array[] = [];
      for await (const chunk of body ?? []) chunks.push(chunk);
      return textResponse(`${Buffer.concat(chunks).equals(sent)}`);
    });
    await using client = await server.connect();
    client.request(1, postFields('/'), { endStream: false });
    for (let at = 0; at < sent.length; at += 1000) client.data(1, sent.subarray(at, at + 1000));
    await client.roundTrip();
    arrived.resolve();
    client.data(1, '', { endStream: true });
    expect((await client.whenOver(1)).body.toString()).toBe('true');
  });

  it.each<[string, number, string]>([
    ['reset', errorCode.cancel, ''],
    ['reset without an error', errorCode.none, ''],
    ['shorter than its Content-Length', errorCode.protocol, 'short'],
    ['longer than its Content-Length', errorCode.protocol, 'x'.repeat(11)],
  ])('whose body is %s never looks complete', async (_name, code, rest) => {
    const ends: unknown[] = [];
    await using server = await openH2Server(async ({ body }) => {
      try {
        for await (const _chunk of body ?? []);
        ends.push('whole');
      } catch (error) {
        ends.push((error as ProxyError).code);
      }
      return textResponse('x');
    });
    await using client = await server.connect();
    client.request(1, postFields('/', [['content-length', '10']]), { endStream: false });
    client.data(1, 'some');
    await client.roundTrip();
    if (rest === '') client.reset(1, code);
    else client.data(1, rest, { endStream: true });
    await expect.poll(() => ends).toEqual(['request_body_incomplete']);
    expect(server.requests[0]?.signal.aborted).toBe(true);
    // A stream error, not a connection error (RFC 9113 §8.1.1).
    client.request(3, getFields('/'));
    expect((await client.whenOver(3)).status).toBe(200);
    expect(client.outcome(1).resetCode).toBe(rest === '' ? undefined : code);
  });

  it('whose unread content exceeds its Content-Length has only its own stream reset', async () => {
    await using server = await openH2Server(() => textResponse('well'));
    await using client = await server.connect();
    client.request(1, getFields('/other', [['content-length', '3']]), { endStream: false });
    client.request(3, postFields('/', [['content-length', '0']]), { endStream: false });
    client.data(3, 'more', { endStream: true });
    client.data(1, 'four', { endStream: true });
    client.request(5, getFields('/'));
    expect((await client.whenOver(5)).body.toString()).toBe('well');
    expect([client.outcome(1).resetCode, client.outcome(3).resetCode]).toEqual([
      errorCode.protocol,
      errorCode.protocol,
    ]);
    expect(client.goawayCode).toBeUndefined();
  });

  it('ends its connection by a connection error, even after a stream error in the same write', async () => {
    await using server = await openH2Server(() => textResponse('well'));
    await using client = await server.connect();
    const fields = postFields('/', [['content-length', '0']]);
    const tooLong = frameBytes(frameType.data, flag.endStream, 1, Buffer.from('more'));
    const onIdle = frameBytes(frameType.data, 0, 9, Buffer.from('x'));
    const head = frameBytes(frameType.headers, flag.endHeaders, 1, encodeFields(fields));
    client.send(Buffer.concat([head, tooLong, onIdle]));
    await client.closed;
    expect(client.goawayCode).toBe(errorCode.protocol);
  });

  it('has an empty body that can be read long after its end has arrived', async () => {
    const wanted = Promise.withResolvers<void>();
    await using server = await openH2Server(async ({ body }) => {
      await wanted.promise;
      for await (const _chunk of body ?? []);
      return textResponse('read');
    });
    await using client = await server.connect();
    client.request(1, postFields(), { endStream: false });
    await client.roundTrip();
    client.data(1, '', { endStream: true });
    await client.roundTrip();
    wanted.resolve();
    expect((await client.whenOver(1)).body.toString()).toBe('read');
  });

  it('whose client leaves in the middle of the body never looks complete', async () => {
    const ends: unknown[] = [];
    await using server = await openH2Server(async ({ body }) => {
      try {
        for await (const _chunk of body ?? []);
        ends.push('whole');
      } catch (error) {
        ends.push((error as ProxyError).code);
      }
      return textResponse('x');
    });
    for (const how of ['end', 'resetAndDestroy'] as const) {
      await using client = await server.connect();
      client.request(1, postFields(), { endStream: false });
      client.data(1, 'some');
      await client.roundTrip();
      client.socket[how]();
    }
    await expect.poll(() => ends).toEqual(['request_body_incomplete', 'request_body_incomplete']);
  });

  it('holds its client back while its body is not read, and no longer when it is', async () => {
    const release = Promise.withResolvers<void>();
    let received = 0;
    await using server = await openH2Server(async ({ body }) => {
      await release.promise;
      for await (const chunk of body ?? []) received += chunk.length;
      return textResponse(String(received));
    });
    const client = connect(`http://127.0.0.1:${server.port}`);
    const stream = client.request({ ':method': 'POST' });
    const body = Buffer.alloc(4 * mebibyte);
    stream.end(body);
    await once(stream, 'ready');
    await untilQuiet(() => server.sockets.values().next().value?.bytesRead ?? 0);
    expect(server.sockets.values().next().value?.bytesRead).toBeLessThan(streamWindowBytes + 64 * 1024);
    release.resolve();
    let text = '';
    for await (const chunk of stream.setEncoding('utf8')) text += chunk;
    expect(text).toBe(String(body.length));
    await new Promise<void>((resolve) => client.close(resolve));
  });

  it('with Expect gets 100 when its body is read, and not before', async () => {
    const wanted = Promise.withResolvers<void>();
    await using server = await openH2Server(async ({ target, body }) => {
      if (target === '/refused') return textResponse('no', { status: 413 });
      await wanted.promise;
      for await (const _chunk of body ?? []);
      return textResponse('yes');
    });
    await using client = await server.connect();
    const fields = [['expect', '100-continue']] as const;
    client.request(1, postFields('/refused', fields), { endStream: false });
    const refused = await client.whenOver(1);
    expect([refused.interim, refused.status]).toEqual([[], 413]);
    client.request(3, postFields('/', fields), { endStream: false });
    await client.roundTrip();
    expect(client.outcome(3).interim).toEqual([]);
    wanted.resolve();
    await client.until(() => client.outcome(3).interim.length > 0);
    expect(client.outcome(3).interim).toEqual([[[':status', '100']]]);
    client.data(3, 'body', { endStream: true });
    expect((await client.whenOver(3)).body.toString()).toBe('yes');
  });
});
