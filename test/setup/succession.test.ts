/** What a reload keeps: transfers in progress, and what was learned under options that have not changed. */

import { scryptSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RawClient, type RawResponse, rawValues } from '../support/clients/raw-client.ts';
import { openScriptedOrigin } from '../support/origins/scripted-origin.ts';
import {
  openPlainOrigin,
  openReloadedServer,
  type PlainOrigin,
  type ReloadedServer,
  type WrittenConfig,
} from '../support/processes/reloaded-server.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import { exactCertificate, testCertificate, writeTestCertificate } from '../support/values/tls-certificate.ts';

let origin: PlainOrigin;
let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-succession-'));
  origin = await openPlainOrigin((request, response) => {
    response.setHeader('cache-control', 'no-store');
    response.end(`origin, ${request.url}`);
  });
});
afterEach(async () => {
  await origin[Symbol.asyncDispose]();
  await rm(dir, { recursive: true, force: true });
});

const get = (path = '/', field = '') => `GET ${path} HTTP/1.1\r\nHost: a\r\n${field}\r\n`;
const configured = (route: object = {}, more: object = {}): WrittenConfig => ({
  listen: '127.0.0.1:0',
  routes: [{ origin: origin.url, ...route }],
  ...more,
});

async function ask(reloaded: ReloadedServer, request = get()): Promise<RawResponse> {
  await using client = await reloaded.connect();
  return await client.exchange(request);
}

describe('a client at its rate limit', () => {
  const limits = { rate: { requests: 1, seconds: 3600, burst: 1 } };

  it.each<[what: string, status: number, written: () => WrittenConfig]>([
    ['nothing has changed', 429, () => configured({ limits })],
    ['other options have changed', 429, () => configured({ limits, ranges: { maxRanges: 2 } })],
    [
      'a route is added before its route',
      429,
      () => ({
        listen: '127.0.0.1:0',
        routes: [
          { match: { pathPrefix: '/a' }, origin: origin.url },
          { origin: origin.url, limits },
        ],
      }),
    ],
    ['the limit has changed', 200, () => configured({ limits: { rate: { ...limits.rate, burst: 2 } } })],
    ['the limit is removed', 200, () => configured()],
  ])('after a reload where %s, gets %i', async (_what, status, written) => {
    await using reloaded = await openReloadedServer(configured({ limits }));
    expect((await ask(reloaded)).status).toBe(200);
    expect((await ask(reloaded)).status).toBe(429);
    await reloaded.reload(configured({ limits }));
    await reloaded.reload(written());
    expect((await ask(reloaded)).status).toBe(status);
  });
});

describe('an unhealthy origin', () => {
  const health = { failures: 1, restSeconds: 3600 };
  const among = (more: object = {}) =>
    configured({ origin: { url: 'http://127.0.0.1:9', alternatives: [origin.url], health, ...more } });
  const countRests = ({ events }: ReloadedServer) =>
    events.filter((event) => event.kind === 'origin' && /is not asked for a while/.test(event.message)).length;

  it.each<[what: string, count: number, written: () => WrittenConfig]>([
    ['nothing has changed', 1, () => among()],
    ['its timeouts have changed', 1, () => among({ headersTimeoutSeconds: 7 })],
    ['its health rules have changed', 2, () => among({ health: { ...health, restSeconds: 1800 } })],
  ])('after a reload where %s, is logged %i times in all', async (_what, count, written) => {
    await using reloaded = await openReloadedServer(among());
    expect((await ask(reloaded)).status).toBe(200);
    expect(countRests(reloaded)).toBe(1);
    await reloaded.reload(among());
    await reloaded.reload(written());
    expect((await ask(reloaded)).status).toBe(200);
    expect(countRests(reloaded)).toBe(count);
  });
});

describe('connections to an origin', () => {
  it('stay where its options are the same, and are closed where one has changed', async () => {
    await using reloaded = await openReloadedServer(
      configured({ origin: { url: origin.url, keepAliveTimeoutSeconds: 600 } }),
    );
    await ask(reloaded);
    expect(origin.connections).toBe(1);
    await reloaded.reload(
      configured({ origin: { url: origin.url, keepAliveTimeoutSeconds: 600 }, ranges: { maxRanges: 2 } }),
    );
    await ask(reloaded);
    expect(origin.connections).toBe(1);
    await reloaded.reload(configured({ origin: { url: origin.url, keepAliveTimeoutSeconds: 601 } }));
    await origin.allClosed();
  });
});

describe('secrets', () => {
  const hashOf = (password: string) => {
    const salt = Buffer.from('some salt, 16 by');
    const hash = scryptSync(password, salt, 32, { N: 16_384, r: 8, p: 1 });
    return `$scrypt$ln=14,r=8,p=1$${salt.toString('base64').replace(/=+$/, '')}$${hash.toString('base64').replace(/=+$/, '')}`;
  };
  const asAnn = (password: string) => get('/', `Authorization: Basic ${btoa(`ann:${password}`)}\r\n`);

  it('are read again: the old password is refused, the new one accepted', async () => {
    const file = join(dir, 'passwords');
    const written = configured({ access: { basic: `file:${file}` } });
    await writeFile(file, `ann:${hashOf('old')}\n`);
    await using reloaded = await openReloadedServer(written);
    expect((await ask(reloaded, asAnn('old'))).status).toBe(200);
    await writeFile(file, `ann:${hashOf('new')}\n`);
    expect((await ask(reloaded, asAnn('new'))).status).toBe(401);
    await reloaded.reload(written);
    expect((await ask(reloaded, asAnn('old'))).status).toBe(401);
    expect((await ask(reloaded, asAnn('new'))).status).toBe(200);
  });
});

