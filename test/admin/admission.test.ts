/** Admission to the admin listener: callers, tokens and guesses. */

import { describe, expect, it } from 'vitest';
import { type AdmissionRules, decideAdmission, type Reach, refuseForeignCaller } from '../../src/admin/access.ts';
import type { Endpoint } from '../../src/admin/endpoint.ts';
import { asOperator, openAdminGround, rightToken } from './admin-ground.ts';

const none: ReadonlySet<string> = new Set();

describe('strangeCaller', () => {
  type Row = readonly [
    authority: string,
    origin: string | undefined,
    fetchSite: string | undefined,
    status: number | undefined,
  ];
  it.each<Row>([
    ['127.0.0.1:9180', undefined, undefined, undefined],
    ['127.0.0.1', undefined, undefined, undefined],
    ['192.0.2.7:9180', undefined, undefined, undefined],
    ['[::1]:9180', undefined, undefined, undefined],
    ['localhost:9180', undefined, undefined, undefined],
    ['LocalHost', undefined, undefined, undefined],
    ['', undefined, undefined, undefined],
    ['rangeway.internal:9180', undefined, undefined, undefined],
    ['RANGEWAY.internal', undefined, undefined, undefined],
    ['evil.test:9180', undefined, undefined, 421],
    ['localhost.evil.test', undefined, undefined, 421],
    ['127.0.0.1.evil.test:9180', undefined, undefined, 421],
    ['notlocalhost', undefined, undefined, 421],
    ['other.rangeway.internal', undefined, undefined, 421],
    ['127.0.0.1@evil.test', undefined, undefined, 421],
    ['2130706433', undefined, undefined, 421],
    ['localhost:9180', 'http://localhost:9180', undefined, undefined],
    ['localhost:9180', 'http://LOCALHOST:9180', 'same-origin', undefined],
    ['localhost:9180', undefined, 'none', undefined],
    ['localhost:9180', 'http://localhost:8080', undefined, 403],
    ['localhost:9180', 'https://localhost:9180', undefined, 403],
    ['localhost:9180', 'http://localhost', undefined, 403],
    ['localhost:9180', 'http://evil.test', undefined, 403],
    ['localhost:9180', 'null', undefined, 403],
    ['localhost:9180', '', undefined, 403],
    ['localhost:9180', 'http://localhost:9180, http://evil.test', undefined, 403],
    ['localhost:9180', undefined, 'cross-site', 403],
    ['localhost:9180', undefined, 'same-site', 403],
    ['evil.test:9180', 'http://evil.test:9180', 'same-origin', 421],
  ])('Host %s, Origin %s, Sec-Fetch-Site %s', (authority, origin, fetchSite, status) => {
    for (const reach of ['machine', 'network'] as const) {
      const refusal = refuseForeignCaller(
        { authority, origin, fetchSite },
        { reach, hosts: new Set(['rangeway.internal']) },
      );
      expect(refusal?.status, reach).toBe(status);
    }
  });

  it('accepts any host name on a Unix socket, but no request from a web page', () => {
    const ask = (origin?: string) =>
      refuseForeignCaller({ authority: 'anything', origin, fetchSite: undefined }, { reach: 'owner', hosts: none });
    expect(ask()).toBeUndefined();
    expect(ask('http://evil.test')?.status).toBe(403);
  });
});

describe('decideAdmission', () => {
  const right = { scheme: 'bearer', token68: 'abc' };
  type Row = readonly [
    access: Endpoint['access'],
    reach: Reach,
    hasToken: boolean,
    credentials: { scheme: string; token68: string } | undefined,
    decision: 'admitted' | 'check' | number,
  ];
  it.each<Row>([
    ['anyone', 'network', true, undefined, 'admitted'],
    ['anyone', 'machine', false, undefined, 'admitted'],
    ['anyone', 'network', true, { scheme: 'bearer', token68: 'wrong' }, 'admitted'],
    ['watcher', 'owner', true, undefined, 'admitted'],
    ['watcher', 'machine', true, undefined, 'admitted'],
    ['watcher', 'machine', false, undefined, 'admitted'],
    ['watcher', 'network', true, undefined, 401],
    ['watcher', 'network', true, right, 'check'],
    ['watcher', 'network', false, right, 403],
    ['operator', 'owner', false, undefined, 'admitted'],
    ['operator', 'owner', true, undefined, 401],
    ['operator', 'owner', true, right, 'check'],
    ['operator', 'machine', false, undefined, 403],
    ['operator', 'machine', false, right, 403],
    ['operator', 'machine', true, undefined, 401],
    ['operator', 'machine', true, { scheme: 'basic', token68: 'YTpi' }, 401],
    ['operator', 'machine', true, { scheme: 'bearer', token68: '' }, 401],
    ['operator', 'machine', true, right, 'check'],
    ['operator', 'network', true, right, 'check'],
  ])('%s, %s, token configured: %s, shown: %j', (access, reach, hasToken, credentials, decision) => {
    const rules: Omit<AdmissionRules, 'hosts'> = { reach, hasToken };
    const decided = decideAdmission(access, credentials, rules);
    expect(decided.kind === 'refused' ? decided.status : decided.kind).toBe(decision);
  });
});

