/** Fields that tell browsers to be careful, in place of the origin's. */

import { type Field, type Fields, withoutFields } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';

/** What the operator decided; a field that is not mentioned stays the origin's. */
export interface SecurityPolicy {
  readonly strictTransportSecurity?: string | undefined;
  readonly contentTypeOptions: boolean;
  readonly frameOptions?: string | undefined;
  readonly contentSecurityPolicy?: string | undefined;
  readonly referrerPolicy?: string | undefined;
}

/** Gives a response these fields. */
export type SecurityFields = (request: Pick<ProxyRequest, 'scheme'>, fields: Fields) => Fields;

/**
 * Creates the rules; undefined where the operator wants nothing. Strict-Transport-Security is for clients that have asked over
 * TLS, be it of a trusted proxy before this one: others must not get it (RFC 6797 §7.2).
 */
export function createSecurityFields(policy: SecurityPolicy): SecurityFields | undefined {
  const { strictTransportSecurity } = policy;
  const always = [
    ...valued('x-content-type-options', policy.contentTypeOptions ? 'nosniff' : undefined),
    ...valued('x-frame-options', policy.frameOptions),
    ...valued('content-security-policy', policy.contentSecurityPolicy),
    ...valued('referrer-policy', policy.referrerPolicy),
  ];
  const overTls = [...always, ...valued('strict-transport-security', strictTransportSecurity)];
  if (overTls.length === 0) return undefined;
  const ours = new Set(overTls.map(([name]) => name));
  return ({ scheme }, fields) => [...withoutFields(fields, ours), ...(scheme === 'https' ? overTls : always)];
}

function valued(name: string, value: string | undefined): Field[] {
  return value === undefined ? [] : [[name, value]];
}
