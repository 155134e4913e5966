/** Packed responses: what is read from the packed form equals what was packed, for every kind of head. */

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Field } from '../../src/http/fields.ts';
import { packResponse } from '../../src/http/packed-response.ts';
import type { StoredResponse } from '../../src/http/stored-response.ts';
import { formatFieldLines } from '../../src/listener/http1/response-writer.ts';
import { sampleMetadata } from '../support/stores/stored-sample.ts';

/** Packs a response, lets it be forgotten by packing many others, and reads it again. */
function packedAndRead(response: StoredResponse): StoredResponse | undefined {
  const packed = packResponse(response);
  for (let other = 0; other < 256; other += 1) packResponse(sampleMetadata(other));
  const read = packed?.read();
  if (read !== undefined) expect(read).not.toBe(response);
  return read;
}

function withFields(...fields: readonly Field[]): StoredResponse {
  return { ...sampleMetadata(), fields };
}

describe('a packed response is read as it was', () => {
  it.each<[string, StoredResponse]>([
    ['no field', withFields()],
    ['usual fields', withFields(['etag', '"x"'], ['cache-control', 'max-age=60'], ['x-request-id', 'a'])],
    [
      'a name of special case',
      withFields(['www-authenticate', 'Basic'], ['dnt', '1'], ['te', 'x'], ['x-xss-protection', '0']),
    ],
    ['each character of a token', withFields(["!#$%&'*+.^_`|~0-9az", 'x'])],
    ['a name in upper case', withFields(['ETag', '"x"'], ['age', '1'])],
    ['a name that is no token', withFields(['a b', 'x'], ['a:b', 'x'], ['', 'x'], ['é', 'x'], ['\u212a', 'x'])],
    ['an empty value', withFields(['x-empty', ''], ['x-last', ''])],
    ['spaces around a value', withFields(['x-padded', '  a b  '], ['x-tab', '\ta\t'])],
    ['a colon in a value', withFields(['location', 'http://a.example/: b'], ['x', ': '], ['y', ':'])],
    ['bytes above ASCII', withFields(['x-latin', '\x80é\xff'], ['etag', '"é"'])],
    ['characters above a byte', withFields(['x-wide', 'žluť 🙂'], ['x-half', '\ud800'], ['etag', '"x"'])],
    ['a line break, NUL and DEL in a value', withFields(['a', 'x\r\ny: z'], ['b', '\n'], ['c', '\0'], ['d', '\x7f'])],
    ['equal names', withFields(['set-cookie', 'a=1'], ['x', '1'], ['set-cookie', 'b=2'], ['set-cookie', 'a=1'])],
    ['framing fields first', withFields(['content-length', '5'], ['age', '3'], ['etag', '"x"'])],
    [
      'framing fields between others',
      withFields(['etag', '"x"'], ['accept-ranges', 'bytes'], ['age', '1'], ['vary', 'a']),
    ],
    ['framing fields last, twice', withFields(['etag', '"x"'], ['content-length', '5'], ['content-length', '5'])],
    ['framing fields alone', withFields(['content-length', '5'])],
    ['another status', { ...sampleMetadata(), status: 404 }],
    ['a part', { ...sampleMetadata(), status: 206, fragment: { range: 'bytes=0-1', start: 0, wholeBytes: 9 } }],
    ['identity', { ...sampleMetadata(), identity: { digest: '', names: ['cookie:a', 'authorization'] } }],
    [
      'nominated and selected values',
      {
        ...sampleMetadata(),
        nominated: [],
        selected: [
          ['a', null],
          ['b', 'x'],
        ],
      },
    ],
    ['a tag and digest of our own', { ...sampleMetadata(), ownEntityTag: '"own"', bodyDigest: '0'.repeat(64) }],
    ['an end of its lifetime', { ...sampleMetadata(), isInvalid: true, expiredAt: 5 }],
    ['tags', { ...sampleMetadata(), tags: ['a', '', 'ž'] }],
    ['times that are no whole numbers', { ...sampleMetadata(), requestAt: 0.5, responseAt: 1e15 }],
  ])('%s', (_, response) => {
    expect(packedAndRead(response)).toEqual(response);
  });

  it('whatever its fields are', () => {
    const text = fc.oneof(
      fc.string({ maxLength: 12 }),
      fc.string({ unit: 'binary', maxLength: 12 }),
      fc.constantFrom('age', 'etag', 'content-length', 'a', ': ', '\r\n', ':', ''),
    );
    const extra = fc.record(
      { ownEntityTag: text, tags: fc.array(text), expiredAt: fc.nat(), isInvalid: fc.constant(true as const) },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(text, text), { maxLength: 12 }), extra, (fields, more) => {
        const response = { ...sampleMetadata(), ...more, fields };
        expect(packedAndRead(response)).toEqual(response);
      }),
    );
  });
});

it('a response that was just read is the same object', () => {
  const response = sampleMetadata();
  const packed = packResponse(response);
  expect(packed?.read()).toBe(response);
  expect(packedAndRead(response)).toEqual(response);
  expect(packed?.read()).toBe(packed?.read());
});

it('the text has the lines that HTTP/1.1 writes, without those that a hit makes itself', () => {
  const response = withFields(['date', 'x'], ['content-length', '5'], ['age', '1'], ['etag', '"x"'], ['x-bad', 'a\nb']);
  const { text } = formatFieldLines([
    ['date', 'x'],
    ['etag', '"x"'],
  ]);
  expect(packResponse(response)?.text).toBe(text);
});

it('a long head is not packed', () => {
  expect(packResponse(withFields(['x', 'a'.repeat(3000)]))).toBeDefined();
  expect(packResponse(withFields(['x', 'a'.repeat(5000)]))).toBeUndefined();
  expect(packResponse(withFields(['content-length', '1'.repeat(5000)]))).toBeUndefined();
});
