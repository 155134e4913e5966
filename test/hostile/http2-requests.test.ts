/** HTTP/2 requests that would change their meaning in HTTP/1: the answer to the client, and the request at the origin. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checkConfig } from '../../src/config/load.ts';
import type { Field } from '../../src/http/fields.ts';
import { type RunningServer, start } from '../../src/main.ts';
import { errorCode, H2RawClient } from '../support/clients/h2-raw-client.ts';
import { readRecorded } from '../support/origins/recorded-requests.ts';
import { openRecordingOrigin } from '../support/origins/recording-origin.ts';

/** The stream is reset or answered with an error, and the origin gets no request; or the origin gets this one request. */
type Verdict =
  | { readonly kind: 'reset'; readonly code: number }
  | { readonly kind: 'refused'; readonly status: number }
  | {
      readonly kind: 'passed';
      readonly line: string;
      readonly body: string;
      /** Field lines that the request must have, as `name: value`, and names that it must not have, as `-name`. */
      readonly fields: readonly string[];
    };

type Row = readonly [name: string, fields: readonly Field[], verdict: Verdict, content?: string];

/** Content that contradicts Content-Length is seen too late for an answer (RFC 9113 §8.1.1). */
const reset: Verdict = { kind: 'reset', code: errorCode.protocol };
const refused = (status: number): Verdict => ({ kind: 'refused', status });
const malformed = refused(400);
const passed = (line: string, body = '', ...fields: readonly string[]): Verdict => ({
  kind: 'passed',
  line,
  body,
  fields,
});

/** Returns the fields of a plain GET with these pseudo-fields in place of its own (`undefined` removes one), then `fields`. */
function request(pseudo: Readonly<Record<string, string | undefined>>, ...fields: readonly Field[]): Field[] {
  const all = { method: 'GET', scheme: 'http', authority: 'a', path: '/x', ...pseudo };
  const pseudoLines = Object.entries(all).flatMap(([name, value]): Field[] =>
    value === undefined ? [] : [[`:${name}`, value]],
  );
  return [...pseudoLines, ...fields];
}
const get = (...fields: readonly Field[]) => request({}, ...fields);
const post = (...fields: readonly Field[]) => request({ method: 'POST' }, ...fields);
const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n';

const values: readonly Row[] = [
  ['CR LF', get(['x', 'a\r\ny: b']), malformed],
  ['CR LF and a whole request', get(['x', `a\r\n\r\n${smuggled}`]), malformed],
  ['LF', get(['x', 'a\ny: b']), malformed],
  ['CR', get(['x', 'a\ry: b']), malformed],
  ['NUL', get(['x', 'a\0y']), malformed],
  ['a control character', get(['x', 'a\x01']), malformed],
  ['DEL', get(['x', 'a\x7f']), malformed],
  ['white space before', get(['x', ' a']), malformed],
  ['white space behind', get(['x', 'a\t']), malformed],
  ['obs-text', get(['x', 'a\xe4']), passed('GET /x', '', 'x: a\xe4')],
  ['a tab within', get(['x', 'a\tb']), passed('GET /x', '', 'x: a\tb')],
  ['no characters', get(['x', '']), passed('GET /x', '', 'x: ')],
  ['CR LF in Cookie', get(['cookie', 'a=b\r\ny: b']), malformed],
  ['CR LF in Content-Length', post(['content-length', '3\r\ny: b']), malformed, 'abc'],
];