describe('a token', () => {
  it.each<[why: string, lines: readonly string[], status: number, challenge: string | undefined]>([
    ['none', [], 401, 'Bearer realm="Rangeway admin"'],
    ['of another scheme', ['Authorization: Basic eDp5'], 401, 'Bearer realm="Rangeway admin"'],
    ['a wrong one', ['Authorization: Bearer another'], 401, 'Bearer realm="Rangeway admin", error="invalid_token"'],
    [
      'a prefix of it',
      [`Authorization: Bearer ${rightToken.slice(0, -1)}`],
      401,
      'Bearer realm="Rangeway admin", error="invalid_token"',
    ],
    [
      'with a character more',
      [`Authorization: Bearer ${rightToken}x`],
      401,
      'Bearer realm="Rangeway admin", error="invalid_token"',
    ],
    [
      'in a list',
      [`Authorization: Bearer ${rightToken}, Bearer x`],
      401,
      'Bearer realm="Rangeway admin", error="invalid_token"',
    ],
    ['in the query', [], 401, 'Bearer realm="Rangeway admin"'],
    ['twice', [...asOperator, ...asOperator], 400, undefined],
    [
      'a long one',
      [`Authorization: Bearer ${'a'.repeat(10_000)}`],
      401,
      'Bearer realm="Rangeway admin", error="invalid_token"',
    ],
    ['the right one', asOperator, 200, undefined],
    ['the right one, scheme in another case', [`authorization: bearer ${rightToken}`], 200, undefined],
  ])('%s', async (why, lines, status, challenge) => {
    await using ground = await openAdminGround();
    const target = why === 'in the query' ? `/api/v1/fills?access_token=${rightToken}` : '/api/v1/fills';
    const answer = await ground.ask('GET', target, lines);
    expect([answer.status, answer.value('www-authenticate')]).toEqual([status, challenge]);
    expect(ground.calls).toHaveLength(status === 200 ? 1 : 0);
    expect(JSON.stringify(ground.events) + answer.text).not.toContain(rightToken.slice(0, -1));
  });

  it('is required before anything of the API is shown', async () => {
    await using ground = await openAdminGround();
    for (const target of ['/api/v1/fills', '/api/v1/none', '/api', '/api/v2/', '/api/v1/entries?limit=x']) {
      for (const method of ['GET', 'PATCH', 'OPTIONS'])
        expect((await ground.ask(method, target, [])).status, target).toBe(401);
    }
  });

  it('is not required for health checks, even from the network', async () => {
    await using ground = await openAdminGround({ reach: 'network' });
    for (const target of ['/healthz', '/readyz']) expect((await ground.ask('GET', target, [])).status).toBe(200);
    expect((await ground.ask('GET', '/metrics', [])).status).toBe(401);
    expect((await ground.ask('GET', '/metrics', asOperator)).status).toBe(200);
  });

  it('that is not configured is named in the refusal', async () => {
    await using ground = await openAdminGround({ token: undefined });
    const answer = await ground.ask('GET', '/api/v1/fills');
    expect([answer.status, answer.json()]).toEqual([
      403,
      expect.objectContaining({ detail: expect.stringContaining('admin.token') }),
    ]);
    expect((await ground.ask('GET', '/metrics', [])).status).toBe(200);
  });
});

describe('guessing', () => {
  const guess = ['Authorization: Bearer a-wrong-token'];

  it('is limited: after 20 guesses even the right token is refused for a while', async () => {
    await using ground = await openAdminGround();
    for (let count = 0; count < 20; count += 1)
      expect((await ground.ask('GET', '/api/v1/fills', guess)).status).toBe(401);
    const refused = await ground.ask('GET', '/api/v1/fills', guess);
    expect([refused.status, refused.value('retry-after')]).toEqual([429, '1']);
    expect((await ground.ask('GET', '/api/v1/fills')).status).toBe(429);
    expect((await ground.ask('GET', '/healthz', [])).status).toBe(200);
    ground.now += 1000;
    expect((await ground.ask('GET', '/api/v1/fills')).status).toBe(200);
    expect((await ground.ask('GET', '/api/v1/fills', guess)).status).toBe(401);
    expect((await ground.ask('GET', '/api/v1/fills')).status).toBe(429);
  });

  it('is not sped up by sending many requests at once', async () => {
    await using ground = await openAdminGround();
    await using client = await ground.connect();
    client.send(`GET /api/v1/fills HTTP/1.1\r\nHost: localhost\r\n${guess[0]}\r\n\r\n`.repeat(100));
    const statuses: (number | undefined)[] = [];
    for (let count = 0; count < 100; count += 1) statuses.push((await client.response())?.status);
    expect(statuses.filter((status) => status === 401)).toHaveLength(20);
    expect(statuses.filter((status) => status === 429)).toHaveLength(80);
  });

  it('is logged, but does not flood the log', async () => {
    await using ground = await openAdminGround();
    for (let count = 0; count < 30; count += 1) await ground.ask('GET', '/api/v1/fills', guess);
    expect(ground.events).toHaveLength(10);
    expect(ground.events[0]).toEqual({
      kind: 'admin',
      level: 'warn',
      action: 'refused',
      peer: '127.0.0.1',
      message: 'a request was refused with 401: This is not the token.',
    });
    ground.now += 60_000;
    await ground.ask('GET', '/api/v1/fills', guess);
    expect(ground.events).toHaveLength(11);
    expect(ground.events[10]).toMatchObject({ message: expect.stringContaining('(and 20 more that were not logged)') });
  });
});
