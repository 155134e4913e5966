/** Origins over TLS, by name and by address: who is trusted, and under which name. */

import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { createUndiciOrigin } from '../../src/origin/undici-origin.ts';
import { codeOf, originRequest, readBody } from '../support/origin-request.ts';
import { openScriptedOrigin } from '../support/scripted-origin.ts';
import { testAuthority, testCertificate } from '../support/tls-certificate.ts';
import { originOptions } from './origin-options.ts';

const good = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood';
const trusting = { ca: testAuthority, rejectUnauthorized: true };

async function answerOf(url: string, tls: { ca?: string; rejectUnauthorized: boolean }, host = 'other.test') {
  const origin = createUndiciOrigin(originOptions({ url, tls, connectTimeoutMs: 300 }));
  try {
    const { bytes } = await readBody(await origin.fetch(originRequest({ fields: [['host', host]] })));
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
    expect(await answerOf(`https://${name}:${server.port}`, trusting)).toBe('good');
  });

  it('refuses an unknown authority', async () => {
    await using server = await openScriptedOrigin({ tls: testCertificate }, good);
    expect(await answerOf(server.url, { rejectUnauthorized: true })).toBe('origin_tls_failed');
    expect(server.requests.length).toBe(0);
  });

  it('refuses a certificate for another name, even where Host has a name that it is for', async () => {
    await using server = await openScriptedOrigin({ host: '127.0.0.2', tls: testCertificate }, good);
    expect(await answerOf(server.url, trusting, 'a.example.org')).toBe('origin_tls_failed');
    expect(server.requests.length).toBe(0);
  });

  it('may be told to verify nothing', async () => {
    await using server = await openScriptedOrigin({ host: '127.0.0.2', tls: testCertificate }, good);
    expect(await answerOf(server.url, { rejectUnauthorized: false })).toBe('good');
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

  it.each<[string, (socket: Socket) => void, string]>([
    ['talks plainly', (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'), 'origin_tls_failed'],
    ['hangs up', (socket) => socket.destroy(), 'origin_tls_failed'],
    ['resets', (socket) => socket.resetAndDestroy(), 'origin_tls_failed'],
    ['says nothing', () => undefined, 'origin_connect_timeout'],
  ])('fails where the other side %s', async (_name, answer, code) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined).once('data', () => answer(socket));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    expect(await answerOf(`https://127.0.0.1:${port}`, trusting)).toBe(code);
    server.close();
    await once(server, 'close');
  });
});
