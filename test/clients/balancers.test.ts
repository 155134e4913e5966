/** The balancers of examples/, with the real programs in front of three Rangeways: routing by URL, churn, client addresses, purge. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { Agent, createServer, type IncomingHttpHeaders, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { freePort } from '../../bench/peers/server-process.ts';
import { findProgram, itWith } from '../support/processes/programs.ts';
import {
  projectDirectory,
  type RangewayProcess,
  startConfigured,
  startProgram,
} from '../support/processes/rangeway-process.ts';
import { patternBytes } from '../support/values/pattern-body.ts';

const token = 'a-token-of-more-than-enough-characters';
const fileBytes = 100_000;
const body = Buffer.from(patternBytes(0, fileBytes).buffer);
/** Enough URLs that each of three nodes has some. */
const paths = Array.from({ length: 30 }, (_, number) => `/films/${number}.mp4?v=${number}`);
/** Only Linux has all addresses of 127.0.0.0/8. */
const clientAddress = process.platform === 'linux' ? '127.0.0.9' : '127.0.0.1';

const example = (name: string): Promise<string> => readFile(join(projectDirectory, 'examples', name), 'utf8');

/** Replaces a text that the example must have. */
function replaced(text: string, from: string | RegExp, to: string): string {
  expect(text).toMatch(from);
  return text.replaceAll(from, to);
}

/** A Rangeway behind the balancer. It can be killed, and started again with the same ports and the same directory. */
class FleetNode {
  readonly name: string;
  port = 0;
  adminPort = 0;
  readonly #dir: string;
  readonly #origin: string;
  #process: RangewayProcess | undefined;

  constructor(name: string, dir: string, origin: string) {
    this.name = name;
    this.#dir = dir;
    this.#origin = origin;
  }

