/** The head of a request in HTTP/1.1 and HTTP/1.0, as bytes become it. */

import type { Fields } from '../../http/fields.ts';
import type { PlainHead } from '../../http/message.ts';
import type { ErrorCode } from '../../http/proxy-error.ts';

/** What the bytes of a head say, before anything of it is judged: see `receiveHead`. */
export interface ParsedHead {
  readonly method: string;
  /** The request target as received. */
  readonly target: string;
  readonly version: '1.0' | '1.1';
  /** The field lines in their order, names in lower case, values without white space around them (RFC 9112 §5). */
  readonly fields: Fields;
}

/** What a parser makes of the bytes that have come. */
export type HeadReading =
  /** A whole head of so many bytes, its empty line and any empty lines before it (RFC 9112 §2.2) included. */
  | { readonly kind: 'head'; readonly head: ParsedHead; readonly sizeBytes: number }
  /** The same, of a head that a hit may answer. */
  | { readonly kind: 'plain'; readonly head: PlainHead; readonly sizeBytes: number }
  /** No fault so far, and not all of it. */
  | { readonly kind: 'more' }
  /** No head whatever follows. */
  | { readonly kind: 'fault'; readonly code: ErrorCode; readonly detail: string };

/** A plain head with all its lines. */
export function spellOut(head: PlainHead): ParsedHead {
  const { method, target } = head;
  return { method, target, version: '1.1', fields: head.readFields() };
}

/** The limits of a head, in bytes. */
export interface HeadLimits {
  /** Of the target. */
  readonly targetBytes: number;
  /** Of the header section, as `ListenerLimits` counts it. */
  readonly fieldsBytes: number;
  readonly maxFieldCount: number;
}
