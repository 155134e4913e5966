/** Request bodies: read with backpressure, broken off, and left unread. */

import { describe, expect, it } from 'vitest';
import type { ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import { untilQuiet } from '../support/clocks/until-quiet.ts';
import { openListener, textResponse } from '../support/proxies/open-listener.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const next = 'GET /next HTTP/1.1\r\nHost: a\r\n\r\n';
const mebibyte = 1024 * 1024;

function post(fields: string, body = '', version = '1.1'): string {
  return `POST / HTTP/${version}\r\nHost: a\r\n${fields}\r\n${body}`;
}

async function readText({ body }: ProxyRequest): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of body ?? []) chunks.push(chunk);
  return Buffer.concat(chunks).toString('latin1');
}

async function echo(request: ProxyRequest): Promise<ProxyResponse> {
  return textResponse(await readText(request));
}

describe('a body', () => {
  const rows: readonly (readonly [string, string, string, number | undefined])[] = [
    ['of known length', post('Content-Length: 4\r\n', 'body'), 'body', 4],
    ['in one chunk', post('Transfer-Encoding: chunked\r\n', '4\r\nbody\r\n0\r\n\r\n'), 'body', undefined],
    ['in chunks', post('Transfer-Encoding: Chunked\r\n', '2\r\nbo\r\n02\r\ndy\r\n0\r\n\r\n'), 'body', undefined],
    [
      'with an extension and a trailer',
      post('Transfer-Encoding: chunked\r\n', '4;a=b\r\nbody\r\n0\r\nX: y\r\n\r\n'),
      'body',
      undefined,
    ],
    ['of no chunk', post('Transfer-Encoding: chunked\r\n', '0\r\n\r\n'), '', undefined],
    ['of HTTP/1.0', post('Content-Length: 4\r\nConnection: keep-alive\r\n', 'body', '1.0'), 'body', 4],
    ['of a GET', 'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody', 'body', 4],
  ];

  it.each(rows)('%s is read whole, and the next request after it', async (_name, request, body, sizeBytes) => {
    await using listener = await openListener(echo);
    await using client = await listener.connect();
    client.send(request + next);
    expect((await client.response())?.body.toString()).toBe(body);
    expect((await client.response())?.status).toBe(200);
    expect(listener.requests.map(({ target }) => target)).toEqual(['/', '/next']);
    expect(listener.requests[0]?.body).toBeDefined();
    expect(listener.requests[0]?.bodySizeBytes).toBe(sizeBytes);
  });

  it.each([
    ['no framing fields', post(''), undefined],
    ['Content-Length: 0', post('Content-Length: 0\r\n'), 0],
  ])('is absent with %s', async (_name, request, sizeBytes) => {
    await using listener = await openListener(echo);
    await using client = await listener.connect();
    expect((await client.exchange(request)).body.toString()).toBe('');
    expect(listener.requests[0]?.body).toBeUndefined();
    expect(listener.requests[0]?.bodySizeBytes).toBe(sizeBytes);
  });

  it('of many bytes arrives unchanged', async () => {
    const bytes = patternBytes(0, 3 * mebibyte);
    await using listener = await openListener(echo);
    await using client = await listener.connect();
    client.send(post(`Content-Length: ${bytes.length}\r\n`));
    client.send(bytes);
    expect((await client.response())?.body.equals(bytes)).toBe(true);
  });

  it('holds its client back while it is not read', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async (request) => {
      for await (const _chunk of request.body ?? []) await release.promise;
      return textResponse('done');
    });
    await using client = await listener.connect();
    client.send(post(`Content-Length: ${128 * mebibyte}\r\n`));
    const poured = client.pour(Buffer.alloc(mebibyte), 128);
    // The kernel takes what fits into its buffers; a listener that read on would empty them.
    await untilQuiet(() => client.pouredBytes);
    expect(client.pouredBytes).toBeLessThan(64 * mebibyte);
    release.resolve();
    await poured;
    expect((await client.response())?.body.toString()).toBe('done');
  });
});

