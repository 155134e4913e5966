/** What Node's HTTP parser stumbled over, as a refusal. */

import { ProxyError } from '../http/proxy-error.ts';

/** The error of a `clientError` event: of the parser, of its timeouts, or of the socket. */
export interface ClientError extends Error {
  readonly code?: string;
  /** The parser's own words. */
  readonly reason?: string;
  /** What was parsed last, and how far. */
  readonly rawPacket?: Buffer;
  readonly bytesParsed?: number;
}

/** `ignored` is what comes after a request that said it was the last; `lost` is the connection itself. */
export type ParserErrorReading =
  | { readonly kind: 'refused'; readonly error: ProxyError }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'lost' };

/** Names the error of a `clientError` event. */
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
    default:
      if (error.code?.startsWith('HPE_') !== true) return { kind: 'lost' };
      return { kind: 'refused', error: new ProxyError('malformed_request', { detail }) };
  }
}

/**
 * Whether the packet that went over the limit still was in its request line. One that does not start with the request line
 * tells nothing; it is taken for fields, which are large more often.
 */
function isInRequestLine({ rawPacket }: ClientError): boolean {
  return (
    rawPacket !== undefined && !rawPacket.includes('\n') && /^[A-Z-]+ \S/.test(rawPacket.toString('latin1', 0, 64))
  );
}

/** Whether it is only the method's name that is wrong: a token that no method is called by (RFC 9110 §9.1). */
function isRequestLine({ rawPacket, bytesParsed = 0 }: ClientError): boolean {
  if (rawPacket === undefined) return false;
  const start = bytesParsed === 0 ? 0 : rawPacket.lastIndexOf('\n', bytesParsed - 1) + 1;
  const end = rawPacket.indexOf('\r\n', start);
  const line = rawPacket.toString('latin1', start, end < 0 ? start : end);
  return /^[\w!#$%&'*+.^`|~-]+ [\x21-\x7e]+ HTTP\/1\.[01]$/.test(line);
}
