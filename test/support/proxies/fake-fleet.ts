/** Several caches over one store in this process, each as a process of its own sees itself: leases, answers and news between them. */

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

/** One of them. */
export interface FakeMember {
  readonly instance: string;
  readonly isDead: boolean;
  /** Of how many keys it has the lease, or asks for it. */
  readonly leaseCount: number;
  readonly fleet: Fleet;
  /** Tells which cache answers for it, and by which rules. */
  attach(cache: Cache, admission: PeerServerOptions['admission']): void;
  /** Ends it in order: what it has told the others stays. */
  leave(): Promise<void>;
  /** Ends it as a kill does: nobody hears of it again, its leases are free, and what it was doing has broken off. */
  die(): Promise<void>;
  /** Nobody reaches it any more, though it lives. */
  isCutOff: boolean;
}

/** All of them. */
export class FakeFleet {
  readonly table: LeaseTable;
  readonly clock: Clock;
  /** Where their sockets are; undefined where they call each other directly. */
  readonly dir: string | undefined;
  readonly #members = new Map<string, Member>();

  constructor(clock: Clock, by: 'calls' | 'sockets') {
    this.clock = clock;
    this.dir = by === 'sockets' ? mkdtempSync(join(tmpdir(), 'rangeway-peers-')) : undefined;
    this.table = createLeaseTable(clock);
  }

  /** Ends all of them in order. */
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
    this.table.fall(instance);
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
          // Nothing comes to who is dead.
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
      tell: async (news) => void (await Promise.all(all.others(instance).map((member) => member.#cache?.heed(news)))),
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

  /** Resolves when others can reach it. */
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
    // What a dead process was writing has been let go of when its leases pass on.
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
        const told = other.#cache.answerPeer(asAsked(inquiry, other.dying.signal), given);
        const held = await untilLost(told, other.dying.signal, holder);
        return held && severable(held, other.dying.signal, holder);
      },
    };
    return holder;
  }
}

/** The request as the other process has it: it ends with the line between the two. */
function asAsked(inquiry: Inquiry, dying: AbortSignal): Inquiry {
  const { request } = inquiry;
  const { method, scheme, authority, target, version, fields, body, bodySizeBytes, peer, receivedAt } = request;
  const told = { method, scheme, authority, target, version, fields, body, bodySizeBytes, peer, receivedAt };
  const signal = AbortSignal.any([request.signal, dying]);
  return changedInquiry(inquiry, { request: { ...told, signal, sendInterim: () => {} } });
}

/** Whatever is asked of a process that dies is lost. */
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
