/** The flags of `explain`, as people write them. */

import type { AdminFlags } from '../admin/admin-server.ts';

/** The flags as given. */
export interface ExplainFlags extends AdminFlags {
  /** The value of Range. */
  readonly range?: string | undefined;
  readonly header?: readonly (readonly [name: string, value: string])[] | undefined;
  /** The method that is meant. */
  readonly request?: string | undefined;
  /** The address of the client that would ask. */
  readonly client?: string | undefined;
  readonly json?: boolean | undefined;
}

/** The URL of a running Rangeway; http where it names no scheme. Undefined for other text. */
export function parseUrl(text: string): URL | undefined {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const url = URL.canParse(full) ? new URL(full) : undefined;
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : undefined;
}

/** The value of Range for a range as curl writes it: `0-99`, `-100`, or with its unit. */
export function parseRangeFlag(text: string): string {
  // `-r=0-99` is read as the range `=0-99`.
  const range = text.replace(/^=/, '');
  return range.includes('=') ? range : `bytes=${range}`;
}

/** A field as curl writes it, `Name: value`; undefined for other text. */
export function parseHeaderFlag(text: string): readonly [name: string, value: string] | undefined {
  const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*?)[ \t]*$/.exec(text) ?? [];
  // A field value holds no control characters but tabs (RFC 9110 §5.5).
  const isValid = name !== undefined && value !== undefined && /^[\t\x20-\x7e\x80-\xff]*$/.test(value);
  return isValid ? [name, value] : undefined;
}