  async start(): Promise<void> {
    await mkdir(this.#dir, { recursive: true });
    await writeFile(join(this.#dir, 'token'), token, { mode: 0o600 });
    const started = await startConfigured(this.#dir, {
      listen: `127.0.0.1:${this.port}`,
      pseudonym: this.name,
      trustedProxies: ['127.0.0.1'],
      store: { dir: join(this.#dir, 'store') },
      admin: { listen: `127.0.0.1:${this.adminPort}`, token: 'file:token' },
      log: { format: 'json', level: 'info' },
      routes: [{ origin: this.#origin }],
    });
    this.#process = started;
    this.port = Number(new URL(started.url).port);
    const [, admin = ''] = await started.waitFor(/administered on [^"]*?http:\/\/127\.0\.0\.1:(\d+)/);
    this.adminPort = Number(admin);
  }

  output(): string {
    return this.#process?.output() ?? '';
  }

  async stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    await this.#process?.stop(signal);
  }
}

/** An answer through the balancer. */
interface Answer {
  readonly status: number;
  /** The node that answered, by its pseudonym in Via. */
  readonly node: string;
  readonly body: Buffer;
}

/** Sends a GET over one kept connection. */
async function get(agent: Agent, port: number, path: string, headers: IncomingHttpHeaders = {}): Promise<Answer> {
  const sent = request({ agent, host: '127.0.0.1', port, path, headers: { host: 'media.test', ...headers } }).end();
  const [response] = await once(sent, 'response');
  const bytes = await buffer(response);
  return {
    status: response.statusCode,
    node: / (node\d)\b/.exec(String(response.headers['via']))?.[1] ?? '',
    body: bytes,
  };
}

/** A balancer program and its example. */
interface Balancer {
  readonly program: string;
  readonly file: string;
  /** Whether the example passes over a node that has more than its part of the requests. */
  readonly isBounded: boolean;
  /** Changes addresses and ports of the example, and what a test needs. */
  prepare(text: string, port: number, nodes: readonly FleetNode[], dir: string): string;
  args(file: string, dir: string): readonly string[];
}

const nginx: Balancer = {
  program: 'nginx',
  file: 'nginx.conf',
  isBounded: false,
  prepare(text, port, nodes, dir) {
    const addressed = nodes.reduce(
      (changed, node, index) => replaced(changed, `10.0.0.1${index + 1}:8080`, `127.0.0.1:${node.port}`),
      replaced(replaced(text, 'listen 8080;', `listen 127.0.0.1:${port};`), 'fail_timeout=5s', 'fail_timeout=1s'),
    );
    // Folders of the package, which only root can use.
    const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (name) => `${name}_temp_path ${dir}/${name};`,
    );
    return replaced(addressed, 'http {\n', `http {\n  ${folders.join('\n  ')}\n`);
  },
  args: (file, dir) => ['-p', dir, '-e', 'stderr', '-c', file, '-g', 'daemon off;'],
};

const haproxy: Balancer = {
  program: 'haproxy',
  file: 'haproxy.cfg',
  isBounded: true,
  prepare: (text, port, nodes) =>
    nodes.reduce(
      (changed, node, index) =>
        replaced(
          changed,
          `10.0.0.1${index + 1}:8080 id ${index + 1}`,
          `127.0.0.1:${node.port} id ${index + 1} port ${node.adminPort}`,
        ),
      replaced(text, 'bind :8080', `bind 127.0.0.1:${port}`),
    ),
  args: (file) => ['-db', '-f', file],
};

let origin: Server;
/** Responses to the first request for a URL that begins with `/held`: they wait until a test sends them. */
const held = new Map<string, () => void>();
let originUrl: string;
let root: string;

beforeAll(async () => {
  origin = createServer(({ url = '' }, response) => {
    const fields = { 'cache-control': 'max-age=3600', etag: '"v"', 'content-length': fileBytes };
    const send = () => void response.writeHead(200, fields).end(body);
    if (!url.startsWith('/held') || held.has(url)) send();
    else held.set(url, send);
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
  originUrl = `http://127.0.0.1:${(origin.address() as AddressInfo).port}`;
  root = await mkdtemp(join(tmpdir(), 'rangeway-balancers-'));
});
afterAll(async () => {
  origin.closeAllConnections();
  await once(origin.close(), 'close');
  await rm(root, { recursive: true, force: true });
});

/** Runs examples/purge-nodes.sh. */
async function purge(nodes: readonly FleetNode[], path: string): Promise<{ code: number; stderr: string }> {
  const RANGEWAY = `${process.execPath} ${join(projectDirectory, 'bin/rangeway.js')}`;
  const addresses = nodes.map(({ adminPort }) => `127.0.0.1:${adminPort}`).join(' ');
  const child = spawn(
    'sh',
    [join(projectDirectory, 'examples/purge-nodes.sh'), addresses, `http://media.test${path}`],
    {
      env: { ...process.env, RANGEWAY, RANGEWAY_ADMIN_TOKEN: token },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  const [stderr, [code]] = await Promise.all([buffer(child.stderr), once(child, 'exit')]);
  return { code, stderr: stderr.toString() };
}

describe.each([nginx, haproxy])('examples/$file', (balancer) => {
  itWith([balancer.program], `${balancer.program} gives each URL to one node`, async () => {
    await using stack = new AsyncDisposableStack();
    const dir = join(root, balancer.program);
    const nodes = ['node1', 'node2', 'node3'].map((name) => new FleetNode(name, join(dir, name), originUrl));
    stack.defer(async () => void (await Promise.all(nodes.map((node) => node.stop('SIGTERM')))));
    await Promise.all(nodes.map((node) => node.start()));

    const port = await freePort();
    const file = join(dir, balancer.file);
    await writeFile(file, balancer.prepare(await example(balancer.file), port, nodes, dir));
    const program = findProgram(balancer.program) ?? balancer.program;
    const running = stack.use(startProgram(program, balancer.args(file, dir), { env: process.env, cwd: dir }));
    // One connection, so that no request overlaps another and `hash-balance-factor` has nothing to balance.
    const agent = new Agent({ keepAlive: true, maxSockets: 1, localAddress: clientAddress });
    stack.defer(() => agent.destroy());
    const ask = (path: string, headers: IncomingHttpHeaders = {}) => get(agent, port, path, headers);
    // A connection that is refused is an error of the agent's socket.
    const status = () =>
      ask('/ready').then(
        ({ status }) => status,
        () => running.output(),
      );
    await expect.poll(status).toBe(200);

    // Each URL has one node, ranges of it too, and all nodes have some.
    const home = new Map<string, string>();
    for (const path of paths) {
      const whole = await ask(path);
      expect([whole.status, whole.body.equals(body)]).toEqual([200, true]);
      home.set(path, whole.node);
      for (const [start, end] of [
        [0, 9],
        [40_000, 79_999],
        [99_990, 99_999],
      ] as const) {
        const part = await ask(path, { range: `bytes=${start}-${end}` });
        expect([part.status, part.node]).toEqual([206, whole.node]);
        expect(part.body.equals(body.subarray(start, end + 1))).toBe(true);
      }
    }
    expect(new Set(home.values())).toEqual(new Set(['node1', 'node2', 'node3']));

    // The address of the client arrives, and not what the client says of itself.
    await ask('/address?of=client', { 'x-forwarded-for': '203.0.113.5' });
    const lines = () => nodes.map((node) => node.output()).join('');
    await expect.poll(lines).toMatch(new RegExp(`"/address[^\n]*"client":"${clientAddress}"`));
    expect(lines()).not.toContain('203.0.113.5');

    // A second request for a URL waits at the same node, or goes to another one where that node has too much to do.
    const heldPath = `/held/${balancer.program}`;
    const other = new Agent({ keepAlive: true, maxSockets: 1 });
    stack.defer(() => other.destroy());
    const first = get(other, port, heldPath);
    await expect.poll(() => held.has(heldPath)).toBe(true);
    const second = ask(heldPath);
    if (balancer.isBounded) await second;
    held.get(heldPath)?.();
    expect((await first).node === (await second).node).toBe(!balancer.isBounded);

    // A node that is killed moves its URLs only, and no client sees an error.
    const [, lost] = nodes as [FleetNode, FleetNode, FleetNode];
    const [path = ''] = paths.filter((each) => home.get(each) === lost.name);
    await lost.stop('SIGKILL');
    for (const each of paths) {
      const { status, node, body: bytes } = await ask(each, { range: 'bytes=5-9' });
      expect([status, bytes.equals(body.subarray(5, 10))]).toEqual([206, true]);
      if (home.get(each) === lost.name) expect(node).not.toBe(lost.name);
      else expect(node).toBe(home.get(each));
    }

    // A purge tells which node it did not reach.
    const partly = await purge(nodes.slice(0, 2), path);
    expect([partly.code, partly.stderr]).toEqual([
      1,
      expect.stringContaining(`not purged: 127.0.0.1:${lost.adminPort}\n`),
    ]);

    // The node gets its share again.
    await lost.start();
    await expect.poll(async () => (await ask(path, { range: 'bytes=5-9' })).node).toBe(lost.name);
    for (const each of paths) {
      expect([each, (await ask(each, { range: 'bytes=5-9' })).node]).toEqual([each, home.get(each)]);
    }

    // A purge reaches all nodes: also those that served a URL while its node was away.
    expect(await purge(nodes, path)).toEqual({ code: 0, stderr: '' });
    const direct = new Agent({ keepAlive: false });
    for (const node of nodes) {
      expect((await get(direct, node.port, path, { 'cache-control': 'only-if-cached' })).status).toBe(504);
    }
  });
});

describe('examples/envoy.yaml', () => {
  it('is YAML, hashes by host and path, and retries no 5xx', async () => {
    const { static_resources: resources } = parse(await example('envoy.yaml'));
    const [{ typed_config: manager }] = resources.listeners[0].filter_chains[0].filters;
    const [{ route }] = manager.route_config.virtual_hosts[0].routes;
    const names = route.hash_policy.map((policy: { header: { header_name: string } }) => policy.header.header_name);
    expect(names).toEqual([':authority', ':path']);
    expect(route).toMatchObject({ timeout: '0s', retry_policy: { retry_on: 'connect-failure,refused-stream' } });
    const [cluster] = resources.clusters;
    expect(cluster.name).toBe(route.cluster);
    const [protocol] = Object.values<object>(cluster.typed_extension_protocol_options);
    expect(protocol).toMatchObject({ common_http_protocol_options: { idle_timeout: '60s' } });
    expect(cluster.lb_policy).toBe('RING_HASH');
    expect(cluster.load_assignment.endpoints[0].lb_endpoints).toHaveLength(3);
  });
});
