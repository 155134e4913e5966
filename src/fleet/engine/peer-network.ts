/**
 * Connections between the members of a fleet on several machines: TLS 1.3 with a pre-shared key (RFC 8446 §2.2) that comes from the
 * secret of the fleet. Both ends prove by the handshake that they know the secret; no byte is parsed before that. The engine does not
 * know the secret, so a program that reads or writes the engine can neither ask a member nor pretend to be one.
 */

import { isIPv6, type Socket } from 'node:net';
import { connect, createServer, type TlsOptions } from 'node:tls';
import type { Clock } from '../../http/clock.ts';
import type { Seal } from '../../store/redis/seal.ts';
import { listenForPeers, type PeerServer, type PeerSessionOptions, servePeer } from '../peer-server.ts';
import { withinTime } from './fleet-engine.ts';

/** Names the protocol between peers. Processes of a release with another protocol do not understand each other. */
const PROTOCOL = 'rangeway-peer-2';
/** How long a connection may take, in milliseconds. Many are made at once where many clients miss. */
const CONNECT_MS = 5_000;

/** How long a handshake may take, in milliseconds, and the most that run: then the oldest ends. */
const HANDSHAKE_MS = 2 * CONNECT_MS;
const MOST_HANDSHAKES = 256;

/** How a process is reached by its peers. */
export interface PeerAddress {
  readonly host: string;
  readonly port: number;
}

/** Returns an address as text. */
export function formatPeerAddress({ host, port }: PeerAddress): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** Parses an address; undefined where it is none. */
export function parsePeerAddress(text: string): PeerAddress | undefined {
  const [, six, name, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = six ?? name;
  if (host === undefined || Number(port) > 65_535) return undefined;
  return { host, port: Number(port) };
}

/** A server for peers on other machines. */
export interface NetworkPeerServer extends PeerServer {
  readonly port: number;
}

/** Options of a server for peers on other machines. */
export interface NetworkPeerOptions extends PeerSessionOptions {
  /** The address to listen on. */
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  /** Knows the keys of the fleet. */
  readonly seal: Pick<Seal, 'peerKey'>;
}

/** Options of both ends. */
const protocol: TlsOptions = { minVersion: 'TLSv1.3', maxVersion: 'TLSv1.3', ecdhCurve: 'X25519' };

/** Listens for peers. Rejects with Node's error where that is not possible. */
export async function openNetworkPeers(options: NetworkPeerOptions): Promise<NetworkPeerServer> {
  const { host, port, seal } = options;
  const sockets = new Set<Socket>();
  /** Connections that have not shown that they know the key, by their other end. The first is the oldest. */
  const strangers = new Map<string, Socket>();
  const server = createServer({
    ...protocol,
    pskCallback: (_socket, identity) => {
      const [name, id = ''] = identity.split(' ');
      return (name === PROTOCOL ? seal.peerKey(id) : undefined) ?? null;
    },
  });
  // Connections that do not know the key end during the handshake: each has a time limit, and their number has one.
  server.on('connection', (socket: Socket) => {
    const name = otherEnd(socket);
    const stopTimer = options.clock.after(HANDSHAKE_MS, () => {
      if (strangers.get(name) === socket) socket.destroy();
    });
    sockets.add(socket);
    strangers.set(name, socket);
    socket.once('close', () => {
      stopTimer();
      sockets.delete(socket);
      if (strangers.get(name) === socket) strangers.delete(name);
    });
    const [oldest] = strangers.values();
    if (strangers.size > MOST_HANDSHAKES) oldest?.destroy();
  });
  server.on('tlsClientError', (_error, socket) => socket.destroy());
  server.on('secureConnection', (socket) => {
    strangers.delete(otherEnd(socket));
    servePeer(socket, options);
  });
  await listenForPeers(server, { host, port });
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : port,
    close: async () => {
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Returns the address and port of the other end, which no other connection to a server has. */
function otherEnd({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** Begins to connect to a peer. What is written is sent once the peer has shown that it knows the secret of the fleet. */
export function connectToPeer(
  { host, port }: PeerAddress,
  { id, peerKey }: Pick<Seal, 'id' | 'peerKey'>,
  clock: Pick<Clock, 'after'>,
): Socket {
  const psk = peerKey(id) as Buffer;
  const socket = connect({
    ...protocol,
    host,
    port,
    pskCallback: () => ({ psk, identity: `${PROTOCOL} ${id}` }),
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
