/**
 * Three machines on one engine under faults at random: relays to the engine that are silent, slow, one way or reset; machines that are
 * suspended or killed; an engine that is suspended, killed, flushed, full or takes no writes. Clients of all machines read, purge and
 * change what they read meanwhile. After an acknowledged purge or unsafe request no later request may get an older version, every byte
 * is of one version, and no client of a machine that runs gets an error.
 *
 * RANGEWAY_FLEET_SECONDS is the duration, RANGEWAY_FAULT_SEED the seed, and RANGEWAY_ENGINE_PROGRAM=valkey-server another engine.
 */

import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { type AskAdmin, adminConfig, adminEnvironment, findAdmin } from '../support/clients/admin-client.ts';
import { describeWithEngine, type RedisServer, startRedisServer } from '../support/engines/redis-server.ts';
import { openTcpRelay, type TcpRelay } from '../support/engines/tcp-relay.ts';
import { faultSeed } from '../support/processes/fault-rounds.ts';
import { type RangewayProcess, startConfigured } from '../support/processes/rangeway-process.ts';
import { temporaryDirectory } from '../support/stores/disk-store.ts';
import { FleetHistory } from '../support/traffic/fleet-history.ts';

const { RANGEWAY_FLEET_SECONDS: askedSeconds = '120' } = process.env;
const seconds = Number(askedSeconds);
const paths = Array.from({ length: 12 }, (_, index) => `/page-${index}`);
const host = 'files.example';
/** Bodies are longer than a block of the engine. */
const bodyBytes = 80_000;

/** Returns random numbers from 0 to 1 of a seed (a linear congruential generator of Numerical Recipes). */
function createRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** One machine, its line to the engine, and whether it is meant to answer. */
interface Node {
  readonly name: string;
  readonly dir: string;
  readonly relay: TcpRelay;
  readonly agent: Agent;
  process: RangewayProcess & { readonly url: string };
  admin: AskAdmin;
  isUp: boolean;
}

const began = performance.now();
const sinceStart = () => performance.now() - began;

class Ground {
  readonly history = new FleetHistory(sinceStart);
  readonly nodes: Node[] = [];
  readonly versions = new Map<string, number>();
  readonly random = createRandom(faultSeed);
  readonly engine: RedisServer;
  #origin = '';
  #dir = '';
  isOver = false;

  constructor(engine: RedisServer) {
    this.engine = engine;
  }

