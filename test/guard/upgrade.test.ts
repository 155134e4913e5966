/** Requests for a tunnel on a route with a gate: which are admitted, how others are refused, and that each ends once. */

import { describe, expect, it } from 'vitest';
import { type CredentialRules, createAccess } from '../../src/guard/access/access.ts';
import { createBasicCheck } from '../../src/guard/access/passwords.ts';
import { type AdmissionContext, admitUpgrade } from '../../src/guard/admit.ts';
import { plainPresentation } from '../../src/guard/fields/presentation.ts';
import { createGate } from '../../src/guard/gate.ts';
import type { Allowances } from '../../src/guard/limits/allowances.ts';
import type { Delivery } from '../../src/http/message.ts';
import { createRouter } from '../../src/routing/router.ts';
import { routeWith } from '../routing/route-sample.ts';
import { rawValues } from '../support/clients/raw-client.ts';
import { echoOrigin, openTunnelListener, plainOrigin, rawOrigin, upgradeRequest } from '../support/clients/tunnels.ts';
import { base64, createRules, hashOf, key, signed } from '../support/proxies/credential-ground.ts';
import { boundlessAllowances } from '../support/proxies/open-gate.ts';

const host = 'Host: media.example\r\n';
const right = `Authorization: Basic ${base64('ada:love')}\r\n`;
const wrong = `Authorization: Basic ${base64('ada:hate')}\r\n`;

/** Opens a listener with a guarded route, an open one and a closed one. Records the end of each allowance. */
async function openGuarded(
  originUrl: string,
  credentials: CredentialRules = createRules(['basic', 'signedUrls']).rules,
) {
  const ends: Delivery[] = [];
  let entered = 0;
  const allowances: Allowances = {
    hits: undefined,
    lend: (routed, client) => boundlessAllowances.lend(routed, client),
    enter(request, client, routed) {
      entered += 1;
      const leave = (delivery: Delivery) => void ends.push(delivery);
      return Object.assign(boundlessAllowances.enter(request, client, routed), { leave });
    },
  };
  const route = routeWith({ originUrl: new URL(originUrl), match: { pathPrefix: '/guarded' }, stripPathPrefix: true });
  const open = routeWith({ originUrl: new URL(originUrl) });
  const closed = routeWith({ originUrl: new URL(originUrl), match: { pathPrefix: '/closed' } });
  const gates = new Map([
    [route, createAccess({ allow: undefined, deny: undefined, credentials })],
    [open, createAccess({ allow: undefined, deny: undefined, credentials: undefined })],
    [closed, createAccess({ allow: () => false, deny: undefined, credentials: undefined })],
  ]);
  const context: AdmissionContext = {
    router: createRouter([route, open, closed]),
    gateOf: (routeOf) =>
      createGate({
        access: gates.get(routeOf) ?? createAccess({ allow: () => false, deny: undefined, credentials: undefined }),
        allowances,
        presentation: plainPresentation,
      }),
    pseudonym: 'rangeway-test',
    trust: { isTrusted: () => false, fields: 'x-forwarded' },
  };
  const listener = await openTunnelListener(() => ({ url: '', target: '', fields: [] }), {
    admit: (head) => admitUpgrade(head, context),
  });
  return Object.assign(listener, { ends, entered: () => entered });
}

/** Returns a handshake for a target, with these field lines. */
const handshakeFor = (target: string, lines = '') => upgradeRequest(`GET ${target} HTTP/1.1\r\n${host}${lines}`);

