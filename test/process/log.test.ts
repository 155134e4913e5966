/** The log of the executable on every kind of standard output: read, not read, closed, full; and its lines after a crash. */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, createServer, type IncomingMessage, request as openRequest, type Server } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { until } from '../support/clocks/until.ts';
import { projectDirectory } from '../support/processes/rangeway-process.ts';
import { sampleOf } from '../support/values/metric-text.ts';

/** Long enough that 1100 lines exceed the buffer of the log. */
const longTarget = `/film?x=${'x'.repeat(7800)}`;

let origin: Server;
let parent: string;

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'rangeway-log-'));
  origin = createServer((_request, response) => {
    response.writeHead(200, { 'cache-control': 'max-age=600', etag: '"v1"' }).end('hello');
  });
  origin.listen(0, '127.0.0.1');
  await once(origin, 'listening');
});
afterAll(async () => {
  origin.closeAllConnections();
  origin.close();
  await rm(parent, { recursive: true, force: true });
});

/** A server that listens on Unix sockets, so that tests can reach it without reading its log. */
class LoggingServer implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly #dir: string;
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  constructor(dir: string, child: ChildProcess) {
    this.#dir = dir;
    this.child = child;
  }

  static async start(stdout: number | 'pipe', { workers = 1, nodeOptions = '' } = {}): Promise<LoggingServer> {
    const dir = await mkdtemp(join(parent, 's-'));
    const file = join(dir, 'rangeway.json');
    const config = {
      listen: `unix:${join(dir, 'http.sock')}`,
      workers,
      admin: { listen: `unix:${join(dir, 'admin.sock')}` },
      log: { format: 'json' },
      store: { type: 'disk', dir: join(dir, 'store') },
      routes: [{ name: 'films', origin: `http://127.0.0.1:${(origin.address() as AddressInfo).port}` }],
    };
    await writeFile(file, JSON.stringify(config));
    const child = spawn(process.execPath, [join(projectDirectory, 'bin/rangeway.js'), '--config', file], {
      stdio: ['ignore', stdout, 'ignore'],
      env: { ...process.env, NODE_OPTIONS: nodeOptions },
    });
    const server = new LoggingServer(dir, child);
    const isReady = async () => (await server.#ask('admin.sock', '/readyz').catch(() => undefined))?.status === 200;
    await until('the server is ready', isReady);
    return server;
  }

  /** Requests a target `times` times in sequence. */
  async ask(target: string, times: number): Promise<void> {
    for (let count = 0; count < times; count += 1) {
      expect(await this.#ask('http.sock', target)).toEqual({ status: 200, body: 'hello' });
    }
  }

  async droppedLines(): Promise<number | undefined> {
    const { body } = await this.#ask('admin.sock', '/metrics');
    return sampleOf(body, 'rangeway_log_lines_dropped_total');
  }

  async stop(signal: NodeJS.Signals): Promise<number | null> {
    const { child } = this;
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit');
      child.kill(signal);
      await exited;
    }
    return child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    await this.stop('SIGTERM');
  }

  async #ask(socket: string, path: string): Promise<{ status: number | undefined; body: string }> {
    const options = { socketPath: join(this.#dir, socket), path, agent: this.#agent, headers: { host: 'a.example' } };
    const request = openRequest(options).end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return { status: response.statusCode, body: await text(response) };
  }
}

/** Opens both ends of a real pipe: Node's own `pipe` for a child is a socket. */
async function openPipe(): Promise<{ reader: Socket; writer: number }> {
  const path = join(await mkdtemp(join(parent, 'p-')), 'fifo');
  execFileSync('mkfifo', [path]);
  const readEnd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { reader: new Socket({ fd: readEnd, readable: true, writable: false }), writer: openSync(path, 'w') };
}

interface Line {
  readonly event: string;
  readonly target?: string;
  readonly level: string;
  readonly dropped?: number;
  readonly worker?: number;
}

/** Collects the output of a stream from now on. */
function follow(stream: NodeJS.ReadableStream): { lines(): Line[] } {
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  return { lines: () => linesOf(Buffer.concat(chunks).toString()) };
}

/** Parses the complete lines. Each must be JSON. */
function linesOf(output: string): Line[] {
  return output
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

const requestsOf = (lines: readonly Line[]) => lines.filter(({ event }) => event === 'request');

describe.skipIf(process.platform !== 'linux').each(['pipe', 'socket'])('a %s', (kind) => {
  /** Starts a server, and returns it with the read end of its log. */
  async function start(options: { workers?: number; nodeOptions?: string } = {}) {
    if (kind === 'socket') {
      const server = await LoggingServer.start('pipe', options);
      return { server, reader: server.child.stdout as Socket };
    }
    const { reader, writer } = await openPipe();
    const server = await LoggingServer.start(writer, options);
    closeSync(writer);
    return { server, reader };
  }

  it.each([1, 2])(
    'that is not read keeps no response back, with %d processes, and the gap is logged',
    async (workers) => {
      const { server, reader } = await start({ workers });
      await using _server = server;
      // The client has one connection, which stays open, so one worker gets all requests. A response that waited for the log would not come.
      await server.ask(longTarget, 1450);
      const dropped = (await server.droppedLines()) ?? 0;
      expect(dropped).toBeGreaterThan(100);

      const log = follow(reader);
      const gapLine = () => log.lines().find(({ event }) => event === 'log');
      await until('the gap is logged', async () => gapLine() !== undefined);
      await server.ask('/film?after', 1);
      await until('lines are written again', async () => log.lines().some(({ target }) => target === '/film?after'));
      expect(gapLine()).toMatchObject({ level: 'warn', dropped });
      expect(requestsOf(log.lines())).toHaveLength(1451 - dropped);
    },
  );

  it('that is closed does not end the server', async () => {
    const { server, reader } = await start();
    await using _server = server;
    reader.destroy();
    await once(reader, 'close');
    await server.ask(longTarget, 1200);
    expect(await server.droppedLines()).toBeGreaterThan(0);
    expect(await server.stop('SIGTERM')).toBe(0);
  });

  it('has each line soon after its request', async () => {
    const { server, reader } = await start();
    await using _server = server;
    const log = follow(reader);
    for (let round = 1; round <= 20; round += 1) {
      await server.ask('/film', 3);
      const isWritten = async () => requestsOf(log.lines()).length === 3 * round;
      await until('all lines are written', isWritten, 2000);
    }
  });

  it.each<[what: string, signal: NodeJS.Signals, code: number]>([
    ['a graceful end', 'SIGTERM', 0],
    ['an uncaught exception', 'SIGUSR2', 1],
  ])('has all lines after %s', async (_what, signal, code) => {
    const crash = `data:text/javascript,process.on('SIGUSR2',()=>{throw new Error('a bug')})`;
    const { server, reader } = await start({ nodeOptions: `--import=${crash.replaceAll(' ', '%20')}` });
    await using _server = server;
    await server.ask('/film', 100);
    const ended = server.stop(signal);
    const log = follow(reader);
    expect(await ended).toBe(code);
    await until('all lines are read', async () => requestsOf(log.lines()).length === 100);
  });

  it('that is not read does not keep the server from stopping', async () => {
    const { server, reader } = await start();
    await using _server = server;
    await server.ask(longTarget, 100);
    expect(await server.stop('SIGTERM')).toBe(0);
    reader.destroy();
  });
});

describe('a file', () => {
  it.skipIf(process.platform !== 'linux')('on a full disk does not end the server', async () => {
    const full = openSync('/dev/full', 'w');
    await using server = await LoggingServer.start(full);
    closeSync(full);
    await server.ask(longTarget, 1200);
    expect(await server.droppedLines()).toBeGreaterThan(0);
    expect(await server.stop('SIGTERM')).toBe(0);
  });

  it('has all lines in order', async () => {
    const path = join(parent, 'log.json');
    const file = openSync(path, 'a');
    await using server = await LoggingServer.start(file);
    closeSync(file);
    for (let count = 0; count < 100; count += 1) await server.ask(`/film?${count}`, 1);
    expect(await server.stop('SIGTERM')).toBe(0);
    const targets = requestsOf(linesOf(readFileSync(path, 'utf8'))).map(({ target }) => target);
    expect(targets).toEqual(Array.from({ length: 100 }, (_, count) => `/film?${count}`));
  });
});