  async open(): Promise<void> {
    this.#dir = await temporaryDirectory();
    await writeFile(join(this.#dir, 'secret'), 'the secret of all machines of a test');
    const origin = createServer((asked, response) => {
      const path = asked.url ?? '';
      if (asked.method === 'PUT') this.versions.set(path, this.versionOf(path) + 1);
      const version = this.versionOf(path);
      answerAsOrigin(asked, response, bodyOf(path, version), version);
    });
    await once(origin.listen(0, '127.0.0.1'), 'listening');
    onTestFinished(() => {
      origin.closeAllConnections();
      origin.close();
    });
    this.#origin = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
    for (const name of ['a', 'b', 'c']) {
      const dir = join(this.#dir, name);
      await mkdir(dir);
      const relay = await openTcpRelay(this.engine.port);
      onTestFinished(() => relay[Symbol.asyncDispose]());
      const node = { name, dir, relay, agent: new Agent({ keepAlive: false }), isUp: true } as Node;
      this.nodes.push(node);
      await this.start(node);
      onTestFinished(() => void node.process.stop('SIGKILL'));
    }
  }

  async start(node: Node): Promise<void> {
    const config = {
      listen: '127.0.0.1:0',
      store: { type: 'redis', url: `redis://127.0.0.1:${node.relay.port}`, memoryBytes: '32MB' },
      fleet: { secret: `file:${join(this.#dir, 'secret')}`, memoryWhileAwaySeconds: 0 },
      admin: adminConfig,
      routes: [{ origin: this.#origin }],
    };
    node.process = await startConfigured(node.dir, config, adminEnvironment);
    node.admin = await findAdmin(node.process);
    node.isUp = true;
  }

  versionOf(path: string): number {
    return this.versions.get(path) ?? 1;
  }

  oneOf<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)] as T;
  }

  /** Asks a machine; undefined where it is killed or suspended meanwhile. */
  async ask(node: Node, method: string, path: string): Promise<Answer | undefined> {
    const { url, pid } = node.process;
    const asked = request(url + path, { method, agent: node.agent, headers: { host } });
    const answered = once(asked, 'response');
    asked.end();
    let given: string | undefined;
    try {
      const [response] = (await answered) as [IncomingMessage];
      given = response.headers.etag;
      const body = (await buffer(response)).toString('latin1');
      return { status: response.statusCode ?? 0, body, cacheStatus: String(response.headers['cache-status']) };
    } catch (error) {
      if (!node.isUp || node.process.pid !== pid) return undefined;
      const cut = `${node.name} ${method} ${path} with ${given}: ${String(error)}`;
      // Where the origin has another version by now, nobody has the rest.
      for (const line of node.process.output().trim().split('\n').slice(-5)) this.history.note(`${node.name}: ${line}`);
      if (given === undefined || given === `"${this.versionOf(path)}"`) this.history.fail(cut);
      else this.history.counts.cutOff += 1;
      return undefined;
    }
  }
}

interface Answer {
  readonly status: number;
  readonly body: string;
  readonly cacheStatus: string;
}

function bodyOf(path: string, version: number): string {
  const line = `${path} ${version}\n`;
  return line.repeat(Math.ceil(bodyBytes / line.length)).slice(0, bodyBytes);
}

/** Answers a request as an origin: every second path has ranges. */
function answerAsOrigin(
  { headers, url = '' }: IncomingMessage,
  response: ServerResponse,
  body: string,
  version: number,
): void {
  const etag = `"${version}"`;
  const fields = { 'cache-control': 'max-age=3600', etag };
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
  const isCurrent = headers['if-range'] === undefined || headers['if-range'] === etag;
  if (headers['if-none-match'] === etag) response.writeHead(304, fields).end();
  else if (from === undefined || !isCurrent || !/[02468]$/.test(url)) {
    response.writeHead(200, { ...fields, 'content-length': body.length }).end(body);
  } else {
    const part = body.slice(Number(from), to === '' ? undefined : Number(to) + 1);
    const end = Number(from) + part.length - 1;
    const range = `bytes ${from}-${end}/${body.length}`;
    response.writeHead(206, { ...fields, 'content-range': range, 'content-length': part.length }).end(part);
  }
}

/** Reads at one machine after another. */
async function readOn(ground: Ground): Promise<void> {
  const { history } = ground;
  while (!ground.isOver) {
    const [node, path] = [ground.oneOf(ground.nodes), ground.oneOf(paths)];
    await delay(5);
    if (!node.isUp) continue;
    const floor = history.floorOf(path);
    const answer = await ground.ask(node, 'GET', path);
    if (answer === undefined) continue;
    const version = Number(answer.body.slice(path.length + 1, answer.body.indexOf('\n')));
    if (answer.status !== 200) history.fail(`${node.name} answered ${path} with ${answer.status}`);
    else if (answer.body !== bodyOf(path, version)) history.fail(`${node.name} mixed bytes of ${path}`);
    else history.judge(node.name, path, version, floor, ground.versionOf(path));
  }
}

/** Changes a share of the paths: by an unsafe request, or at the origin with a purge after it. One change of a path at a time. */
async function changeOn(ground: Ground, own: readonly string[]): Promise<void> {
  const { history, versions } = ground;
  while (!ground.isOver) {
    const [node, path] = [ground.oneOf(ground.nodes), ground.oneOf(own)];
    await delay(20 + 150 * ground.random());
    if (!node.isUp) continue;
    if (ground.random() < 0.3) {
      const answer = await ground.ask(node, 'PUT', path);
      const isDone = answer?.status === 200 && !answer.cacheStatus.includes('invalidation-pending');
      history.counts[isDone ? 'changes' : 'pendingChanges'] += 1;
      if (isDone) history.raise(path, ground.versionOf(path), `PUT at ${node.name}`);
      continue;
    }
    const version = ground.versionOf(path) + 1;
    versions.set(path, version);
    const mode = ground.random() < 0.5 ? 'hard' : 'soft';
    const order = { url: `http://${host}${path}`, mode };
    const answer = await node.admin('POST', '/api/v1/purge', order).catch(() => undefined);
    history.counts[answer?.status === 200 ? 'purges' : 'refusedPurges'] += 1;
    if (answer?.status === 200) history.raise(path, version, `${mode} purge at ${node.name}`);
  }
}

type Fault = readonly [name: string, begin: () => unknown, end: () => unknown];

/** Returns all faults, each with its end. */
function faultsOf(ground: Ground): readonly Fault[] {
  const { engine, nodes } = ground;
  const set = (...command: string[]) => engine.command(...command);
  const lines = nodes.flatMap((node): readonly Fault[] => {
    const { name, relay } = node;
    const heal = () => relay.heal();
    return [
      [`line of ${name} is silent`, () => relay.cut(), heal],
      [`line of ${name} is cut to the engine`, () => relay.cut('to'), heal],
      [`line of ${name} is cut back`, () => relay.cut('back'), heal],
      [`line of ${name} is slow`, () => relay.slow(400), heal],
      [`line of ${name} is slower than commands may be`, () => relay.slow(700), heal],
      [`line of ${name} is reset`, heal, heal],
      [
        `${name} is suspended`,
        () => process.kill(node.process.pid, 'SIGSTOP'),
        () => process.kill(node.process.pid, 'SIGCONT'),
      ],
      [
        `${name} is killed`,
        async () => {
          node.isUp = false;
          await node.process.stop('SIGKILL');
        },
        () => ground.start(node),
      ],
    ];
  });
  return [
    ...lines,
    ['the engine is suspended', () => engine.signal('SIGSTOP'), () => engine.signal('SIGCONT')],
    ['the engine is killed', () => engine.kill(), () => engine.restart()],
    ['the engine is flushed', () => set('FLUSHALL'), () => {}],
    ['the engine is full', () => set('CONFIG', 'SET', 'maxmemory', '1'), () => set('CONFIG', 'SET', 'maxmemory', '0')],
    [
      'the engine takes no writes',
      () => set('CONFIG', 'SET', 'min-replicas-to-write', '1'),
      () => set('CONFIG', 'SET', 'min-replicas-to-write', '0'),
    ],
  ];
}

/** Begins one fault after another, each of which lasts for up to nine seconds. */
async function disturb(ground: Ground): Promise<void> {
  const { history } = ground;
  const faults = faultsOf(ground);
  while (sinceStart() < seconds * 1000) {
    const [name, begin, end] = ground.oneOf(faults);
    const lastsMs = 200 + 9_000 * ground.random() ** 2;
    history.note(`FAULT ${name} for ${Math.round(lastsMs)} ms`);
    history.counts.faults += 1;
    await begin();
    await delay(lastsMs);
    await end();
    history.note(`END ${name}`);
    await delay(1_500 * ground.random());
  }
}

describeWithEngine('three machines on one engine, under faults at random', () => {
  it('answer nothing older than was acknowledged, no mixed bytes and no errors', {
    timeout: seconds * 1000 + 120_000,
  }, async () => {
    await using engine = await startRedisServer();
    const ground = new Ground(engine);
    const { history } = ground;
    await ground.open();
    const clients = [
      ...Array.from({ length: 6 }, () => readOn(ground)),
      ...[0, 1, 2, 3].map((at) =>
        changeOn(
          ground,
          paths.filter((_, index) => index % 4 === at),
        ),
      ),
    ];
    await disturb(ground);
    ground.isOver = true;
    await Promise.all(clients);
    const { counts, verdicts } = history;
    console.log(`seed ${faultSeed}, ${seconds} s: ${JSON.stringify(counts)}, violations: ${verdicts.length}`);
    for (const { what } of verdicts) console.log(what);
    const [first] = verdicts;
    expect(first === undefined ? '' : [first.what, ...first.before].join('\n')).toBe('');
    expect(Math.min(counts.reads, counts.purges, counts.changes, counts.faults)).toBeGreaterThan(0);
  });
});
