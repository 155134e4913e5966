/** The request of an inquiry, held against those that stored responses were answers to: which of them it may be given. */

import { hash } from 'node:crypto';
import type { Fields } from '../http/fields.ts';
import type { StoredIdentity, StoredResponse } from '../http/stored-response.ts';
import { identityParts, isAnonymous } from '../semantics/identity.ts';
import { isForAll } from '../semantics/reuse.ts';
import { matchesVariant, variantDifferences } from '../semantics/variant.ts';
import { fillFields } from './asked.ts';
import type { Inquiry } from './inquiry.ts';

/** What of an inquiry tells who asks, and for which variant. */
export type Asking = Pick<Inquiry, 'request' | 'originFields' | 'policy'>;

/** So many names are kept with a digest, and this many characters of each: clients choose them. */
const MAX_NAMES = 16;
const MAX_NAME_LENGTH = 64;

/** 144 bits: nobody finds other values with the same digest. */
const DIGEST_LENGTH = 24;

const anonymous: StoredIdentity = { digest: '', names: [] };

/**
 * A request as stored responses are chosen for it. What that takes is made when it is first needed: most stored responses
 * have a lifetime of their own and no Vary, and need none of it.
 */
export class Asker {
  readonly #asking: Asking;
  #fields: Fields | undefined;
  #identity: StoredIdentity | undefined;

  constructor(asking: Asking) {
    this.#asking = asking;
  }

  /**
   * Who asks. Fields that do not reach the origin cannot have decided its response, and do not count; the fields for the origin
   * are made only where the client's own may tell something.
   */
  get identity(): StoredIdentity {
    this.#identity ??= this.#identify();
    return this.#identity;
  }

  /**
   * Whether a stored response may be given to this request: it was selected by the values that the request presents (RFC 9111
   * §4.1), and is for all, or for those who ask as this one does.
   */
  isFor(stored: StoredResponse): boolean {
    return this.isVariant(stored) && this.isSharedWith(stored);
  }

  /** Whether a stored response was selected by the values that the request presents, whoever it is for. */
  isVariant(stored: StoredResponse): boolean {
    const { key } = this.#asking.policy;
    const isSelected =
      stored.nominated.length > 0 || stored.selected !== undefined || key.fields.length > 0 || key.cookies.length > 0;
    return !isSelected || matchesVariant(stored, this.#forOrigin, key);
  }

  /** Whether a stored response is for all, or was asked for by an equal request. */
  isSharedWith(stored: StoredResponse): boolean {
    return isForAll(stored, this.#asking.policy) || stored.identity?.digest === this.identity.digest;
  }

  /** Whether another request asks as this one does. */
  isEqualTo(other: Asker): boolean {
    return this.identity.digest === other.identity.digest;
  }

  /**
   * The names of what tells this request from the one that a stored response was the answer to, where the response is not for
   * all: `cookie:name` for a cookie. Empty where they are equal. Names that both have are told where no other ones are, because
   * their values are not known any more.
   */
  apartBy(stored: StoredResponse): readonly string[] {
    if (this.isSharedWith(stored)) return [];
    const theirs = stored.identity?.names ?? [];
    const ours = this.identity.names;
    const onlyOne = [
      ...ours.filter((name) => !theirs.includes(name)),
      ...theirs.filter((name) => !ours.includes(name)),
    ];
    if (onlyOne.length > 0) return onlyOne;
    // Stored by an earlier version, or under other options, without a note of who asked.
    return ours.length > 0 ? ours : ['identity'];
  }

  /** All that tells the request from the one that a stored response was the answer to. Empty where it may be given. */
  differences(stored: StoredResponse): readonly string[] {
    const differing = variantDifferences(stored, this.#forOrigin, this.#asking.policy.key);
    return [...new Set([...differing, ...this.apartBy(stored)])];
  }

  get #forOrigin(): Fields {
    this.#fields ??= fillFields(this.#asking.originFields);
    return this.#fields;
  }

  #identify(): StoredIdentity {
    const { request, policy } = this.#asking;
    const { identityFields } = policy;
    // All that is added on the way to the origin is about the way.
    const mayIncludeOwn = identityFields.include.length > 0;
    if (!mayIncludeOwn && isAnonymous(request.fields, identityFields)) return anonymous;
    const parts = identityParts(this.#asking.originFields, identityFields);
    if (parts.length === 0) return anonymous;
    const names = [...new Set(parts.map(([name]) => name))].slice(0, MAX_NAMES);
    return {
      digest: hash('sha256', JSON.stringify(parts), 'base64url').slice(0, DIGEST_LENGTH),
      names: names.map((name) => name.slice(0, MAX_NAME_LENGTH)),
    };
  }
}

/** Whether a stored response may be given to the request of an inquiry: see `Asker.isFor`. */
export function isFor(response: StoredResponse, asking: Asking): boolean {
  return new Asker(asking).isFor(response);
}

/**
 * A response with a note of who has asked for it, where it does not say that it is for all, and has none yet. Only for the
 * response to this very request, or what a 304 to this request has validated.
 */
export function withIdentity(response: StoredResponse, asking: Asking): StoredResponse {
  if (response.identity !== undefined || isForAll(response, asking.policy)) return response;
  return { ...response, identity: new Asker(asking).identity };
}
