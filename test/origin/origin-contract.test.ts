/** The contract of every origin client: the same server and the same expectations over each protocol. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Server, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { BodyStream, InterimResponse } from '../../src/http/message.ts';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { createHttp2Origin } from '../../src/origin/http2/http2-origin.ts';
import type { Origin } from '../../src/origin/origin.ts';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { asUndiciWaits } from '../support/clocks/undici-time.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { testAuthority, testCertificate } from '../support/values/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

type Request = IncomingMessage | Http2ServerRequest;
type Response = ServerResponse | Http2ServerResponse;
type Serve = (request: Request, response: Response & ServerResponse) => unknown;

/** A protocol, with its server and its client. */
interface Way {
  readonly name: string;
  readonly version: '1.1' | '2';
  readonly createServer: (serve: RequestListener) => Server;
  readonly connect: (url: string, overrides: { readonly bodyTimeoutMs?: number }) => Origin;
}

const tls = { ca: testAuthority, rejectUnauthorized: true };
const http1 = (url: string, overrides: object) => createUndiciOrigin(originOptions({ url, tls, ...overrides }));
const http2 = (url: string, overrides: object) =>
  createHttp2Origin({ ...originOptions({ url, tls, ...overrides }), clock: realClock });
const ways: readonly Way[] = [
  { name: 'HTTP/1.1', version: '1.1', createServer: (serve) => createServer(serve), connect: http1 },
  { name: 'HTTP/1.1 over a Unix socket', version: '1.1', createServer: (serve) => createServer(serve), connect: http1 },
  {
    name: 'HTTP/1.1 over TLS',
    version: '1.1',
    createServer: (serve) => createTlsServer(testCertificate, serve),
    connect: http1,
  },
  {
    name: 'HTTP/2',
    version: '2',
    createServer: (serve) => createSecureServer(testCertificate, serve as never),
    connect: http2,
  },
  {
    name: 'HTTP/1.1 where HTTP/2 was asked for',
    version: '1.1',
    createServer: (serve) => createTlsServer(testCertificate, serve),
    connect: http2,
  },
];

interface Ground extends AsyncDisposable {
  readonly origin: Origin;
  readonly connections: () => number;
  readonly open: () => number;
  readonly allClosed: () => Promise<void>;
}

