/** An HTTP/1 listener for tests, with its events and its requests on record. */

import type { Handler, ProxyRequest, ProxyResponse } from '../../src/http/message.ts';
import { openHttp1Listener } from '../../src/listener/http1.ts';
import type { Listener, ListenerLimits, ListenerOptions } from '../../src/listener/listener.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { RawClient } from './raw-client.ts';

/** What tests open a listener with unless they say otherwise: nothing runs out of time. */
export const testLimits: ListenerLimits = {
  targetBytes: 1024,
  fieldsBytes: 4096,
  maxFieldCount: 50,
  headersTimeoutMs: 0,
  requestTimeoutMs: 0,
  keepAliveTimeoutMs: 0,
  idleTimeoutMs: 0,
};

/** The time that responses without Date are dated with. */
export const testNow = Date.UTC(2026, 0, 2, 3, 4, 5);

export interface TestListener extends AsyncDisposable {
  readonly listener: Listener;
  readonly port: number;
  readonly events: ServerEvent[];
  /** What the handler was given. */
  readonly requests: ProxyRequest[];
  connect(): Promise<RawClient>;
}

type Overrides = Partial<Omit<ListenerOptions, 'limits'>> & { readonly limits?: Partial<ListenerLimits> };

/** Opens a listener on a free port of 127.0.0.1. Its end cuts what is still running. */
export async function openListener(handler: Handler, overrides: Overrides = {}): Promise<TestListener> {
  const events: ServerEvent[] = [];
  const requests: ProxyRequest[] = [];
  const listener = await openHttp1Listener({
    host: '127.0.0.1',
    port: 0,
    emit: (event) => events.push(event),
    now: () => testNow,
    ...overrides,
    handler: (request) => {
      requests.push(request);
      return handler(request);
    },
    limits: { ...testLimits, ...overrides.limits },
  });
  const { port } = listener.address;
  return {
    listener,
    port,
    events,
    requests,
    connect: () => RawClient.open(port),
    async [Symbol.asyncDispose]() {
      await listener.close(0);
    },
  };
}

/** A 200 whose body is this text, in memory. */
export function textResponse(text: string, more: Partial<ProxyResponse> = {}): ProxyResponse {
  const bytes = Buffer.from(text, 'latin1');
  return { status: 200, fields: [], body: { kind: 'bytes', sizeBytes: bytes.length, chunks: [bytes] }, ...more };
}

/** A 200 whose body is a stream of this iterable. */
export function streamResponse(
  chunks: AsyncIterable<Uint8Array>,
  sizeBytes: number | undefined,
  more: Partial<ProxyResponse> & { readonly onClose?: () => void } = {},
): ProxyResponse {
  const { onClose, ...rest } = more;
  const stream = { [Symbol.asyncIterator]: () => chunks[Symbol.asyncIterator](), close: () => onClose?.() };
  return { status: 200, fields: [], body: { kind: 'stream', sizeBytes, stream }, ...rest };
}
