/** CORS: the fields with which a page of an allowed origin may use ranges (Fetch §3.3). Other origins do not get them. */

import { describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import { type CorsPolicy, createCors } from '../../src/guard/fields/presentation.ts';
import { type Fields, fieldLines, fieldValue, listMembers } from '../../src/http/fields.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const app = 'https://app.test';
const policy: CorsPolicy = {
  origins: [app, 'http://[::1]:8080', 'null'],
  credentials: false,
  methods: ['GET', 'HEAD'],
  requestFields: ['authorization'],
  exposeFields: ['x-request-id', 'etag'],
  maxAgeSeconds: 7200,
};

const preflightOf = (origin: string, ...more: readonly string[]) => ({
  method: 'OPTIONS',
  fields: fieldsOf(`Origin: ${origin}`, 'Access-Control-Request-Method: GET', ...more),
});

function preflight(changes: Partial<CorsPolicy>, request: { method: string; fields: Fields }) {
  return createCors({ ...policy, ...changes }).answerPreflight(request);
}

const setOf = (fields: Fields, name: string) => listMembers(fieldValue(fields, name)).map((each) => each.toLowerCase());

describe('a preflight request', () => {
  it('is answered by the proxy with everything that the page may use', () => {
    expect(preflight({}, preflightOf(app))).toEqual({
      status: 204,
      fields: fieldsOf(
        'Vary: Origin, Access-Control-Request-Method',
        `Access-Control-Allow-Origin: ${app}`,
        'Access-Control-Allow-Methods: GET, HEAD',
        'Access-Control-Allow-Headers: Accept, Accept-Language, Content-Language, Range, If-Match, If-Modified-Since, If-None-Match, If-Range, If-Unmodified-Since, Authorization',
        'Access-Control-Max-Age: 7200',
      ),
      body: { kind: 'none' },
    });
  });

  it.each<[origin: string, changes: Partial<CorsPolicy>, want: string | undefined]>([
    [app, {}, app],
    ['http://[::1]:8080', {}, 'http://[::1]:8080'],
    ['null', {}, 'null'],
    ['null', { origins: [app] }, undefined],
    ['https://evil.test', {}, undefined],
    ['http://app.test', {}, undefined],
    ['https://app.test:8443', {}, undefined],
    ['https://app.test.evil.test', {}, undefined],
    ['https://sub.app.test', {}, undefined],
    ['https://APP.test', {}, undefined],
    [`${app}/`, {}, undefined],
    [`${app}, ${app}`, {}, undefined],
    [`${app} https://evil.test`, {}, undefined],
    ['*', {}, undefined],
    ['', {}, undefined],
    ['https://evil.test', { origins: ['*'] }, '*'],
    ['null', { origins: ['*'] }, '*'],
  ])('of %j with %j: %s', (origin, changes, want) => {
    const fields = preflight(changes, preflightOf(origin))?.fields ?? [];
    expect(fieldLines(fields, 'access-control-allow-origin')).toEqual(want === undefined ? [] : [want]);
    // An origin that is not allowed does not learn what other origins may do.
    if (want === undefined) expect(fields).toEqual(fieldsOf('Vary: Origin, Access-Control-Request-Method'));
  });

  it('allows credentials where it is configured', () => {
    const fields = preflight({ credentials: true }, preflightOf(app))?.fields ?? [];
    expect(fieldValue(fields, 'access-control-allow-credentials')).toBe('true');
  });

  it('does not allow access to private networks', () => {
    const request = preflightOf(app, 'Access-Control-Request-Private-Network: true');
    expect(preflight({}, request)).toEqual(preflight({}, preflightOf(app)));
  });

  it.each<[name: string, method: string, lines: readonly string[]]>([
    ['GET', 'GET', [`Origin: ${app}`, 'Access-Control-Request-Method: GET']],
    ['OPTIONS without Origin', 'OPTIONS', ['Access-Control-Request-Method: GET']],
    ['OPTIONS without Access-Control-Request-Method', 'OPTIONS', [`Origin: ${app}`]],
  ])('is not %s', (_name, method, lines) => {
    expect(preflight({}, { method, fields: fieldsOf(...lines) })).toBeUndefined();
  });
});

/** Follows the CORS-preflight fetch (Fetch §4.8) and the CORS check (§4.9), as far as they matter here. */
function mayFetch(request: { method: string; fields: readonly string[] }, changes: Partial<CorsPolicy>): boolean {
  const answer = preflight(changes, preflightOf(app, `Access-Control-Request-Headers: ${request.fields.join(',')}`));
  const fields = answer?.fields ?? [];
  const isAllowed = ['*', app].includes(fieldValue(fields, 'access-control-allow-origin') ?? '');
  const methods = listMembers(fieldValue(fields, 'access-control-allow-methods'));
  const isMethod = methods.includes(request.method) || ['GET', 'HEAD', 'POST'].includes(request.method);
  const names = setOf(fields, 'access-control-allow-headers');
  return (answer?.status ?? 0) < 300 && isAllowed && isMethod && request.fields.every((name) => names.includes(name));
}

describe('a fetch that needs a preflight (Fetch §4.8)', () => {
  it.each<[method: string, fields: readonly string[], changes: Partial<CorsPolicy>, want: boolean]>([
    // Browsers send a preflight for several ranges, a suffix, or conditions.
    ['GET', ['range'], {}, true],
    ['GET', ['if-range', 'range'], {}, true],
    ['HEAD', ['if-match'], {}, true],
    ['GET', ['if-none-match', 'if-modified-since', 'if-unmodified-since'], {}, true],
    ['GET', ['accept', 'accept-language', 'content-language'], {}, true],
    ['GET', ['authorization', 'range'], {}, true],
    ['GET', ['x-custom'], {}, false],
    ['GET', ['authorization'], { requestFields: [] }, false],
    ['PUT', [], {}, false],
    ['PUT', ['content-type'], { methods: ['GET', 'PUT'], requestFields: ['content-type'] }, true],
    ['GET', ['range'], { origins: ['*'] }, true],
    ['GET', ['range'], { origins: ['https://other.test'] }, false],
  ])('%s with %j under %j is allowed: %s', (method, fields, changes, want) => {
    expect(mayFetch({ method, fields }, changes)).toBe(want);
  });
});

describe('a response', () => {
  const present = (lines: readonly string[], origin: string | undefined, changes: Partial<CorsPolicy> = {}) =>
    createCors({ ...policy, ...changes }).present(
      { method: 'GET', fields: origin === undefined ? [] : fieldsOf(`Origin: ${origin}`) },
      fieldsOf(...lines),
    );
  const exposed =
    'Access-Control-Expose-Headers: Accept-Ranges, Age, Content-Encoding, Content-Length, Content-Range, ETag, X-Request-ID';

  it('names the allowed origin and the fields that its page may read', () => {
    expect(present(['Content-Type: a/b'], app)).toEqual(
      fieldsOf('Content-Type: a/b', 'Vary: Origin', `Access-Control-Allow-Origin: ${app}`, exposed),
    );
    expect(present([], app, { credentials: true }).slice(1, 3)).toEqual(
      fieldsOf(`Access-Control-Allow-Origin: ${app}`, 'Access-Control-Allow-Credentials: true'),
    );
  });

  it('exposes the fields that a player needs for ranges (Fetch §2.2.6)', () => {
    const names = setOf(present([], app, { exposeFields: [] }), 'access-control-expose-headers');
    expect(names).toEqual(expect.arrayContaining(['accept-ranges', 'content-range', 'content-length', 'etag']));
  });

  it.each<[name: string, origin: string | undefined, changes: Partial<CorsPolicy>, want: readonly string[]]>([
    ['a request without Origin', undefined, {}, ['Vary: Origin']],
    ['an origin that is not allowed', 'https://evil.test', {}, ['Vary: Origin']],
    [
      'a request without Origin, where all origins are allowed',
      undefined,
      { origins: ['*'] },
      ['Access-Control-Allow-Origin: *', exposed],
    ],
    [
      'any origin, where all origins are allowed',
      'https://any.test',
      { origins: ['*'] },
      ['Access-Control-Allow-Origin: *', exposed],
    ],
  ])('to %s has no CORS fields of the origin server', (_name, origin, changes, want) => {
    const theirs = [
      'Access-Control-Allow-Origin: https://evil.test',
      'Access-Control-Allow-Credentials: true',
      'Access-Control-Expose-Headers: *',
      'Access-Control-Max-Age: 1',
      'Access-Control-Allow-Private-Network: true',
    ];
    expect(present(theirs, origin, changes)).toEqual(fieldsOf(...want));
  });

  it.each<[lines: readonly string[], want: readonly string[]]>([
    [[], ['Origin']],
    [['Vary: Accept-Encoding'], ['Accept-Encoding, Origin']],
    [['Vary: Accept-Encoding', 'Vary: X-A'], ['Accept-Encoding, X-A, Origin']],
    [['Vary: Accept, ORIGIN'], ['Accept, ORIGIN']],
    [['Vary: *'], ['*']],
    [['Vary: Accept, *'], ['Accept, *']],
    [['Vary:'], ['Origin']],
  ])('with %j has Origin in Vary once', (lines, want) => {
    expect(fieldLines(present(lines, undefined), 'vary')).toEqual(want);
    expect(fieldLines(present(lines, app), 'vary')).toEqual(want);
    expect(fieldLines(present(lines, app, { origins: ['*'] }), 'vary')).toEqual(fieldLines(fieldsOf(...lines), 'vary'));
  });

  it('to a preflight request is unchanged', () => {
    const fields = fieldsOf('Access-Control-Allow-Origin: x');
    expect(createCors(policy).present(preflightOf(app), fields)).toBe(fields);
  });
});

describe('the option cors', () => {
  const problemsOf = (cors: object) => {
    const checked = checkConfig({ routes: [{ origin: 'http://origin.test', cors }] }, '.');
    return checked.kind === 'ok' ? [] : checked.problems.map(({ message }) => message);
  };
  it.each([
    [{ origins: [app, 'capacitor://localhost', 'http://[::1]:3000', 'null'] }, []],
    [{ origins: ['*'] }, []],
    [{ origins: [] }, [expect.stringContaining('1')]],
    [{ origins: ['https://app.test/'] }, [expect.stringContaining('expected an origin')]],
    [{ origins: ['https://App.test'] }, [expect.stringContaining('expected an origin')]],
    [{ origins: ['app.test'] }, [expect.stringContaining('expected an origin')]],
    [{ origins: ['https://*.app.test'] }, [expect.stringContaining('expected an origin')]],
    [{ origins: ['https://app.test:443'] }, ['browsers leave this port out, so it never matches']],
    [{ origins: ['http://[::1]:80'] }, ['browsers leave this port out, so it never matches']],
    [{ origins: ['*'], credentials: true }, ['cannot be true for all origins ("*")']],
    [{ origins: [app, 'null'], credentials: true }, ['cannot be true for "null", which every page can be']],
    [{ origins: ['*'], methods: ['GET POST'] }, [expect.stringContaining('expected a token')]],
  ])('%j: %j', (cors, want) => expect(problemsOf(cors)).toEqual(want));
});
