/**
 * An origin that authenticates connections (NTLM, Negotiate): a client that has logged in, and strangers who ask for the same through
 * the executable. Nothing that comes over her connection to the origin reaches anybody else, and nobody acts as she.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Field } from '../../src/http/fields.ts';
import { H2RawClient } from '../support/clients/h2-raw-client.ts';
import { RawClient } from '../support/clients/raw-client.ts';
import { until } from '../support/clocks/until.ts';
import { type LoginOrigin, openLoginOrigin } from '../support/origins/login-origin.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { writeTestCertificate } from '../support/values/tls-certificate.ts';

/** HTTP_1_1_REQUIRED (RFC 9113 §7). */
const http1Required = 13;

const requestFor = (method: string, target: string, lines: readonly string[] = []) =>
  [`${method} ${target} HTTP/1.1`, 'Host: intranet.example', ...lines, '', ''].join('\r\n');

/** Sends a request, and returns the status and the content. */
async function ask(client: RawClient, target: string, lines: readonly string[] = [], method = 'GET'): Promise<string> {
  const { status, body } = await client.exchange(requestFor(method, target, lines));
  return `${status} ${body}`;
}

/** Logs in over a connection, as a browser does: without credentials, and then in two messages. */
async function logIn(client: RawClient, scheme: string, user: string): Promise<void> {
  expect(await ask(client, '/private')).toBe('401 ');
  expect(await ask(client, '/private', [`Authorization: ${scheme} type1`])).toBe('401 ');
  expect(await ask(client, '/private', [`Authorization: ${scheme} type3-${user}`])).toBe(`200 GET /private as ${user}`);
}

