/** Requests that the server makes of itself for those who run it: to warm the store, and to explain what would happen. */

import { type Fields, fieldValue } from '../http/fields.ts';
import type { ProxyRequest } from '../http/message.ts';
import { parsePath, parsePlace } from '../routing/key-search.ts';
import type { Route } from '../routing/route.ts';
import { refusePathOfMany } from './entry-search.ts';
import { OperationFault } from './operations.ts';

/** What is served now, and where. */
export interface Serving {
  readonly routes: () => readonly Pick<Route, 'match'>[];
  /** The addresses that clients connect to, such as `http://127.0.0.1:8080`. */
  readonly addresses: () => readonly string[];
}

/** A field that a client may send (RFC 9110 §5.1, §5.5), and that is not ours to set. */
const fieldName = /^[!#$%&'*+.^_`|~\w-]{1,256}$/;
const fieldText = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;
const ownNames: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding', 'connection', 'upgrade']);

/** The fields in lower case. Throws `OperationFault` `invalid` for those that cannot be sent, such as Content-Length. */
export function readFields(fields: Fields): Fields {
  const read = fields.map(([name, value]) => [name.toLowerCase(), value] as const);
  const unfit = read.find(([name, value]) => !fieldName.test(name) || !fieldText.test(value) || ownNames.has(name));
  if (unfit === undefined) return read;
  throw new OperationFault('invalid', `a field ${JSON.stringify(unfit[0])} cannot be sent`);
}

/**
 * A URL as it is. A path alone is completed by where a client on this machine connects: this is the URL that such a client
 * asks for, and what it gets is stored under. Throws `OperationFault` `invalid` for a path where there are several routes, or
 * where no address of the listeners is one that clients could name.
 */
export function completeUrl(text: string, { routes, addresses }: Serving): string {
  const path = parsePath(text);
  if (path === undefined) return text;
  const all = routes();
  refusePathOfMany(text, all);
  const hosts = all.flatMap(({ match }) => match.hosts);
  const insteadOf = (why: string, example: string) =>
    new OperationFault('invalid', `${why}: expected a whole URL such as "${example}${path}"`);
  if (hosts.length > 0) throw insteadOf(`the route is for ${hosts.join(', ')} only`, 'https://example.org');
  // A listener for http beside one for https often does no more than redirect.
  const named = addresses().filter(
    (address) => /^https?:/.test(address) && !/\/\/(?:0\.0\.0\.0|\[::\])(?::|$)/.test(address),
  );
  const [address] = [...named.filter((each) => each.startsWith('https:')), ...named];
  if (address !== undefined) return address + path;
  throw insteadOf('no listener has an address that clients ask for', 'https://example.org');
}

/** The request of a client for a URL; undefined for what is no http or https URL. A Host among the fields replaces its authority. */
export function ownRequest(
  url: string,
  { method, fields, peer, receivedAt }: Pick<ProxyRequest, 'method' | 'fields' | 'peer' | 'receivedAt'>,
): ProxyRequest | undefined {
  const place = parsePlace(url);
  if (place === undefined) return undefined;
  const authority = fieldValue(fields, 'host') ?? place.authority;
  return {
    method,
    scheme: /^\s*https:/i.test(url) ? 'https' : 'http',
    authority,
    target: place.target,
    version: '1.1',
    fields: [['host', authority], ...fields.filter(([name]) => name !== 'host')],
    body: undefined,
    bodySizeBytes: undefined,
    peer,
    receivedAt,
    signal: new AbortController().signal,
    sendInterim: () => {},
  };
}
