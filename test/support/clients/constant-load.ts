/** A constant load: clients over reused and new connections that request small and slow bodies, and a tally of failures. */

import { Agent, get, type RequestOptions } from 'node:http';
import { type ClientHttp2Session, connect as connectHttp2, constants } from 'node:http2';
import { get as getOverTls, Agent as TlsAgent } from 'node:https';
import { patternBytes } from '../values/pattern-body.ts';
import { testAuthority } from '../values/tls-certificate.ts';

/** The requested bodies: a small one, and a slow one. Both are pattern bodies. */
export interface LoadTarget {
  /** Base URLs without and with TLS, such as `http://127.0.0.1:8080`. */
  readonly http: string;
  readonly https: string;
  readonly small: { readonly path: string; readonly sizeBytes: number };
  readonly slow: { readonly path: string; readonly sizeBytes: number };
}

/** The outcome of a load. */
export interface LoadTally {
  /** Numbers of complete responses, by the name of the client. */
  readonly done: Readonly<Record<string, number>>;
  /** Requests that failed or got wrong bytes. */
  readonly failures: readonly string[];
  /** Requests over HTTP/2 that the server refused unprocessed. Clients send them again (RFC 9113 §6.8). */
  readonly resent: number;
}

/** A running load. */
export interface ConstantLoad {
  /** Returns the number of complete responses so far of one client. */
  count(name: string): number;
  /** Lets all clients finish their current requests, and returns the outcome. */
  stop(): Promise<LoadTally>;
}

/** Starts some clients of each kind. */
export function startLoad(target: LoadTarget): ConstantLoad {
  const load = new Load(target);
  return { count: (name) => load.done[name] ?? 0, stop: () => load.stop() };
}

type Ask = (path: string) => Promise<Uint8Array>;

class Load {
  readonly done: Record<string, number> = {};
  readonly #failures: string[] = [];
  readonly #target: LoadTarget;
  readonly #agents: Agent[] = [];
  readonly #sessions: Http2Client[] = [];
  readonly #loops: Promise<void>[] = [];
  #isOn = true;

  constructor(target: LoadTarget) {
    this.#target = target;
    const { http, https } = target;
    const kept = this.#agent(new Agent({ keepAlive: true, maxSockets: 2 }));
    const keptTls = this.#agent(new TlsAgent({ keepAlive: true, maxSockets: 2, ca: testAuthority }));
    for (const size of ['small', 'slow'] as const) {
      this.#ask(`${size}, kept`, size, (path) => askHttp1(http + path, { agent: kept }));
      this.#ask(`${size}, new`, size, (path) => askHttp1(http + path, { agent: false }));
      this.#ask(`${size}, kept, TLS`, size, (path) => askHttp1(https + path, { agent: keptTls }));
      this.#ask(`${size}, new, TLS`, size, (path) => askHttp1(https + path, { agent: false, ca: testAuthority }));
      const client = new Http2Client(https);
      this.#sessions.push(client);
      this.#ask(`${size}, HTTP/2`, size, (path) => client.get(path));
    }
  }

  async stop(): Promise<LoadTally> {
    this.#isOn = false;
    await Promise.all(this.#loops);
    for (const agent of this.#agents) agent.destroy();
    for (const session of this.#sessions) session.close();
    const resent = this.#sessions.reduce((sum, session) => sum + session.resent, 0);
    return { done: this.done, failures: this.#failures, resent };
  }

  #agent<A extends Agent>(agent: A): A {
    this.#agents.push(agent);
    return agent;
  }

  #ask(name: string, size: 'small' | 'slow', ask: Ask): void {
    const { path, sizeBytes } = this.#target[size];
    const want = patternBytes(0, sizeBytes);
    const loop = async (): Promise<void> => {
      while (this.#isOn) {
        const failure = await ask(path).then(
          (got) => (Buffer.from(want).equals(got) ? undefined : `other bytes, ${got.length} of ${sizeBytes}`),
          (thrown: unknown) => String(thrown),
        );
        if (failure === undefined) this.done[name] = (this.done[name] ?? 0) + 1;
        else this.#failures.push(`${name}: ${failure}`);
        // Stops a client that fails at once, which would otherwise fill the list.
        if (this.#failures.length > 20) return;
      }
    };
    this.#loops.push(loop());
  }
}

function askHttp1(url: string, options: RequestOptions & { readonly ca?: string }): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
  const ask = url.startsWith('https:') ? getOverTls : get;
  ask(url, options, (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.once('error', reject);
    response.once('end', () => {
      if (response.statusCode === 200) resolve(Buffer.concat(chunks));
      else reject(new Error(`status ${response.statusCode}: ${Buffer.concat(chunks)}`));
    });
  }).once('error', reject);
  return promise;
}

/** A client of HTTP/2 that opens another connection when the server accepts no more requests on one. */
class Http2Client {
  readonly #url: string;
  #session: ClientHttp2Session | undefined;
  resent = 0;

  constructor(url: string) {
    this.#url = url;
  }

  async get(path: string): Promise<Uint8Array> {
    for (;;) {
      const got = await this.#ask(path);
      if (got !== 'refused') return got;
      this.resent += 1;
    }
  }

  close(): void {
    this.#session?.close();
  }

  #ask(path: string): Promise<Uint8Array | 'refused'> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array | 'refused'>();
    const session = this.#open();
    const stream = session.request({ ':path': path });
    const chunks: Buffer[] = [];
    let status: number | undefined;
    stream.on('response', (head) => {
      status = head[':status'];
    });
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.once('error', () => undefined);
    stream.once('close', () => {
      const { rstCode } = stream;
      if (status === 200 && rstCode === constants.NGHTTP2_NO_ERROR && stream.readableEnded)
        resolve(Buffer.concat(chunks));
      else if (status === undefined && rstCode === constants.NGHTTP2_REFUSED_STREAM) resolve('refused');
      else reject(new Error(`status ${status}, stream closed with ${rstCode}`));
    });
    return promise;
  }

  #open(): ClientHttp2Session {
    const open = this.#session;
    if (open !== undefined && !open.closed && !open.destroyed) return open;
    const session = connectHttp2(this.#url, { ca: testAuthority });
    session.on('error', () => undefined);
    this.#session = session;
    return session;
  }
}
