/** A client over a wire. It checks that the response on the wire is the one that the handler returned. */

import { isDeepStrictEqual } from 'node:util';
import { type Field, type Fields, fieldValue } from '../../../src/http/fields.ts';
import type { Body, InterimResponse, ProxyResponse } from '../../../src/http/message.ts';
import { ProxyError } from '../../../src/http/proxy-error.ts';
import { parseHttpDate } from '../../../src/semantics/http-date.ts';
import type { Client } from '../clients/direct-client.ts';
import type { WireExchange } from './wire-exchange.ts';
import { quiet } from './wire-quiet.ts';
import type { WireHead, WireStream } from './wire-stream.ts';

/** Connection and framing fields, which only the listener writes. The wire clients check them. */
const listenerFields: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'keep-alive',
  'transfer-encoding',
]);

/** Creates the client of an exchange. `onFault` gets each difference from the handler's response. `now` returns epoch milliseconds. */
export function createWireClient(
  exchange: WireExchange,
  begun: Promise<WireStream>,
  now: () => number,
  onFault: (fault: Error) => void,
): Client {
  const interim: InterimResponse[] = [];
  const received: Uint8Array[] = [];
  let size = 0;
  let hasLeft = false;
  const response = receive();
  response.catch(() => {});

  async function receive(): Promise<ProxyResponse> {
    const stream = await begun;
    const head = await stream.head.catch(async (error: unknown) => {
      if (!hasLeft) throw error;
      await exchange.over.promise;
    });
    // A client that has left still resolves with the handler's response.
    if (head === undefined && exchange.response !== undefined) return exchange.response;
    if (head === undefined) throw new Error('the handler returned no response');
    interim.push(...stream.interim);
    try {
      return readResponse(head, exchange, now());
    } catch (fault) {
      onFault(fault as Error);
      throw fault;
    }
  }

  /** Reads one chunk, and lets the next one through where none is waiting. Returns false at the end. */
  async function pull(): Promise<boolean> {
    const stream = await begun;
    await response;
    const { releasedBytes } = exchange;
    if (!stream.isReady && stream.receivedBytes === releasedBytes) exchange.want();
    const chunk = await stream.take().catch(async (error: unknown) => {
      const delivery = await exchange.over.promise;
      throw delivery.error ?? (hasLeft ? new ProxyError('client_gone') : error);
    });
    if (chunk === undefined) return false;
    received.push(chunk);
    size += chunk.length;
    return true;
  }

  return {
    response,
    interim,
    status: async () => (await response).status,
    field: async (name) => fieldValue((await response).fields, name),
    async bytes() {
      while (await pull());
      exchange.open();
      const { complete, error } = await exchange.over.promise;
      // With a known length, all bytes may have been written before the body failed at its end.
      if (!complete && isUnsized(await response)) onFault(new Error('a broken body arrived as a complete one'));
      if (!complete) throw error ?? new Error('the listener reports a complete body as broken');
      return Buffer.concat(received);
    },
    async readUntil(count) {
      while (size < count && (await pull()));
      return Buffer.concat(received);
    },
    async leave() {
      const stream = await begun;
      await exchange.arrived.promise;
      hasLeft = true;
      stream.abandon();
      exchange.open();
      await exchange.over.promise;
      await quiet();
    },
  };
}

/** Reads the response without listener fields. Throws where it differs from the handler's response. */
function readResponse(head: WireHead, { response: sent, saidAt }: WireExchange, now: number): ProxyResponse {
  const { status } = head;
  const fields = endToEnd(head.fields);
  const length = fieldValue(head.fields, 'content-length');
  const body = bodyOf(status, length);
  if (sent === undefined) return { status, fields, body };
  const expected = sent.fields.filter(([name]) => !listenerFields.has(name));
  const isDated = expected.some(([name]) => name === 'date');
  const received = isDated ? fields : withoutDate(fields, saidAt, now);
  if (status !== sent.status) throw new Error(`the status became ${status}, and was ${sent.status}`);
  const isSame = head.isJoined
    ? isDeepStrictEqual(joined(received), joined(expected))
    : isDeepStrictEqual(received, expected);
  if (!isSame) {
    throw new Error(`the fields became ${JSON.stringify(received)}, and were ${JSON.stringify(expected)}`);
  }
  return { status, fields: received, body };
}

function endToEnd(fields: Fields): Field[] {
  return fields.filter(([name]) => !listenerFields.has(name)).map(([name, value]) => [name, value]);
}

/** Checks and removes the Date that the listener adds where a response has none (RFC 9110 §6.6.1). */
function withoutDate(fields: readonly Field[], saidAt: number, now: number): Field[] {
  const [date = '', ...more] = fields.filter(([name]) => name === 'date').map(([, value]) => value);
  const writtenAt = parseHttpDate(date, now) ?? Number.NaN;
  // An HTTP date has no fractions of a second.
  const isRight = writtenAt + 1000 > saidAt && writtenAt <= now;
  if (!isRight || more.length > 0) throw new Error(`dated ${[date, ...more].join(' and ')}`);
  return fields.filter(([name]) => name !== 'date');
}

/** Joins the lines of each name, in any order of names: an HTTP/2 client may receive them so (RFC 9110 §5.3). */
function joined(fields: Fields): Map<string, string> {
  const lines = new Map<string, string>();
  for (const [name, value] of fields.toSorted(([one], [other]) => (one < other ? -1 : 1))) {
    const earlier = lines.get(name);
    lines.set(name, earlier === undefined ? value : `${earlier}, ${value}`);
  }
  return lines;
}

/** Returns the kind and size of a body. Its bytes are read through the client. */
function bodyOf(status: number, length: string | undefined): Body {
  if (status === 204 || status === 304) return { kind: 'none' };
  const sizeBytes = length === undefined ? undefined : Number(length);
  return { kind: 'stream', sizeBytes, stream: { [Symbol.asyncIterator]: () => unreadable(), close: () => {} } };
}

function isUnsized({ body }: ProxyResponse): boolean {
  return body.kind === 'stream' && body.sizeBytes === undefined;
}

function unreadable(): never {
  throw new Error('a body that comes over a wire is read through its client');
}
