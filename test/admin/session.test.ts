/** Sessions of browsers: login, the cookie, and what other pages and clients try with it. */

import { describe, expect, it } from 'vitest';
import { type Reach, refuseForgery } from '../../src/admin/access.ts';
import { Sessions } from '../../src/admin/sessions.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { type AdminGround, asOperator, openAdminGround, rightToken, withJson } from './admin-ground.ts';

const json = 'Content-Type: application/json';
const own = 'Sec-Fetch-Site: same-origin';
const stated = 'X-Rangeway-Request: 1';

function createSessions() {
  const clock = createFakeClock();
  let count = 0;
  const random = (size: number) => Buffer.alloc(size, count++);
  return { clock, sessions: new Sessions({ now: clock.now, random }) };
}

describe('Sessions', () => {
  it('last 12 hours, and end earlier when they are ended', () => {
    const { clock, sessions } = createSessions();
    const [one, other] = [sessions.open(), sessions.open()];
    expect([sessions.has(one), sessions.has(other), sessions.has(''), sessions.has('x')]).toEqual([
      true,
      true,
      false,
      false,
    ]);
    sessions.end(one);
    expect([sessions.has(one), sessions.has(other)]).toEqual([false, true]);
    clock.advance(12 * 3_600_000 - 1);
    expect(sessions.has(other)).toBe(true);
    clock.advance(1);
    expect(sessions.has(other)).toBe(false);
  });

  it('are bounded: the oldest ends', () => {
    const { sessions } = createSessions();
    const first = sessions.open();
    const others = Array.from({ length: 100 }, () => sessions.open());
    expect([sessions.has(first), others.every((each) => sessions.has(each))]).toEqual([false, true]);
  });

  it('begin with codes that work once, within five minutes, and of which there are few', () => {
    const { clock, sessions } = createSessions();
    const { code, expiresAt } = sessions.createCode();
    expect(expiresAt).toBe(clock.now() + 300_000);
    expect(sessions.has(code)).toBe(false);
    expect([sessions.redeem('x'), sessions.redeem(code), sessions.redeem(code)]).toEqual([false, true, false]);
    const late = sessions.createCode();
    clock.advance(300_000);
    expect(sessions.redeem(late.code)).toBe(false);
    const codes = Array.from({ length: 21 }, () => sessions.createCode().code);
    expect(codes.map((each) => sessions.redeem(each)).indexOf(true)).toBe(1);
  });

  it('end all together', () => {
    const { sessions } = createSessions();
    const [session, { code }] = [sessions.open(), sessions.createCode()];
    sessions.endAll();
    expect([sessions.has(session), sessions.redeem(code)]).toEqual([false, false]);
  });
});

