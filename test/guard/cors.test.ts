/** What a browser needs so that a page of another origin may use ranges (Fetch §3.3), and what nobody else gets. */

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

function preflight(given: Partial<CorsPolicy>, request: { method: string; fields: Fields }) {
  return createCors({ ...policy, ...given }).answerPreflight(request);
}

const setOf = (fields: Fields, name: string) => listMembers(fieldValue(fields, name)).map((each) => each.toLowerCase());

describe('a preflight request', () => {
  it('is answered here with all that the page may', () => {
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

  it.each<[origin: string, given: Partial<CorsPolicy>, want: string | undefined]>([
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
  ])('of %j with %j: %s', (origin, given, want) => {
    const fields = preflight(given, preflightOf(origin))?.fields ?? [];
    expect(fieldLines(fields, 'access-control-allow-origin')).toEqual(want === undefined ? [] : [want]);
    // Who is not allowed is told nothing of what others may.
    if (want === undefined) expect(fields).toEqual(fieldsOf('Vary: Origin, Access-Control-Request-Method'));
  });

  it('lets cookies and credentials pass where the operator wants it', () => {
    const fields = preflight({ credentials: true }, preflightOf(app))?.fields ?? [];
    expect(fieldValue(fields, 'access-control-allow-credentials')).toBe('true');
  });

  it('lets nobody into private networks', () => {
    const asking = preflightOf(app, 'Access-Control-Request-Private-Network: true');
    expect(preflight({}, asking)).toEqual(preflight({}, preflightOf(app)));
  });

  it.each<[name: string, method: string, lines: readonly string[]]>([
    ['GET', 'GET', [`Origin: ${app}`, 'Access-Control-Request-Method: GET']],
    ['OPTIONS without Origin', 'OPTIONS', ['Access-Control-Request-Method: GET']],
    ['OPTIONS without a method that is asked for', 'OPTIONS', [`Origin: ${app}`]],
  ])('is not %s', (_name, method, lines) => {
    expect(preflight({}, { method, fields: fieldsOf(...lines) })).toBeUndefined();
  });
});

/** The CORS-preflight fetch (Fetch §4.8) and the CORS check (§4.9), as far as they decide here. */
function mayFetch(asked: { method: string; fields: readonly string[] }, given: Partial<CorsPolicy>): boolean {
  const answer = preflight(given, preflightOf(app, `Access-Control-Request-Headers: ${asked.fields.join(',')}`));
  const fields = answer?.fields ?? [];
  const isAllowed = ['*', app].includes(fieldValue(fields, 'access-control-allow-origin') ?? '');
  const methods = listMembers(fieldValue(fields, 'access-control-allow-methods'));
  const isMethod = methods.includes(asked.method) || ['GET', 'HEAD', 'POST'].includes(asked.method);
  const names = setOf(fields, 'access-control-allow-headers');
  return (answer?.status ?? 0) < 300 && isAllowed && isMethod && asked.fields.every((name) => names.includes(name));
}

describe('what a page may ask for after a preflight (Fetch §4.8)', () => {
  it.each<[method: string, fields: readonly string[], given: Partial<CorsPolicy>, want: boolean]>([
    // Several ranges, a suffix, or conditions: browsers ask before each of these.
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
  ])('%s with %j under %j: %s', (method, fields, given, want) => {
    expect(mayFetch({ method, fields }, given)).toBe(want);
  });
});

describe('a response', () => {
  const present = (lines: readonly string[], origin: string | undefined, given: Partial<CorsPolicy> = {}) =>
    createCors({ ...policy, ...given }).present(
      { method: 'GET', fields: origin === undefined ? [] : fieldsOf(`Origin: ${origin}`) },
      fieldsOf(...lines),
    );
  const exposed =
    'Access-Control-Expose-Headers: Accept-Ranges, Age, Content-Encoding, Content-Length, Content-Range, ETag, X-Request-ID';

  it('names the page that asked, and what it may read', () => {
    expect(present(['Content-Type: a/b'], app)).toEqual(
      fieldsOf('Content-Type: a/b', 'Vary: Origin', `Access-Control-Allow-Origin: ${app}`, exposed),
    );
    expect(present([], app, { credentials: true }).slice(1, 3)).toEqual(
      fieldsOf(`Access-Control-Allow-Origin: ${app}`, 'Access-Control-Allow-Credentials: true'),
    );
  });

  it('exposes what a player needs for ranges (Fetch §2.2.6)', () => {
    const names = setOf(present([], app, { exposeFields: [] }), 'access-control-expose-headers');
    expect(names).toEqual(expect.arrayContaining(['accept-ranges', 'content-range', 'content-length', 'etag']));
  });

  it.each<[name: string, origin: string | undefined, given: Partial<CorsPolicy>, want: readonly string[]]>([
    ['no page', undefined, {}, ['Vary: Origin']],
    ['a page that is not allowed', 'https://evil.test', {}, ['Vary: Origin']],
    ['no page, where all are allowed', undefined, { origins: ['*'] }, ['Access-Control-Allow-Origin: *', exposed]],
    ['any page, where all are', 'https://any.test', { origins: ['*'] }, ['Access-Control-Allow-Origin: *', exposed]],
  ])('for %s has nothing of the origin’s', (_name, origin, given, want) => {
    const theirs = [
      'Access-Control-Allow-Origin: https://evil.test',
      'Access-Control-Allow-Credentials: true',
      'Access-Control-Expose-Headers: *',
      'Access-Control-Max-Age: 1',
      'Access-Control-Allow-Private-Network: true',
    ];
    expect(present(theirs, origin, given)).toEqual(fieldsOf(...want));
  });

  it.each<[lines: readonly string[], want: readonly string[]]>([
    [[], ['Origin']],
    [['Vary: Accept-Encoding'], ['Accept-Encoding, Origin']],
    [['Vary: Accept-Encoding', 'Vary: X-A'], ['Accept-Encoding, X-A, Origin']],
    [['Vary: Accept, ORIGIN'], ['Accept, ORIGIN']],
    [['Vary: *'], ['*']],
    [['Vary: Accept, *'], ['Accept, *']],
    [['Vary:'], ['Origin']],
  ])('with %j varies by Origin, once', (lines, want) => {
    expect(fieldLines(present(lines, undefined), 'vary')).toEqual(want);
    expect(fieldLines(present(lines, app), 'vary')).toEqual(want);
    expect(fieldLines(present(lines, app, { origins: ['*'] }), 'vary')).toEqual(fieldLines(fieldsOf(...lines), 'vary'));
  });

  it('to a preflight request stays as it was made', () => {
    const fields = fieldsOf('Access-Control-Allow-Origin: x');
    expect(createCors(policy).present(preflightOf(app), fields)).toBe(fields);
  });
});

describe('the option cors', () => {
  const complaints = (cors: object) => {
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
  ])('%j: %j', (cors, want) => expect(complaints(cors)).toEqual(want));
});
