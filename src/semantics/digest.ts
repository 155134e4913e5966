/**
 * The digests that an origin states of its bytes, and the one that Rangeway states of a representation (RFC 9530).
 *
 * Want-Repr-Digest and Want-Content-Digest are hints that need not be heeded (RFC 9530 §4). They go to the origin like
 * any field from end to end, and choose nothing here: what is stored is the same bytes with or without a digest, so they
 * are no part of a key, unless the origin's Vary names them.
 */

import { type Fields, fieldLines } from '../http/fields.ts';
import { parseDictionary, type StructuredValue } from './structured-fields.ts';

/** What a hash of some bytes must come to. */
export interface Digest {
  /** By the name that `createHash` of node:crypto knows. */
  readonly algorithm: 'sha256' | 'sha512';
  /** Lower-case hexadecimal, as `digest('hex')` tells it. */
  readonly hex: string;
}

/**
 * The algorithms that are verified, the one to prefer first; all others are deprecated (RFC 9530 §5, §7.2). SHA-256 is
 * first because it is what `StoredResponse.bodyDigest` is: one hash then serves both.
 */
const algorithms = [
  { key: 'sha-256', algorithm: 'sha256', sizeBytes: 32 },
  { key: 'sha-512', algorithm: 'sha512', sizeBytes: 64 },
] as const;

/** Digests of the content of one message (RFC 9530 §2, RFC 1864): those of a whole are not those of a part. */
export const contentDigestFields: ReadonlySet<string> = new Set(['content-digest', 'content-md5']);

/**
 * The digest of the whole representation that a response to GET states: Repr-Digest, which a 206 states of the whole too
 * (RFC 9530 §3), or Content-Digest of a 200, whose content is the representation. Both are of the bytes with their content
 * coding, which are the bytes that are stored. Undefined when there is none that can be verified: a field that is no
 * dictionary and a value of the wrong length count as absent, as a recipient may ignore any digest.
 */
export function selectReprDigest(response: { readonly status: number; readonly fields: Fields }): Digest | undefined {
  const names = response.status === 200 ? ['repr-digest', 'content-digest'] : ['repr-digest'];
  return selectDigest(names.map((name) => parseDigests(response.fields, name)));
}

/**
 * The digest of the content of a message, which of a 206 is the part that it carries, or the parts with all that stands
 * between them (RFC 9530 §2, Appendix B.3); undefined when there is none that can be verified.
 */
export function selectContentDigest(fields: Fields): Digest | undefined {
  return selectDigest([parseDigests(fields, 'content-digest')]);
}

/** The value of Repr-Digest for a representation with this SHA-256, hexadecimal (RFC 9530 §3). */
export function formatReprDigest(sha256: string): string {
  return `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`;
}

/**
 * A copy that states the SHA-256, hexadecimal, of the whole representation. One that the origin states stays as it is,
 * and so does a field that cannot be read, which one line more would not mend; one of other algorithms gets a line more.
 */
export function withReprDigest(fields: Fields, sha256: string): Fields {
  const stated = parseDigests(fields, 'repr-digest');
  return stated === undefined || stated.has('sha-256')
    ? fields
    : [...fields, ['repr-digest', formatReprDigest(sha256)]];
}

type Digests = ReadonlyMap<string, StructuredValue>;

/** The members of a digest field, none where there is no such field; undefined when it is malformed (RFC 9651 §4.2). */
function parseDigests(fields: Fields, name: string): Digests | undefined {
  return parseDictionary(fieldLines(fields, name));
}

/** The best digest of all dictionaries; among equals the first. */
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
