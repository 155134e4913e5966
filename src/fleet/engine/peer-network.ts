/**
 * Connections between the members of a fleet on several machines: TLS 1.3 with a pre-shared key (RFC 8446 §2.2). Each process draws
 * a key when it starts, and only its leases in the engine tell it. Both ends prove by the handshake that they can read the engine;
 * no byte is parsed before that. An attacker who can write to the engine can change the cache without a peer.
 */

import { randomBytes } from 'node:crypto';
import { isIPv6, type Socket } from 'node:net';
import { connect, createServer, type TlsOptions } from 'node:tls';
import type { Clock } from '../../http/clock.ts';
import { listenForPeers, type PeerServer, type PeerSessionOptions, servePeer } from '../peer-server.ts';
import { withinTime } from './fleet-engine.ts';

/** Names the protocol between peers. Processes of a release with another protocol do not understand each other. */
const PROTOCOL = 'rangeway-peer-1';
const KEY_BYTES = 32;
/** How long a connection may take, in milliseconds. Many are made at once where many clients miss. */
const CONNECT_MS = 5_000;

/** How a process is reached by its peers. */
export interface PeerAddress {
  readonly host: string;
  readonly port: number;
  /** The key of the process, in hexadecimal. */
  readonly secret: string;
}

/** Returns an address as text. */
export function formatPeerAddress({ host, port, secret }: PeerAddress): string {
  return `${secret}@${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** Parses an address. Throws `Error` where it is none. */
export function parsePeerAddress(text: string): PeerAddress {
  const [, secret, six, name, port] = /^([0-9a-f]{64})@(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = six ?? name;
  if (secret === undefined || host === undefined) throw new Error('This is no address of a peer.');
  return { host, port: Number(port), secret };
}

/** A server for peers on other machines. */
export interface NetworkPeerServer extends PeerServer {
  readonly port: number;
  /** The key that a peer needs, in hexadecimal. */
  readonly secret: string;
}

/** Options of a server for peers on other machines. */
export interface NetworkPeerOptions extends PeerSessionOptions {
  /** The address to listen on. */
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
}

/** Options of both ends. */
const protocol: TlsOptions = { minVersion: 'TLSv1.3', maxVersion: 'TLSv1.3', ecdhCurve: 'X25519' };

/** Listens for peers. Rejects with Node's error where that is not possible. */
export async function openNetworkPeers(options: NetworkPeerOptions): Promise<NetworkPeerServer> {
  const { host, port } = options;
  const key = randomBytes(KEY_BYTES);
  const sockets = new Set<Socket>();
  const server = createServer({
    ...protocol,
    handshakeTimeout: 2 * CONNECT_MS,
    pskCallback: (_socket, identity) => (identity === PROTOCOL ? key : null),
  });
  // Connections that do not know the key end during the handshake.
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('tlsClientError', () => {});
  server.on('secureConnection', (socket) => servePeer(socket, options));
  await listenForPeers(server, { host, port });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    secret: key.toString('hex'),
    close: async () => {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Begins to connect to a peer. What is written is sent once the peer has shown that it knows its key. */
export function connectToPeer({ host, port, secret }: PeerAddress, clock: Pick<Clock, 'after'>): Socket {
  const socket = connect({
    ...protocol,
    host,
    port,
    pskCallback: () => ({ psk: Buffer.from(secret, 'hex'), identity: PROTOCOL }),
    // The key names the peer; there is no certificate.
    checkServerIdentity: () => undefined,
  });
  const connected = new Promise<void>((resolve) => {
    socket.once('secureConnect', resolve);
    socket.once('close', resolve);
  });
  withinTime(clock, CONNECT_MS, connected).catch(() => socket.destroy());
  return socket;
}
