/** Access control through the executable: each option of `access`, and the secrets that it reads. */

import { once } from 'node:events';
import { type IncomingMessage, request as openRequest } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { signTarget } from '../../src/guard/access/signed-url.ts';
import { RawClient, rawValues } from '../support/clients/raw-client.ts';
import { type AccessGround, secrets, startAccessGround } from '../support/proxies/access-ground.ts';

const base64 = (value: string) => Buffer.from(value).toString('base64');
const basic = { authorization: `Basic ${base64(`ada:${secrets.password}`)}` };
const bearer = { authorization: `Bearer ${secrets.token}` };
const apiKey = { 'x-api-key': secrets.key };

let ground: AccessGround;

beforeAll(async () => {
  ground = await startAccessGround();
});
afterAll(() => ground[Symbol.asyncDispose]());

async function statusOf(...request: Parameters<AccessGround['ask']>): Promise<number | undefined> {
  return (await ground.ask(...request)).status;
}

describe('addresses', () => {
  it.each<[path: string, forwardedFor: string | undefined, want: number]>([
    ['/allow/a', undefined, 200],
    ['/allow/a', '2001:db8::7', 200],
    ['/allow/a', '192.0.2.1', 403],
    ['/allow/a', '"unknown"', 403],
    ['/allow-others/a', undefined, 403],
    ['/allow-others/a', '192.0.2.1', 200],
    ['/allow-others/a', '127.0.0.1, 192.0.2.1', 200],
    ['/allow-others/a', '192.0.2.1, 198.51.100.1', 403],
    ['/deny/a', undefined, 200],
    ['/deny/a', '192.0.2.1', 200],
    ['/deny/a', '192.0.2.66', 403],
    ['/both/a', '192.0.2.1', 200],
    ['/both/a', '192.0.2.66', 403],
    ['/both/a', '198.51.100.1', 403],
  ])('%s of %s: %i', async (path, forwardedFor, want) => {
    const headers = forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor };
    const { status, fields, body } = await ground.ask(path, headers);
    expect(status).toBe(want);
    if (want === 403) expect(JSON.parse(body)).toMatchObject({ detail: 'This client address is not allowed here.' });
    else expect(fields['cache-control']).toBe('public, max-age=600');
  });

  it('that are absent, on a Unix socket, pass a deny list and fail an allow list', async () => {
    const socketPath = ground.socketPath;
    const statuses = await Promise.all(
      ['/open/a', '/deny/a', '/allow/a', '/both/a'].map((path) =>
        statusOf(path, { host: 'a.example' }, { socketPath }),
      ),
    );
    expect(statuses).toEqual([200, 200, 403, 403]);
  });
});

