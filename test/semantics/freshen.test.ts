import { describe, expect, it } from 'vitest';
import {
  fieldsBesidesValidity,
  freshened,
  freshenFields,
  isConfirmedByTag,
  mayFreshen,
  validityFields,
} from '../../src/semantics/freshen.ts';
import { currentAgeMs } from '../../src/semantics/freshness.ts';
import { defaultCaching } from '../support/proxies/default-caching.ts';
import { fieldsOf, sentAt, sentDate, storedWith } from '../support/values/fields-of.ts';

const policy = { ...defaultCaching, setCookie: 'strip' } as const;

const modified = 'Last-Modified: Wed, 31 Dec 2025 12:00:00 GMT';
const earlier = 'Last-Modified: Tue, 30 Dec 2025 12:00:00 GMT';

describe('mayFreshen, RFC 9111 §4.3.4', () => {
  const rows: readonly (readonly [stored: readonly string[], notModified: readonly string[], may: boolean])[] = [
    [['ETag: "a"'], ['ETag: "a"'], true],
    // A strong tag that is not the stored one MUST NOT update anything.
    [['ETag: "a"'], ['ETag: "b"'], false],
    [['ETag: W/"a"'], ['ETag: "a"'], false],
    [[modified], ['ETag: "a"'], false],
    [[], ['ETag: "a"'], false],
    // Weak tags are compared weakly.
    [['ETag: W/"a"'], ['ETag: W/"a"'], true],
    [['ETag: "a"'], ['ETag: W/"a"'], true],
    [['ETag: "a"'], ['ETag: W/"b"'], false],
    [[modified], ['ETag: W/"a"'], false],
    // A matching tag is enough.
    [['ETag: "a"', modified], ['ETag: "a"', earlier], true],
    [[modified], [modified], true],
    [[modified], [earlier], false],
    [[modified], ['Last-Modified: Wednesday, 31-Dec-25 12:00:00 GMT'], true],
    [['Last-Modified: yesterday'], ['Last-Modified: yesterday'], true],
    [['Last-Modified: yesterday'], ['Last-Modified: today'], false],
    [['ETag: "a"', modified], [earlier], false],
    [['ETag: "a"'], [modified], true],
    // A 304 without validator is about the validated response. A malformed tag is no validator.
    [['ETag: "a"'], [], true],
    [[modified], [], true],
    [[modified, 'ETag: a'], [modified, 'ETag: a'], true],
    [[modified, 'ETag: a'], [earlier, 'ETag: a'], false],
  ];
  it.each(rows)('stored %j, 304 with %j: %s', (stored, notModified, may) => {
    expect(mayFreshen(storedWith(stored), fieldsOf(...notModified))).toBe(may);
  });

  const varying: readonly (readonly [vary: readonly string[], may: boolean])[] = [
    [[], true],
    [['Vary: Foo, bar'], true],
    [['Vary: Bar', 'Vary: Foo'], true],
    [['Vary: Foo'], false],
    [['Vary: Foo, Bar, Baz'], false],
    [['Vary: *'], false],
    [['Vary:'], false],
  ];
  it.each(varying)('stored with Vary: Foo, Bar, 304 with %j: %s', (vary, may) => {
    const stored = storedWith(['ETag: "a"', 'Vary: Foo, Bar'], {
      nominated: [
        ['bar', null],
        ['foo', '1'],
      ],
    });
    expect(mayFreshen(stored, fieldsOf('ETag: "a"', ...vary))).toBe(may);
  });
});

describe('isNamedBy, RFC 9111 §4.3.4', () => {
  const rows: readonly (readonly [stored: readonly string[], notModified: readonly string[], is: boolean])[] = [
    [['ETag: "a"'], ['ETag: "a"'], true],
    [['ETag: "a"'], ['ETag: "b"'], false],
    [['ETag: W/"a"'], ['ETag: W/"a"'], false],
    [['ETag: "a"'], ['ETag: W/"a"'], false],
    [['ETag: "a"'], [], false],
    [[modified], [modified], false],
    [[], [], false],
    [['ETag: "a"'], ['ETag: "a"', 'Vary: Foo'], false],
  ];
  it.each(rows)('stored %j, 304 with %j: %s', (stored, notModified, is) => {
    expect(isConfirmedByTag(storedWith(stored), fieldsOf(...notModified))).toBe(is);
  });
});

