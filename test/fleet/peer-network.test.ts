/** Connections between members on several machines: only a peer that knows the secret of the fleet is answered. */

import { connect as connectPlain, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { HolderLost, type PeerAnswer } from '../../src/cache/fleet.ts';
import {
  connectToPeer,
  formatPeerAddress,
  type NetworkPeerServer,
  openNetworkPeers,
  type PeerAddress,
  parsePeerAddress,
} from '../../src/fleet/engine/peer-network.ts';
import { createHolderOver } from '../../src/fleet/peer-client.ts';
import type { Route } from '../../src/routing/router.ts';
import { createSeal, type Seal } from '../../src/store/redis/seal.ts';
import { createFakeClock } from '../support/clocks/fake-clock.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { admissionOf, createAsked } from '../support/proxies/peer-ground.ts';
import { createWholeProxy } from '../support/proxies/whole-proxy.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const sizeBytes = 1_000_000;
const seal = createSeal(['the secret of the fleet']);
const another = createSeal(['another secret']);
const never = new AbortController().signal;

let route: Route;
let server: NetworkPeerServer;
let asked: number;
beforeEach(async () => {
  const proxy = createWholeProxy({});
  route = proxy.route;
  await proxy.close();
  asked = 0;
  const cache = {
    answerPeer: async () => {
      asked += 1;
      return given;
    },
  };
  server = await openNetworkPeers({
    cache,
    admission: admissionOf(route),
    clock: realClock,
    host: '127.0.0.1',
    port: 0,
    seal,
  });
});
afterEach(async () => {
  await server.close();
});

const given: PeerAnswer = {
  unshared: undefined,
  refusal: undefined,
  answer: {
    outcome: 'miss',
    reason: 'uri-miss',
    collapsed: true,
    status: { fwd: 'uri-miss', fwdStatus: 200, stored: true, collapsed: true, ttlSeconds: 60 },
    originBytes: () => 0,
    kind: 'representation',
    isReuse: false,
    representation: {
      response: { status: 200, fields: [], nominated: [], requestAt: 1, responseAt: 2 },
      generation: 'g',
      sizeBytes,
      peek: () => undefined,
      open: async () => ({
        peek: () => undefined,
        read: async (offset, end) => patternBytes(offset, Math.min(end, offset + 100_000)),
        close: () => {},
      }),
      whenPresent: async () => true,
      close: () => {},
    },
  },
};

const address = (): PeerAddress => ({ host: '127.0.0.1', port: server.port });
const holderAt = (at: PeerAddress, own: Seal = seal) =>
  createHolderOver('a', { connect: () => connectToPeer(at, own, realClock), clock: realClock });

describe('a peer', () => {
  it('that knows the secret gets the answer and its bytes', async () => {
    const reply = await holderAt(address()).answer(createAsked(route, never));
    if (reply?.answer?.kind !== 'representation') throw new Error('no representation');
    const reader = await reply.answer.representation.open([{ start: 0, end: sizeBytes }], never);
    let offset = 0;
    while (offset < sizeBytes) {
      const bytes = await reader.read(offset, sizeBytes);
      if (bytes === undefined) break;
      expect(Buffer.from(bytes).equals(patternBytes(offset, offset + bytes.length))).toBe(true);
      offset += bytes.length;
    }
    reader.close();
    expect([offset, asked]).toEqual([sizeBytes, 1]);
  });

  it('that has another secret is not answered, and nothing that it sends is looked at', async () => {
    const holder = holderAt(address(), another);
    await expect(holder.answer(createAsked(route, never))).rejects.toThrow(HolderLost);
    expect(asked).toBe(0);
  });

  it('that signs by the next secret is answered where that is known beside the one in use', async () => {
    const next = createSeal(['another secret', 'the secret of the fleet']);
    await expect(holderAt(address(), next).answer(createAsked(route, never))).rejects.toThrow(HolderLost);
    const both = { cache: { answerPeer: async () => given }, admission: admissionOf(route), clock: realClock };
    const changing = createSeal(['the secret of the fleet', 'another secret']);
    const open = await openNetworkPeers({ ...both, seal: changing, host: '127.0.0.1', port: 0 });
    try {
      for (const each of [seal, next, another]) {
        const at = { ...address(), port: open.port };
        expect((await holderAt(at, each).answer(createAsked(route, never)))?.answer?.kind).toBe('representation');
      }
    } finally {
      await open.close();
    }
  });

  it('is not trusted where the process at its address has another secret', async () => {
    const cache = { answerPeer: async () => given };
    const admission = admissionOf(route);
    const other = await openNetworkPeers({
      cache,
      admission,
      clock: realClock,
      host: '127.0.0.1',
      port: 0,
      seal: another,
    });
    try {
      const holder = holderAt({ ...address(), port: other.port });
      await expect(holder.answer(createAsked(route, never))).rejects.toThrow(HolderLost);
    } finally {
      await other.close();
    }
  });

  const strangers: readonly (readonly [string, (port: number) => NodeJS.ReadWriteStream])[] = [
    ['sends plain bytes', (port) => connectPlain(port, '127.0.0.1')],
    ['has no key', (port) => connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })],
  ];
  it.each(strangers)('that %s is cut off', async (_, connect) => {
    const socket = connect(server.port);
    socket.on('error', () => {});
    socket.write(Buffer.from([1, 0, 0, 0, 4, 1, 2, 3, 4]));
    socket.on('data', () => {});
    await new Promise((resolve) => socket.once('close', resolve));
    expect(asked).toBe(0);
  });

  const silent = async (port: number): Promise<{ socket: Socket; closed: Promise<unknown> }> => {
    const socket = connectPlain(port, '127.0.0.1');
    socket.on('error', () => {});
    const closed = new Promise((resolve) => socket.once('close', resolve));
    await new Promise((resolve) => socket.once('connect', resolve));
    return { socket, closed };
  };

  it('that does not end its handshake is cut off after ten seconds', async () => {
    const clock = createFakeClock();
    const cache = { answerPeer: async () => given };
    const other = await openNetworkPeers({
      cache,
      admission: admissionOf(route),
      clock,
      host: '127.0.0.1',
      port: 0,
      seal,
    });
    try {
      const [nothing, half] = [await silent(other.port), await silent(other.port)];
      // The head of a record whose rest does not come.
      half.socket.write(Buffer.from([22, 3, 1, 2, 0, 1]));
      const holder = holderAt({ host: '127.0.0.1', port: other.port });
      await holder.answer(createAsked(route, never));
      await clock.advance(9_999);
      expect([nothing.socket.destroyed, half.socket.destroyed]).toEqual([false, false]);
      await clock.advance(1);
      await Promise.all([nothing.closed, half.closed]);
    } finally {
      await other.close();
    }
  });

  it('that has not ended its handshake is cut off when 256 later ones have not, and a peer is still answered', async () => {
    const first = await silent(server.port);
    const others = await Promise.all(Array.from({ length: 256 }, () => silent(server.port)));
    await first.closed;
    await holderAt(address()).answer(createAsked(route, never));
    expect(asked).toBe(1);
    for (const { socket } of others) socket.destroy();
  });

  it('is lost where nothing listens', async () => {
    const gone = address();
    await server.close();
    await expect(holderAt(gone).answer(createAsked(route, never))).rejects.toThrow(HolderLost);
  });
});

describe('the address of a peer', () => {
  it.each(['10.0.0.7', '::1', 'node-3.example'])('with the host %s is read as it was written', (host) => {
    expect(parsePeerAddress(formatPeerAddress({ host, port: 8080 }))).toEqual({ host, port: 8080 });
  });
  it.each(['', 'host', ':1', '::1', '[::1]', 'host:', 'host:123456', 'host:65536', 'a host: 1'])(
    'is not %j',
    (text) => {
      expect(parsePeerAddress(text)).toBeUndefined();
    },
  );
});
