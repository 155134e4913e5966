/** Fetches playlists and sitemaps through the proxy: the connection always goes to its listener, whatever the URL names. */

import { request as httpRequest, type IncomingMessage } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import { isLoopback } from '../../config/address.ts';
import { askAdmin } from '../admin/admin-server.ts';
import type { AdminServer } from '../admin/flags.ts';

type SentFields = readonly (readonly [name: string, value: string])[];

/** A document, or why there is none. */
export type FetchedDocument =
  | { readonly kind: 'fetched' /** After redirects. */; readonly url: string; readonly bytes: Uint8Array }
  | { readonly kind: 'failed'; readonly reason: string };

/** Fetches a document by its URL, or by a path alone, which belongs to the first address of the listener. Never rejects. */
export type FetchDocument = (url: string, maxBytes: number) => Promise<FetchedDocument>;

const MAX_REDIRECTS = 5;
const TIMEOUT_MS = 60_000;

/** Returns a function that fetches through the listener of a server, with these fields. */
export function fetchThrough(server: AdminServer, fields: SentFields, signal: AbortSignal): FetchDocument {
  let known: Promise<readonly string[] | string> | undefined;
  return async (text, maxBytes) => {
    known ??= readAddresses(server);
    const addresses = await known;
    if (typeof addresses === 'string') return { kind: 'failed', reason: addresses };
    try {
      return await follow(text, addresses, { fields, signal, maxBytes });
    } catch (error) {
      return { kind: 'failed', reason: error instanceof Error ? error.message : String(error) };
    }
  };
}

/** Resolves with the addresses of the listener that can be reached from here, or with why there are none. */
async function readAddresses(server: AdminServer): Promise<readonly string[] | string> {
  const question = { method: 'GET', path: '/api/v1/status', wants: 'addresses', timeoutMs: TIMEOUT_MS } as const;
  const reply = await askAdmin(server, question);
  if (reply.kind !== 'answered') return reply.detail;
  const { addresses } = reply.value as { readonly addresses: readonly string[] };
  const reachable = addresses.flatMap((address) => reachedFrom(server, address));
  return reachable.length > 0
    ? reachable
    : 'the listener of the server cannot be reached from here: run this on its machine';
}

/** Returns the address as it is reached from here. A server on another machine is reached by the name of its admin listener. */
function reachedFrom({ place }: AdminServer, address: string): string[] {
  const isHere = place.kind === 'unix' || isLoopback(place.url.hostname.replace(/^\[(.*)\]$/, '$1'));
  if (!URL.canParse(address) || !/^https?:/.test(address))
    return isHere && address.startsWith('unix:') ? [address] : [];
  const url = new URL(address);
  if (/^(?:0\.0\.0\.0|\[::\])$/.test(url.hostname)) {
    url.hostname = place.kind === 'unix' ? 'localhost' : place.url.hostname;
    return [url.origin];
  }
  return isHere || !isLoopback(url.hostname.replace(/^\[(.*)\]$/, '$1')) ? [url.origin] : [];
}

interface Exchange {
  readonly fields: SentFields;
  readonly signal: AbortSignal;
  readonly maxBytes: number;
}

/** Follows redirects on the same host. */
async function follow(text: string, addresses: readonly string[], exchange: Exchange): Promise<FetchedDocument> {
  const [first = ''] = addresses.filter((address) => !address.startsWith('unix:'));
  if (text.startsWith('/') && first === '')
    return { kind: 'failed', reason: `give the whole URL of ${text}: the listener has no address` };
  let url = new URL(text, text.startsWith('/') ? first : undefined);
  for (let redirects = 0; ; redirects += 1) {
    const message = await send(url, addresses, exchange);
    const status = message.statusCode ?? 0;
    const { location } = message.headers;
    if (status === 200) return { kind: 'fetched', url: url.href, bytes: await readBody(message, exchange.maxBytes) };
    message.destroy();
    const isRedirect =
      [301, 302, 303, 307, 308].includes(status) && location !== undefined && URL.canParse(location, url);
    if (!isRedirect) return { kind: 'failed', reason: `the answer was ${status}` };
    const next = new URL(location, url);
    if (next.host !== url.host) return { kind: 'failed', reason: `it redirects to another host, ${next.host}` };
    if (redirects >= MAX_REDIRECTS) return { kind: 'failed', reason: `it redirects more than ${MAX_REDIRECTS} times` };
    url = next;
  }
}

function send(url: URL, addresses: readonly string[], { fields, signal }: Exchange): Promise<IncomingMessage> {
  const address = addresses.find((each) => each.startsWith(url.protocol)) ?? addresses[0] ?? '';
  const headers = {
    ...Object.fromEntries(fields),
    host: url.host,
    'user-agent': 'rangeway-warm',
    'accept-encoding': 'identity',
    connection: 'close',
  };
  const options = {
    method: 'GET',
    path: url.pathname + url.search,
    headers,
    agent: false,
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  };
  return new Promise((resolve, reject) => {
    const sent = address.startsWith('unix:')
      ? httpRequest({ ...options, socketPath: address.slice('unix:'.length) }, resolve)
      : sendTo(new URL(address), url, options, resolve);
    sent.once('error', reject);
    sent.end();
  });
}

function sendTo(place: URL, url: URL, options: object, receive: (message: IncomingMessage) => void) {
  const target = { ...options, hostname: place.hostname.replace(/^\[(.*)\]$/, '$1'), port: place.port };
  if (place.protocol !== 'https:') return httpRequest({ ...target, port: place.port || 80 }, receive);
  // The certificate must be for the name of the URL: that is what clients check.
  const servername = isIP(url.hostname) === 0 ? { servername: url.hostname } : {};
  return httpsRequest({ ...target, port: place.port || 443, ...servername }, receive);
}

async function readBody(message: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of message as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > maxBytes) throw new Error(`it has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
