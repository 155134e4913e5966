/**
 * Reads the digests that an origin states of its bytes, and writes the digest that Rangeway states of a representation
 * (RFC 9530).
 *
 * Want-Repr-Digest and Want-Content-Digest are hints that may be ignored (RFC 9530 §4). They are passed to the origin like any
 * end-to-end field and select nothing here: the stored bytes are the same with or without a digest. So they are not in a key,
 * unless the origin's Vary names them.
 */

import { type Fields, fieldLines } from '../http/fields.ts';
import { parseDictionary, type StructuredValue } from './structured-fields.ts';

/** The expected hash of some bytes. */
export interface Digest {
  /** The name for `createHash` of node:crypto. */
  readonly algorithm: 'sha256' | 'sha512';
  /** Lower-case hexadecimal, as `digest('hex')` returns it. */
  readonly hex: string;
}

/**
 * The algorithms that are verified, the preferred one first; all others are deprecated (RFC 9530 §5, §7.2). SHA-256 is first
 * because `StoredResponse.bodyDigest` uses it: one hash then serves both.
 */
const algorithms = [
  { key: 'sha-256', algorithm: 'sha256', sizeBytes: 32 },
  { key: 'sha-512', algorithm: 'sha512', sizeBytes: 64 },
] as const;

/** Digests of the content of one message (RFC 9530 §2, RFC 1864): the digest of a whole is not that of a part. */
export const contentDigestFields: ReadonlySet<string> = new Set(['content-digest', 'content-md5']);

/** Digests of an object by the services that store it. Their clients compare them with the content of any response, and fail at a part. */
const objectDigestFields: ReadonlySet<string> = new Set([
  'x-bz-content-sha1',
  'x-checksum-md5',
  'x-checksum-sha1',
  'x-checksum-sha256',
  'x-checksum-sha512',
  'x-cos-hash-crc64ecma',
  'x-goog-hash',
  'x-ms-content-crc64',
  'x-oss-hash-crc64ecma',
]);

/** Checks whether a field has a digest that clients compare with the content, so that the one of a whole must not stand beside a part. */
export function isDigestOfContent(name: string): boolean {
  return contentDigestFields.has(name) || objectDigestFields.has(name) || name.startsWith('x-amz-checksum-');
}

/** Returns the fields without digests of the content; the same array where there are none. */
export function withoutDigestsOfContent(fields: Fields): Fields {
  return fields.some(([name]) => isDigestOfContent(name))
    ? fields.filter(([name]) => !isDigestOfContent(name))
    : fields;
}

/**
 * Returns the digest of the whole representation that a response to GET states. It is in Repr-Digest, also in a 206
 * (RFC 9530 §3), or in Content-Digest of a 200, whose content is the representation. Both cover the bytes with their content
 * coding, as they are stored. Undefined when no digest can be verified. A field that is not a dictionary, and a value of the
 * wrong length, count as absent: a recipient may ignore any digest.
 */
export function selectReprDigest(response: { readonly status: number; readonly fields: Fields }): Digest | undefined {
  const names = response.status === 200 ? ['repr-digest', 'content-digest'] : ['repr-digest'];
  return selectDigest(names.map((name) => parseDigests(response.fields, name)));
}

/**
 * Returns the digest of the content of a message; undefined when no digest can be verified. The content of a 206 is the part
 * that it carries, or the parts with the framing between them (RFC 9530 §2, Appendix B.3).
 */
export function selectContentDigest(fields: Fields): Digest | undefined {
  return selectDigest([parseDigests(fields, 'content-digest')]);
}

/** Formats Repr-Digest for a representation with this SHA-256, in hexadecimal (RFC 9530 §3). */
export function formatReprDigest(sha256: string): string {
  return `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`;
}

/**
 * Returns a copy that states the SHA-256, in hexadecimal, of the whole representation. A SHA-256 that the origin states stays.
 * A field that cannot be parsed stays, because another line would not repair it. A field with other algorithms gets another
 * line.
 */
export function withReprDigest(fields: Fields, sha256: string): Fields {
  const stated = parseDigests(fields, 'repr-digest');
  return stated === undefined || stated.has('sha-256')
    ? fields
    : [...fields, ['repr-digest', formatReprDigest(sha256)]];
}

type Digests = ReadonlyMap<string, StructuredValue>;

/** The members of a digest field; empty where there is no such field, undefined when it is malformed (RFC 9651 §4.2). */
function parseDigests(fields: Fields, name: string): Digests | undefined {
  return parseDictionary(fieldLines(fields, name));
}

/** The digest with the preferred algorithm; of several, that of the first dictionary. */
function selectDigest(dictionaries: readonly (Digests | undefined)[]): Digest | undefined {
  for (const { key, algorithm, sizeBytes } of algorithms) {
    for (const dictionary of dictionaries) {
      const stated = dictionary?.get(key);
      if (stated?.kind !== 'bytes' || stated.value.byteLength !== sizeBytes) continue;
      return { algorithm, hex: Buffer.from(stated.value).toString('hex') };
    }
  }
  return undefined;
}
