/** Turns errors of Node's HTTP parser into refusals. */

import { ProxyError } from '../../src/http/proxy-error.ts';

/** The error of a `clientError` event: of the parser, of its timeouts, or of the socket. */
export interface ClientError extends Error {
  readonly code?: string;
  /** The parser's message. */
  readonly reason?: string;
  /** The bytes that were parsed last, and how many of them were parsed. */
  readonly rawPacket?: Buffer;
  readonly bytesParsed?: number;
}

/**
 * `ignored`: bytes after a request that said it was the last. `lost`: a connection that is gone, or that the client ended in the
 * middle of a request.
 */
export type ParserErrorReading =
  | { readonly kind: 'refused'; readonly error: ProxyError }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'lost' };

/** Longer than any method that Node's parser knows. */
const longestMethodBytes = 32;

/** Returns the refusal for the error of a `clientError` event, or why there is none. */
export function readParserError(error: ClientError): ParserErrorReading {
  const detail = [error.code, error.reason].filter((part) => part !== undefined).join(': ');
  switch (error.code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return { kind: 'refused', error: new ProxyError('request_timeout') };
    case 'HPE_HEADER_OVERFLOW':
      return {
        kind: 'refused',
        error: new ProxyError(isInRequestLine(error) ? 'target_too_long' : 'fields_too_large'),
      };
    case 'HPE_INVALID_METHOD':
      return {
        kind: 'refused',
        error: new ProxyError(isRequestLine(error) ? 'method_refused' : 'malformed_request', { detail }),
      };
    case 'HPE_CLOSED_CONNECTION':
      return { kind: 'ignored' };
    case 'HPE_INVALID_EOF_STATE':
      return { kind: 'lost' };
    default:
      if (error.code?.startsWith('HPE_') !== true) return { kind: 'lost' };
      return { kind: 'refused', error: new ProxyError('malformed_request', { detail }) };
  }
}

/**
 * Checks whether the request line exceeded the limit. A packet without the start of the line counts as fields, which are large
 * more often.
 */
function isInRequestLine({ rawPacket, bytesParsed = 0 }: ClientError): boolean {
  if (rawPacket === undefined) return false;
  const start = lineStart(rawPacket, bytesParsed);
  return /^[A-Z-]+ \S/.test(rawPacket.toString('latin1', start, start + longestMethodBytes));
}

/** Checks whether only the method is wrong: a token, but no method that the parser knows (RFC 9110 §9.1). */
function isRequestLine({ rawPacket, bytesParsed = 0 }: ClientError): boolean {
  if (rawPacket === undefined) return false;
  const start = lineStart(rawPacket, bytesParsed);
  const end = rawPacket.indexOf('\r\n', start);
  const line = rawPacket.toString('latin1', start, end < 0 ? start : end);
  return /^[\w!#$%&'*+.^`|~-]+ [\x21-\x7e]+ HTTP\/1\.[01]$/.test(line);
}

function lineStart(packet: Buffer, at: number): number {
  return at === 0 ? 0 : packet.lastIndexOf('\n', at - 1) + 1;
}
