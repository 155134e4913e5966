/** Opens the listeners of the wires, and connections to them. */

import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { NodeAdapter } from '../../../src/embed/node-adapter.ts';
import { RunningExchanges } from '../../../src/embed/running-exchanges.ts';
import type { Handler } from '../../../src/http/message.ts';
import { openSocket } from '../../../src/listener/accept/bind.ts';
import type { Listener } from '../../../src/listener/accept/open-listener.ts';
import { openListener } from '../../../src/listener/accept/open-listener.ts';
import { type Certificates, openCertificates } from '../../../src/listener/accept/tls.ts';
import { unreferencedTimers } from '../../../src/listener/timeouts.ts';
import type { Emit } from '../../../src/telemetry/events.ts';
import { testLimits } from '../proxies/open-listener.ts';
import { testAuthority, writeTestCertificate } from '../values/tls-certificate.ts';
import type { WireName } from './wire-names.ts';
import { watchClient } from './wire-quiet.ts';

/** The handler behind a wire, and its clock. */
export interface WireOptions {
  readonly handler: Handler;
  readonly emit: Emit;
  /** Returns epoch milliseconds. */
  readonly now: () => number;
}

const limits = { ...testLimits, targetBytes: 16_384, fieldsBytes: 65_536, maxFieldCount: 200 };

/** A listener, or a server of Node that passes requests to the library. */
export interface WireListener {
  readonly address: Pick<Listener['address'], 'port'>;
  close(graceMs: number): Promise<unknown>;
}

/** Whether a wire is without TLS. */
export function isPlain(name: WireName): boolean {
  return name === 'http1' || name === 'node';
}

/** Opens a listener on a free port of 127.0.0.1. */
export async function openWireListener(name: WireName, options: WireOptions): Promise<WireListener> {
  if (name === 'node') return await openNodeServer(options);
  return await openListener({
    ...options,
    socket: await openSocket({ kind: 'tcp', host: '127.0.0.1', port: 0 }, name),
    limits,
    http2: name === 'http2',
    certificates: isPlain(name) ? undefined : await openTestCertificates(options),
  });
}

/** Connects to the listener of a wire, with TLS where the wire has it. */
export async function connectWire(
  name: WireName,
  { address }: WireListener,
  protocol: 'http/1.1' | 'h2',
): Promise<Socket> {
  const socket = connect({ port: address.port, host: '127.0.0.1', noDelay: true });
  watchClient(socket);
  if (isPlain(name)) return socket;
  return await secure(socket, protocol);
}

async function openNodeServer({ handler, emit, now }: WireOptions): Promise<WireListener> {
  const running = new RunningExchanges(unreferencedTimers);
  const tunnel = { open: (): never => fail('a scenario opened a tunnel') };
  const after = unreferencedTimers;
  const isServed = () => true;
  const adapter = new NodeAdapter({ handler, isServed, tunnel, running, emit, now, after, limits });
  const server = createServer({ maxHeaderSize: 2 * limits.fieldsBytes }, (request, response) =>
    adapter.handle(request, response),
  );
  server.maxHeadersCount = 0;
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: server.address() as AddressInfo,
    async close(graceMs) {
      const closed = once(server, 'close');
      server.close();
      await running.close(graceMs);
      server.closeAllConnections();
      await closed;
    },
  };
}

function fail(message: string): never {
  throw new Error(message);
}

async function openTestCertificates({ emit, now }: WireOptions): Promise<Certificates> {
  const dir = await mkdtemp(join(tmpdir(), 'rangeway-wire-'));
  try {
    return await openCertificates({ files: [await writeTestCertificate(dir)], minVersion: '1.2', emit, now });
  } finally {
    await rm(dir, { recursive: true });
  }
}

/** Starts TLS after the TCP connection is open, so that its bytes are counted on both sides. */
async function secure(socket: Socket, protocol: string): Promise<TLSSocket> {
  await new Promise((resolve) => socket.once('connect', resolve));
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const secured = connectTls(
    { socket, ca: testAuthority, servername: 'localhost', ALPNProtocols: [protocol] },
    resolve,
  );
  secured.once('error', reject);
  await promise;
  secured.off('error', reject);
  if (secured.alpnProtocol !== protocol) throw new Error(`the listener speaks ${secured.alpnProtocol}`);
  return secured;
}
