/** Turns the header list of an HTTP/2 stream (RFC 9113 §8.3.1) into a request head, or a refusal. */

import { type Field, type Fields, fieldLines, fieldValue } from '../../http/fields.ts';
import type { PlainHead } from '../../http/message.ts';
import type { RequestHead } from '../listener.ts';
import {
  fieldsSize,
  isAuthority,
  isExpectationMet,
  methodError,
  type Reception,
  type ReceptionContext,
  readRequestFraming,
  readTarget,
  refused,
  servedMethods,
} from '../receive.ts';
import { readPlainList, type UnsplitList } from '../request-head.ts';

/** A header list, split into pseudo-fields and regular fields. */
interface HeaderList {
  readonly method: string;
  readonly scheme: string;
  readonly authority: string | undefined;
  readonly path: string;
  /** Regular fields. All Cookie lines are joined into one. */
  readonly fields: Fields;
}

/**
 * Validates a request head (RFC 9113 §8.3.1), given as alternating names and values. nghttp2 has already reset streams with missing,
 * repeated, unknown or misplaced pseudo-fields, with connection-specific fields, or with a malformed Content-Length. Everything
 * else that HTTP/1 refuses is refused here.
 */
export function receiveHttp2Head(rawHeaders: readonly string[], context: ReceptionContext): Reception {
  const { limits, scheme, peer, receivedAt } = context;
  const list = readHeaderList(rawHeaders);
  const { method, path } = list;
  if (!servedMethods.has(method)) return { kind: 'refused', error: methodError(method) };
  if (path.length > limits.targetBytes) return refused('target_too_long', `${path.length} bytes`);
  if (list.fields.length > limits.maxFieldCount) {
    return refused('fields_too_large', `${list.fields.length} field lines`);
  }
  const sizeBytes = fieldsSize(list.fields);
  if (sizeBytes > limits.fieldsBytes) return refused('fields_too_large', `${sizeBytes} bytes`);

  const fault = schemeFault(list.scheme, scheme) ?? authorityFault(list);
  if (fault !== undefined) return refused('malformed_request', fault);
  const reading = readTarget(method, path, scheme);
  if (reading.kind === 'refused') return refused('malformed_request', reading.reason);
  if (reading.authority !== undefined) return refused('malformed_request', 'the path is a URI');
  const framing = readRequestFraming('2', list.fields);
  if (framing.kind === 'refused') return refused('malformed_request', framing.reason);
  if (!isExpectationMet('2', list.fields)) {
    return refused('expectation_failed', fieldValue(list.fields, 'expect') ?? '');
  }
  const authority = list.authority ?? fieldValue(list.fields, 'host') ?? '';
  const fields = withHost(list.fields, authority);
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

/** Reads a head that a hit may answer; undefined where `receiveHttp2Head` has to read it. */
export function readPlainHttp2Head(
  list: readonly string[],
  { scheme, limits }: Pick<ReceptionContext, 'scheme' | 'limits'>,
): PlainHead | undefined {
  let method = '';
  let target = '';
  let authority = '';
  let isOfScheme = false;
  let start = 0;
  for (; list[start]?.startsWith(':') === true; start += 2) {
    const value = list[start + 1] as string;
    if (list[start] === ':method') method = value;
    else if (list[start] === ':path') target = value;
    else if (list[start] === ':authority') authority = value;
    else isOfScheme = value === scheme;
  }
  if ((method !== 'GET' && method !== 'HEAD') || !isOfScheme || target.length > limits.targetBytes) return undefined;
  return readPlainList({ method, target, version: '2' }, new ListedFields(list, start, authority), limits);
}

/** The unsplit field lines of a plain head. */
class ListedFields implements UnsplitList {
  readonly list: readonly string[];
  readonly start: number;
  readonly authority: string;

  constructor(list: readonly string[], start: number, authority: string) {
    this.list = list;
    this.start = start;
    this.authority = authority;
  }

  split(): Fields {
    const { fields } = readHeaderList(this.list);
    return withHost(fields, this.authority === '' ? (fieldValue(fields, 'host') ?? '') : this.authority);
  }
}

function readHeaderList(rawHeaders: readonly string[]): HeaderList {
  const pseudo = new Map<string, string>();
  const fields: Field[] = [];
  let cookieAt = -1;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    const value = rawHeaders[at + 1] as string;
    const cookie = fields[cookieAt];
    if (name.startsWith(':')) pseudo.set(name, value);
    else if (name !== 'cookie') fields.push([name, value]);
    // Clients may send each cookie in its own line (RFC 9113 §8.2.3).
    else if (cookie !== undefined) fields[cookieAt] = ['cookie', `${cookie[1]}; ${value}`];
    else cookieAt = fields.push(['cookie', value]) - 1;
  }
  return {
    method: pseudo.get(':method') ?? '',
    scheme: pseudo.get(':scheme') ?? '',
    authority: pseudo.get(':authority'),
    path: pseudo.get(':path') ?? '',
    fields,
  };
}

/**
 * Checks `:scheme`. Over TLS only https is served. In cleartext both are: a load balancer that terminates TLS may pass on the
 * client's value. The request gets the scheme of its connection (RFC 9110 §7.4).
 */
function schemeFault(sent: string, scheme: 'http' | 'https'): string | undefined {
  const isServed = sent === scheme || (scheme === 'http' && sent === 'https');
  return isServed ? undefined : `the scheme is not ${scheme}`;
}

/** Checks the authority (RFC 9113 §8.3.1): Host may accompany or replace `:authority`, and must not differ from it. */
function authorityFault({ authority, fields }: HeaderList): string | undefined {
  const hosts = fieldLines(fields, 'host');
  const [host] = hosts;
  if (hosts.length > 1) return 'more than one Host';
  const named = authority ?? host;
  if (named === undefined) return 'no authority';
  if (!isAuthority(named)) return 'the authority is invalid';
  if (host !== undefined && host.toLowerCase() !== named.toLowerCase()) return 'Host differs from the authority';
  return undefined;
}

/** Sets Host to the authority: a request that is forwarded over HTTP/1 needs it (RFC 9113 §8.3.1). */
function withHost(fields: Fields, authority: string): Fields {
  return [['host', authority], ...fields.filter(([name]) => name !== 'host')];
}