describe('a body that breaks off', () => {
  const incomplete = expect.objectContaining({ code: 'request_body_incomplete' });
  const starts: readonly (readonly [string, string])[] = [
    ['known length', post('Content-Length: 10\r\n', 'part')],
    ['chunks', post('Transfer-Encoding: chunked\r\n', '4\r\npart\r\n')],
    ['the middle of a chunk', post('Transfer-Encoding: chunked\r\n', '8\r\npart')],
  ];

  it.each(starts)('makes its reader throw: %s', async (_name, start) => {
    const read = Promise.withResolvers<[string, unknown]>();
    await using listener = await openListener(async ({ body }) => {
      let text = '';
      try {
        for await (const chunk of body ?? []) text += Buffer.from(chunk).toString();
        read.resolve([text, undefined]);
      } catch (error) {
        read.resolve([text, error]);
      }
      return textResponse('too late');
    });
    await using client = await listener.connect();
    client.send(start);
    await expect.poll(() => listener.requests.length).toBe(1);
    client.end();
    expect(await read.promise).toEqual(['part', incomplete]);
    expect(listener.requests[0]?.signal.aborted).toBe(true);
  });

  it('makes a late reader throw too', async () => {
    const release = Promise.withResolvers<void>();
    const read = Promise.withResolvers<unknown>();
    await using listener = await openListener(async (request) => {
      await release.promise;
      await readText(request).then(read.resolve, read.resolve);
      return textResponse('');
    });
    await using client = await listener.connect();
    client.send(post('Content-Length: 10\r\n', 'part'));
    await expect.poll(() => listener.requests.length).toBe(1);
    const { signal } = listener.requests[0] ?? {};
    client.reset();
    await expect.poll(() => signal?.aborted).toBe(true);
    release.resolve();
    expect(await read.promise).toEqual(incomplete);
  });

  it('never looks complete to its reader when other code closes it', async () => {
    const read = Promise.withResolvers<unknown>();
    await using listener = await openListener((request) => {
      void readText(request).then(read.resolve, read.resolve);
      setImmediate(() => request.body?.close());
      return read.promise.then(() => textResponse('closed'));
    });
    await using client = await listener.connect();
    client.send(post('Transfer-Encoding: chunked\r\n', '4\r\npart\r\n'));
    expect(await read.promise).toEqual(incomplete);
    expect((await client.response())?.body.toString()).toBe('closed');
  });

  it('that takes too long throws request_timeout, and the connection ends after the response', async () => {
    await using listener = await openListener(
      (request) => readText(request).then(textResponse, (error) => textResponse(error.code, { status: error.status })),
      { limits: { requestTimeoutMs: 800 } },
    );
    await using client = await listener.connect();
    const response = await client.exchange(post('Content-Length: 10\r\n', 'part'));
    expect(response.status).toBe(408);
    expect(response.body.toString()).toBe('request_timeout');
    expect(rawValues(response, 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
  });
});

describe('a body that is not read', () => {
  const ways: readonly (readonly [string, (request: ProxyRequest) => Promise<void> | void])[] = [
    ['not touched', () => {}],
    ['closed at once', ({ body }) => body?.close()],
    [
      'closed after the first chunk',
      async ({ body }) => {
        for await (const _chunk of body ?? []) break;
      },
    ],
  ];

  it.each(ways)('%s: a small rest is dropped, and the connection is kept', async (_name, leave) => {
    await using listener = await openListener(async (request) => {
      await leave(request);
      return textResponse(request.target);
    });
    await using client = await listener.connect();
    const bytes = 'b'.repeat(32 * 1024);
    client.send(post(`Content-Length: ${2 * bytes.length}\r\n`, bytes));
    const response = await client.response();
    expect(response?.body.toString()).toBe('/');
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['keep-alive']);
    client.send(bytes + next);
    expect((await client.response())?.body.toString()).toBe('/next');
    expect(listener.requests).toHaveLength(2);
  });

  it.each(ways)('%s: a long rest ends the connection, and its bytes never become a request', async (_name, leave) => {
    await using listener = await openListener(async (request) => {
      await leave(request);
      return textResponse('enough');
    });
    await using client = await listener.connect();
    client.send(post(`Content-Length: ${64 * mebibyte}\r\n`, next));
    const response = await client.response();
    expect(response?.body.toString()).toBe('enough');
    expect(rawValues(response ?? { lines: [] }, 'connection')).toEqual(['close']);
    client.send(next);
    expect(await client.rest()).toBe('');
    expect(listener.requests).toHaveLength(1);
  });

  it('a rest of unknown length ends the connection', async () => {
    await using listener = await openListener(() => textResponse('enough'));
    await using client = await listener.connect();
    const response = await client.exchange(post('Transfer-Encoding: chunked\r\n', '4\r\npart\r\n'));
    expect(rawValues(response, 'connection')).toEqual(['close']);
    expect(await client.rest()).toBe('');
  });

  it.each(ways)('%s: its response can be read by a client that is still sending', async (_name, leave) => {
    await using listener = await openListener(async (request) => {
      await leave(request);
      return textResponse('e'.repeat(100_000));
    });
    await using client = await listener.connect();
    client.send(post(`Content-Length: ${32 * mebibyte}\r\n`));
    await client.pour(Buffer.alloc(mebibyte), 16);
    const response = await client.response();
    expect(response?.isWhole).toBe(true);
    expect(response?.body.length).toBe(100_000);
  });

  it('may be answered while it arrives: the response is complete, then the connection ends', async () => {
    const release = Promise.withResolvers<void>();
    await using listener = await openListener(async ({ body }) => {
      const chunks = body?.[Symbol.asyncIterator]();
      const first = await chunks?.next();
      async function* echoed(): AsyncGenerator<Uint8Array> {
        yield first?.value ?? Buffer.alloc(0);
        await release.promise;
      }
      const stream = Object.assign(echoed(), { close: () => {} });
      return { status: 200, fields: [], body: { kind: 'stream', sizeBytes: undefined, stream } };
    });
    await using client = await listener.connect();
    client.send(post(`Content-Length: ${mebibyte}\r\n`, 'first'));
    const head = await client.head();
    expect(head?.status).toBe(200);
    expect(rawValues(head ?? { lines: [] }, 'connection')).toEqual(['keep-alive']);
    expect((await client.take(10)).toString()).toBe('5\r\nfirst\r\n');
    release.resolve();
    expect(await client.rest()).toBe('0\r\n\r\n');
  });
});
