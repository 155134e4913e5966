/** How Node speaks HTTP/2 on a connection: the settings that the client is told, and the limits that nghttp2 keeps. */

import { performServerHandshake, type ServerHttp2Session, type ServerSessionOptions } from 'node:http2';
import type { Socket } from 'node:net';
import type { ListenerLimits } from './listener.ts';

/**
 * How much of a request's body a client may send before it is read, in bytes. Node reads a connection whatever becomes of its
 * streams, so that this times the streams is what one connection can make us keep.
 */
export const streamWindowBytes = 256 * 1024;

/** The window of the whole connection, in bytes: a few uploads at full speed. */
const connectionWindowBytes = 1024 * 1024;

/** What a field costs in SETTINGS_MAX_HEADER_LIST_SIZE besides its bytes (RFC 9113 §6.5.2). */
const listOverheadBytes = 32;

/** Header lists up to so many times what is allowed are read to the end, so that they can be answered with 414 or 431. */
const readShare = 2;

/** Memory of one session before new streams are refused, in MiB. Content that is on its way to the client is not in it. */
const sessionMemory = 32;

/** Malformed frames and streams beyond the limits that nghttp2 has to refuse, in the whole life of a connection. */
const invalidFrames = 1_000;
const rejectedStreams = 1_000;

/** RST_STREAM frames: a burst, and their number per second; nghttp2 counts those that come too late for us to see, too. */
const resetBurst = 2_000;
const resetRate = 100;

/** Begins HTTP/2 on a connection. */
export function beginSession(socket: Socket, limits: ListenerLimits): ServerHttp2Session {
  // What was read of it and put back must not flow away before the session reads it.
  socket.pause();
  const session = performServerHandshake(socket, sessionOptions(limits));
  session.setLocalWindowSize(connectionWindowBytes);
  return session;
}

/** NGHTTP2_ERR_PROTO. */
const protocolError = -505;

/**
 * Node destroys a session for every protocol error that nghttp2 reports. nghttp2 has answered each of them by then: most with
 * GOAWAY, but content beyond Content-Length by resetting the stream alone (RFC 9113 §8.1.1). Such an error, whichever it was,
 * comes to `onError` from now on, and the session goes on.
 */
export function catchProtocolErrors(session: ServerHttp2Session, onError: (error: Error) => void): void {
  const destroy = session.destroy.bind(session);
  Object.assign(session, {
    destroy(error?: Error & { readonly errno?: number }, code?: number): void {
      if (error?.errno === protocolError && code === undefined && !session.destroyed) onError(error);
      else destroy(error, code);
    },
  });
}

type Limits = Pick<ListenerLimits, 'targetBytes' | 'fieldsBytes' | 'maxFieldCount' | 'streamsPerConnection'>;

function sessionOptions({
  targetBytes,
  fieldsBytes,
  maxFieldCount,
  streamsPerConnection,
}: Limits): ServerSessionOptions {
  const maxHeaderListPairs = readShare * maxFieldCount + 4;
  return {
    maxHeaderListPairs,
    maxSessionMemory: sessionMemory,
    maxSessionInvalidFrames: invalidFrames,
    maxSessionRejectedStreams: rejectedStreams,
    streamResetBurst: resetBurst,
    streamResetRate: resetRate,
    settings: {
      enablePush: false,
      enableConnectProtocol: false,
      initialWindowSize: streamWindowBytes,
      maxConcurrentStreams: streamsPerConnection,
      maxHeaderListSize: readShare * (targetBytes + fieldsBytes) + listOverheadBytes * maxHeaderListPairs,
    },
  };
}
