import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createRawServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { gatherOrigins } from '../../../src/cli/doctor/gather-origins.ts';
import { judgeOrigins, type OriginFacts, type OriginOutcome } from '../../../src/cli/doctor/origins.ts';
import { monotonicClock } from '../../../src/setup/system.ts';
import { examinedConfig, linesOf } from '../../support/values/examined-config.ts';
import { expiredCertificate, testAuthority, testCertificate } from '../../support/values/tls-certificate.ts';

const url = 'https://files.example.org/';
const where = `[routes[0].origin (${url})]`;

const answer: Extract<OriginOutcome, { kind: 'answer' }> = {
  kind: 'answer',
  target: '/',
  status: 200,
  answerMs: 20.4,
  hasRanges: true,
  clockAheadMs: 300,
};

function judged(outcome: OriginOutcome, change: Partial<OriginFacts> = {}): string[] {
  const facts = {
    option: 'routes[0].origin',
    url,
    isSigned: false,
    host: 'keep',
    addresses: ['192.0.2.1'],
    deadAddresses: [],
    connectMs: 10.2,
    outcome,
  };
  return linesOf(judgeOrigins([{ ...facts, ...change }]));
}

describe('judgeOrigins', () => {
  it('no origin', () => {
    expect(linesOf(judgeOrigins(undefined))).toEqual([
      'note origin no origin was given, so none was asked → rangeway doctor ORIGIN, or rangeway doctor -c FILE',
    ]);
    expect(judgeOrigins([])).toEqual([]);
  });

  const failed = (kind: 'name' | 'connection' | 'tls', code: string): OriginOutcome => ({ kind, code, reason: 'why' });

  it.each<[outcome: OriginOutcome, want: string, change?: Partial<OriginFacts>]>([
    [answer, `ok origin ${where} connected in 10 ms, 200 for / in 20 ms, sends ranges`],
    [{ ...answer, hasRanges: false, answerMs: 1500 }, '200 for / in 1.5 s, sends whole files only'],
    [{ ...answer, hasRanges: undefined, status: 404 }, `ok origin ${where} connected in 10 ms, 404 for / in 20 ms`],
    [answer, 'ok origin [routes[0].origin (unix:/run/x)] 200', { url: 'unix:/run/x', connectMs: undefined }],
    [
      { ...answer, status: 503 },
      `warning origin ${where} connected in 10 ms, 503 for / in 20 ms: it fails → look into its log`,
    ],
    [
      { ...answer, status: 401 },
      `note origin ${where} connected in 10 ms, 401 for / in 20 ms: it asks for credentials → fields.toOrigin.setSecret`,
    ],
    [
      { ...answer, status: 403 },
      '403 for / in 20 ms: the key may not read this path, or the signature is refused → ask Rangeway for an object',
      { isSigned: true },
    ],
    [answer, 'sends ranges', { isSigned: true }],
    [
      answer,
      'of its addresses ::1, 192.0.2.1 these accept no connection: ::1 →',
      { addresses: ['::1', '192.0.2.1'], deadAddresses: ['::1'] },
    ],
    [
      failed('name', 'ENOTFOUND'),
      `problem origin ${where} its name cannot be looked up: why → correct the name in the URL`,
    ],
    [failed('name', 'EAI_AGAIN'), '→ check the network and /etc/resolv.conf'],
    [
      failed('connection', 'ECONNREFUSED'),
      `problem origin ${where} it accepts no connection: why → start it there, or correct the port`,
    ],
    [failed('connection', 'ETIMEDOUT'), '→ check the route to it and the firewalls'],
    [failed('connection', 'ECONNRESET'), '→ check that it runs'],
    [failed('connection', 'ENOENT'), '→ start the server that has this socket', { url: 'unix:/run/x' }],
    [
      failed('connection', 'EACCES'),
      '→ give the user of the server the right to write to the socket',
      { url: 'unix:/run/x' },
    ],
    [
      failed('tls', 'DEPTH_ZERO_SELF_SIGNED_CERT'),
      `problem origin ${where} TLS fails: why → name the file with its authority in origin.caFile`,
    ],
    [failed('tls', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'), 'origin.caFile'],
    [failed('tls', 'ERR_TLS_CERT_ALTNAME_INVALID'), '→ use a name of its certificate in the URL'],
    [failed('tls', 'CERT_HAS_EXPIRED'), '→ have its certificate renewed'],
    [failed('tls', 'EPROTO'), '→ check that TLS is spoken on this port'],
    [{ kind: 'no-answer', reason: 'why' }, `problem origin ${where} why → rangeway probe ${url} tells more`],
  ])('%j', (outcome, want, change) => {
    const [line, ...others] = judged(outcome, change);
    expect(others).toEqual([]);
    expect(line).toContain(want);
  });

  it.each<[clockAheadMs: number | undefined, want: string | undefined]>([
    [undefined, undefined],
    [2_000, undefined],
    [-2_000, undefined],
    [
      2_500,
      `note clock ${where} its clock is 2.5 s ahead of that of this machine: one of the two is wrong → timedatectl set-ntp true`,
    ],
    [
      -3_600_000,
      `warning clock ${where} its clock is 1 h behind that of this machine: what it sends looks older by that`,
    ],
  ])('a clock that is %s ms ahead', (clockAheadMs, want) => {
    const [, line] = judged({ ...answer, clockAheadMs });
    if (want === undefined) expect(line).toBeUndefined();
    else expect(line).toContain(want);
  });
});

describe('gatherOrigins', () => {
  const dir = mkdtempSync(join(tmpdir(), 'rangeway-doctor-origins-'));
  afterAll(() => rmSync(dir, { recursive: true }));
  const caFile = join(dir, 'ca.pem');
  writeFileSync(caFile, testAuthority);
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  async function open(server: Server, place: string | number = 0): Promise<number> {
    servers.push(server);
    server.listen(typeof place === 'string' ? { path: place } : { port: place, host: '127.0.0.1' });
    await once(server, 'listening');
    const address = server.address();
    return typeof address === 'string' ? 0 : ((address as AddressInfo | null)?.port ?? 0);
  }

  let wall = Date.parse('2026-12-01T12:00:00.500Z');
  const clocks = { now: () => wall, elapsed: monotonicClock.now };

  async function gathered(origin: unknown, route: object = {}) {
    const [facts, ...others] = await gatherOrigins(
      examinedConfig({ listen: '0', routes: [{ ...route, origin }] }),
      clocks,
    );
    expect(others).toEqual([]);
    return facts;
  }

  const seen: string[] = [];
  const good: RequestListener = ({ method, url: target, headers }, response) => {
    seen.push([method, target, headers.host, headers.range ?? '', headers.authorization ?? ''].join(' ').trim());
    response.setHeader('date', new Date(wall).toUTCString());
    if (headers.range === undefined) return void response.end('body');
    response.writeHead(206, { 'content-range': 'bytes 0-0/4' }).end('b');
  };

  it('asks with HEAD, and for one byte', async () => {
    seen.splice(0);
    const port = await open(createServer(good));
    const origin = `http://127.0.0.1:${port}`;
    expect(await gathered(`${origin}/files`)).toEqual({
      option: 'routes[0].origin',
      url: `${origin}/files`,
      isSigned: false,
      host: 'keep',
      addresses: ['127.0.0.1'],
      deadAddresses: [],
      connectMs: expect.any(Number),
      outcome: { kind: 'answer', target: '/files/', status: 200, answerMs: 0, hasRanges: true, clockAheadMs: 0 },
    });
    expect(seen).toEqual([`HEAD /files/ 127.0.0.1:${port}`, `GET /files/ 127.0.0.1:${port} bytes=0-0`]);
  });

  it('asks as the route does: Host, path of the health check, fields', async () => {
    seen.splice(0);
    const port = await open(createServer(good));
    const other = `http://127.0.0.1:${await open(createServer(good))}`;
    const origin = {
      url: `http://127.0.0.1:${port}`,
      alternatives: [other],
      host: 'keep',
      health: { check: { path: '/well' } },
    };
    const match = { hosts: ['*.example.org', 'media.example.org'] };
    const fields = { toOrigin: { set: { Authorization: 'Basic eA==' } } };
    const facts = await gatherOrigins(
      examinedConfig({ listen: '0', routes: [{ match, origin, fields }, { origin: other }] }),
      clocks,
    );
    // An origin of two routes is asked once.
    expect(facts.map(({ option }) => option)).toEqual(['routes[0].origin', 'routes[0].origin.alternatives[0]']);
    expect(seen.toSorted()).toEqual([
      ...['GET /well media.example.org bytes=0-0 Basic eA==', 'GET /well media.example.org bytes=0-0 Basic eA=='],
      ...['HEAD /well media.example.org  Basic eA==', 'HEAD /well media.example.org  Basic eA=='],
    ]);
  });

  it('asks with GET where HEAD is not allowed, and reads the clock of the origin', async () => {
    const port = await open(
      createServer(({ method }, response) => {
        response.setHeader('date', new Date(wall + 90_000).toUTCString());
        response.writeHead(method === 'HEAD' ? 405 : 200).end('body');
      }),
    );
    expect(await gathered(`http://127.0.0.1:${port}`)).toMatchObject({
      outcome: { kind: 'answer', status: 200, hasRanges: false, clockAheadMs: 90_000 },
    });
  });

  it('an origin at a Unix socket', async () => {
    const path = join(dir, 'origin.sock');
    expect(await gathered(`unix:${path}`)).toMatchObject({
      addresses: [],
      outcome: { kind: 'connection', code: 'ENOENT' },
    });
    await open(createServer(good), path);
    expect(await gathered(`unix:${path}`)).toMatchObject({ outcome: { kind: 'answer', target: '/', status: 200 } });
  });

  it('TLS: a trusted certificate, an unknown authority, another name, an expired one, no TLS at all', async () => {
    const port = await open(createTlsServer(testCertificate, good));
    const origin = `https://127.0.0.1:${port}`;
    expect(await gathered({ url: origin, caFile })).toMatchObject({ outcome: { kind: 'answer', status: 200 } });
    expect(await gathered({ url: `https://localhost:${port}`, caFile })).toMatchObject({ outcome: { kind: 'answer' } });
    expect(await gathered({ url: origin, insecureTls: true })).toMatchObject({ outcome: { kind: 'answer' } });
    expect(await gathered(origin)).toMatchObject({ outcome: { kind: 'tls', code: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE' } });
    expect(await gathered({ url: origin, caFile: join(dir, 'absent.pem') })).toMatchObject({
      outcome: { kind: 'tls', code: 'ENOENT' },
    });

    writeFileSync(join(dir, 'expired.pem'), expiredCertificate.cert);
    const expired = await open(createTlsServer(expiredCertificate, good));
    expect(await gathered({ url: `https://localhost:${expired}`, caFile: join(dir, 'expired.pem') })).toMatchObject({
      outcome: { kind: 'tls', code: 'CERT_HAS_EXPIRED' },
    });

    const plain = await open(createServer(good));
    const facts = await gathered(`https://127.0.0.1:${plain}`);
    expect(facts?.outcome.kind).toBe('tls');
    expect(linesOf(judgeOrigins(facts && [facts]))[0]).toContain('check that TLS is spoken on this port');
  });

  it('nothing listens; a name is unknown; the connection ends without a response', async () => {
    const server = createRawServer((socket) => socket.once('data', () => socket.destroy()));
    const port = await open(server);
    expect(await gathered(`http://127.0.0.1:${port}`)).toMatchObject({ outcome: { kind: 'no-answer' } });
    server.close();
    await once(server, 'close');
    servers.splice(0);
    expect(await gathered(`http://127.0.0.1:${port}`)).toMatchObject({
      deadAddresses: ['127.0.0.1'],
      connectMs: undefined,
      outcome: { kind: 'connection', code: 'ECONNREFUSED' },
    });
    expect(await gathered('http://rangeway.invalid')).toMatchObject({
      addresses: [],
      outcome: { kind: 'name', code: expect.stringMatching(/^(?:ENOTFOUND|EAI_AGAIN)$/) },
    });
  });

  it('the clock may jump meanwhile', async () => {
    const port = await open(
      createServer((_request, response) => {
        wall += 1000;
        response.setHeader('date', new Date(wall).toUTCString());
        response.writeHead(404).end();
      }),
    );
    expect(await gathered(`http://127.0.0.1:${port}`)).toMatchObject({
      outcome: { kind: 'answer', status: 404, answerMs: 1000, hasRanges: undefined },
    });
  });
});
