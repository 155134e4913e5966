/** Runs random traffic: clients, an origin and a store go through the steps of a plan. */

import { expect } from 'vitest';
import type { Clock } from '../../../src/http/clock.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { createFakeClock } from '../clocks/fake-clock.ts';
import {
  type Client,
  createWholeProxy,
  type Sent,
  type WholeProcess,
  type WholeProxy,
  type WholeProxyOptions,
} from '../proxies/whole-proxy.ts';
import type { SteeredStore } from '../stores/steered-store.ts';
import { type Asked, expectRightBytes, isHonest, isUnsafe, possibleErrors, possibleStatuses } from './traffic-check.ts';
import { expectFreshEnough } from './traffic-freshness.ts';
import type { StoreOf, TrafficGround } from './traffic-ground.ts';
import { TrafficOrigin } from './traffic-origin.ts';
import { type Plan, proxyOptions } from './traffic-plan.ts';
import { type Step, targets } from './traffic-steps.ts';

/** A client without a response after so many turns, in which the origin answers everything, waits for ever. */
const patienceTurns = 2000;
/** Turns within which a server must end. */
const endTurns = 200;

/** A client and its state. */
interface Visitor extends Asked {
  readonly client: Client;
  /** Settles when the response is complete or cut. Rejects where it must not have been served. */
  reading: Promise<void>;
  hasLeft: boolean;
  /** Whether it got all bytes of a representation. */
  isGivenWhole: boolean;
  /** Whether its server ended while it was connected. */
  isCutOff: boolean;
  /** The process that it is connected to, where there are several. */
  process: WholeProcess | undefined;
  stalledUntil: PromiseWithResolvers<void> | undefined;
}

/** A server from its start to its end. */
interface Life {
  /** The stores of the processes; one where they share it. */
  readonly stores: readonly SteeredStore[];
  readonly proxy: WholeProxy;
  readonly origin: TrafficOrigin;
}

/**
 * Runs a plan; `options` are further options of its proxy. Rejects at a wrong or foreign byte, an endless wait, or a leaked
 * resource.
 */
export async function runTraffic(plan: Plan, ground: TrafficGround, options: WholeProxyOptions = {}): Promise<void> {
  await new Traffic(plan, ground, options).run();
}

class Traffic {
  readonly #plan: Plan;
  readonly #ground: TrafficGround;
  readonly #options: WholeProxyOptions;
  readonly #visitors: Visitor[] = [];
  readonly #releases: (() => void)[] = [];
  /** The newest version that a client knows of, by target. */
  readonly #knownVersions = new Map<string | undefined, number>();
  #clock: Clock = createFakeClock();

  constructor(plan: Plan, ground: TrafficGround, options: WholeProxyOptions) {
    this.#plan = plan;
    this.#ground = ground;
    this.#options = options;
  }

