/**
 * Lets an origin answer before it has the whole request, and close (RFC 9112 §9.6): such an origin resets the connection, because it
 * leaves bytes unread, and the next write fails although its answer has arrived.
 */

import type { Socket } from 'node:net';
import { failAtEnd } from './tls-closure.ts';

type Done = (error?: Error | null) => void;

/** The codes of a write to a connection that the other side has closed. */
const closedCodes: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'ECONNABORTED', 'EPIPE']);

/**
 * Has a write that fails because the origin has closed the connection end it only when all that had arrived before is read. The end
 * of the connection is then that error: the system reports a reset once, so a truncated body would look complete.
 */
export function readBeforeWriteErrors(socket: Socket): void {
  const write = socket._write.bind(socket);
  const writev = socket._writev?.bind(socket);
  const whenRead =
    (done: Done): Done =>
    (error) => {
      const isClosed = closedCodes.has((error as NodeJS.ErrnoException | null | undefined)?.code);
      if (error === undefined || error === null || !isClosed || socket.readableEnded || socket.destroyed) done(error);
      else failAtEnd(socket, error);
    };
  socket._write = (chunk, encoding, done) => write(chunk, encoding, whenRead(done));
  if (writev !== undefined) socket._writev = (chunks, done) => writev(chunks, whenRead(done));
}