describe.each([
  { scheme: 'NTLM', workers: 1 },
  { scheme: 'Negotiate', workers: 2 },
] as const)(
  'an origin that authenticates connections by $scheme, through $workers process(es)',
  ({ scheme, workers }) => {
    let origin: LoginOrigin;
    let rangeway: RangewayProcess & { readonly url: string };
    let port: number;
    let tlsPort: number;
    let dir: string;

    beforeAll(async () => {
      origin = await openLoginOrigin(scheme);
      dir = await mkdtemp(join(tmpdir(), 'rangeway-connection-auth-'));
      rangeway = await startConfigured(dir, {
        store: { dir: join(dir, 'store') },
        listen: [
          '127.0.0.1:0',
          { address: '127.0.0.1:0', tls: { certificates: [await writeTestCertificate(dir)] }, http2: true },
        ],
        workers,
        admin: 'off',
        routes: [{ origin: origin.url }],
      });
      port = Number(new URL(rangeway.url).port);
      tlsPort = Number(/ready on .*https:\/\/127\.0\.0\.1:(\d+)/.exec(rangeway.output())?.[1]);
    });
    afterAll(async () => {
      await rangeway[Symbol.asyncDispose]();
      await origin[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    });

    it('lets a client log in, and serves her requests alone as hers', async () => {
      await using client = await RawClient.open(port);
      await logIn(client, scheme, 'alice');
      expect(await ask(client, '/private/mail')).toBe('200 GET /private/mail as alice');
      expect(await ask(client, '/private/mail', [], 'HEAD')).toBe('200 ');
      client.send(['/1', '/2', '/3'].map((target) => requestFor('GET', target)).join(''));
      for (const target of ['/1', '/2', '/3']) {
        expect(String((await client.response())?.body)).toBe(`GET ${target} as alice`);
      }
    });

    it('gives strangers none of it, while she is there and after', async () => {
      const alice = await RawClient.open(port);
      await logIn(alice, scheme, 'alice');
      const targets = ['/private', '/private/a', '/public/a'];
      for (const target of targets) expect(await ask(alice, target)).toBe(`200 GET ${target} as alice`);
      const attack = async () => {
        for (let round = 0; round < 8; round += 1) {
          await using stranger = await RawClient.open(port);
          expect(await ask(stranger, '/private')).toBe('401 ');
          expect(await ask(stranger, '/private/a')).toBe('401 ');
          expect(await ask(stranger, '/private/pay', ['Content-Length: 0'], 'POST')).toBe('401 ');
          expect(await ask(stranger, '/public/a')).toBe('200 GET /public/a as ');
          await using other = await RawClient.open(port);
          expect(await ask(other, '/public/a')).toBe('200 GET /public/a as ');
        }
      };
      await attack();
      // What strangers have had stored is not hers, either.
      expect(await ask(alice, '/public/a')).toBe('200 GET /public/a as alice');
      await using bob = await RawClient.open(port);
      await logIn(bob, scheme, 'bob');
      for (let round = 0; round < 3; round += 1) {
        expect(await ask(bob, '/private')).toBe('200 GET /private as bob');
        expect(await ask(alice, '/private')).toBe('200 GET /private as alice');
      }
      await alice[Symbol.asyncDispose]();
      await until('her connection to the origin is closed', async () => origin.openLogins === 1);
      await attack();
      const done = origin.requests.filter(({ method, user }) => method === 'POST' && user !== '');
      expect(done).toEqual([]);
    });

    it('closes her connections to the origin with hers', async () => {
      const before = origin.requests.length;
      for (let round = 0; round < 4; round += 1) {
        await using client = await RawClient.open(port);
        await logIn(client, scheme, 'carol');
      }
      await until('her connections to the origin are closed', async () => origin.openLogins === 0);
      const hers = origin.requests.slice(before).filter(({ user }) => user === 'carol');
      expect(new Set(hers.map(({ connection }) => connection)).size).toBe(4);
    });

    it('closes a connection that only the response shows to be authenticated', async () => {
      await using dave = await RawClient.open(port);
      const before = origin.requests.length;
      expect(await ask(dave, '/mark', ['Cookie: dave'])).toBe('200 GET /mark as dave');
      for (let round = 0; round < 8; round += 1) {
        await using stranger = await RawClient.open(port);
        expect(await ask(stranger, '/private/x')).toBe('401 ');
        expect(await ask(stranger, '/mark')).toBe('200 GET /mark as ');
      }
      expect(origin.requests.slice(before).filter(({ user }) => user !== '').length).toBe(1);
    });

    it('opens a tunnel for a client that logs in with the handshake, and none for strangers after it', async () => {
      const handshake = (lines: readonly string[] = []) =>
        requestFor('GET', '/tunnel', [
          'Connection: Upgrade',
          'Upgrade: websocket',
          'Sec-WebSocket-Version: 13',
          'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
          ...lines,
        ]);
      await using client = await RawClient.open(port);
      expect((await client.exchange(handshake())).status).toBe(401);
      expect((await client.exchange(handshake([`Authorization: ${scheme} type1`]))).status).toBe(401);
      client.send(handshake([`Authorization: ${scheme} type3-frank`]));
      expect((await client.head())?.status).toBe(101);
      expect(String(await client.take(15))).toBe('tunnel of frank');
      for (let round = 0; round < 4; round += 1) {
        await using stranger = await RawClient.open(port);
        expect((await stranger.exchange(handshake())).status).toBe(401);
        expect(await ask(stranger, '/private')).toBe('401 ');
      }
      expect(origin.requests.filter(({ user }) => user === 'frank').length).toBe(1);
    });

    it('asks for HTTP/1.1 over HTTP/2, whose requests share one connection, and sends no credentials', async () => {
      await using client = await H2RawClient.open(tlsPort, { tls: true });
      const send = async (stream: number, path: string, more: readonly Field[] = []) => {
        client.request(stream, [
          [':method', 'GET'],
          [':scheme', 'https'],
          [':authority', 'intranet.example'],
          [':path', path],
          ...more,
        ]);
        await client.until(() => {
          const { isEnded, resetCode } = client.outcome(stream);
          return isEnded || resetCode !== undefined;
        });
        const { status, resetCode, body } = client.outcome(stream);
        return resetCode ?? `${status} ${body}`;
      };
      await using alice = await RawClient.open(port);
      await logIn(alice, scheme, 'alice');
      expect(await send(1, '/public/h2')).toBe('200 GET /public/h2 as ');
      expect(await send(3, '/private/h2')).toBe(http1Required);
      const before = origin.requests.length;
      for (const [at, text] of ['type1', 'type3-eve'].entries()) {
        expect(await send(5 + 2 * at, '/public/h2', [['authorization', `${scheme} ${text}`]])).toBe(http1Required);
      }
      expect(origin.requests.length).toBe(before);
      // The connection goes on.
      expect(await send(9, '/public/h2/next')).toBe('200 GET /public/h2/next as ');
    });
  },
);
