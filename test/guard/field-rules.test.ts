import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import {
  createFieldChange,
  createPresentation,
  type FieldRules,
  plainPresentation,
} from '../../src/guard/fields/presentation.ts';
import type { BodyStream, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const nothing: FieldRules = { remove: [], set: {}, add: {} };
const theirs = fieldsOf('Server: old', 'X-A: 1', 'X-A: 2', 'Set-Cookie: a', 'Set-Cookie: b');

describe('createFieldChange', () => {
  it('returns undefined without rules', () => expect(createFieldChange(nothing)).toBeUndefined());

  it.each<[rules: Partial<FieldRules>, want: readonly string[]]>([
    [{ remove: ['server', 'x-none'] }, ['X-A: 1', 'X-A: 2', 'Set-Cookie: a', 'Set-Cookie: b']],
    [{ remove: ['set-cookie', 'x-a'] }, ['Server: old']],
    [{ set: { 'x-a': '3' } }, ['Server: old', 'Set-Cookie: a', 'Set-Cookie: b', 'X-A: 3']],
    [{ set: { 'x-b': '' } }, ['Server: old', 'X-A: 1', 'X-A: 2', 'Set-Cookie: a', 'Set-Cookie: b', 'X-B:']],
    [{ add: { 'x-a': '3' } }, ['Server: old', 'X-A: 1', 'X-A: 2', 'Set-Cookie: a', 'Set-Cookie: b', 'X-A: 3']],
    [
      { remove: ['set-cookie'], set: { server: 'new' }, add: { server: 'too', 'set-cookie': 'c' } },
      ['X-A: 1', 'X-A: 2', 'Server: new', 'Server: too', 'Set-Cookie: c'],
    ],
  ])('%j', (rules, want) => {
    expect(createFieldChange({ ...nothing, ...rules })?.apply(theirs)).toEqual(fieldsOf(...want));
  });

  it('adds nothing to an interim response, and removes the same fields as from a response', () => {
    const change = createFieldChange({ remove: ['server'], set: { 'x-a': '3' }, add: { 'x-b': '4' } });
    expect(change?.strip(theirs)).toEqual(fieldsOf('Set-Cookie: a', 'Set-Cookie: b'));
  });
});

describe('createPresentation', () => {
  const request = { scheme: 'https', method: 'GET', fields: [] } as unknown as ProxyRequest;
  const without = { cors: undefined, security: undefined, change: undefined };

  it('returns the same response without rules', () => {
    expect(createPresentation(without)).toBe(plainPresentation);
    const response: ProxyResponse = { status: 200, fields: theirs, body: { kind: 'none' } };
    expect(plainPresentation.present(request, response)).toBe(response);
    expect(plainPresentation.presentInterim(theirs)).toBe(theirs);
  });

  it('applies the rules for single fields last', () => {
    const security = () => fieldsOf('X-Frame-Options: DENY', 'Server: s');
    const change = createFieldChange({ ...nothing, remove: ['server'], set: { 'x-frame-options': 'SAMEORIGIN' } });
    const { present } = createPresentation({ ...without, security, change });
    const presented = present(request, { status: 404, fields: theirs, body: { kind: 'none' } });
    expect(presented).toEqual({ status: 404, fields: fieldsOf('X-Frame-Options: SAMEORIGIN'), body: { kind: 'none' } });
  });

  it('removes the same fields from trailers as from heads', async () => {
    let isClosed = false;
    const stream: BodyStream = {
      async *[Symbol.asyncIterator]() {
        yield Buffer.from('bytes');
      },
      trailers: () => fieldsOf('X-A: 1', 'X-B: 2'),
      close: () => {
        isClosed = true;
      },
    };
    const change = createFieldChange({ ...nothing, remove: ['x-a'] });
    const { present } = createPresentation({ ...without, change });
    const { body } = present(request, { status: 200, fields: [], body: { kind: 'stream', sizeBytes: 5, stream } });
    if (body.kind !== 'stream') throw new Error('the body has no stream any more');
    for await (const chunk of body.stream) expect(chunk).toEqual(Buffer.from('bytes'));
    expect(body.stream.trailers?.()).toEqual(fieldsOf('X-B: 2'));
    body.stream.close();
    expect(isClosed).toBe(true);
    const bare = { [Symbol.asyncIterator]: stream[Symbol.asyncIterator], close: stream.close };
    const untouched = { kind: 'stream', sizeBytes: undefined, stream: bare } as const;
    expect(present(request, { status: 200, fields: [], body: untouched }).body).toBe(untouched);
  });
});

describe('the fields that rules may change', () => {
  const problemsOf = (fields: object): string => {
    const checked = checkConfig({ routes: [{ origin: 'http://origin.test', fields }] }, '.');
    return checked.kind === 'ok' ? 'ok' : checked.problems.map(({ message }) => message).join('; ');
  };
  const uses = ['remove', 'set', 'add'] as const;
  const rule = (side: string, use: string, name: string) =>
    problemsOf({ [side]: { [use]: use === 'remove' ? [name] : { [name]: 'x' } } });

  const rows: readonly (readonly [side: 'toOrigin' | 'toClient', name: string, allowed: string])[] = [
    // Common rules of other proxies.
    ['toOrigin', 'Cookie', 'remove set add'],
    ['toOrigin', 'Authorization', 'remove set add'],
    ['toOrigin', 'Accept-Encoding', 'remove set add'],
    ['toOrigin', 'X-Forwarded-For', 'remove set add'],
    ['toOrigin', 'Forwarded', 'remove set add'],
    ['toOrigin', 'X-Real-IP', 'remove set add'],
    ['toOrigin', 'User-Agent', 'remove set add'],
    ['toOrigin', 'Referer', 'remove set add'],
    ['toOrigin', 'Origin', 'remove set add'],
    ['toOrigin', 'Cache-Control', 'remove set add'],
    ['toOrigin', 'Content-Type', 'remove set add'],
    ['toClient', 'Server', 'remove set add'],
    ['toClient', 'X-Powered-By', 'remove set add'],
    ['toClient', 'Cache-Control', 'remove set add'],
    ['toClient', 'Expires', 'remove set add'],
    ['toClient', 'Set-Cookie', 'remove set add'],
    ['toClient', 'Content-Disposition', 'remove set add'],
    ['toClient', 'Content-Security-Policy', 'remove set add'],
    ['toClient', 'Access-Control-Allow-Origin', 'remove set add'],
    ['toClient', 'Alt-Svc', 'remove set add'],
    ['toClient', 'Cache-Status', 'remove set add'],
    ['toClient', 'Location', 'remove set add'],
    // A validator may be removed, but not set to one value for the whole route.
    ['toClient', 'ETag', 'remove'],
    ['toClient', 'Last-Modified', 'remove'],
    ['toClient', 'Repr-Digest', 'remove'],
    ['toClient', 'Content-Digest', 'remove'],
    ['toClient', 'Vary', 'add'],
    // Fields that the content, the connection or the RFCs determine.
    ['toClient', 'Content-Type', ''],
    ['toClient', 'Content-Encoding', ''],
    ['toClient', 'Content-Length', ''],
    ['toClient', 'Content-Range', ''],
    ['toClient', 'Accept-Ranges', ''],
    ['toClient', 'Date', ''],
    ['toClient', 'Age', ''],
    ['toClient', 'WWW-Authenticate', ''],
    ['toClient', 'Transfer-Encoding', ''],
    ['toClient', 'Connection', ''],
    ['toClient', 'Trailer', ''],
    ['toClient', 'Via', ''],
    ['toOrigin', 'Via', ''],
    ['toOrigin', 'CDN-Loop', ''],
    ['toOrigin', 'Host', ''],
    ['toOrigin', 'Range', ''],
    ['toOrigin', 'If-Range', ''],
    ['toOrigin', 'If-None-Match', ''],
    ['toOrigin', 'If-Modified-Since', ''],
    ['toOrigin', 'Content-Length', ''],
    ['toOrigin', 'Content-Encoding', ''],
    ['toOrigin', 'Content-Range', ''],
    ['toOrigin', 'Transfer-Encoding', ''],
    ['toOrigin', 'Connection', ''],
    ['toOrigin', 'TE', ''],
    ['toOrigin', 'Expect', ''],
    ['toOrigin', 'Upgrade', ''],
  ];
  it.each(rows)('%s %s: %s', (side, name, allowed) => {
    expect(uses.filter((use) => rule(side, use, name) === 'ok').join(' ')).toBe(allowed);
    for (const use of uses.filter((each) => !allowed.includes(each))) {
      expect(rule(side, use, name)).toMatch(new RegExp(`^"${name}" .*(?:: it|: rules cannot|is chosen by)`, 'i'));
    }
  });

  it.each([
    [{ toClient: { set: { 'X-A': 'a\r\nX-B: b' } } }, 'expected visible ASCII'],
    [{ toClient: { set: { 'X-A': 'caf\u00e9' } } }, 'expected visible ASCII'],
    [{ toClient: { set: { 'X A': 'b' } } }, 'exact name of a field'],
    [{ toClient: { remove: ['X-*'] } }, 'exact name of a field'],
    [{ toClient: { remove: ['X-A', 'x-a'] } }, 'named twice'],
    [{ toOrigin: { setSecret: { Host: 'env:A' } } }, 'origin.host'],
    [{ toOrigin: { setSecret: { 'X-A': 'secret' } } }, '"env:NAME"'],
    [{ toOrigin: { setSecret: { 'X-A': 'env:A' }, set: { 'x-a': 'b' } } }, 'is a name of "set" too'],
    [{ toOrigin: { setSecret: { 'X-A': 'env:A' }, add: { 'x-a': 'b' } } }, 'is a name of "add" too'],
    [{ toClient: { setSecret: { 'X-A': 'env:A' } } }, 'unknown'],
  ])('%j is refused', (fields, message) => expect(problemsOf(fields)).toContain(message));
});
