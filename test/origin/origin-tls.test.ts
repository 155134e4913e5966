/** Origins over TLS, by name and by address: which certificates are accepted, and for which name. */

import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createUndiciOrigin, type UndiciOriginOptions } from '../../src/origin/undici-origin.ts';
import { codeOf, originRequest, readBody } from '../support/origins/origin-request.ts';
import { openScriptedOrigin } from '../support/origins/scripted-origin.ts';
import { testAuthority, testCertificate } from '../support/values/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

const good = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood';
const trusting = { ca: testAuthority, rejectUnauthorized: true };

interface Overrides extends Partial<UndiciOriginOptions> {
  /** The value of the Host field. */
  readonly hostField?: string;
}

async function answerOf(url: string, { hostField = 'other.test', ...overrides }: Overrides): Promise<string> {
  const origin = createUndiciOrigin(originOptions({ url, tls: trusting, ...overrides }));
  try {
    const { bytes } = await readBody(await origin.fetch(originRequest({ fields: [['host', hostField]] })));
    return bytes.toString();
  } catch (thrown) {
    return codeOf(thrown);
  } finally {
    await origin.close();
  }
}

describe('TLS to an origin', () => {
  it.each([
    ['127.0.0.1', '127.0.0.1'],
    ['localhost', '127.0.0.1'],
    ['[::1]', '::1'],
  ])('https://%s is verified by the URL, whatever Host says', async (name, host) => {
    await using server = await openScriptedOrigin({ host, tls: testCertificate }, good);
    expect(await answerOf(`https://${name}:${server.port}`, {})).toBe('good');
  });

  it('refuses an unknown authority', async () => {
    await using server = await openScriptedOrigin({ tls: testCertificate }, good);
    expect(await answerOf(server.url, { tls: { rejectUnauthorized: true } })).toBe('origin_certificate_refused');
    expect(server.requests.length).toBe(0);
  });

  it('refuses a certificate for another name, even one that matches Host', async () => {
    await using server = await openScriptedOrigin({ host: '127.0.0.2', tls: testCertificate }, good);
    expect(await answerOf(server.url, { hostField: 'a.example.org' })).toBe('origin_certificate_refused');
    expect(server.requests.length).toBe(0);
  });

  it('verifies nothing where that is configured', async () => {
    await using server = await openScriptedOrigin({ host: '127.0.0.2', tls: testCertificate }, good);
    expect(await answerOf(server.url, { tls: { rejectUnauthorized: false } })).toBe('good');
  });

  it('uses one connection for requests with different Host fields', async () => {
    await using server = await openScriptedOrigin({ tls: testCertificate }, good);
    const origin = createUndiciOrigin(originOptions({ url: server.url, tls: trusting, connections: 1 }));
    for (const host of ['a.example.org', 'b.example.org', '127.0.0.1']) {
      await readBody(await origin.fetch(originRequest({ fields: [['host', host]] })));
    }
    expect(server.connections).toBe(1);
    await origin.close();
  });

  it.each<[name: string, answer: (socket: Socket) => void, overrides: Overrides, code: string]>([
    ['sends plain HTTP', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'), {}, 'origin_tls_failed'],
    ['hangs up', (socket) => socket.destroy(), {}, 'origin_tls_failed'],
    ['resets', (socket) => socket.resetAndDestroy(), {}, 'origin_tls_failed'],
    ['says nothing', () => undefined, { connectTimeoutMs: 300 }, 'origin_connect_timeout'],
  ])('fails where the other side %s', async (_name, answer, overrides, code) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined).once('data', () => answer(socket));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    expect(await answerOf(`https://127.0.0.1:${port}`, overrides)).toBe(code);
    server.close();
    await once(server, 'close');
  });
});