describe('credentials', () => {
  it.each<[path: string, headers: Record<string, string>, want: number, challenge: string | undefined]>([
    ['/basic/a', {}, 401, 'Basic realm="Films (1)", charset="UTF-8"'],
    ['/basic/a', { authorization: `Basic ${base64('ada:wrong')}` }, 401, 'Basic realm="Films (1)", charset="UTF-8"'],
    ['/basic/a', { authorization: `Basic ${base64('eve:wrong')}` }, 401, 'Basic realm="Films (1)", charset="UTF-8"'],
    ['/basic/a', basic, 200, undefined],
    ['/bearer/a', {}, 401, 'Bearer realm="Rangeway"'],
    ['/bearer/a', { authorization: 'Bearer wrong' }, 401, 'Bearer realm="Rangeway", error="invalid_token"'],
    ['/bearer/a', basic, 401, 'Bearer realm="Rangeway"'],
    ['/bearer/a', bearer, 200, undefined],
    ['/bearer/a', { authorization: `Bearer another-${secrets.token}` }, 200, undefined],
    ['/key/a', {}, 403, undefined],
    ['/key/a', { 'x-api-key': 'wrong' }, 403, undefined],
    ['/key/a', apiKey, 200, undefined],
    ['/signed/a', {}, 403, undefined],
    ['/signed/a?rw-key=2026-1', apiKey, 403, undefined],
    ['/all/a', {}, 401, 'Basic realm="Rangeway", charset="UTF-8", Bearer realm="Rangeway"'],
    ['/all/a', basic, 200, undefined],
    ['/all/a', bearer, 200, undefined],
    ['/all/a', apiKey, 200, undefined],
  ])('%s %j: %i', async (path, headers, want, challenge) => {
    const { status, fields } = await ground.ask(path, headers);
    expect(status).toBe(want);
    expect(fields['www-authenticate']).toBe(challenge);
    expect(fields['cache-control']).toBe(want === 200 ? 'private, max-age=600' : 'private, no-store');
  });

  it.each(['//key/a', '/key%2Fa', '/key%5ca', '/key\\a', '/key;x/a', '/;/key/a', '/.%2Fkey/a', '/x/..//key/a'])(
    'are required for every spelling of a path that an origin may resolve: %s',
    async (path) => {
      const before = ground.seen.length;
      expect([400, 403]).toContain(await statusOf(path));
      expect(ground.seen).toHaveLength(before);
      expect(await statusOf(path.replaceAll('key', 'other'))).toBe(200);
    },
  );

  it('are not forwarded to the origin, and all authorized clients share the stored responses', async () => {
    const bodies = [(await ground.ask('/all/shared', basic)).body];
    await ground.stored('/all/shared');
    for (const headers of [bearer, apiKey]) bodies.push((await ground.ask('/all/shared', headers)).body);
    bodies.push(
      (await ground.ask(await ground.sign('/all/shared'))).body,
      (await ground.ask(await ground.sign('/all/shared', '--expires-in', '7d'))).body,
    );
    expect(new Set(bodies).size).toBe(1);
    const asked = ground.seen.filter(({ target }) => target.startsWith('/all/shared'));
    expect(asked).toHaveLength(1);
    expect(JSON.stringify(asked)).not.toMatch(/authorization|x-api-key|rw-/);
  });

  it('are forwarded to the origin where that is configured, and their responses are then not shared', async () => {
    const path = '/forward/a';
    const bodies = [(await ground.ask(path, bearer)).body];
    await ground.stored(path);
    for (const headers of [bearer, apiKey, apiKey]) bodies.push((await ground.ask(path, headers)).body);
    // `public` allows sharing despite Authorization (RFC 9111 §3.5). No directive allows it for an API key.
    expect(bodies[0]).toBe(bodies[1]);
    expect(new Set(bodies).size).toBe(3);
    const one = await ground.sign(path);
    const other = await ground.sign(path, '--expires-in', '7d');
    bodies.push((await ground.ask(one)).body);
    await ground.stored(one.replace(/&.*/, ''));
    for (const target of [one, other]) bodies.push((await ground.ask(target)).body);
    expect(new Set(bodies).size).toBe(5);
    const asked = ground.seen.filter(({ target }) => target.startsWith(path));
    expect(asked.map(({ target }) => target)).toEqual([path, path, path, one, other]);
    expect(asked.map(({ fields }) => fields.authorization ?? fields['x-api-key'])).toEqual([
      bearer.authorization,
      secrets.key,
      secrets.key,
      undefined,
      undefined,
    ]);
  });

  it('in a signed URL allow GET and HEAD of that host and path until they expire', async () => {
    const target = await ground.sign('/signed/film%20a.mp4?v=1', '--key-id', '2026-1');
    expect((await ground.ask(target)).status).toBe(200);
    await ground.stored('/signed/film%20a.mp4?v=1');
    expect(await statusOf(target, { range: 'bytes=0-1' })).toBe(206);
    expect(ground.seen.filter((each) => each.target.startsWith('/signed')).map((each) => each.target)).toEqual([
      '/signed/film%20a.mp4?v=1',
    ]);
    expect(await statusOf(target, { host: 'other.example' })).toBe(403);
    expect(await statusOf(target.replace('film', 'filn'))).toBe(403);
    expect(await statusOf(target.replace('v=1', 'v=2'))).toBe(403);
    const expired = {
      authority: `127.0.0.1:${ground.port}`,
      target: '/signed/x',
      keyId: '2026-1',
      expires: 1_700_000_000,
    };
    expect(await statusOf(signTarget(expired, secrets.signing))).toBe(403);
    expect(await statusOf(signTarget({ ...expired, expires: 9_000_000_000 }, secrets.signing))).toBe(200);
    const posted = openRequest({
      host: '127.0.0.1',
      port: ground.port,
      path: target,
      method: 'POST',
      agent: false,
    }).end();
    const [response] = (await once(posted, 'response')) as [IncomingMessage];
    expect([response.statusCode, await text(response)]).toEqual([403, expect.stringContaining('signature')]);
  });

  it('are required by host too, in any letter case and with a port', async () => {
    expect(await statusOf('/elsewhere', { host: 'other.example' })).toBe(200);
    for (const host of [
      'guarded.example',
      'GUARDED.example',
      'guarded.example.',
      'guarded.example:80',
      'Guarded.Example:',
    ]) {
      expect(await statusOf('/elsewhere', { host }), host).toBe(401);
    }
    expect(await statusOf('/elsewhere', { host: 'guarded.example', ...basic })).toBe(200);
    expect(await statusOf('/elsewhere', { host: 'guarded.example' })).toBe(401);
  });

  it.each<[what: string, head: string, want: number]>([
    ['two Authorization', `Authorization: ${basic.authorization}\r\nAuthorization: ${basic.authorization}\r\n`, 400],
    ['a folded Authorization', `Authorization:\r\n ${basic.authorization}\r\n`, 400],
    ['a control character', `Authorization: ${basic.authorization}\x01\r\n`, 400],
    ['a space before the colon', `Authorization : ${basic.authorization}\r\n`, 400],
    ['a field above the limit', `Authorization: Basic ${'A'.repeat(40_000)}\r\n`, 431],
    ['a long Authorization', `Authorization: Basic ${'A'.repeat(20_000)}\r\n`, 401],
    ['a name in capitals', `AUTHORIZATION: ${basic.authorization}\r\n`, 200],
    ['a user in Host', `Host: ada:${secrets.password}@a\r\n`, 400],
  ])('sent as %s: %i', async (_what, head, want) => {
    await using client = await RawClient.open(ground.port);
    const host = head.startsWith('Host') ? '' : 'Host: a\r\n';
    const response = await client.exchange(`GET /basic/a HTTP/1.1\r\n${host}${head}\r\n`);
    expect(response.status).toBe(want);
    expect(rawValues(response, 'etag')).toHaveLength(want === 200 ? 1 : 0);
  });

  it('in the user information of a target are refused (RFC 9110 §4.2.4)', async () => {
    await using client = await RawClient.open(ground.port);
    const target = `http://ada:${secrets.password}@a/basic/a`;
    expect((await client.exchange(`GET ${target} HTTP/1.1\r\nHost: a\r\n\r\n`)).status).toBe(400);
  });

  it('are required in HTTP/1.0, and before a tunnel', async () => {
    await using old = await RawClient.open(ground.port);
    old.send('GET /basic/a HTTP/1.0\r\n\r\n');
    expect((await old.response())?.status).toBe(401);
    await using upgrading = await RawClient.open(ground.port);
    const handshake =
      'GET /basic/a HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n';
    const refusal = await upgrading.exchange(handshake);
    expect([refusal.status, rawValues(refusal, 'www-authenticate')]).toEqual([
      401,
      ['Basic realm="Films (1)", charset="UTF-8"'],
    ]);
  });
});

describe('the log', () => {
  it('has the names of authorized users, and none of their credentials', async () => {
    await ground.ask('/basic/logged', basic);
    const target = await ground.sign('/signed/logged');
    await ground.ask(target);
    await ground.ask('/all/logged?api_key=hidden-1&X-API-Key=hidden-2&apiKey=hidden-3&access_token=hidden-4', apiKey);
    const log = await ground.log(/\/all\/logged/);
    expect(log).toMatch(/"target":"\/basic\/logged"[^\n]*"user":"ada"/);
    expect(log).toMatch(
      /"target":"\/signed\/logged\?rw-expires=\d+&rw-key=\[redacted\]&rw-signature=\[redacted\]"[^\n]*"user":"2026-1"/,
    );
    expect(log).toMatch(/"error":"credentials_refused"/);
    expect(log).toMatch(/"errorDetail":"signature: wrong"/);
    expect(log).not.toContain(target.slice(-43));
    // The log holds the requests of all earlier tests, too.
    expect(log).not.toMatch(/hidden|YWRh/);
  });
});