const names: readonly Row[] = [
  ['CR LF', get(['x: a\r\ny', 'b']), malformed],
  ['LF', get(['x\ny', 'b']), malformed],
  ['NUL', get(['x\0', 'b']), malformed],
  ['a colon', get(['x:y', 'b']), malformed],
  ['a colon and a field of framing', get(['transfer-encoding: chunked\r\nx', 'b']), malformed],
  ['a space', get(['x ', 'b']), malformed],
  ['a field of framing behind a space', get([' transfer-encoding', 'chunked']), malformed],
  ['a field of framing before a space', post(['transfer-encoding ', 'chunked']), malformed, 'abc'],
  ['a field of framing with a tab', post(['content-length\t', '1']), malformed, 'abc'],
  ['no characters', get(['', 'b']), malformed],
  ['obs-text', get(['x\xe4', 'b']), malformed],
  ['a separator', get(['x(y)', 'b']), malformed],
  ['a capital letter', get(['X', 'b']), malformed],
  ['a field of framing in capitals', post(['Transfer-Encoding', 'chunked']), malformed, 'abc'],
  ['an underscore for a hyphen, in Transfer-Encoding', post(['transfer_encoding', 'chunked']), refused(400), 'abc'],
  ['an underscore for a hyphen, in Content-Length', post(['content_length', '1']), refused(400), 'abc'],
];

const connection: readonly Row[] = [
  ['Transfer-Encoding', post(['transfer-encoding', 'chunked']), malformed, `0\r\n\r\n${smuggled}`],
  ['Transfer-Encoding of no coding', post(['transfer-encoding', 'identity']), malformed, 'abc'],
  [
    'Transfer-Encoding beside Content-Length',
    post(['content-length', '3'], ['transfer-encoding', 'chunked']),
    malformed,
    'abc',
  ],
  ['Connection', get(['connection', 'close']), malformed],
  ['Connection that names a field', get(['connection', 'host'], ['x', 'y']), malformed],
  ['Keep-Alive', get(['keep-alive', 'timeout=5']), malformed],
  ['Proxy-Connection', get(['proxy-connection', 'keep-alive']), malformed],
  ['Upgrade', get(['upgrade', 'websocket']), malformed],
  ['TE of a coding', get(['te', 'chunked']), malformed],
  ['TE of trailers and a coding', get(['te', 'trailers, chunked']), malformed],
  ['TE of trailers', get(['te', 'trailers']), passed('GET /x', '', '-transfer-encoding')],
  ['HTTP2-Settings', get(['http2-settings', 'AAMAAABkAAQAAP__']), passed('GET /x', '', '-http2-settings')],
  ['Expect with another value', get(['expect', '200-ok']), refused(417)],
];

const framing: readonly Row[] = [
  ['a length', post(['content-length', '3']), passed('POST /x', 'abc', 'content-length: 3'), 'abc'],
  ['no length', post(), passed('POST /x', 'abc', 'transfer-encoding: chunked'), 'abc'],
  ['a body that looks like a request', post(), passed('POST /x', smuggled, 'transfer-encoding: chunked'), smuggled],
  [
    'a length and a body that looks like a request',
    post(['content-length', String(smuggled.length)]),
    passed('POST /x', smuggled),
    smuggled,
  ],
  ['a length that is too small', post(['content-length', '2']), reset, `ab${smuggled}`],
  ['a length that is too large', post(['content-length', '4']), reset, 'abc'],
  ['a length of 0 and a body', post(['content-length', '0']), reset, smuggled],
  ['a length and no body', post(['content-length', '3']), reset],
  ['the same length twice', post(['content-length', '3'], ['content-length', '3']), malformed, 'abc'],
  ['two lengths', post(['content-length', '3'], ['content-length', '0']), malformed, 'abc'],
  ['a list of lengths', post(['content-length', '3, 3']), malformed, 'abc'],
  ['+3', post(['content-length', '+3']), malformed, 'abc'],
  ['0x3', post(['content-length', '0x3']), malformed, 'abc'],
  ['-3', post(['content-length', '-3']), malformed, 'abc'],
  ['more bytes than can be counted', post(['content-length', '9007199254740993']), malformed, 'abc'],
  ['more than 64 bits', post(['content-length', '18446744073709551619']), malformed, 'abc'],
  ['a body on GET', get(), passed('GET /x', 'abc'), 'abc'],
];

