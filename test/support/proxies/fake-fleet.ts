/** A fleet in one process: several caches over one store, each like a worker, with leases, answers and invalidation messages. */

import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Answer, ByteReader, Representation } from '../../../src/cache/answer.ts';
import type { Cache } from '../../../src/cache/cache.ts';
import { type Fleet, HolderLost, type PeerAnswer } from '../../../src/cache/fleet.ts';
import { changedInquiry, type Inquiry } from '../../../src/cache/inquiry.ts';
import { ChannelGone } from '../../../src/fleet/channel.ts';
import { createLeaseTable, LeaseClient, type LeaseTable, type NamedHolder } from '../../../src/fleet/leases.ts';
import { createPeerHolder } from '../../../src/fleet/peer-client.ts';
import {
  openPeerServer,
  type PeerServer,
  type PeerServerOptions,
  peerSocketPath,
} from '../../../src/fleet/peer-server.ts';
import type { Clock } from '../../../src/http/clock.ts';
import type { BodyStream } from '../../../src/http/message.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { moving } from '../clocks/peer-quiet.ts';

type RelayAnswer = Extract<Answer, { kind: 'relay' }>;

/** A fake worker. */
export interface FakeMember {
  readonly instance: string;
  readonly isDead: boolean;
  /** Number of keys whose lease it has, or asks for. */
  readonly leaseCount: number;
  readonly fleet: Fleet;
  /** Sets the cache that answers other members, and its admission rules. */
  attach(cache: Cache, admission: PeerServerOptions['admission']): void;
  /** Ends it in order: its earlier messages stay in effect. */
  leave(): Promise<void>;
  /** Ends it as a kill does: it sends nothing more, its leases become free, and its transfers break off. */
  die(): Promise<void>;
  /** Other members cannot reach it, though it lives. */
  isCutOff: boolean;
}

/** All members, and their lease table. */
export class FakeFleet {
  readonly table: LeaseTable;
  readonly clock: Clock;
  /** The directory of their sockets; undefined where they call each other directly. */
  readonly dir: string | undefined;
  readonly #members = new Map<string, Member>();

  constructor(clock: Clock, by: 'calls' | 'sockets') {
    this.clock = clock;
    this.dir = by === 'sockets' ? mkdtempSync(join(tmpdir(), 'rangeway-peers-')) : undefined;
    this.table = createLeaseTable(clock);
  }