describe('freshenFields, RFC 9111 §3.2', () => {
  const date = `date: ${sentDate}`;
  const rows: readonly (readonly [
    name: string,
    stored: readonly string[],
    notModified: readonly string[],
    merged: readonly string[],
  ])[] = [
    ['keeps fields that the 304 omits', ['x: 1'], [date], ['x: 1', date]],
    [
      'replaces fields',
      ['x: 1', 'cache-control: max-age=1'],
      [date, 'cache-control: max-age=60'],
      ['x: 1', date, 'cache-control: max-age=60'],
    ],
    ['replaces all lines of a name', ['x: 1', 'x: 2'], [date, 'x: 3'], [date, 'x: 3']],
    ['adds fields', [], [date, 'x: 1', 'x: 2'], [date, 'x: 1', 'x: 2']],
    [
      'updates other Content fields',
      ['content-location: /a', 'content-type: a/b'],
      [date, 'content-location: /b', 'content-type: c/d'],
      [date, 'content-location: /b', 'content-type: c/d'],
    ],
    ['keeps the length', ['content-length: 5'], [date, 'content-length: 0'], ['content-length: 5', date]],
    ['does not take a content coding', ['x: 1'], [date, 'content-encoding: gzip'], ['x: 1', date]],
    [
      'keeps the digests of the bytes',
      ['content-digest: sha-256=:AAAA:', 'repr-digest: sha-256=:AAAA:'],
      [date, 'content-digest: sha-256=:BBBB:', 'content-md5: BBBB', 'repr-digest: sha-256=:BBBB:'],
      ['content-digest: sha-256=:AAAA:', 'repr-digest: sha-256=:AAAA:', date],
    ],
    ['does not take a Content-Range', [], [date, 'content-range: bytes 0-1/2'], [date]],
    ['keeps the stored tag', ['etag: "a"'], [date, 'etag: W/"a"'], ['etag: "a"', date]],
    ['takes a tag where none is stored', [], [date, 'etag: W/"a"'], [date, 'etag: W/"a"']],
    [
      'does not take fields of the connection',
      ['x: 1'],
      [date, 'connection: x, close', 'x: 2', 'keep-alive: 5'],
      ['x: 1', date],
    ],
    ['does not take Set-Cookie and Proxy-Authenticate', [], [date, 'set-cookie: a=b', 'proxy-authenticate: x'], [date]],
    ['drops the old Age', ['age: 500'], [date], [date]],
    ['takes a new Age', ['age: 500'], [date, 'age: 3'], [date, 'age: 3']],
    ['replaces Date', ['date: Wed, 31 Dec 2025 12:00:00 GMT'], [date], [date]],
    [
      'replaces Date by the arrival of a 304 without one',
      ['date: Wed, 31 Dec 2025 12:00:00 GMT'],
      ['x: 1'],
      ['x: 1', date],
    ],
    [
      'drops fields that the 304 excludes from storage',
      ['x: 1'],
      [date, 'cache-control: private="x"'],
      [date, 'cache-control: private="x"'],
    ],
  ];
  it.each(rows)('%s', (_name, stored, notModified, merged) => {
    expect(freshenFields(fieldsOf(...stored), fieldsOf(...notModified), sentAt, policy)).toEqual(fieldsOf(...merged));
  });
});

describe('freshened, RFC 9111 §4.3.4', () => {
  const stored = storedWith(['Age: 500', `Date: ${sentDate}`, 'ETag: "a"'], {
    nominated: [['foo', '1']],
    ownEntityTag: '"rw-1"',
    bodyDigest: 'ab',
  });
  const later = sentAt + 1_000_000;

  it('counts the age from the new exchange', () => {
    const fresh = freshened(stored, { fields: fieldsOf('ETag: "a"') }, later - 50, later, policy);
    expect([fresh.requestAt, fresh.responseAt]).toEqual([later - 50, later]);
    expect(currentAgeMs(fresh, later + 1000)).toBe(1050);
  });

  it.each([
    ['before', later - 1, undefined],
    ['when', later, later],
    ['after', later + 10, later + 10],
  ])(
    'makes the response valid again, unless it was expired at the start of the exchange or later: %s',
    (_when, expiredAt, want) => {
      const invalid = { ...stored, isInvalid: true, expiredAt } as const;
      const fresh = freshened(invalid, { fields: fieldsOf('ETag: "a"') }, later, later + 20, policy);
      expect([fresh.isInvalid, fresh.expiredAt]).toEqual([undefined, want]);
    },
  );

  it('keeps the other properties, and does not change the stored value', () => {
    const before = structuredClone(stored);
    const fresh = freshened(stored, { fields: fieldsOf('X: 1') }, later, later, policy);
    const { status, nominated, ownEntityTag, bodyDigest } = stored;
    expect(fresh).toMatchObject({ status, nominated, ownEntityTag, bodyDigest });
    expect(stored).toEqual(before);
  });
});

describe('validityFields and furtherFields', () => {
  const validity = [
    'Age: 1',
    'Cache-Control: max-age=9',
    'CDN-Cache-Control: no-store',
    `Date: ${sentDate}`,
    'ETag: "a"',
  ];
  const further = ['Set-Cookie: a=b', 'X-User: one', 'Cache-Groups: "g"'];
  const byteFields = ['Content-Length: 9', 'Content-Encoding: gzip', 'Repr-Digest: sha-256=:AA==:'];

  it('split a 304 into fields about validity and other fields, without those of the bytes', () => {
    const notModified = fieldsOf(...validity, ...further, ...byteFields, 'Connection: close');
    expect(validityFields(notModified, policy)).toEqual(fieldsOf(...validity));
    expect(fieldsBesidesValidity(notModified, policy)).toEqual(fieldsOf(...further));
  });
});
