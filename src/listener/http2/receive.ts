/** Turns the header list of an HTTP/2 stream (RFC 9113 §8.3.1) into a request head, or a refusal. */

import { fieldLines, fieldValue } from '../../http/fields.ts';
import { normaliseAuthority } from '../../routing/target.ts';
import type { RequestHead } from '../listener.ts';
import {
  fieldsSize,
  isAuthority,
  isExpectationMet,
  isServed,
  methodError,
  type Reception,
  type ReceptionContext,
  readRequestFraming,
  readTarget,
  refused,
} from '../receive.ts';
import { type HeaderList, readHeaderList, withAuthority } from '../request-head.ts';
import type { FieldSection } from './hpack.ts';

const methodName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Validates a request head (RFC 9113 §8.2, §8.3.1). A malformed one is refused with 400, which §8.1.1 permits before the reset: the
 * client learns what is wrong.
 */
export function receiveHttp2Head(section: FieldSection, context: ReceptionContext): Reception {
  const { limits, scheme, peer, receivedAt } = context;
  const list = readHeaderList(section.list);
  const { method, path } = list;
  if (method !== undefined && methodName.test(method) && !isServed(method, context)) {
    return { kind: 'refused', error: methodError(method) };
  }
  if (path !== undefined && path.length > limits.targetBytes) return refused('target_too_long', `${path.length} bytes`);
  if (section.isTooLarge) return refused('fields_too_large', 'more than twice the limit');
  if (list.fields.length > limits.maxFieldCount) {
    return refused('fields_too_large', `${list.fields.length} field lines`);
  }
  const sizeBytes = fieldsSize(list.fields);
  if (sizeBytes > limits.fieldsBytes) return refused('fields_too_large', `${sizeBytes} bytes`);

  const fault = section.fault ?? list.fault ?? schemeFault(list.scheme, scheme) ?? authorityFault(list, scheme);
  if (fault !== undefined) return refused('malformed_request', fault);
  if (method === undefined || !methodName.test(method)) return refused('malformed_request', 'no valid method');
  const reading = readTarget(method, path ?? '', scheme);
  if (reading.kind === 'refused') return refused('malformed_request', reading.reason);
  if (reading.authority !== undefined) return refused('malformed_request', 'the path is a URI');
  const framing = readRequestFraming('2', list.fields);
  if (framing.kind === 'refused') return refused('malformed_request', framing.reason);
  if (!isExpectationMet('2', list.fields)) {
    return refused('expectation_failed', fieldValue(list.fields, 'expect') ?? '');
  }
  const authority = list.authority ?? fieldValue(list.fields, 'host') ?? '';
  const fields = withAuthority(list.fields, authority);
  const head: RequestHead = {
    method,
    scheme,
    authority,
    target: reading.target,
    version: '2',
    fields,
    peer,
    receivedAt,
  };
  return { kind: 'received', head, framing };
}

/** Returns the method of a request head, valid or not; empty where it has none. */
export function methodOf({ list }: FieldSection): string {
  const at = list.indexOf(':method');
  return at % 2 === 0 ? (list[at + 1] ?? '') : '';
}

/** Returns why a trailer section is malformed (RFC 9113 §8.1, §8.3); undefined where it is not. */
export function trailersFault({ list, fault, isTooLarge }: FieldSection): string | undefined {
  if (isTooLarge) return 'the trailer section is too large';
  const hasPseudoField = list.some((name, at) => at % 2 === 0 && name.startsWith(':'));
  return hasPseudoField ? 'a pseudo-field in the trailer section' : fault;
}

/**
 * Checks `:scheme`. Over TLS only https is served. In cleartext both are: a load balancer that terminates TLS may pass on the
 * client's value. The request gets the scheme of its connection (RFC 9110 §7.4).
 */
function schemeFault(sent: string | undefined, scheme: 'http' | 'https'): string | undefined {
  const isServed = sent === scheme || (scheme === 'http' && sent === 'https');
  return isServed ? undefined : `the scheme is not ${scheme}`;
}

/**
 * Checks the authority (RFC 9113 §8.3.1): Host may accompany or replace `:authority`, and must not name another one. The port of the
 * scheme may be in one of them only (RFC 9110 §4.2.3).
 */
function authorityFault({ authority, fields }: HeaderList, scheme: 'http' | 'https'): string | undefined {
  const hosts = fieldLines(fields, 'host');
  const [host] = hosts;
  if (hosts.length > 1) return 'more than one Host';
  const named = authority ?? host;
  if (named === undefined) return 'no authority';
  if (!isAuthority(named)) return 'the authority is invalid';
  const differs = host !== undefined && normaliseAuthority(host, scheme) !== normaliseAuthority(named, scheme);
  if (differs) return 'Host differs from the authority';
  return undefined;
}
