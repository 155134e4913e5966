/** A raw TCP origin that records every byte, and answers each request that a strict reader reads completely. */

import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { readStrictly } from '../clients/strict-request.ts';

const answerHead = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: no-store\r\n\r\n';

/** The bytes of one connection since the last reset, as latin1. */
export interface RecordedConnection {
  readonly bytes: string;
  /** Whether the bytes end in the middle of a request. */
  readonly isMidway: boolean;
  readonly isClosed: boolean;
}

export interface RecordingOrigin extends AsyncDisposable {
  readonly url: string;
  /** Returns the connections that have received bytes. */
  recorded(): readonly RecordedConnection[];
  /** Clears the record. */
  reset(): void;
}

export async function openRecordingOrigin(): Promise<RecordingOrigin> {
  const connections = new Map<Socket, { bytes: string; answered: number; isMidway: boolean; isClosed: boolean }>();
  const server = createServer((socket) => {
    const record = { bytes: '', answered: 0, isMidway: false, isClosed: false };
    connections.set(socket, record);
    socket.on('error', () => {});
    socket.on('close', () => {
      record.isClosed = true;
    });
    socket.on('data', (chunk: Buffer) => {
      record.bytes += chunk.toString('latin1');
      const reading = readStrictly(record.bytes);
      if (reading.kind === 'fault') {
        socket.destroy();
        return;
      }
      record.isMidway = reading.rest !== '';
      for (const { method } of reading.requests.slice(record.answered)) {
        socket.write(method === 'HEAD' ? answerHead : `${answerHead}ok`);
      }
      record.answered = reading.requests.length;
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    recorded: () => [...connections.values()].filter(({ bytes }) => bytes !== ''),
    reset() {
      for (const [socket, record] of connections) {
        if (record.isClosed) connections.delete(socket);
        record.bytes = '';
        record.answered = 0;
        record.isMidway = false;
      }
    },
    async [Symbol.asyncDispose]() {
      for (const socket of connections.keys()) socket.destroy();
      await once(server.close(), 'close');
    },
  };
}