  /** Ends all members in order. */
  async close(): Promise<void> {
    await Promise.all([...this.#members.values()].map((member) => member.leave()));
    if (this.dir !== undefined) await moving(rm(this.dir, { recursive: true, force: true }));
  }

  join(instance: string): FakeMember {
    const member = new Member(instance, this);
    this.#members.set(instance, member);
    return member;
  }

  member(instance: string): Member | undefined {
    return this.#members.get(instance);
  }

  others(instance: string): readonly Member[] {
    return [...this.#members.values()].filter((member) => member.instance !== instance && !member.isDead);
  }

  forget(instance: string): void {
    this.#members.delete(instance);
    this.table.noteDeath(instance);
  }
}

class Member implements FakeMember {
  readonly instance: string;
  readonly fleet: Fleet;
  readonly dying = new AbortController();
  readonly leases: LeaseClient;
  readonly #all: FakeFleet;
  #cache: Cache | undefined;
  #server: Promise<PeerServer> | undefined;
  isCutOff = false;

  constructor(instance: string, all: FakeFleet) {
    this.instance = instance;
    this.#all = all;
    const asker = { instance, socket: all.dir === undefined ? instance : peerSocketPath(all.dir, instance) };
    this.leases = new LeaseClient({
      supervisor: {
        acquireLease: async (key, lost) => {
          const reply = await all.table.acquire(key, asker, lost);
          // A dead worker gets no reply.
          if (this.isDead) throw new ChannelGone();
          return reply;
        },
        releaseLease: async (key) => all.table.release(key, instance),
      },
      reach: (other, path) => (all.dir === undefined ? this.#reach(other) : this.#reachOver(other, path)),
    });
    this.fleet = {
      acquire: (key, signal, lost) => this.leases.acquire(key, signal, lost),
      hold: (key) => this.leases.hold(key),
      announce: async (news) =>
        void (await Promise.all(all.others(instance).map((member) => member.#cache?.applyInvalidation(news)))),
    };
  }

  get isDead(): boolean {
    return this.dying.signal.aborted;
  }

  get leaseCount(): number {
    return this.isDead ? 0 : this.leases.size;
  }

  attach(cache: Cache, admission: PeerServerOptions['admission']): void {
    this.#cache = cache;
    const { dir, clock } = this.#all;
    const { instance } = this;
    if (dir !== undefined) this.#server = moving(openPeerServer({ dir, instance, cache, admission, clock }));
  }

  /** Resolves when other members can reach it. */
  get opened(): Promise<unknown> | undefined {
    return this.#server;
  }

  async leave(): Promise<void> {
    const server = await this.#server;
    if (server !== undefined) await moving(server.close());
    await this.#cache?.close();
  }

  async die(): Promise<void> {
    this.dying.abort(new ProxyError('client_gone'));
    await this.leave();
    // The writers of a dead worker are released before its leases pass on.
    this.#all.forget(this.instance);
  }

  #reachOver(instance: string, path: string): NamedHolder {
    const holder = createPeerHolder(instance, path, this.#all.clock);
    return {
      instance,
      answer: async (inquiry, given) => {
        await this.#all.member(instance)?.opened;
        return await holder.answer(inquiry, given);
      },
    };
  }

  #reach(instance: string): NamedHolder {
    const holder: NamedHolder = {
      instance,
      answer: async (inquiry, given) => {
        const other = this.#all.member(instance);
        if (other === undefined || other.isCutOff || other.#cache === undefined) throw new HolderLost(holder);
        const answering = other.#cache.answerPeer(asAsked(inquiry, other.dying.signal), given);
        const held = await untilLost(answering, other.dying.signal, holder);
        return held && severable(held, other.dying.signal, holder);
      },
    };
    return holder;
  }
}

/** The inquiry as the other process has it: its request is aborted when the other process dies. */
function asAsked(inquiry: Inquiry, dying: AbortSignal): Inquiry {
  const { request } = inquiry;
  const { method, scheme, authority, target, version, fields, body, bodySizeBytes, peer, receivedAt } = request;
  const sent = { method, scheme, authority, target, version, fields, body, bodySizeBytes, peer, receivedAt };
  const signal = AbortSignal.any([request.signal, dying]);
  return changedInquiry(inquiry, { request: { ...sent, signal, sendInterim: () => {} } });
}

/** Rejects with `HolderLost` when the other process dies before the promise settles. */
async function untilLost<T>(promise: Promise<T>, dying: AbortSignal, holder: NamedHolder): Promise<T> {
  promise.catch(() => {});
  if (dying.aborted) throw new HolderLost(holder);
  return await new Promise<T>((resolve, reject) => {
    const lose = () => reject(new HolderLost(holder));
    dying.addEventListener('abort', lose, { once: true });
    promise.then(resolve, reject).finally(() => dying.removeEventListener('abort', lose));
  });
}

function severable({ answer, ...learned }: PeerAnswer, dying: AbortSignal, holder: NamedHolder): PeerAnswer {
  if (answer?.kind === 'relay') return { ...learned, answer: severableRelay(answer, dying, holder) };
  if (answer === undefined) return { ...learned, answer };
  const { representation } = answer;
  const severed: Representation = {
    response: representation.response,
    generation: representation.generation,
    get sizeBytes() {
      return representation.sizeBytes;
    },
    peek: () => undefined,
    open: async (spans, signal) =>
      severableReader(await untilLost(representation.open(spans, signal), dying, holder), dying, holder),
    whenPresent: (end, signal) => untilLost(representation.whenPresent(end, signal), dying, holder),
    close: () => representation.close(),
  };
  return { ...learned, answer: { ...answer, representation: severed } };
}

function severableRelay(answer: RelayAnswer, dying: AbortSignal, holder: NamedHolder): RelayAnswer {
  const { relay } = answer;
  const { body } = relay.response;
  dying.addEventListener('abort', () => body.close(), { once: true });
  const severed: BodyStream = {
    trailers: body.trailers,
    close: () => body.close(),
    async *[Symbol.asyncIterator]() {
      const chunks = body[Symbol.asyncIterator]();
      for (;;) {
        const { done, value } = await untilLost(chunks.next(), dying, holder);
        if (done === true) return;
        yield value;
      }
    },
  };
  return { ...answer, relay: { ...relay, response: { ...relay.response, body: severed } } };
}

function severableReader(reader: ByteReader, dying: AbortSignal, holder: NamedHolder): ByteReader {
  return {
    peek: (offset, end) => (dying.aborted ? undefined : reader.peek(offset, end)),
    read: (offset, end) => untilLost(reader.read(offset, end), dying, holder),
    close: () => reader.close(),
  };
}
