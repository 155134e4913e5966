/** A listener for tests that records its events and requests. */

import { mkdtemp, rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { describe, it } from 'vitest';
import type { Handler, Peer, ProxyRequest, ProxyResponse } from '../../../src/http/message.ts';
import { type BindPlace, openSocket } from '../../../src/listener/accept/bind.ts';
import type { Listener } from '../../../src/listener/accept/open-listener.ts';
import { type ListenerOptions, openListener as open } from '../../../src/listener/accept/open-listener.ts';
import { type Certificates, openCertificates } from '../../../src/listener/accept/tls.ts';
import type { ListenerLimits } from '../../../src/listener/listener.ts';
import type { ServerEvent } from '../../../src/telemetry/events.ts';
import { createNodeHttp1Server } from '../../reference/node-http1.ts';
import { RawClient } from '../clients/raw-client.ts';
import { testAuthority, writeTestCertificate } from '../values/tls-certificate.ts';

/** The default limits of test listeners: without timeouts. */
export const testLimits: ListenerLimits = {
  targetBytes: 1024,
  fieldsBytes: 4096,
  maxFieldCount: 50,
  headersTimeoutMs: 0,
  requestTimeoutMs: 0,
  keepAliveTimeoutMs: 0,
  idleTimeoutMs: 0,
  responseTimeoutMs: 0,
  minBytesPerSecond: 0,
  minUploadBytesPerSecond: 0,
  streamsPerConnection: 100,
};

/** The time of the listener's clock, for the Date of responses without one; in epoch milliseconds. */
export const testNow = Date.UTC(2026, 0, 2, 3, 4, 5);

export interface TestListener extends AsyncDisposable {
  readonly listener: Listener;
  /** The TCP port; 0 for a Unix socket. */
  readonly port: number;
  readonly events: ServerEvent[];
  /** The requests that the handler got. */
  readonly requests: ProxyRequest[];
  connect(): Promise<RawClient>;
}

/**
 * The carrier of HTTP/1.1 to the listener. `looked`: TCP, where the listener looks for the HTTP/2 preface first. `node-http`: TCP,
 * where Node's own server speaks HTTP/1 in place of ours.
 */
export type Carrier = 'tcp' | 'tls' | 'proxy-protocol' | 'looked' | 'unix' | 'node-http';

let usualCarrier: Carrier = 'tcp';

/** Sets the default carrier of listeners from now on, for whole files of tests. */
export function carryBy(carrier: Carrier): void {
  usualCarrier = carrier;
}

/** Properties of the default carrier. */
export const usually = {
  get carrier(): Carrier {
    return usualCarrier;
  },
  get scheme(): 'http' | 'https' {
    return usualCarrier === 'tls' ? 'https' : 'http';
  },
  /** Whether a connection can be reset, so that peers can tell a reset from an end. */
  get hasResets(): boolean {
    return usualCarrier !== 'unix';
  },
  /** The address of a client as the listener sees it. */
  get address(): string {
    return usualCarrier === 'unix' ? '' : '127.0.0.1';
  },
  /** Returns a client as the listener sees it. */
  peer({ socket }: RawClient): Peer {
    return { address: this.address, port: socket.localPort ?? 0 };
  },
  /** Adapts a request with an absolute target: over TLS it swaps http and https, so that a right scheme stays right. */
  spoken(request: string): string {
    if (usualCarrier !== 'tls') return request;
    return request.replace(/(?<=^\w+ http)s?(?=:)/i, (end) => (end === '' ? 's' : ''));
  },
};

type PlacedOptions = Omit<ListenerOptions, 'socket'> & { readonly place: BindPlace };

type Overrides = Partial<Omit<PlacedOptions, 'limits'>> & {
  readonly limits?: Partial<ListenerLimits>;
  readonly carrier?: Carrier;
};

/** Opens a listener on a free port of 127.0.0.1, or on a Unix socket. Disposing cuts running exchanges. */
export async function openListener(
  handler: Handler,
  { carrier = usualCarrier, ...overrides }: Overrides = {},
): Promise<TestListener> {
  await using resources = new AsyncDisposableStack();
  const events: ServerEvent[] = [];
  const requests: ProxyRequest[] = [];
  const { place, ...options }: PlacedOptions = {
    place: { kind: 'tcp', host: '127.0.0.1', port: 0 },
    emit: (event) => events.push(event),
    now: () => testNow,
    ...(await carrierOptions(carrier, resources)),
    ...overrides,
    handler: Object.assign(
      (request: ProxyRequest) => {
        requests.push(request);
        return handler(request);
      },
      { hit: handler.hit },
    ),
    limits: { ...testLimits, ...overrides.limits },
  };
  const listener = await open({ ...options, socket: await openSocket(place, '') });
  resources.defer(() => listener.close(0).then(() => undefined));
  const { port, url } = listener.address;
  const opened = resources.move();
  return {
    listener,
    port,
    events,
    requests,
    connect: () => RawClient.open(port === 0 ? url.slice('unix:'.length) : port, beginnings[carrier]),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** First steps of the client on a new connection, by carrier. */
const beginnings: Readonly<Record<Carrier, (socket: Socket) => Socket | Promise<Socket>>> = {
  tcp: (socket) => socket,
  looked: (socket) => socket,
  'node-http': (socket) => socket,
  unix: (socket) => socket,
  tls: secure,
  'proxy-protocol': (socket) => {
    socket.write(`PROXY TCP4 127.0.0.1 192.0.2.1 ${socket.localPort} 80\r\n`);
    return socket;
  },
};

async function secure(socket: Socket): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const secured = connectTls({ socket, ca: testAuthority, servername: 'localhost' }, resolve);
  secured.once('error', reject);
  await promise;
  secured.off('error', reject);
  return secured;
}

async function carrierOptions(carrier: Carrier, resources: AsyncDisposableStack): Promise<Partial<PlacedOptions>> {
  switch (carrier) {
    case 'tcp':
      return {};
    case 'looked':
      return { http2: true };
    case 'node-http':
      return { createHttp1: createNodeHttp1Server };
    case 'proxy-protocol':
      return { proxyProtocolFrom: (address) => address === '127.0.0.1' };
    case 'tls':
      return { certificates: await openTestCertificates(await temporaryDirectory(resources)) };
    case 'unix': {
      const path = join(await temporaryDirectory(resources), 'socket');
      return { place: { kind: 'unix', path, mode: undefined } };
    }
  }
}

async function openTestCertificates(dir: string): Promise<Certificates> {
  const files = [await writeTestCertificate(dir)];
  return openCertificates({ files, minVersion: '1.2', emit: () => {}, now: () => testNow });
}

async function temporaryDirectory(resources: AsyncDisposableStack): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-listener-'));
  resources.defer(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

/** Returns a 200 whose body is this text, in memory. */
export function textResponse(text: string, more: Partial<ProxyResponse> = {}): ProxyResponse {
  const bytes = Buffer.from(text, 'latin1');
  return { status: 200, fields: [], body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] }, ...more };
}

/** Returns a 200 whose body is a stream of this iterable. */
export function streamResponse(
  chunks: AsyncIterable<Uint8Array>,
  sizeBytes: number | undefined,
  more: Partial<ProxyResponse> & { readonly onClose?: () => void } = {},
): ProxyResponse {
  const { onClose, ...rest } = more;
  const stream = { [Symbol.asyncIterator]: () => chunks[Symbol.asyncIterator](), close: () => onClose?.() };
  return { status: 200, fields: [], body: { kind: 'stream', sizeBytes, stream }, ...rest };
}

/** Declares a test of clients that end their side and read on, unless the listener is Node's own server, which ends its side too. */
export function itHalfClosed(name: string, test: () => Promise<void>): void {
  if (usually.carrier !== 'node-http') it(name, test);
}

/** Declares tests of what our server does and Node's own does not, unless that one is the carrier. */
export function describeOwnServer(name: string, tests: () => void): void {
  if (usually.carrier !== 'node-http') describe(name, tests);
}

/** Declares a test that needs resets, unless the carrier is a Unix socket, which has none. */
export function itWithResets(name: string, test: () => Promise<void>): void {
  if (usually.hasResets) it(name, test);
}