  async run(): Promise<void> {
    let life = await this.#begin(1);
    for (const each of this.#plan.steps) {
      if (each.kind === 'restart') life = await this.#restart(life);
      else await this.#take(life, each);
    }
    this.#releaseAll();
    if (this.#plan.closesEarly) {
      await this.#closeAtOnce(life);
    } else {
      for (const visitor of this.#visitors) visitor.stalledUntil?.resolve();
      await this.#serveTheRest(life);
      if (isHonest(this.#plan)) await this.#expectRecovery(life);
    }
    await this.#end(life);
    await this.#ground.expectRightKept(life.origin.version);
  }

  /** Starts a server over the store. */
  async #begin(version: number): Promise<Life> {
    const plan = this.#plan;
    const storeOf = await this.#ground.open(() => this.#clock.now());
    const stores = new Set<SteeredStore>();
    const createStore: StoreOf = (process, fleet) => {
      const store = storeOf(process, fleet);
      stores.add(store);
      return store;
    };
    const proxy = createWholeProxy({ ...proxyOptions(plan), ...this.#options, createStore });
    proxy.clock.advance(this.#clock.now() - proxy.clock.now());
    this.#clock = proxy.clock;
    return {
      stores: [...stores],
      proxy,
      origin: new TrafficOrigin(plan, proxy.origin, version, () => proxy.clock.now()),
    };
  }

  async #restart(life: Life): Promise<Life> {
    this.#releaseAll();
    await this.#closeAtOnce(life);
    await this.#end(life);
    return await this.#begin(life.origin.version);
  }

  #releaseAll(): void {
    for (const release of this.#releases.splice(0)) release();
  }

  /** Ends the server while clients are connected, some of which do not read. */
  async #closeAtOnce({ proxy, origin }: Life): Promise<void> {
    await this.#rests(3);
    for (const visitor of this.#visitors) visitor.isCutOff = true;
    await this.#waitFor(proxy.closeCache(), 'the server does not end');
    for (const visitor of this.#visitors) this.#leave(visitor);
    await this.#rests(3);
    while (proxy.origin.untaken > 0) await origin.refuse(new ProxyError('origin_refused'));
    const over = Promise.all(this.#visitors.map(({ reading }) => reading));
    await this.#waitFor(over, 'a client waits for a server that has ended');
  }

  /** Closes the idle server, and checks that no resource is left. */
  async #end({ proxy, stores, origin }: Life): Promise<void> {
    await proxy.closeCache();
    await this.#rests(3);
    await this.#ground.expectIdle();
    await proxy.close();
    await this.#ground.rest();
    expect(proxy.origin.requests).toBeLessThan(40 + 12 * this.#visitors.length);
    expect(proxy.clock.pending).toBe(0);
    for (const { member } of proxy.processes) expect(member.leaseCount).toBe(0);
    for (const store of stores) expect(store.held).toBe(0);
    for (const { exchange, unread } of origin.transfers) {
      expect(unread === 0 || exchange.isClosed || exchange.request.signal.aborted).toBe(true);
    }
    await this.#ground.expectClosed();
  }

  async #take(life: Life, each: Exclude<Step, { kind: 'restart' }>): Promise<void> {
    const { stores, origin, proxy } = life;
    origin.look();
    switch (each.kind) {
      case 'send':
        return void this.#send(life, { ...each.sent, target: each.target });
      case 'leave':
        return this.#leave(this.#visitor(each.who));
      case 'head':
        return await origin.answer(each);
      case 'chunk':
        return origin.transfer(each.who, (transfer) => origin.continue(transfer, each.count));
      case 'finish':
        return origin.transfer(each.who, (transfer) => origin.finish(transfer));
      case 'break':
        return origin.transfer(each.who, (transfer) => origin.break(transfer));
      case 'swap':
        origin.transfer(each.who, (transfer) => origin.break(transfer));
        return origin.change();
      case 'change':
        return origin.change();
      case 'refuse':
        return await origin.refuse(new ProxyError('origin_refused'));
      case 'status':
        return await origin.refuse(each.status);
      case 'hold':
        return void this.#releases.push(
          (stores[this.#releases.length % stores.length] as SteeredStore).hold(each.step).release,
        );
      case 'release':
        return this.#releases.shift()?.();
      case 'advance':
        return proxy.clock.advance(each.ms);
      case 'stall':
        return this.#stall(this.#visitor(each.who));
      case 'die':
        return await this.#killOne(life, each.who);
      case 'turn':
        return await (this.#plan.isPatient ? this.#ground.rest() : this.#ground.turn());
      default:
        return await this.#ground.take(each);
    }
  }

  #visitor(who: number): Visitor | undefined {
    return this.#visitors[who % Math.max(1, this.#visitors.length)];
  }

  #send({ proxy, origin }: Life, sent: Sent): Visitor {
    const id = String(this.#visitors.length);
    const process = this.#nextProcess(proxy);
    const visitor: Visitor = {
      process,
      client: (process ?? proxy).send({ ...sent, fields: { ...sent.fields, 'x-client': id } }),
      sent,
      sentAt: proxy.clock.now(),
      leastVersion: this.#ground.mayServeRemoved ? 1 : (this.#knownVersions.get(sent.target) ?? 1),
      reading: Promise.resolve(),
      hasLeft: false,
      isGivenWhole: false,
      isCutOff: false,
      stalledUntil: undefined,
    };
    this.#visitors.push(visitor);
    visitor.reading = this.#read(visitor, origin);
    // A rejection is handled when all clients have ended.
    visitor.reading.catch(() => {});
    return visitor;
  }

  /** Returns the living processes by turns; undefined where there is only one. */
  #nextProcess({ processes }: WholeProxy): WholeProcess | undefined {
    const living = processes.filter(({ member }) => !member.isDead);
    return living[this.#visitors.length % Math.max(1, living.length)];
  }

  /** Kills a process; only its own clients are cut off. */
  async #killOne({ proxy }: Life, who: number): Promise<void> {
    const living = proxy.processes.filter(({ member }) => !member.isDead);
    const process = living.length > 1 ? living[who % living.length] : undefined;
    if (process === undefined) return;
    const clients = this.#visitors.filter((visitor) => visitor.process === process);
    for (const visitor of clients) visitor.isCutOff = true;
    this.#releaseAll();
    // A dead process does nothing more on behalf of its clients.
    for (const visitor of clients) this.#leave(visitor);
    await this.#rests(3);
    await this.#waitFor(process.member.die(), 'a process does not end');
  }

  #leave(visitor: Visitor | undefined): void {
    if (visitor === undefined || visitor.hasLeft) return;
    visitor.hasLeft = true;
    visitor.stalledUntil?.resolve();
    void visitor.client.leave().catch(() => {});
  }

  #stall(visitor: Visitor | undefined): void {
    if (visitor?.hasLeft === false) visitor.stalledUntil ??= Promise.withResolvers();
  }

  async #read(visitor: Visitor, origin: TrafficOrigin): Promise<void> {
    const response = await visitor.client.response;
    const bytes = await this.#readSlowly(visitor).catch((error: unknown) => {
      if (!(error instanceof ProxyError)) throw error;
      if (!visitor.hasLeft && !visitor.isCutOff) expect(possibleErrors(this.#plan)).toContain(error.code);
    });
    if (bytes === undefined || visitor.hasLeft) return;
    if ((await visitor.client.field('x-refused')) === '1') return;
    const { sent, isCutOff } = visitor;
    const { status } = response;
    expect(isCutOff ? [...possibleStatuses(sent), 499] : possibleStatuses(sent)).toContain(status);
    expectFreshEnough(this.#plan, visitor, response.fields);
    if (isUnsafe(sent)) this.#noteVersion(sent, Number((await visitor.client.field('x-version')) ?? 0));
    if (sent.method === 'PUT' || sent.method === 'HEAD' || status > 206) return;
    const given = { response, bytes: Buffer.from(bytes), latestVersion: origin.version };
    expectRightBytes(this.#plan, visitor, given, this.#visitors);
    visitor.isGivenWhole = status === 200;
  }

  /** Notes that later requests must not get an earlier version. */
  #noteVersion({ target }: Sent, version: number): void {
    for (const each of this.#plan.isGrouped ? targets : [target]) {
      this.#knownVersions.set(each, Math.max(this.#knownVersions.get(each) ?? 1, version));
    }
  }

  async #readSlowly(visitor: Visitor): Promise<Uint8Array> {
    for (let count = 1; visitor.stalledUntil !== undefined; count += 300 * this.#plan.unit) {
      await visitor.client.readUntil(count);
      await visitor.stalledUntil.promise;
      visitor.stalledUntil = undefined;
    }
    return await visitor.client.bytes();
  }

  /** Answers all requests at the origin until every client has its response. Fails where a client waits for ever. */
  async #serveTheRest({ proxy, origin }: Life): Promise<void> {
    let passed = 0;
    const serve = async () => {
      while (proxy.origin.untaken > 0) {
        await origin.answer({ who: 0, isEarly: false, isSized: true, is304: true, isWhole: passed % 2 === 0 });
      }
      origin.finishAll();
      passed += 1;
      if (passed % 20 === 0) proxy.clock.advance(1000);
    };
    const over = Promise.all(this.#visitors.map(({ reading }) => reading));
    await this.#waitFor(over, 'a client waits for ever', patienceTurns, serve);
  }

  /** Checks that a client gets the whole body after a few requests, whatever has happened to the entries. */
  async #expectRecovery(life: Life): Promise<void> {
    await this.#ground.heal();
    // The first responses may be cut by damaged blocks that were not detected before.
    const requests = 4;
    for (const target of targets) {
      let isGiven = false;
      for (let asked = 0; asked < requests && !isGiven; asked += 1) {
        const visitor = this.#send(life, { target });
        await this.#serveTheRest(life);
        isGiven = visitor.isGivenWhole;
      }
      if (!isGiven) expect.fail(`${target} is no longer served whole`);
    }
  }

  /** Calls `serve` in each turn until the promise settles. Fails after `turns` turns. */
  async #waitFor(
    awaited: Promise<unknown>,
    complaint: string,
    turns = endTurns,
    serve: () => Promise<void> = async () => {},
  ): Promise<void> {
    let isOver = false;
    const over = awaited.finally(() => {
      isOver = true;
    });
    over.catch(() => {});
    for (let passed = 0; !isOver && passed < turns; passed += 1) {
      await serve();
      await this.#ground.rest();
    }
    if (!isOver) expect.fail(complaint);
    await over;
  }

  async #rests(count: number): Promise<void> {
    for (let passed = 0; passed < count; passed += 1) await this.#ground.rest();
  }
}