describe('refuseForgery', () => {
  const authority = '127.0.0.1:9180';
  type Row = readonly [
    method: string,
    reach: Reach,
    lines: Readonly<Record<string, string>>,
    status: number | undefined,
  ];
  const change = { 'x-rangeway-request': '1', 'content-type': 'application/json' };
  it.each<Row>([
    ['GET', 'machine', { 'sec-fetch-site': 'same-origin' }, undefined],
    ['GET', 'machine', { 'sec-fetch-site': 'none' }, undefined],
    ['GET', 'machine', { origin: `http://${authority}` }, undefined],
    ['GET', 'machine', {}, 403],
    ['GET', 'network', {}, undefined],
    ['HEAD', 'network', {}, undefined],
    ['GET', 'network', { 'sec-fetch-site': 'same-site' }, 403],
    ['GET', 'machine', { 'sec-fetch-site': 'cross-site' }, 403],
    ['POST', 'network', change, 403],
    ['POST', 'network', { ...change, origin: `http://${authority}` }, undefined],
    ['POST', 'machine', { ...change, 'sec-fetch-site': 'same-origin' }, undefined],
    ['POST', 'machine', { ...change, 'sec-fetch-site': 'cross-site' }, 403],
    ['POST', 'machine', { 'sec-fetch-site': 'same-origin' }, 403],
    ['POST', 'machine', { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' }, 403],
    ['POST', 'machine', { ...change, 'sec-fetch-site': 'same-origin', 'x-rangeway-request': '0' }, 403],
    ['DELETE', 'machine', { ...change, 'sec-fetch-site': 'same-origin', 'content-type': 'text/plain' }, 403],
    ['DELETE', 'machine', { ...change, 'sec-fetch-site': 'same-origin' }, undefined],
  ])('%s, %s, %j', (method, reach, lines, status) => {
    expect(refuseForgery({ method, authority, fields: Object.entries(lines) }, { reach })?.status).toBe(status);
  });
});

/** Logs in; returns the line of the cookie. */
async function logIn(ground: AdminGround, body: object = { token: rightToken }): Promise<string> {
  const answer = await ground.ask('POST', '/api/v1/session', [json, own], JSON.stringify(body));
  expect(answer.status).toBe(204);
  const setCookie = answer.value('set-cookie') ?? '';
  expect(setCookie).toMatch(/^rangeway_session=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/);
  return `Cookie: a=b; ${setCookie.split(';')[0]}`;
}

describe('a login', () => {
  it('with the token gives a cookie that is as good, until the logout', async () => {
    await using ground = await openAdminGround();
    const state = async (...lines: readonly string[]) => (await ground.ask('GET', '/api/v1/session', lines)).json();
    expect(await state()).toEqual({ loggedIn: false, hasToken: true });
    const cookie = await logIn(ground);
    expect(await state(cookie)).toEqual({ loggedIn: true, hasToken: true });
    expect((await ground.ask('GET', '/api/v1/fills', [cookie, own])).status).toBe(200);
    expect((await ground.ask('POST', '/api/v1/purge', [cookie, own, stated, json], '{"all":true}')).status).toBe(200);
    const out = await ground.ask('DELETE', '/api/v1/session', [cookie, own, stated, json], '{}');
    expect([out.status, out.value('set-cookie')]).toEqual([
      204,
      'rangeway_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0',
    ]);
    expect(await state(cookie)).toEqual({ loggedIn: false, hasToken: true });
    expect((await ground.ask('GET', '/api/v1/fills', [cookie, own])).status).toBe(401);
    expect(ground.events).toMatchObject([
      { action: 'login', level: 'info' },
      { action: 'purge' },
      { action: 'refused' },
    ]);
    expect(JSON.stringify(ground.events)).not.toContain(cookie.slice(-43));
  });

  it('with a code works once, also where no token is configured', async () => {
    await using ground = await openAdminGround({ token: undefined });
    expect((await ground.ask('POST', '/api/v1/session-codes', [json])).status).toBe(403);
    const { code } = ground.createCode();
    const cookie = await logIn(ground, { code });
    expect((await ground.ask('GET', '/api/v1/fills', [cookie, own])).status).toBe(200);
    expect((await ground.ask('GET', '/api/v1/session', [cookie])).json()).toEqual({ loggedIn: true, hasToken: false });
    const again = await ground.ask('POST', '/api/v1/session', [json], JSON.stringify({ code }));
    expect([again.status, again.value('set-cookie')]).toEqual([401, undefined]);
  });

  it('needs a code from an operator', async () => {
    await using ground = await openAdminGround();
    expect((await ground.ask('POST', '/api/v1/session-codes', [json])).status).toBe(401);
    const { code } = (await ground.ask('POST', '/api/v1/session-codes', withJson)).json() as { code: string };
    await logIn(ground, { code });
  });

  it.each<[why: string, lines: readonly string[], body: string, status: number]>([
    ['a wrong token', [json], '{"token":"x"}', 401],
    ['a wrong code', [json], '{"code":"x"}', 401],
    ['the token as a code', [json], `{"code":"${rightToken}"}`, 401],
    ['nothing', [json], '{}', 400],
    ['both', [json], `{"code":"x","token":"${rightToken}"}`, 400],
    ['more', [json], `{"token":"${rightToken}","user":"x"}`, 400],
    ['a form', ['Content-Type: application/x-www-form-urlencoded'], `token=${rightToken}`, 415],
    ['JSON from a form', ['Content-Type: text/plain'], `{"token":"${rightToken}"}`, 415],
    ['another site', [json, 'Sec-Fetch-Site: cross-site'], `{"token":"${rightToken}"}`, 403],
    ['another origin', [json, 'Origin: http://localhost:8080'], `{"token":"${rightToken}"}`, 403],
    ['another name', [json, 'Host: evil.test'], `{"token":"${rightToken}"}`, 421],
  ])('with %s is refused', async (_why, lines, body, status) => {
    await using ground = await openAdminGround();
    const answer = await ground.ask('POST', '/api/v1/session', lines, body);
    expect([answer.status, answer.value('set-cookie')]).toEqual([status, undefined]);
    expect(JSON.stringify(ground.events) + answer.text).not.toContain(rightToken);
  });

  it('with many guesses is refused even if one is right, together with guesses of the token', async () => {
    await using ground = await openAdminGround();
    const guess = async (body: object) =>
      (await ground.ask('POST', '/api/v1/session', [json], JSON.stringify(body))).status;
    for (let count = 0; count < 10; count += 1) {
      expect([await guess({ token: `x${count}` }), await guess({ code: `x${count}` })]).toEqual([401, 401]);
    }
    const { code } = ground.createCode();
    expect([await guess({ token: rightToken }), await guess({ code })]).toEqual([429, 429]);
    expect((await ground.ask('GET', '/api/v1/fills', asOperator)).status).toBe(429);
    ground.now += 2000;
    expect(await guess({ code })).toBe(204);
    expect(ground.events.length).toBeLessThan(30);
  });
});

describe('an attacker with the cookie of a browser', () => {
  const order = '{"all":true}';
  it.each<[why: string, method: string, lines: readonly string[], status: number]>([
    ['another site', 'POST', [json, stated, 'Sec-Fetch-Site: cross-site'], 403],
    ['another port of the host', 'POST', [json, stated, 'Sec-Fetch-Site: same-site'], 403],
    ['another origin', 'POST', [json, stated, 'Origin: http://localhost:8080'], 403],
    ['a sandboxed page', 'POST', [json, stated, 'Origin: null'], 403],
    ['a foreign name', 'POST', [json, stated, own, 'Host: evil.test'], 421],
    ['no field of our own', 'POST', [json, own], 403],
    ['no JSON', 'POST', ['Content-Type: text/plain', stated, own], 403],
    ['no origin', 'POST', [json, stated], 403],
    ['a GET without an origin', 'GET', [], 403],
    ['a wrong token besides', 'GET', [own, 'Authorization: Bearer x'], 401],
  ])('gets nothing: %s', async (_why, method, lines, status) => {
    await using ground = await openAdminGround();
    const cookie = await logIn(ground);
    const target = method === 'GET' ? '/api/v1/fills' : '/api/v1/purge';
    const answer = await ground.ask(method, target, [cookie, ...lines], method === 'GET' ? '' : order);
    expect(answer.status).toBe(status);
    expect(ground.calls).toEqual([]);
  });

  it('cannot log out a browser from another site', async () => {
    await using ground = await openAdminGround();
    const cookie = await logIn(ground);
    for (const lines of [['Sec-Fetch-Site: cross-site'], [own], []]) {
      expect((await ground.ask('DELETE', '/api/v1/session', [cookie, ...lines])).status).toBe(403);
    }
    expect((await ground.ask('GET', '/api/v1/fills', [cookie, own])).status).toBe(200);
  });

  it.each(['', 'x', 'A'.repeat(43), `${'A'.repeat(43)}; rangeway_session=B`, '"', '__proto__'])(
    'cannot forge it: %j',
    async (value) => {
      await using ground = await openAdminGround();
      await logIn(ground);
      const answer = await ground.ask('GET', '/api/v1/fills', [`Cookie: rangeway_session=${value}`, own]);
      expect([answer.status, ground.calls.length]).toEqual([401, 0]);
    },
  );

  it('cannot hide it behind a cookie of another port', async () => {
    await using ground = await openAdminGround();
    const cookie = await logIn(ground);
    const lines = [cookie.replace('Cookie: ', 'Cookie: rangeway_session=x; '), own];
    expect((await ground.ask('GET', '/api/v1/fills', lines)).status).toBe(200);
  });
});
