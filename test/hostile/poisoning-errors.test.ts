/** Errors that one client provokes ("CPDoS"): another client gets the same response as without the attack. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FakeExchange } from '../support/origins/fake-origin.ts';
import { openSharedGround, requestOf, type SharedGround } from '../support/proxies/shared-ground.ts';
import { createWholeProxy } from '../support/proxies/whole-proxy.ts';

/** Long enough for an origin to refuse it, and short enough for Rangeway. */
const oversized = 'x'.repeat(9000);

/** Statuses with which origins refuse requests. All of these responses have a lifetime. */
const refusals = [400, 403, 404, 405, 406, 410, 413, 414, 415, 416, 417, 431, 451, 500, 501, 502, 503, 505];
/** Statuses that may be about the client, and are neither about the target nor a failure of the origin. */
const clientRefusals = [400, 403, 405, 406, 413, 415, 416, 417, 431];

/** Fields that an attacker adds to its request, and the statuses that must not be stored. */
const vectors: readonly (readonly [name: string, lines: readonly string[], statuses?: readonly number[]])[] = [
  ['HHO: an oversized field', [`X-Oversized-Header: ${oversized}`]],
  ['HHO: an oversized cookie', [`Cookie: a=${oversized}`]],
  ['HHO: an oversized Accept', [`Accept: text/html;a=${oversized}`]],
  ['HHO: an oversized Referer', [`Referer: https://a.test/${oversized}`]],
  ['HHO: many fields', Array.from({ length: 150 }, (_, at) => `X-Many-${at}: ${'x'.repeat(30)}`)],
  ['HMC: a control character', ['X-Metachar: a\x07b']],
  ['HMC: DEL', ['X-Metachar: a\x7fb']],
  ['HMC: NUL', ['X-Metachar: a\0b']],
  ['HMC: an escape', ['X-Metachar: \x1b[31m']],
  ['HMC: bytes that are no UTF-8', ['X-Metachar: \xff\xfe']],
  ['HMC: UTF-8', ['X-Metachar: caf\xc3\xa9']],
  ['HMC: a bare CR', ['X-Metachar: a\rb']],
  ['HMO: X-HTTP-Method-Override', ['X-HTTP-Method-Override: DELETE']],
  ['HMO: X-HTTP-Method', ['X-HTTP-Method: NONSENSE']],
  ['HMO: X-Method-Override', ['X-Method-Override: POST']],
  ['HMO: X_HTTP_Method_Override', ['X_HTTP_Method_Override: POST']],
  ['Transfer-Encoding: identity', ['Transfer-Encoding: identity']],
  ['Transfer-Encoding: nonsense', ['Transfer-Encoding: xchunked']],
  ['Transfer-Encoding: chunked, twice', ['Transfer-Encoding: chunked, chunked']],
  ['an invalid Range', ['Range: bytes=abc']],
  ['a Range behind the end', ['Range: bytes=99999999999-']],
  ['a Range of another unit', ['Range: lines=1-2']],
  ['many ranges', [`Range: bytes=${Array.from({ length: 500 }, (_, at) => `${at}-${at}`).join(',')}`]],
  ['If-Match', ['If-Match: "none"']],
  ['If-Unmodified-Since', ['If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT']],
  ['an invalid If-Modified-Since', ['If-Modified-Since: junk']],
  ['an invalid If-None-Match', ['If-None-Match: junk']],
  ['an invalid If-Range', ['If-Range: junk', 'Range: bytes=0-1']],
  ['an invalid Accept', ['Accept: junk']],
  ['an Accept with junk at its end', ['Accept: text/html;q=0.5, <']],
  ['an invalid Accept-Language', ['Accept-Language: ../../etc/passwd']],
  ['an invalid Accept-Encoding', ['Accept-Encoding: gzip;q=']],
  ['an invalid Accept-Charset', ['Accept-Charset: "']],
  ['a Content-Type', ['Content-Type: application/evil']],
  ['a Content-Encoding', ['Content-Encoding: evil']],
  ['Max-Forwards', ['Max-Forwards: 0']],
  ['Expect', ['Expect: evil']],
  ['Upgrade', ['Upgrade: h2c']],
  ['Authorization', ['Authorization: junk']],
  ['Proxy-Authorization', ['Proxy-Authorization: junk']],
  ['a field that a cloud storage refuses (S3)', ['X-Amz-Server-Side-Encryption: AES256']],
  ['a field that a cloud storage refuses (Azure)', ['X-Ms-Version: 1']],
  ['a field that a cloud storage refuses (GCS)', ['X-Goog-Encryption-Algorithm: x']],
  ['a forbidden forwarded host', ['X-Forwarded-Host: evil.test']],
  ['a forbidden forwarded port', ['X-Forwarded-Port: 1']],
  ['a rewritten URL', ['X-Original-URL: /none', 'X-Rewrite-URL: /none']],
  ['a loop', ['Via: 1.1 edge']],
  ['a loop by CDN-Loop', ['CDN-Loop: edge']],
  ['only-if-cached', ['Cache-Control: only-if-cached']],
  ['another Origin', ['Origin: https://evil.test'], clientRefusals],
  ['a forbidden Referer', ['Referer: https://evil.test/'], clientRefusals],
  ['a forbidden cookie', ['Cookie: a=<script>'], clientRefusals],
];