describe.each(ways)('an origin over $name', ({ name, version, createServer: create, connect }) => {
  async function open(serve: Serve, overrides: { readonly bodyTimeoutMs?: number } = {}): Promise<Ground> {
    const server = create(serve as RequestListener);
    const sockets = new Map<Socket, Promise<void>>();
    let connections = 0;
    server.on(name.includes('TLS') || name.includes('HTTP/2') ? 'secureConnection' : 'connection', (socket: Socket) => {
      connections += 1;
      const closed = new Promise<void>((resolve) => socket.on('close', resolve));
      void closed.then(() => sockets.delete(socket));
      sockets.set(socket, closed);
      socket.on('error', () => undefined);
    });
    const dir = await mkdtemp(join(tmpdir(), 'rangeway-origin-'));
    const isUnix = name.includes('Unix');
    server.listen(...((isUnix ? [join(dir, 's')] : [0, '127.0.0.1']) as [string]));
    await once(server, 'listening');
    const scheme = name.includes('TLS') || name.includes('HTTP/2') ? 'https' : 'http';
    const url = isUnix ? `unix:${join(dir, 's')}` : `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const origin = connect(url, overrides);
    return {
      origin,
      connections: () => connections,
      open: () => sockets.size,
      allClosed: async () => {
        while (sockets.size > 0) await Promise.all(sockets.values());
      },
      async [Symbol.asyncDispose]() {
        await origin.close();
        for (const socket of sockets.keys()) socket.destroy();
        server.close();
        await once(server, 'close');
        await rm(dir, { recursive: true });
      },
    };
  }

  it('sends method, target, Host and fields, but no connection-specific fields', async () => {
    const seen: unknown[] = [];
    await using ground = await open((request, response) => {
      const { method, url, headers } = request;
      const { connection: _ours, ...sent } = headers;
      seen.push(
        method,
        url,
        sent[':authority'] ?? sent.host,
        sent['x-a'],
        sent.cookie,
        Object.keys(sent)
          .toSorted()
          .filter((field) => !field.startsWith(':') && field !== 'host'),
      );
      response.end();
    });
    await readBody(
      await ground.origin.fetch(
        originRequest({
          method: 'OPTIONS',
          target: '/a//b/../%2f?x=%7e&',
          fields: [
            ['host', 'files.test'],
            ['x-a', '1'],
            ['x-a', 'caf\xe9'],
            ['cookie', 'a=1'],
            ['cookie', 'b=2'],
            ['connection', 'x-secret'],
            ['te', 'gzip'],
            ['keep-alive', '1'],
            ['upgrade', 'h2c'],
            ['transfer-encoding', 'gzip'],
            ['expect', '100-continue'],
          ].filter(([field]) => version === '2' || field !== 'te') as [string, string][],
        }),
      ),
    );
    expect(seen).toEqual(['OPTIONS', '/a//b/../%2f?x=%7e&', 'files.test', '1, caf\xe9', 'a=1; b=2', ['cookie', 'x-a']]);
  });

  it('returns status, version, fields and bytes', async () => {
    await using ground = await open((_request, response) => {
      response.writeHead(
        404,
        [
          ['set-cookie', 'a=1'],
          ['x-latin', 'caf\xe9'],
          ['set-cookie', 'b=2'],
          ['x-empty', ''],
          ['content-length', '4'],
          ['etag', 'W/"1"'],
        ].flat() as never,
      );
      response.end(Buffer.from('good'));
    });
    const response = await ground.origin.fetch(originRequest());
    expect([response.status, response.version, response.framing, response.sizeBytes]).toEqual([
      404,
      version,
      'length',
      4,
    ]);
    const fields = response.fields.filter(([field]) => !['date', 'connection', 'keep-alive'].includes(field));
    expect(fields.toSorted()).toEqual([
      ['content-length', '4'],
      ['etag', 'W/"1"'],
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
      ['x-empty', ''],
      ['x-latin', 'caf\xe9'],
    ]);
    expect(await readBody(response)).toEqual({ bytes: Buffer.from('good'), error: undefined });
  });

  it('returns trailers behind a body without a length, but none that belong in the head', async () => {
    await using ground = await open((_request, response) => {
      response.writeHead(200, { trailer: 'x-sum' });
      response.write('good');
      response.addTrailers({ 'x-sum': '1', 'content-type': 'text/html', 'set-cookie': 'a=1' });
      response.end();
    });
    const response = await ground.origin.fetch(originRequest());
    expect(response.framing).toBe('chunked');
    expect((await readBody(response)).error).toBeUndefined();
    expect(response.body.trailers?.()).toEqual([['x-sum', '1']]);
  });

  it('passes on interim responses before the final one', async () => {
    await using ground = await open((_request, response) => {
      response.writeEarlyHints({ link: '</a.css>; rel=preload' });
      response.end('good');
    });
    const interims: InterimResponse[] = [];
    const response = await ground.origin.fetch(originRequest({ onInterim: (interim) => interims.push(interim) }));
    expect(interims).toEqual([{ status: 103, fields: [['link', '</a.css>; rel=preload']] }]);
    await readBody(response);
  });

  it.each([
    ['HEAD', 200],
    ['GET', 204],
    ['GET', 304],
  ])('knows that a response to %s with %i has no body', async (method, status) => {
    await using ground = await open((_request, response) => {
      response.writeHead(status, status === 204 ? {} : { 'content-length': 9 });
      response.end();
    });
    const response = await ground.origin.fetch(originRequest({ method }));
    expect([response.framing, response.sizeBytes, (await readBody(response)).bytes.length]).toEqual([
      'none',
      undefined,
      0,
    ]);
  });

  it.each([6, undefined])('sends a body (Content-Length: %s)', async (bodySizeBytes) => {
    await using ground = await open(async (request, response) => {
      response.end(`${request.headers['content-length']} ${await buffer(request)}`);
    });
    const body = bodyOf('abc', 'def');
    const response = await ground.origin.fetch(originRequest({ method: 'PUT', body, bodySizeBytes }));
    expect((await readBody(response)).bytes.toString()).toBe(`${bodySizeBytes} abcdef`);
    expect(body.isClosed).toBe(true);
  });

  it('sends and gets many bytes', async () => {
    const sizeBytes = 8_000_000;
    await using ground = await open((request, response) => void request.pipe(response));
    const body: BodyStream = {
      async *[Symbol.asyncIterator]() {
        for (let at = 0; at < sizeBytes; at += 100_000) yield patternBytes(at, at + 100_000);
      },
      close: () => undefined,
    };
    const response = await ground.origin.fetch(originRequest({ method: 'POST', body, bodySizeBytes: sizeBytes }));
    const { bytes, error } = await readBody(response);
    expect([error, bytes.equals(patternBytes(0, sizeBytes))]).toEqual([undefined, true]);
  });

  it.each<[string, string[], number | undefined]>([
    ['breaks off', ['abc', 'break'], undefined],
    ['is shorter than promised', ['abc'], 4],
    ['is longer than promised', ['abc'], 2],
  ])('fails with a body that %s, and does not let it look complete', async (_name, chunks, bodySizeBytes) => {
    const ended = Promise.withResolvers<string>();
    await using ground = await open((request) => {
      request
        .on('end', () => ended.resolve('whole'))
        .on('aborted', () => ended.resolve('aborted'))
        .on('error', () => ended.resolve('aborted'))
        .on('close', () => ended.resolve('aborted'))
        .resume();
    });
    const body = bodyOf(...chunks);
    expect(await failureOf(ground.origin.fetch(originRequest({ method: 'POST', body, bodySizeBytes })))).toBe(
      'request_body_incomplete',
    );
    if (ground.connections() > 0 && bodySizeBytes !== 2)
      expect(await Promise.race([ended.promise, ground.allClosed().then(() => 'aborted')])).toBe('aborted');
    expect(body.isClosed).toBe(true);
  });

  it('returns a response that arrives before the body is sent, and closes the body', async () => {
    await using ground = await open((_request, response) => {
      response.writeHead(413, { 'content-length': 4 });
      response.end('long');
    });
    const gone = Promise.withResolvers<void>();
    const body: BodyStream = {
      async *[Symbol.asyncIterator]() {
        yield Buffer.from('abc');
        await gone.promise;
      },
      close: gone.resolve,
    };
    const response = await ground.origin.fetch(originRequest({ method: 'POST', body, bodySizeBytes: undefined }));
    expect([response.status, (await readBody(response)).bytes.toString()]).toEqual([413, 'long']);
    await gone.promise;
  });

  it('holds the origin back while its body is not read, and does not let that time out', async () => {
    const sizeBytes = 64 * 1024 * 1024;
    let isSent = false;
    await using ground = await open(
      (request, response) => {
        response.writeHead(200, { 'content-length': request.url === '/big' ? sizeBytes : 9 });
        if (request.url !== '/big') return void response.write('good');
        const pieces = Readable.from(Array.from({ length: 64 }, () => Buffer.alloc(sizeBytes / 64)));
        pieces.on('end', () => (isSent = true)).pipe(response);
      },
      // undici has a clock that a test can move; Node's HTTP/2 client has not.
      version === '2' ? { bodyTimeoutMs: 1_000 } : {},
    );
    const unread = await ground.origin.fetch(originRequest({ target: '/big' }));
    // Another response, which is silent, serves as the clock: when it times out, the unread one would have timed out as well.
    const silent = await ground.origin.fetch(originRequest({ target: '/silent' }));
    const ended = readBody(silent);
    expect((await (version === '2' ? ended : asUndiciWaits(ended))).error).toBe('origin_timeout');
    expect(isSent).toBe(false);
    const { bytes, error } = await readBody(unread);
    expect([bytes.length, error]).toEqual([sizeBytes, undefined]);
  });

  it('gives a transfer up when its signal aborts, and does not affect others', async () => {
    const closed = Promise.withResolvers<void>();
    await using ground = await open((request, response) => {
      response.writeHead(200, { 'content-length': 1_000_000 });
      if (request.url === '/whole') response.end(Buffer.alloc(1_000_000));
      else response.on('close', () => closed.resolve()).write('begin');
    });
    const aborter = new AbortController();
    const cut = await ground.origin.fetch(originRequest({ target: '/cut', signal: aborter.signal }));
    const other = await ground.origin.fetch(originRequest({ target: '/whole' }));
    aborter.abort(new ProxyError('origin_busy'));
    expect((await readBody(cut)).error).toBe('origin_busy');
    await closed.promise;
    expect((await readBody(other)).bytes.length).toBe(1_000_000);
    await readBody(await ground.origin.fetch(originRequest({ target: '/whole' })));
    if (version === '2') expect(ground.connections()).toBe(1);
  });

  it('gives a transfer up when its body is closed', async () => {
    const closed = Promise.withResolvers<void>();
    await using ground = await open((_request, response) => {
      response.writeHead(200, { 'content-length': 1_000_000 });
      response.on('close', () => closed.resolve()).write('begin');
    });
    (await ground.origin.fetch(originRequest())).body.close();
    await closed.promise;
  });

  it('does not send a request that is aborted already, and closes its body', async () => {
    await using ground = await open((_request, response) => response.end());
    const body = bodyOf('abc');
    const request = originRequest({ method: 'PUT', body, bodySizeBytes: 3, signal: AbortSignal.abort() });
    expect(await failureOf(ground.origin.fetch(request))).toBe('client_gone');
    expect(body.isClosed).toBe(true);
  });

  it.each([
    ['OPTIONS', '*', 'method_refused'],
    ['CONNECT', 'a.test:443', 'method_refused'],
    ['GET', '/a b', 'malformed_request'],
    ['GET', '/a\r\nX: y', 'malformed_request'],
    ['G T', '/', 'malformed_request'],
  ])('refuses to send %s %s', async (method, target, code) => {
    await using ground = await open((_request, response) => response.end());
    const body = bodyOf('abc');
    expect(await failureOf(ground.origin.fetch(originRequest({ method, target, body })))).toBe(code);
    expect(body.isClosed).toBe(true);
  });

  it.each([
    ['x-a', '1\r\nx-b: 2'],
    ['x-a', '1\0'],
    ['x a', '1'],
    [':path', '/other'],
  ])('refuses to send a field %j: %j', async (field, value) => {
    await using ground = await open((_request, response) => response.end());
    const fields = [
      ['host', 'a.test'],
      [field, value],
    ] as [string, string][];
    expect(await failureOf(ground.origin.fetch(originRequest({ fields })))).toBe('malformed_request');
  });

  it('answers many requests at a time, each with its own response', async () => {
    await using ground = await open((request, response) => {
      setImmediate(() => response.end(request.url));
    });
    const targets = Array.from({ length: 300 }, (_, at) => `/${at}`);
    const answers = targets.map(async (target) =>
      (await readBody(await ground.origin.fetch(originRequest({ target })))).bytes.toString(),
    );
    expect(await Promise.all(answers)).toEqual(targets);
    expect(ground.connections()).toBeLessThanOrEqual(8);
  });

  it('cuts running transfers when it is closed', async () => {
    await using ground = await open((_request, response) => {
      response.writeHead(200, { 'content-length': 9 });
      response.write('good');
    });
    const running = await ground.origin.fetch(originRequest());
    await ground.origin.close();
    expect((await readBody(running)).error).toBe('internal');
    expect(await failureOf(ground.origin.fetch(originRequest()))).toBe('internal');
    await ground.allClosed();
  });
});

async function failureOf(fetching: Promise<unknown>): Promise<string> {
  return fetching.then(
    () => 'no failure',
    (thrown: unknown) => codeOf(thrown),
  );
}

/** A request's body that records whether it was closed. The chunk `break` breaks it off. */
function bodyOf(...chunks: readonly string[]): BodyStream & { isClosed: boolean } {
  return {
    isClosed: false,
    async *[Symbol.asyncIterator]() {
      for (const chunk of chunks) {
        if (chunk === 'break') throw new ProxyError('request_body_incomplete');
        yield Buffer.from(chunk);
      }
    },
    close() {
      this.isClosed = true;
    },
  };
}
