/** A listener for tests, with its events and its requests on record. */

import { mkdtemp, rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { it } from 'vitest';
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

/** What tests open a listener with unless they say otherwise: nothing runs out of time. */
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

/** The time that responses without Date are dated with. */
export const testNow = Date.UTC(2026, 0, 2, 3, 4, 5);

export interface TestListener extends AsyncDisposable {
  readonly listener: Listener;
  /** 0 for a Unix socket. */
  readonly port: number;
  readonly events: ServerEvent[];
  /** What the handler was given. */
  readonly requests: ProxyRequest[];
  connect(): Promise<RawClient>;
}

/**
 * What carries HTTP/1.1 to the listener. `looked` is TCP where the listener looks for HTTP/2 first, `node-http` is TCP where Node's
 * own server speaks HTTP/1 in place of ours.
 */
export type Carrier = 'tcp' | 'tls' | 'proxy-protocol' | 'looked' | 'unix' | 'node-http';

let usualCarrier: Carrier = 'tcp';

/** From now on listeners that do not say what carries them are carried by this, for whole files of tests. */
export function carryBy(carrier: Carrier): void {
  usualCarrier = carrier;
}

/** What depends on what carries a listener that does not say it. */
export const usually = {
  get carrier(): Carrier {
    return usualCarrier;
  },
  get scheme(): 'http' | 'https' {
    return usualCarrier === 'tls' ? 'https' : 'http';
  },
  /** Whether a connection can be reset, which tells it from one that ends. */
  get hasResets(): boolean {
    return usualCarrier !== 'unix';
  },
  /** The address of a client, as the listener knows it. */
  get address(): string {
    return usualCarrier === 'unix' ? '' : '127.0.0.1';
  },
  /** A client as the listener knows it. */
  peer({ socket }: RawClient): Peer {
    return { address: this.address, port: socket.localPort ?? 0 };
  },
  /** A request whose target has the scheme http, or https for a wrong one, as it is said here. */
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

/** Opens a listener on a free port of 127.0.0.1, or at a Unix socket. Its end cuts what is still running. */
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
    handler: (request) => {
      requests.push(request);
      return handler(request);
    },
    limits: { ...testLimits, ...overrides.limits },
  };
  const listener = await open({ ...options, socket: await openSocket(place, '') });
  resources.defer(() => listener.close(0).then(() => undefined));
  const { port, url } = listener.address;
  const kept = resources.move();
  return {
    listener,
    port,
    events,
    requests,
    connect: () => RawClient.open(port === 0 ? url.slice('unix:'.length) : port, beginnings[carrier]),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** What the client does first. */
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

/** A 200 whose body is this text, in memory. */
export function textResponse(text: string, more: Partial<ProxyResponse> = {}): ProxyResponse {
  const bytes = Buffer.from(text, 'latin1');
  return { status: 200, fields: [], body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] }, ...more };
}

/** A 200 whose body is a stream of this iterable. */
export function streamResponse(
  chunks: AsyncIterable<Uint8Array>,
  sizeBytes: number | undefined,
  more: Partial<ProxyResponse> & { readonly onClose?: () => void } = {},
): ProxyResponse {
  const { onClose, ...rest } = more;
  const stream = { [Symbol.asyncIterator]: () => chunks[Symbol.asyncIterator](), close: () => onClose?.() };
  return { status: 200, fields: [], body: { kind: 'stream', sizeBytes, stream }, ...rest };
}

/** Declares a test that tells a reset from an end, where what carries connections has resets: Unix sockets have none. */
export function itWithResets(name: string, test: () => Promise<void>): void {
  if (usually.hasResets) it(name, test);
}