let ground: SharedGround;
/** The status with which the origin refuses unusual requests, by path. */
const refusing = new Map<string, number>();

beforeAll(async () => {
  ground = await openSharedGround(({ target, lines }) => {
    const shared = { 'cache-control': 'public, max-age=60', 'last-modified': 'Wed, 01 Jan 2020 00:00:00 GMT' };
    const isPlain = lines.every((line) =>
      /^(?:host|connection|via|cdn-loop|x-forwarded-\w+|x-real-ip|forwarded|range|accept-encoding):/i.test(line),
    );
    const isRange = lines.some((line) => /^(?:range: bytes=\d|accept-encoding: [\w, ]*$)/i.test(line));
    const isFine = isPlain && (isRange || !lines.some((line) => /^(?:range|accept-encoding):/i.test(line)));
    const isKept = !lines.some((line) => /evil|none/.test(line));
    if (isFine && isKept) return { fields: shared, body: 'fine' };
    return { status: refusing.get(target) ?? 500, fields: shared, body: 'refused' };
  });
});
afterAll(() => ground[Symbol.asyncDispose]());

const rows = vectors.map(([name, lines, statuses = refusals]) => ({ name, lines, statuses }));

describe.each(rows)('$name', ({ name, lines, statuses }) => {
  it.each([...statuses])('does not harm a victim where the origin answers %i', async (status) => {
    const path = `/${encodeURIComponent(name)}/${status}`;
    refusing.set(path, status);
    for (let at = 0; at < 2; at += 1) await ground.send(requestOf(`GET ${path}`, ...lines));
    const victim = await ground.send(requestOf(`GET ${path}`));
    expect([victim.status, victim.body]).toEqual([200, 'fine']);
  });
});

describe('an error that a Range has provoked', () => {
  it.each(refusals)('and that has a lifetime does not harm a victim without Range: %i', async (status) => {
    const shared = { 'cache-control': 'public, max-age=60' };
    await using own = await openSharedGround(({ lines }) =>
      lines.some((line) => /^range:/i.test(line))
        ? { status, fields: shared, body: 'refused' }
        : { fields: shared, body: 'fine' },
    );
    for (const [at, range] of ['0-9', '-10', '5-', '0-1,5-6', '99-'].entries()) {
      await own.send(requestOf(`GET /${at}`, `Range: bytes=${range}`));
      const victim = await own.send(requestOf(`GET /${at}`));
      expect([range, victim.status, victim.body]).toEqual([range, 200, 'fine']);
    }
  });
});

describe('a victim whose request arrives while the attacker waits', () => {
  it.each<[name: string, fields: Record<string, string>, head: Parameters<FakeExchange['respond']>[0]]>([
    ['an oversized field', { 'x-oversized': oversized }, { status: 400 }],
    ['a forbidden Referer', { referer: 'https://evil.test/' }, { status: 403 }],
    ['a cookie', { cookie: 'a=b' }, { status: 200, fields: { 'cache-control': '' } }],
    [
      'another Origin',
      { origin: 'https://evil.test' },
      { status: 200, fields: { 'access-control-allow-origin': 'https://evil.test' } },
    ],
    ['an Accept-Encoding', { 'accept-encoding': 'gzip' }, { status: 200, fields: { 'content-encoding': 'gzip' } }],
  ])('does not get the response to %s', async (_name, fields, head) => {
    const proxy = createWholeProxy();
    const attacker = proxy.send({ fields });
    const first = await proxy.origin.next();
    const victim = proxy.send();
    first.respond({ ...head, fields: { 'cache-control': 'max-age=60', ...head?.fields } }, Buffer.from('evil'));
    expect(Buffer.from(await attacker.bytes()).toString()).toBe('evil');
    const second = await proxy.origin.next();
    second.respond({ fields: { 'cache-control': 'max-age=60' } }, Buffer.from('fine'));
    expect(Buffer.from(await victim.bytes()).toString()).toBe('fine');
    expect(await victim.field('access-control-allow-origin')).toBeUndefined();
    await proxy.close();
  });
});

describe('an error for all clients', () => {
  it.each([403, 404, 405, 410, 500, 501])('is stored where the origin gives it a lifetime: %i', async (status) => {
    await using own = await openSharedGround(() => ({ status, fields: { 'cache-control': 'max-age=60' }, body: 'no' }));
    await own.send(requestOf('GET /page', 'User-Agent: browser', 'Accept: text/html,*/*;q=0.8', 'Accept-Language: de'));
    expect(await own.send(requestOf('GET /page'))).toMatchObject({ status, isHit: true });
  });
});
