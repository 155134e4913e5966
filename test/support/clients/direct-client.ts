/** A client without a wire: it passes its request to the fast path, then to the handler, and pulls the body chunk by chunk. */

import { type Field, type Fields, fieldValue } from '../../../src/http/fields.ts';
import type { Handler, InterimResponse, ProxyRequest, ProxyResponse } from '../../../src/http/message.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { answerHitFirst } from './hit-answer.ts';

/** The parts of a request that a test sets; `completed` adds the others. */
export interface Sent {
  readonly method?: string;
  readonly target?: string;
  readonly authority?: string;
  readonly version?: string;
  readonly fields?: Readonly<Record<string, string>>;
  /** The address of the peer; by default one that is not trusted. */
  readonly peer?: string;
}

/** A running request. */
export interface Client {
  readonly response: Promise<ProxyResponse>;
  readonly interim: readonly InterimResponse[];
  /** Waits for the head, and returns the status. */
  status(): Promise<number>;
  /** Waits for the head, and returns the value of a field. */
  field(name: string): Promise<string | undefined>;
  /** Reads the whole body. Rejects when the body breaks off. */
  bytes(): Promise<Uint8Array>;
  /** Reads until at least `count` bytes have arrived or the body ends, and returns all bytes so far. */
  readUntil(count: number): Promise<Uint8Array>;
  /** Disconnects the client. */
  leave(): Promise<void>;
}

/** A request with all its parts. */
export interface Completed extends Required<Omit<Sent, 'fields'>> {
  readonly fields: Fields;
}

/** Adds defaults for the parts that a test leaves out. */
export function completed(sent: Sent): Completed {
  const { method = 'GET', target = '/file', authority = 'files.example', version = '1.1', peer = '192.0.2.7' } = sent;
  const fields: Fields = Object.entries(sent.fields ?? {}).map(([name, value]): Field => [name.toLowerCase(), value]);
  return { method, target, authority, version, peer, fields: [['host', authority], ...fields] };
}

/** Makes the request that a listener would pass to a handler. */
export function requestOf(sent: Sent, receivedAt: number): ProxyRequest {
  const { peer, ...head } = completed(sent);
  return {
    ...head,
    scheme: 'http',
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address: peer, port: 40_000 },
    receivedAt,
    signal: new AbortController().signal,
    sendInterim: () => undefined,
  };
}

/** Sends a request in the same tick. `now` returns epoch milliseconds. */
export function createDirectClient(handler: Handler, now: () => number, sent: Sent): Client {
  const leaving = new AbortController();
  const interim: InterimResponse[] = [];
  const request: ProxyRequest = {
    ...requestOf(sent, now()),
    signal: leaving.signal,
    sendInterim: (response) => interim.push(response),
  };
  const response = Promise.resolve(answerHitFirst(handler, request, now));
  const received: Uint8Array[] = [];
  let iterator: AsyncIterator<Uint8Array> | undefined;
  let size = 0;

  /** Pulls one chunk. Returns false at the end. */
  async function pull(): Promise<boolean> {
    const { body, onDelivered } = await response;
    if (body.kind === 'none') return false;
    if (body.kind === 'file') throw new Error('this client takes no bytes from files');
    iterator ??= body.kind === 'bytes' ? iterate(body.chunks) : body.stream[Symbol.asyncIterator]();
    try {
      const next = await iterator.next();
      if (next.done !== true) {
        received.push(next.value);
        size += next.value.length;
        return true;
      }
      onDelivered?.({ bytesSent: size, complete: true });
      return false;
    } catch (error) {
      onDelivered?.({ bytesSent: size, complete: false, error: error instanceof ProxyError ? error : undefined });
      throw error;
    }
  }

  return {
    response,
    interim,
    status: async () => (await response).status,
    field: async (name) => fieldValue((await response).fields, name),
    async bytes() {
      while (await pull());
      return Buffer.concat(received);
    },
    async readUntil(count) {
      while (size < count && (await pull()));
      return Buffer.concat(received);
    },
    async leave() {
      leaving.abort(new ProxyError('client_gone'));
      const { body } = await response;
      if (body.kind === 'stream') body.stream.close();
    },
  };
}

async function* iterate(chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}