describe('certificates', () => {
  const secure = async (reloaded: ReloadedServer) => {
    const socket = connectTls({
      port: Number(new URL(reloaded.server.addresses[0] ?? '').port),
      rejectUnauthorized: false,
    });
    await new Promise((resolve) => socket.once('secureConnect', resolve));
    return { client: socket, fingerprint: socket.getPeerX509Certificate()?.fingerprint };
  };

  it('are read again: new connections get the new one, and existing ones go on', async () => {
    const files = await writeTestCertificate(dir, 'server', testCertificate);
    const others = await writeTestCertificate(dir, 'other', exactCertificate);
    const listenWith = (certificates: object[]) =>
      configured({}, { listen: [{ address: '127.0.0.1:0', tls: { certificates } }] });
    await using reloaded = await openReloadedServer(listenWith([files]));
    await using before = await RawClient.open(
      Number(new URL(reloaded.server.addresses[0] ?? '').port),
      async (socket) => {
        const secured = connectTls({ socket, rejectUnauthorized: false });
        await new Promise((resolve) => secured.once('secureConnect', resolve));
        return secured;
      },
    );
    const old = await secure(reloaded);
    await reloaded.reload(listenWith([others]));
    const now = await secure(reloaded);
    expect(now.fingerprint).not.toBe(old.fingerprint);
    await writeFile(others.certFile, 'nothing');
    await expect(reloaded.reload(listenWith([others]))).rejects.toMatchObject({ name: 'ListenFault' });
    const still = await secure(reloaded);
    expect(still.fingerprint).toBe(now.fingerprint);
    expect(rawValues(await before.exchange(get()), 'connection')).toEqual(['keep-alive']);
    for (const { client } of [old, now, still]) client.destroy();
  });
});

describe('a transfer of a removed route', () => {
  it('is resumed where it is cut', async () => {
    const sizeBytes = 600_000;
    const whole = Buffer.from(patternBytes(0, sizeBytes));
    const asked = Promise.withResolvers<void>();
    const broken = Promise.withResolvers<void>();
    await using file = await openScriptedOrigin(async ({ request, send, cut }) => {
      const from = Number(/\r\nrange: bytes=(\d+)-/i.exec(request.head)?.[1] ?? 0);
      const fields = `ETag: "v1"\r\nAccept-Ranges: bytes\r\nCache-Control: max-age=60\r\nContent-Length: ${sizeBytes - from}\r\n`;
      if (from === 0) {
        await send(`HTTP/1.1 200 OK\r\n${fields}\r\n`);
        await send(whole.subarray(0, 300_000));
        asked.resolve();
        await broken.promise;
        cut();
      } else {
        await send(
          `HTTP/1.1 206 Partial Content\r\n${fields}Content-Range: bytes ${from}-${sizeBytes - 1}/${sizeBytes}\r\n\r\n`,
        );
        await send(whole.subarray(from));
      }
    });
    await using reloaded = await openReloadedServer(configured({ origin: file.url }));
    await using client = await reloaded.connect();
    client.send(get('/film'));
    await client.head();
    await asked.promise;
    await reloaded.reload(configured());
    broken.resolve();
    expect(whole.equals(await client.take(sizeBytes))).toBe(true);
    await file.allClosed();
  });
});

describe('100 reloads', () => {
  it('leave nothing behind', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const written = (round: number) =>
      configured(
        {
          // The two change in alternate rounds, so that one of them is always inherited.
          limits: { rate: { requests: 1000 + (round >> 1), seconds: 1 } },
          origin: {
            url: origin.url,
            alternatives: ['http://127.0.0.1:9'],
            headersTimeoutSeconds: 10 + ((round + 1) >> 1),
            keepAliveTimeoutSeconds: 600,
            health: { check: { path: '/ok', intervalSeconds: 60 } },
          },
        },
        { limits: { fieldsBytes: 4096 + round } },
      );
    await using reloaded = await openReloadedServer(written(0));
    let gone = 0;
    const sites = new FinalizationRegistry(() => {
      gone += 1;
    });
    await ask(reloaded);
    const openBefore = process.getActiveResourcesInfo().length;
    for (let round = 1; round <= 100; round += 1) {
      sites.register(reloaded.server.site, undefined);
      await reloaded.reload(written(round));
      await ask(reloaded);
    }
    const isGone = (): number => {
      collect();
      return gone;
    };
    // The engine itself may still refer to the last ones, which is no leak.
    await expect.poll(isGone).toBeGreaterThanOrEqual(98);
    await expect.poll(() => process.getActiveResourcesInfo().length).toBeLessThanOrEqual(openBefore);
  });
});
