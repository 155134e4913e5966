/** Which of several origins gave what: so that more of the same representation is asked of the one that it came from. */

import { hasField } from '../http/fields.ts';
import type { OriginRequest } from './origin.ts';

/** So many resources are remembered, those that were asked for last. */
const maxTargets = 2048;

/** Targets that are longer are not worth the memory. */
const maxTargetLength = 2048;

/** Where a request should go, if that one may be asked: to this origin, or to any but this one. */
export interface Wish<M> {
  readonly kind: 'this' | 'another';
  readonly member: M;
}

interface Attachment<M> {
  readonly member: M;
  /** How many transfers in a row broke off, the last one among them: the next request may be to take it up again. */
  breaks: number;
}

/** After so many breaks in a row somebody else may do better. */
const maxBreaks = 2;

/**
 * Origins that serve the same files may still name them by other validators, or send other bytes in the moment of a release.
 * Bytes are never combined across such a border; but what alternates between two origins would find one at every step, and
 * fetch without end. So a request that goes on with a representation (If-Range), or takes up a transfer that broke off, goes
 * to the origin that gave it; it is a wish, which the group fulfils while that origin is well.
 */
export class Attachments<M> {
  readonly #byTarget = new Map<string, Attachment<M>>();
  readonly #sticksWhenValidated: boolean;

  /** `sticksWhenValidated`: a request that asks whether something has changed goes to the one that gave it, too. */
  constructor({ sticksWhenValidated }: { readonly sticksWhenValidated: boolean }) {
    this.#sticksWhenValidated = sticksWhenValidated;
  }

  /** Undefined where any will do. */
  select({ method, target, fields }: Pick<OriginRequest, 'method' | 'target' | 'fields'>): Wish<M> | undefined {
    const attachment = method === 'GET' ? this.#byTarget.get(target) : undefined;
    if (attachment === undefined) return undefined;
    const { member, breaks } = attachment;
    if (breaks >= maxBreaks) return { kind: 'another', member };
    if (breaks > 0 || hasField(fields, 'if-range')) return { kind: 'this', member };
    const isValidation = hasField(fields, 'if-none-match') || hasField(fields, 'if-modified-since');
    return this.#sticksWhenValidated && isValidation ? { kind: 'this', member } : undefined;
  }

  /** An origin has begun to send a representation, or a part of one. Tells who calls it how to say that it broke off. */
  note(target: string, member: M): { noteBreak(): void } {
    const before = this.#byTarget.get(target);
    const attachment = { member, breaks: 0 };
    const breaks = before?.member === member ? before.breaks : 0;
    if (target.length <= maxTargetLength) {
      this.#byTarget.delete(target);
      this.#byTarget.set(target, attachment);
      const [oldest] = this.#byTarget.keys();
      if (this.#byTarget.size > maxTargets && oldest !== undefined) this.#byTarget.delete(oldest);
    }
    return {
      noteBreak: () => {
        attachment.breaks = breaks + 1;
      },
    };
  }
}