const methods: readonly Row[] = [
  ['none', request({ method: undefined }), malformed],
  ['of no characters', request({ method: '' }), malformed],
  ['with a target and a version', request({ method: 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\nGET' }), malformed],
  ['with a space', request({ method: 'GET /admin' }), malformed],
  ['in lower case', request({ method: 'get' }), refused(501)],
  ['that is not registered', request({ method: 'FETCH' }), refused(501)],
  ['TRACE', request({ method: 'TRACE' }), refused(405)],
  [
    'CONNECT',
    [
      [':method', 'CONNECT'],
      [':authority', 'a:80'],
    ],
    refused(405),
  ],
  ['CONNECT with a path', request({ method: 'CONNECT' }), refused(405)],
  ['extended CONNECT (RFC 8441)', request({ method: 'CONNECT', protocol: 'websocket' }), refused(405)],
  ['PRI', request({ method: 'PRI', path: '*' }), refused(501)],
];

const paths: readonly Row[] = [
  ['none', request({ path: undefined }), malformed],
  ['of no characters', request({ path: '' }), malformed],
  ['with CR LF', request({ path: '/x HTTP/1.1\r\nHost: b\r\n\r\nGET /smuggled' }), malformed],
  ['with a space', request({ path: '/x HTTP/1.1' }), malformed],
  ['with a tab', request({ path: '/x\ty' }), malformed],
  ['with NUL', request({ path: '/x\0' }), malformed],
  ['with DEL', request({ path: '/x\x7f' }), malformed],
  ['with obs-text', request({ path: '/\xe4' }), refused(400)],
  ['with a fragment', request({ path: '/x#y' }), refused(400)],
  ['that is relative', request({ path: 'x' }), malformed],
  ['that is a URI', request({ path: 'http://b/x' }), malformed],
  ['that is a URI of another scheme', request({ path: 'gopher://b/x' }), malformed],
  ['that begins with two slashes', request({ path: '//b/x' }), passed('GET //b/x', '', 'x-forwarded-host: a')],
  ['of user information', request({ path: '@b/x' }), malformed],
  ['* without OPTIONS', request({ path: '*' }), malformed],
  ['of 9000 bytes', request({ path: `/${'x'.repeat(9_000)}` }), refused(414)],
];

const authorities: readonly Row[] = [
  ['none, and no Host', request({ authority: undefined }), malformed],
  ['of no characters', request({ authority: '' }), malformed],
  ['in Host alone', request({ authority: undefined }, ['host', 'a']), passed('GET /x', '', 'x-forwarded-host: a')],
  ['in :authority and Host', request({}, ['host', 'a']), passed('GET /x', '', 'x-forwarded-host: a')],
  ['in :authority and Host, in another case', request({}, ['host', 'A']), passed('GET /x', '', 'x-forwarded-host: a')],
  ['and another Host', request({}, ['host', 'b']), refused(400)],
  ['and Host with a port', request({}, ['host', 'a:81']), refused(400)],
  ['and Host twice', request({}, ['host', 'a'], ['host', 'a']), malformed],
  ['and an empty Host', request({}, ['host', '']), malformed],
  ['in Host twice', request({ authority: undefined }, ['host', 'a'], ['host', 'b']), malformed],
  ['with user information', request({ authority: 'u:p@a' }), malformed],
  ['with a path', request({ authority: 'a/b' }), malformed],
  ['with a space', request({ authority: 'a b' }), malformed],
  ['with CR LF', request({ authority: 'a\r\nX: y' }), malformed],
  ['with an invalid port', request({ authority: 'a:b' }), refused(400)],
  ['with a port over 65535', request({ authority: 'a:65536' }), refused(400)],
  ['with obs-text', request({ authority: 'a\xe4' }), malformed],
];

const schemes: readonly Row[] = [
  ['none', request({ scheme: undefined }), malformed],
  ['of no characters', request({ scheme: '' }), malformed],
  ['https on a listener without TLS', request({ scheme: 'https' }), passed('GET /x', '', 'x-forwarded-proto: http')],
  ['of another protocol', request({ scheme: 'ftp' }), refused(400)],
  ['with a URI', request({ scheme: 'http://b/?' }), malformed],
  ['with CR LF', request({ scheme: 'http\r\nx: y' }), malformed],
];

const pseudoFields: readonly Row[] = [
  ['behind a field', [['x', 'y'], ...get()], malformed],
  ['twice', [...get(), [':path', '/y']], malformed],
  ['twice, alike', [...get(), [':method', 'GET']], malformed],
  ['of a response', [...get(), [':status', '200']], malformed],
  ['with an unknown name', [[':foo', 'bar'], ...get()], malformed],
  ['in capitals', [[':METHOD', 'GET'], ...get()], malformed],
  ['with no name', [[':', 'x'], ...get()], malformed],
  ['with the name host', [[':host', 'b'], ...get()], malformed],
];

const lists: readonly Row[] = [
  ['of 40 KiB', get(['x', 'y'.repeat(15_000)], ['y', 'z'.repeat(15_000)], ['z', 'z'.repeat(4_000)]), refused(431)],
  ['of 250 lines', get(...Array.from({ length: 250 }, (): Field => ['x', 'y'])), refused(431)],
  ['of 190 cookies', get(...Array.from({ length: 300 }, (_, at): Field => ['cookie', `c${at}=1`])), passed('GET /x')],
  ['of 600 lines', get(...Array.from({ length: 600 }, (): Field => ['x', 'y'])), refused(431)],
];

let origin: Awaited<ReturnType<typeof openRecordingOrigin>>;
let server: RunningServer;
let port: number;

beforeAll(async () => {
  origin = await openRecordingOrigin();
  const loaded = checkConfig(
    {
      listen: [{ address: '127.0.0.1:0', http2: true }],
      store: { type: 'memory' },
      pseudonym: 'edge',
      routes: [{ origin: origin.url }],
    },
    '/',
  );
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.problems));
  server = await start(loaded.config);
  port = Number(new URL(server.url).port);
});

afterAll(async () => {
  await server.close({ graceMs: 0 });
  await origin[Symbol.asyncDispose]();
});

describe.each<[string, readonly Row[]]>([
  ['a value with', values],
  ['a name with', names],
  ['a field of the connection', connection],
  ['framing', framing],
  ['a method', methods],
  ['a path', paths],
  ['an authority', authorities],
  ['a scheme', schemes],
  ['a pseudo-field', pseudoFields],
  ['a header list', lists],
])('%s', (_group, rows) => {
  const cases = rows.map(([name, fields, verdict, content]) => ({ name, fields, verdict, content }));
  it.each(cases)('$name', async ({ fields, verdict, content }) => {
    origin.reset();
    await using client = await H2RawClient.open(port);
    client.request(1, fields, { endStream: content === undefined });
    if (content !== undefined) client.data(1, content, { endStream: true });
    const { status, resetCode } = await client.whenOver(1);
    // The connection stays usable: a later request gets its own answer.
    client.request(3, request({ path: '/after' }));
    expect((await client.whenOver(3)).status).toBe(200);
    const seen = (await readRecorded(origin)).filter(({ target }) => target !== '/after');
    if (verdict.kind === 'passed') {
      const summary = seen.map(({ method, target, body }) => [`${method} ${target}`, body]);
      expect([status, summary]).toEqual([200, [[verdict.line, verdict.body]]]);
      const lines = seen[0]?.fields.map(([name, value]) => `${name.toLowerCase()}: ${value}`) ?? [];
      const present = verdict.fields.filter((field) => !field.startsWith('-'));
      const absent = verdict.fields.filter((field) => field.startsWith('-')).map((field) => `${field.slice(1)}:`);
      expect(lines).toEqual(expect.arrayContaining(present));
      expect(lines.filter((line) => absent.some((name) => line.startsWith(name)))).toEqual([]);
    } else {
      expect(seen).toEqual([]);
      expect(verdict.kind === 'reset' ? { resetCode } : { status }).toEqual(
        verdict.kind === 'reset' ? { resetCode: verdict.code } : { status: verdict.status },
      );
    }
  });
});