describe('a request for a tunnel', () => {
  it('passes with a password that takes time to check, and the origin does not get the password', async () => {
    const origin = await echoOrigin();
    await using listener = await openGuarded(origin.url);
    await using client = await listener.connect();
    client.send(`${handshakeFor('/guarded/chat?a=1', right)}early`);
    expect((await client.head())?.status).toBe(101);
    client.send(' late');
    expect((await client.take(10)).toString()).toBe('early late');
    const [seen] = origin.requests;
    expect([seen?.url, seen?.headers.authorization]).toEqual(['/chat?a=1', undefined]);
    expect(listener.ends).toEqual([]);
    client.end();
    await expect.poll(() => listener.ends).toEqual([expect.objectContaining({ complete: true })]);
  });

  it('passes with a signed URL, and the origin gets it without signature', async () => {
    const origin = await echoOrigin();
    await using listener = await openGuarded(origin.url);
    await using client = await listener.connect();
    client.send(handshakeFor(signed('/guarded/chat?a=1')));
    expect((await client.head())?.status).toBe(101);
    expect(origin.requests[0]?.url).toBe('/chat?a=1');
  });

  it('needs no credentials on an open route, and its Authorization reaches the origin', async () => {
    const origin = await echoOrigin();
    await using listener = await openGuarded(origin.url);
    await using client = await listener.connect();
    client.send(handshakeFor('/chat', wrong));
    expect((await client.head())?.status).toBe(101);
    expect(origin.requests[0]?.headers.authorization).toBe(`Basic ${base64('ada:hate')}`);
  });

  it.each<[what: string, target: string, lines: string, status: number, challenge: string[]]>([
    ['no credentials', '/guarded/chat', '', 401, ['Basic realm="Films", charset="UTF-8"']],
    ['a wrong password', '/guarded/chat', wrong, 401, ['Basic realm="Films", charset="UTF-8"']],
    ['a path with a dot segment', '/x/../guarded/chat', '', 400, []],
    ['an encoded path', '/%67uarded/chat', '', 400, []],
    ['two passwords', '/guarded/chat', wrong + right, 400, []],
    ['a wrong signature', `${signed('/guarded/chat')}x`, '', 403, []],
    ['a forbidden address', '/closed/chat', right, 403, []],
  ])('with %s is refused without a request to the origin', async (_what, target, lines, status, challenge) => {
    const origin = await echoOrigin();
    await using listener = await openGuarded(origin.url);
    await using client = await listener.connect();
    client.send(handshakeFor(target, lines));
    const response = await client.response();
    expect(response).toMatchObject({ status, isWhole: true });
    expect(rawValues(response ?? { lines: [] }, 'www-authenticate')).toEqual(challenge);
    expect(await client.rest()).toBe('');
    expect(origin.requests).toEqual([]);
    await expect.poll(() => listener.tunnelEvents).toEqual([expect.objectContaining({ status })]);
    expect(listener.ends).toHaveLength(listener.entered());
    expect(listener.entered()).toBe(target.startsWith('/guarded') ? 1 : 0);
  });

  it('that the origin refuses gets a private answer', async () => {
    const url = await plainOrigin((response) =>
      response.writeHead(403, { 'Cache-Control': 'public, max-age=60', 'Content-Length': 0 }).end(),
    );
    await using listener = await openGuarded(url);
    await using client = await listener.connect();
    client.send(handshakeFor('/guarded/chat', right));
    const response = await client.response();
    expect(rawValues(response ?? { lines: [] }, 'cache-control')).toEqual(['private, max-age=60']);
    expect(await client.rest()).toBe('');
    await expect.poll(() => listener.ends).toHaveLength(1);
  });
});

describe('a tunnel ends once', () => {
  const gone = 'http://127.0.0.1:1';

  it.each<[how: string, originUrl: () => Promise<string>, status: number]>([
    ['the origin cannot be reached', async () => gone, 502],
    ['the origin closes at once', () => rawOrigin((socket) => socket.destroy()), 502],
    [
      'the origin resets in its head',
      () => rawOrigin((socket) => socket.write('HTTP/1.1 1', () => socket.resetAndDestroy())),
      502,
    ],
    ['the origin speaks another protocol', () => rawOrigin((socket) => socket.end('SSH-2.0\r\n\r\n')), 502],
  ])('where %s', async (_how, originUrl, status) => {
    await using listener = await openGuarded(await originUrl());
    await using client = await listener.connect();
    client.send(handshakeFor('/guarded/chat', right));
    expect((await client.response())?.status).toBe(status);
    expect(await client.rest()).toBe('');
    await expect.poll(() => listener.tunnelEvents).toHaveLength(1);
    expect(listener.ends).toEqual([expect.objectContaining({ complete: false })]);
  });

  it('where the client leaves while its password is checked', async () => {
    const origin = await echoOrigin();
    const turn = Promise.withResolvers<boolean>();
    const requested = Promise.withResolvers<void>();
    const basic = createBasicCheck({
      hashes: new Map([['ada', hashOf('love')]]),
      checks: () => {
        requested.resolve();
        return turn.promise;
      },
      key,
    });
    await using listener = await openGuarded(origin.url, { ...createRules([]).rules, basic });
    await using client = await listener.connect();
    client.send(handshakeFor('/guarded/chat', right));
    await requested.promise;
    client.reset();
    await client.closed;
    turn.resolve(true);
    // The connection is not read before there is a tunnel, so the request may still reach the origin.
    await expect.poll(() => listener.tunnelEvents).toHaveLength(1);
    expect(listener.ends).toHaveLength(1);
    await expect.poll(() => origin.sockets.every((socket) => socket.destroyed)).toBe(true);
  });

  it('where the client leaves while the origin is asked', async () => {
    const requested = Promise.withResolvers<void>();
    const url = await rawOrigin((socket) => socket.once('data', () => requested.resolve()));
    await using listener = await openGuarded(url);
    await using client = await listener.connect();
    client.send(handshakeFor('/guarded/chat', right));
    await requested.promise;
    client.reset();
    await expect.poll(() => listener.ends).toHaveLength(1);
    expect(listener.tunnelEvents).toEqual([expect.objectContaining({ error: 'client_gone' })]);
  });

  it('where either side cuts it', async () => {
    const origin = await echoOrigin();
    await using listener = await openGuarded(origin.url);
    await using one = await listener.connect();
    one.send(handshakeFor('/guarded/chat', right));
    await one.head();
    one.reset();
    await expect.poll(() => listener.ends).toHaveLength(1);
    await using other = await listener.connect();
    other.send(handshakeFor('/guarded/chat', right));
    await other.head();
    origin.sockets[1]?.resetAndDestroy();
    await expect.poll(() => listener.ends).toHaveLength(2);
    await other.closed;
    expect(listener.tunnelEvents).toHaveLength(2);
  });
});
