import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import type { Answer } from '../../src/cache/answer.ts';
import { deliver } from '../../src/delivery/deliver.ts';
import { type Fields, fieldLines } from '../../src/http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import type { StoredResponse } from '../../src/http/stored-response.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { fieldsOf, storedWith } from '../support/values/fields-of.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const body = patternBytes(0, 1000);
const sha256 = createHash('sha256').update(body);
const bodyDigest = sha256.copy().digest('hex');
const ours = `sha-256=:${sha256.copy().digest('base64')}:`;
const theirs = 'sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:';
const other = 'sha-512=:AAAA:';

/** Makes the response from a stored response with `body`. */
function send(
  stored: StoredResponse,
  { method = 'GET', lines = [], sendsDigest = true }: { method?: string; lines?: string[]; sendsDigest?: boolean } = {},
): ProxyResponse {
  const clock = createFakeClock();
  const request: ProxyRequest = {
    method,
    scheme: 'http',
    authority: 'files.example',
    target: '/file',
    version: '1.1',
    fields: fieldsOf(...lines),
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: '192.0.2.7', port: 40_000 },
    receivedAt: clock.now(),
    signal: new AbortController().signal,
    sendInterim: () => {},
  };
  const answer: Answer = {
    kind: 'representation',
    representation: {
      response: stored,
      sizeBytes: body.length,
      peek: (offset, end) => body.subarray(offset, end),
      open: () => Promise.reject(new Error('All of it is in memory.')),
      whenPresent: async () => true,
      close: () => {},
    },
    isReuse: true,
    outcome: 'hit',
    reason: undefined,
    collapsed: false,
    status: { hit: true },
    originBytes: () => 0,
  };
  const rules = { maxRanges: 10, coalesceGapBytes: 0, lengthWaitMs: 0 };
  const random = (size: number) => new Uint8Array(size);
  const response = deliver(request, answer, { rules, clock, sendsDigest, random, forward: (fields) => fields });
  if (response instanceof Promise) throw new Error('A hit in memory is answered in the same tick.');
  return response;
}

function digests(fields: Fields): string[] {
  return fieldLines(fields, 'repr-digest');
}

describe('Repr-Digest of a response from a hashed body', () => {
  const stored = storedWith(['ETag: "a"', 'Content-Type: text/plain'], { bodyDigest });
  const rows: readonly (readonly [
    name: string,
    sent: { method?: string; lines?: string[] },
    status: number,
    want: readonly string[],
  ])[] = [
    ['the whole', {}, 200, [ours]],
    ['HEAD', { method: 'HEAD' }, 200, [ours]],
    ['a part has the digest of the whole (RFC 9530 §3)', { lines: ['Range: bytes=5-9'] }, 206, [ours]],
    ['parts have the digest of the whole', { lines: ['Range: bytes=5-9,50-99'] }, 206, [ours]],
    ['a 304 has only fields that update the response of the client', { lines: ['If-None-Match: "a"'] }, 304, []],
    ['a 412 is another representation', { lines: ['If-Match: "b"'] }, 412, []],
    ['a 416 is another representation', { lines: ['Range: bytes=1000-'] }, 416, []],
  ];
  it.each(rows)('%s', (_name, sent, status, want) => {
    const response = send(stored, sent);
    expect([response.status, digests(response.fields)]).toEqual([status, want]);
  });

  it('is not stated where the route does not want it', () => {
    expect(digests(send(stored, { sendsDigest: false }).fields)).toEqual([]);
  });

  it('is not stated of a body that was not hashed', () => {
    expect(digests(send(storedWith(['ETag: "a"'])).fields)).toEqual([]);
  });

  it("is the origin's where that has SHA-256, and is added to the origin's where that has another algorithm", () => {
    const state = (value: string) => digests(send(storedWith([`Repr-Digest: ${value}`], { bodyDigest })).fields);
    expect(state(theirs)).toEqual([theirs]);
    expect(state(other)).toEqual([other, ours]);
  });
});

describe('a stored Content-Digest', () => {
  const stored = storedWith(['Content-Type: text/plain', `Content-Digest: ${ours}`, 'Content-MD5: AAAA'], {
    bodyDigest,
  });
  const rows: readonly (readonly [name: string, sent: { method?: string; lines?: string[] }, count: number])[] = [
    ['is sent with the whole', {}, 2],
    ['is not sent with a part (RFC 9530 §2)', { lines: ['Range: bytes=5-9'] }, 0],
    ['is not sent with parts', { lines: ['Range: bytes=5-9,50-99'] }, 0],
    ['is not sent without content (RFC 9530 Appendix B.2)', { method: 'HEAD' }, 0],
    ['is not sent with a 416', { lines: ['Range: bytes=1000-'] }, 0],
  ];
  it.each(rows)('%s', (_name, sent, count) => {
    const { fields } = send(stored, sent);
    expect(fields.filter(([name]) => name === 'content-digest' || name === 'content-md5')).toHaveLength(count);
  });
});
