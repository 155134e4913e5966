/** The endpoints of the admin listener: what each accepts, returns and refuses. */

import { describe, expect, it } from 'vitest';
import { endpoints } from '../../src/admin/endpoints.ts';
import { statusesOf } from '../../src/admin/openapi.ts';
import { OperationFault, type WarmOrder } from '../../src/admin/operations.ts';
import type { Explanation } from '../../src/delivery/explanation.ts';
import { type OperationCall, someDecision, someDetails, someEntry } from '../support/proxies/fake-operations.ts';
import { asOperator, openAdminGround, withJson } from './admin-ground.ts';

const json = 'application/json';
const problem = 'application/problem+json';

/** Returns a value as it is after JSON. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

describe('an answer', () => {
  type Row = readonly [method: string, target: string, body: string, call: OperationCall, result: unknown];
  const key = encodeURIComponent(someEntry.key);
  it.each<Row>([
    ['GET', '/readyz', '', ['readReadiness'], { isReady: true, serving: 1 }],
    [
      'GET',
      '/api/v1/entries',
      '',
      ['listEntries', { kind: 'all' }, 100, undefined, undefined],
      { entries: [someEntry], next: 'page 2' },
    ],
    [
      'GET',
      '/api/v1/entries?limit=1000&after=a%20b',
      '',
      ['listEntries', { kind: 'all' }, 1000, 'a b', undefined],
      { entries: [someEntry], next: 'page 2' },
    ],
    [
      'GET',
      '/api/v1/entries?url=http://a.test/x%3Fy',
      '',
      ['listEntries', { kind: 'url', url: 'http://a.test/x?y' }, 100, undefined, undefined],
      undefined,
    ],
    [
      'GET',
      '/api/v1/entries?prefix=http://a.test/x&limit=1',
      '',
      ['listEntries', { kind: 'prefix', url: 'http://a.test/x' }, 1, undefined, undefined],
      undefined,
    ],
    [
      'GET',
      '/api/v1/entries?host=a.test',
      '',
      ['listEntries', { kind: 'host', host: 'a.test' }, 100, undefined, undefined],
      undefined,
    ],
    [
      'GET',
      '/api/v1/entries?tag=a+b',
      '',
      ['listEntries', { kind: 'tag', tag: 'a b' }, 100, undefined, undefined],
      undefined,
    ],
    [
      'GET',
      '/api/v1/entries?group=g&origin=https://a.test',
      '',
      ['listEntries', { kind: 'group', group: 'g', origin: 'https://a.test' }, 100, undefined, undefined],
      undefined,
    ],
    [
      'GET',
      '/api/v1/entries?sort=size&order=desc&contains=Film',
      '',
      ['listEntries', { kind: 'all' }, 100, undefined, { by: 'size', isDescending: true, contains: 'Film' }],
      undefined,
    ],
    [
      'GET',
      '/api/v1/entries?host=a.test&sort=used&limit=5',
      '',
      [
        'listEntries',
        { kind: 'host', host: 'a.test' },
        5,
        undefined,
        { by: 'used', isDescending: false, contains: '' },
      ],
      undefined,
    ],
    ['GET', `/api/v1/entries/g%2F1?key=${key}`, '', ['inspectEntry', someEntry.key, 'g/1'], someDetails],
    [
      'POST',
      '/api/v1/purge',
      '{"url":"http://a.test/x"}',
      ['purge', { search: { kind: 'url', url: 'http://a.test/x' }, mode: 'hard' }],
      { entries: 2 },
    ],
    [
      'POST',
      '/api/v1/purge',
      '{"tag":"t","mode":"soft"}',
      ['purge', { search: { kind: 'tag', tag: 't' }, mode: 'soft' }],
      { entries: 2 },
    ],
    ['POST', '/api/v1/purge', '{"all":true}', ['purge', { search: { kind: 'all' }, mode: 'hard' }], { entries: 2 }],
    [
      'POST',
      '/api/v1/warm',
      '{"urls":["http://a.test/x"]}',
      ['warm', { urls: ['http://a.test/x'] }],
      { results: [{ url: 'http://a.test/x', status: 200, cacheStatus: 'rangeway; fwd=miss', bytes: 10 }] },
    ],
    [
      'POST',
      '/api/v1/explain',
      '{"url":"/x","fields":[["Range","bytes=0-1"]],"client":"10.0.0.1"}',
      ['explain', { url: '/x', method: 'GET', fields: [['Range', 'bytes=0-1']], client: '10.0.0.1' }],
      { kind: 'answered', status: 404, detail: 'There is nothing here.' },
    ],
    [
      'GET',
      '/api/v1/decisions',
      '',
      ['readDecisions', {}, 100],
      { decisions: [someDecision, { at: 2, worker: 1, event: 'purged', detail: 'An operator removed it.' }] },
    ],
    ['GET', `/api/v1/decisions?key=${key}&limit=5`, '', ['readDecisions', { key: someEntry.key }, 5], undefined],
    ['GET', '/api/v1/decisions?uri=http://a.test/x', '', ['readDecisions', { uri: 'http://a.test/x' }, 100], undefined],
    ['GET', '/api/v1/fills', '', ['listFills'], undefined],
    ['DELETE', '/api/v1/fills/1-7', '', ['cancelFill', '1-7'], null],
    [
      'GET',
      '/api/v1/origins',
      '',
      ['listOrigins'],
      {
        origins: [
          {
            route: 'files',
            url: 'http://origin.test/',
            worker: 1,
            health: 'resting',
            ranges: 'unknown',
            requests: { streams: 3, fills: 1, unanswered: 0, waiting: 2 },
          },
        ],
      },
    ],
    ['GET', '/api/v1/config', '', ['readConfig'], { routes: [] }],
    ['GET', '/api/v1/log', '', ['readLogLevel'], { level: 'info' }],
    ['PUT', '/api/v1/log', '{"level":"debug"}', ['setLogLevel', 'debug'], { level: 'debug' }],
    ['GET', '/api/v1/status', '', ['readReadiness'], undefined],
    ['POST', '/api/v1/reload', '', ['reload'], null],
    ['POST', '/api/v1/reload', '{}', ['reload'], null],
  ])('to %s %s %s', async (method, target, body, call, result) => {
    await using ground = await openAdminGround();
    const answer = await ground.ask(method, target, body === '' && method !== 'POST' ? asOperator : withJson, body);
    expect(ground.calls).toEqual([call]);
    expect(answer.value('cache-control')).toBe('no-store');
    expect(answer.value('x-content-type-options')).toBe('nosniff');
    expect(answer.value('access-control-allow-origin')).toBeUndefined();
    if (result === null) {
      expect([answer.status, answer.type, answer.text]).toEqual([204, undefined, '']);
      return;
    }
    expect([answer.status, answer.type]).toEqual([200, json]);
    if (result !== undefined) expect(answer.json()).toEqual(plain(result));
    // The answer has only what its schema describes: parsing drops everything else.
    const path = target.split('?')[0] ?? '';
    const endpoint = endpoints.find(
      (each) => each.method === method && new RegExp(`^${each.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path),
    );
    expect(endpoint?.result?.schema.parse(answer.json())).toEqual(answer.json());
  });

  it('is text for endpoints without JSON', async () => {
    await using ground = await openAdminGround({ token: undefined });
    const health = await ground.ask('GET', '/healthz', []);
    expect([health.status, health.type, health.text]).toEqual([200, 'text/plain; charset=utf-8', 'ok\n']);
    const metrics = await ground.ask('GET', '/metrics', []);
    expect([metrics.status, metrics.type, metrics.text]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
      '# HELP a b\na 1\n',
    ]);
  });

  it('to HEAD is the same, without a body', async () => {
    await using ground = await openAdminGround();
    const [head, get] = [await ground.ask('HEAD', '/api/v1/entries'), await ground.ask('GET', '/api/v1/entries')];
    expect(head.status).toBe(200);
    expect(head.text).toBe('');
    expect(head.value('content-length')).toBe(get.value('content-length'));
    expect(head.type).toBe(get.type);
  });

  it('with metrics is computed once for concurrent requests', async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    await using ground = await openAdminGround({ overrides: { formatMetrics: () => promise } });
    await using client = await ground.connect();
    client.send('GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(10));
    const last = ground.ask('GET', '/metrics');
    while (ground.calls.length === 0) await new Promise(setImmediate);
    resolve('a 1\n');
    expect((await last).text).toBe('a 1\n');
    for (let count = 0; count < 10; count += 1) expect((await client.response())?.body.toString()).toBe('a 1\n');
    expect(ground.calls.length).toBeLessThan(3);
  });
});

describe('/readyz', () => {
  it.each<[reason: string, serving: number, states: readonly string[]]>([
    ['The server is starting.', 0, ['starting']],
    ['The server is stopping.', 0, ['stopping']],
    ['The server is stopping.', 1, ['serving', 'stopping']],
  ])('is 503 with the reason: %s', async (reason, serving, states) => {
    const workers = states.map((state, index) => ({ id: index + 1, pid: 10 + index, state }));
    await using ground = await openAdminGround({
      overrides: { readReadiness: async () => ({ isReady: false, reason, workers, addresses: [] }) },
    });
    const answer = await ground.ask('GET', '/readyz', []);
    expect([answer.status, answer.type]).toEqual([503, json]);
    expect(answer.json()).toEqual({ isReady: false, reason, serving });
  });

  it('shows the number of serving workers, but no processes', async () => {
    await using ground = await openAdminGround({ reach: 'network' });
    expect((await ground.ask('GET', '/readyz', [])).json()).toEqual({ isReady: true, serving: 1 });
  });
});

describe('a request is refused for', () => {
  type Row = readonly [
    why: string,
    method: string,
    target: string,
    lines: readonly string[],
    body: string,
    status: number,
    detail: RegExp,
  ];
  const more = (line: string) => [...withJson, line];
  const text = [...asOperator, 'Content-Type: text/plain'];
  it.each<Row>([
    ['an unknown path', 'GET', '/none', [], '', 404, /nothing here/],
    ['a slash too many', 'GET', '/healthz/', [], '', 404, /nothing here/],
    ['two slashes', 'GET', '//healthz', [], '', 404, /nothing here/],
    ['dots', 'GET', '/api/v1/../v1/entries', asOperator, '', 404, /nothing here/],
    ['encoded dots', 'GET', '/%2e%2e/api/v1/entries', asOperator, '', 404, /nothing here/],
    ['an encoded letter', 'GET', '/api/v1/entr%69es', asOperator, '', 404, /nothing here/],
    ['another case', 'GET', '/API/v1/entries', asOperator, '', 404, /nothing here/],
    ['an invalid encoding in the path', 'GET', '/api/v1/entries/%ff?key=a', asOperator, '', 404, /nothing here/],
    ['an empty path parameter', 'GET', '/api/v1/entries/?key=a', asOperator, '', 404, /nothing here/],
    ['a member of all objects', 'GET', '/api/v1/__proto__', asOperator, '', 404, /nothing here/],
    ['no key', 'GET', '/api/v1/entries/g-1', asOperator, '', 400, /key: /],
    ['an unknown parameter', 'GET', '/api/v1/entries?urls=x', asOperator, '', 400, /urls/],
    ['a parameter where none is allowed', 'GET', '/healthz?x=1', [], '', 400, /x/],
    ['a parameter twice', 'GET', '/api/v1/entries?url=a&url=b', asOperator, '', 400, /"url" is there twice/],
    ['a parameter in path and query', 'DELETE', '/api/v1/fills/1?id=2', asOperator, '', 400, /"id" is there twice/],
    ['an invalid encoding in the query', 'GET', '/api/v1/entries?url=%zz', asOperator, '', 400, /percent-encoded/],
    ['a prototype', 'GET', '/api/v1/entries?__proto__=x', asOperator, '', 400, /__proto__/],
    ['two searches', 'GET', '/api/v1/entries?url=a&tag=b', asOperator, '', 400, /url and tag exclude each other/],
    ['a group without origin', 'GET', '/api/v1/entries?group=a', asOperator, '', 400, /group needs origin/],
    ['an origin without group', 'GET', '/api/v1/entries?origin=a', asOperator, '', 400, /origin goes with group/],
    ['a limit of 0', 'GET', '/api/v1/entries?limit=0', asOperator, '', 400, /limit: /],
    ['a limit too large', 'GET', '/api/v1/entries?limit=1001', asOperator, '', 400, /limit: /],
    ['a limit that is no number', 'GET', '/api/v1/entries?limit=1e2', asOperator, '', 400, /limit: /],
    ['an empty search', 'GET', '/api/v1/entries?url=', asOperator, '', 400, /url: /],
    ['nothing to purge', 'POST', '/api/v1/purge', withJson, '', 400, /say what/],
    ['nothing to purge, in JSON', 'POST', '/api/v1/purge', withJson, '{}', 400, /say what/],
    [
      'everything and a tag',
      'POST',
      '/api/v1/purge',
      withJson,
      '{"all":true,"tag":"a"}',
      400,
      /"all" goes with no other/,
    ],
    ['all set to false', 'POST', '/api/v1/purge', withJson, '{"all":false}', 400, /all: /],
    ['an unknown mode', 'POST', '/api/v1/purge', withJson, '{"all":true,"mode":"gentle"}', 400, /mode: /],
    ['an unknown member', 'POST', '/api/v1/purge', withJson, '{"all":true,"now":1}', 400, /now/],
    [
      'a prototype in JSON',
      'POST',
      '/api/v1/purge',
      withJson,
      '{"all":true,"__proto__":{"tag":"a"}}',
      400,
      /__proto__/,
    ],
    ['a value of the wrong type', 'POST', '/api/v1/purge', withJson, '{"url":["a"]}', 400, /url: /],
    ['a list', 'POST', '/api/v1/purge', withJson, '[]', 400, /object/],
    ['null', 'POST', '/api/v1/purge', withJson, 'null', 400, /object/],
    ['truncated JSON', 'POST', '/api/v1/purge', withJson, '{"all":', 400, /not JSON/],
    ['text after the JSON', 'POST', '/api/v1/purge', withJson, '{"all":true} {}', 400, /not JSON/],
    ['nothing to explain', 'POST', '/api/v1/explain', withJson, '{}', 400, /url: /],
    ['no URLs', 'POST', '/api/v1/warm', withJson, '{"urls":[]}', 400, /urls: /],
    ['too many URLs', 'POST', '/api/v1/warm', withJson, JSON.stringify({ urls: Array(1001).fill('a') }), 400, /urls: /],
    ['an unknown level', 'PUT', '/api/v1/log', withJson, '{"level":"loud"}', 400, /level: /],
    ['no Content-Type', 'POST', '/api/v1/reload', asOperator, '', 415, /application\/json/],
    ['a Content-Type that forms can send', 'POST', '/api/v1/purge', text, '{"all":true}', 415, /application\/json/],
    [
      'a Content-Type that begins like the right one',
      'POST',
      '/api/v1/purge',
      [...asOperator, 'Content-Type: application/jsonp'],
      '{}',
      415,
      /json/,
    ],
    [
      'two Content-Types',
      'POST',
      '/api/v1/purge',
      more('Content-Type: text/plain'),
      '{"all":true}',
      415,
      /application\/json/,
    ],
    [
      'a compressed body',
      'POST',
      '/api/v1/purge',
      more('Content-Encoding: gzip'),
      '{"all":true}',
      415,
      /application\/json/,
    ],
    ['a body too large', 'POST', '/api/v1/purge', withJson, ' '.repeat(1024 * 1024 + 1), 413, /1 MiB/],
    ['a method that is not allowed', 'DELETE', '/api/v1/purge', asOperator, '', 405, /not allowed/],
    ['a method that is not allowed where no token is needed', 'POST', '/healthz', [], '', 405, /not allowed/],
  ])('%s: %s %s', async (_why, method, target, lines, body, status, detail) => {
    await using ground = await openAdminGround();
    const answer = await ground.ask(method, target, lines, body);
    expect([answer.status, answer.type]).toEqual([status, problem]);
    expect(answer.json()).toMatchObject({ status, detail: expect.stringMatching(detail) });
    expect(answer.value('cache-control')).toBe('no-store');
    expect(ground.calls).toEqual([]);
  });

  it('a length that is too large, before its body is requested', async () => {
    await using ground = await openAdminGround();
    await using client = await ground.connect();
    const head = ['POST /api/v1/purge HTTP/1.1', 'Host: localhost', ...withJson, 'Expect: 100-continue'];
    client.send(`${[...head, `Content-Length: ${2 ** 40}`].join('\r\n')}\r\n\r\n`);
    expect((await client.response())?.status).toBe(413);
  });

  it('a body of unknown length that becomes too large', async () => {
    await using ground = await openAdminGround();
    await using client = await ground.connect();
    const head = ['POST /api/v1/purge HTTP/1.1', 'Host: localhost', ...withJson, 'Transfer-Encoding: chunked'];
    client.send(`${head.join('\r\n')}\r\n\r\n`);
    const poured = client.pour(Buffer.from(`10000\r\n${' '.repeat(0x1_0000)}\r\n`), 64);
    expect((await client.response())?.status).toBe(413);
    await poured;
    expect(ground.calls).toEqual([]);
  });

  it('a method that is not allowed, and the answer lists the allowed ones', async () => {
    await using ground = await openAdminGround();
    const table: readonly (readonly [target: string, allow: string])[] = [
      ['/healthz', 'GET, HEAD, OPTIONS'],
      ['/api/v1/entries/g', 'GET, HEAD, OPTIONS'],
      ['/api/v1/log', 'GET, HEAD, PUT, OPTIONS'],
      ['/api/v1/fills/1', 'DELETE, OPTIONS'],
      ['/api/v1/purge', 'POST, OPTIONS'],
    ];
    for (const [target, allow] of table) {
      expect((await ground.ask('PATCH', target)).value('allow'), target).toBe(allow);
      const options = await ground.ask('OPTIONS', target);
      expect([options.status, options.value('allow')], target).toEqual([204, allow]);
    }
    expect((await ground.ask('OPTIONS', '*')).status).toBe(204);
    expect(ground.calls).toEqual([]);
  });
});

describe('an operation that fails', () => {
  it.each<[reason: OperationFault['reason'], status: number]>([
    ['invalid', 422],
    ['not_found', 404],
    ['unavailable', 503],
  ])('with the reason %s is answered with %i and its message', async (reason, status) => {
    const fail = () => Promise.reject(new OperationFault(reason, 'It cannot be.'));
    await using ground = await openAdminGround({ overrides: { purge: fail, inspectEntry: fail } });
    const answer = await ground.ask('POST', '/api/v1/purge', withJson, '{"all":true}');
    expect([answer.status, answer.json()]).toEqual([
      status,
      { title: expect.any(String), status, detail: 'It cannot be.' },
    ]);
    expect(ground.events).toEqual([
      { kind: 'admin', level: 'warn', action: 'purge', peer: '127.0.0.1', message: 'purge failed: It cannot be.' },
    ]);
  });

  it('is answered with 404 where there is no fill to cancel', async () => {
    await using ground = await openAdminGround({ overrides: { cancelFill: async () => false } });
    expect((await ground.ask('DELETE', '/api/v1/fills/1')).status).toBe(404);
  });

  it('for any other reason is answered with 500, and only the log has the cause', async () => {
    const fail = () => Promise.reject(new Error('the secret of the store'));
    await using ground = await openAdminGround({ overrides: { listFills: fail } });
    const answer = await ground.ask('GET', '/api/v1/fills');
    expect(answer.status).toBe(500);
    expect(answer.text).not.toContain('secret');
    expect(ground.events).toMatchObject([
      { action: 'failed', message: 'GET /api/v1/fills failed: the secret of the store' },
    ]);
  });
});

describe('the log of', () => {
  it.each<[method: string, target: string, body: string, action: string, message: string]>([
    ['POST', '/api/v1/purge', '{"url":"http://a.test/x"}', 'purge', '2 entries removed: http://a.test/x'],
    [
      'POST',
      '/api/v1/purge',
      '{"prefix":"http://a.test/","mode":"soft"}',
      'purge',
      '2 entries expired: all below http://a.test/',
    ],
    ['POST', '/api/v1/purge', '{"host":"a.test"}', 'purge', '2 entries removed: all of a.test'],
    ['POST', '/api/v1/purge', '{"tag":"t"}', 'purge', '2 entries removed: all with the tag t'],
    [
      'POST',
      '/api/v1/purge',
      '{"group":"g","origin":"https://a.test"}',
      'purge',
      '2 entries removed: all of the group g of https://a.test',
    ],
    ['POST', '/api/v1/purge', '{"all":true}', 'purge', '2 entries removed: everything'],
    ['POST', '/api/v1/explain', '{"url":"/x"}', 'explain', 'GET /x explained: 404, There is nothing here.'],
    ['DELETE', '/api/v1/fills/1-7', '', 'cancel', 'the transfer 1-7 was ended'],
    ['PUT', '/api/v1/log', '{"level":"debug"}', 'level', 'the level of the log is "debug" now'],
    ['POST', '/api/v1/reload', '', 'reload', 'the configuration was read again'],
  ])('%s %s %s', async (method, target, body, action, message) => {
    await using ground = await openAdminGround();
    await ground.ask(method, target, withJson, body);
    expect(ground.events).toEqual([{ kind: 'admin', level: 'info', action, peer: '127.0.0.1', message }]);
  });

  it('a warm-up has its beginning, each failure and the result', async () => {
    const report = { status: 200, cacheStatus: 'rangeway; fwd=miss', bytes: 10, error: undefined };
    const warm = async ({ urls }: WarmOrder) =>
      urls.map((url) => ({
        ...report,
        url,
        ...(url.endsWith('/no') ? { status: 404 } : url.endsWith('/cut') ? { error: 'It broke off.' } : {}),
      }));
    await using ground = await openAdminGround({ overrides: { warm } });
    await ground.ask('POST', '/api/v1/warm', withJson, '{"urls":["http://a.test/x"]}');
    await ground.ask('POST', '/api/v1/warm', withJson, '{"urls":["http://a.test/x","/no","/cut"]}');
    expect(
      ground.events.map((event) => event.kind === 'admin' && [event.level, event.action, event.stage, event.message]),
    ).toEqual([
      ['info', 'warm', 'begun', 'fetching http://a.test/x'],
      ['info', 'warm', undefined, 'http://a.test/x fetched: 200, 10 bytes, rangeway; fwd=miss'],
      ['info', 'warm', 'begun', 'fetching 3 URLs'],
      ['warn', 'warm', 'part', '/no not fetched: the answer was 404'],
      ['warn', 'warm', 'part', '/cut not fetched: It broke off.'],
      ['info', 'warm', undefined, '1 of 3 URLs fetched, 10 bytes'],
    ]);
  });

  it('an explained request has the decision', async () => {
    const explanation = { uri: 'http://a.test/x', decision: { kind: 'hit', reason: 'fresh' } } as Explanation;
    await using ground = await openAdminGround({
      overrides: { explain: async () => ({ kind: 'explained', explanation }) },
    });
    await ground.ask('POST', '/api/v1/explain', withJson, '{"url":"/x","method":"HEAD"}');
    expect(ground.events).toMatchObject([{ message: 'HEAD http://a.test/x explained: hit, fresh' }]);
  });

  it('requests that change nothing is empty', async () => {
    await using ground = await openAdminGround();
    for (const { method, path } of endpoints) {
      // HEAD, because the stream of events has no end.
      if (method === 'GET' && !path.includes('{')) expect((await ground.ask('HEAD', path)).status, path).toBe(200);
    }
    expect(ground.events).toEqual([]);
  });
});

describe('the table of endpoints', () => {
  it('has one access for all methods of a path, and each method once', () => {
    for (const path of new Set(endpoints.map((each) => each.path))) {
      const ofPath = endpoints.filter((each) => each.path === path);
      expect(new Set(ofPath.map(({ access }) => access)).size, path).toBe(1);
      expect(new Set(ofPath.map(({ method }) => method)).size, path).toBe(ofPath.length);
    }
  });

  it('describes the change of each method but GET', () => {
    // Logins are logged by `logIn`.
    const others = endpoints.filter(({ path }) => !path.startsWith('/api/v1/session'));
    for (const { id, method, change } of others) expect(change !== undefined, id).toBe(method !== 'GET');
  });

  it('has one way to answer for each', () => {
    for (const { id, perform, respond } of endpoints) {
      expect(
        [perform, respond].filter((each) => each !== undefined),
        id,
      ).toHaveLength(1);
    }
  });

  it('has one success status for each endpoint', () => {
    for (const endpoint of endpoints) {
      const statuses = Object.keys(statusesOf(endpoint)).map(Number);
      expect(
        statuses.filter((status) => status < 300),
        endpoint.id,
      ).toEqual([endpoint.result === undefined ? 204 : 200]);
    }
  });
});
