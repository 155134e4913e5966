/** What a failed HTTP/2 exchange is called. */

import { constants } from 'node:http2';
import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';
import { OriginError } from './origin-error.ts';

/** What is known of a stream that has failed. */
export interface StreamFailure {
  /** What was thrown, by the stream or by its connection. */
  readonly thrown?: unknown;
  /** The code of its RST_STREAM (RFC 9113 §7), received or sent. */
  readonly resetCode?: number | undefined;
  /** Whether the final head was there. */
  readonly isReading: boolean;
  /** Whether it is sure that the origin has not acted on the request. */
  readonly isUnsent: boolean;
}

/** Codes by which either side says that the other one does not speak HTTP/2 as it should. */
const illFramedCodes: ReadonlySet<number | undefined> = new Set([
  constants.NGHTTP2_PROTOCOL_ERROR,
  constants.NGHTTP2_FLOW_CONTROL_ERROR,
  constants.NGHTTP2_FRAME_SIZE_ERROR,
  constants.NGHTTP2_COMPRESSION_ERROR,
]);

/** Names a failure. */
export function streamError({ thrown, resetCode, isReading, isUnsent }: StreamFailure): ProxyError {
  if (thrown instanceof ProxyError) return thrown;
  const { code, message } = describe(thrown);
  const parts = [code, message, resetCode === undefined ? undefined : `HTTP/2 code ${resetCode}`];
  const detail = parts.filter((part) => part !== undefined && part !== '').join(': ');
  return new OriginError(codeOf(code, resetCode, isReading), { cause: thrown, detail, isUnsent });
}

function codeOf(code: string | undefined, resetCode: number | undefined, isReading: boolean): ErrorCode {
  if (code === 'ERR_HTTP2_ERROR' || illFramedCodes.has(resetCode)) return 'origin_ill_framed';
  if (code === 'ETIMEDOUT') return 'origin_timeout';
  // With TLS 1.3 an origin refuses a client after the handshake.
  if (code?.startsWith('ERR_SSL_') === true && !isReading) return 'origin_tls_failed';
  return isReading && resetCode === constants.NGHTTP2_NO_ERROR ? 'origin_body_short' : 'origin_reset';
}

function describe(thrown: unknown): { readonly code: string | undefined; readonly message: string | undefined } {
  if (!(thrown instanceof Error)) return { code: undefined, message: undefined };
  return { code: 'code' in thrown ? String(thrown.code) : undefined, message: thrown.message };
}
