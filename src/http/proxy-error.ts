/** All failures of a request: one table of codes, statuses and sentences. */

import type { Fields } from './fields.ts';

interface ErrorKind {
  /** The status that the client gets if no head was sent before. */
  readonly status: number;
  readonly source: 'client' | 'origin' | 'store' | 'internal';
  /** The Proxy-Status error type (RFC 9209 §2.3). */
  readonly proxyStatus: string;
  /** One sentence for people. */
  readonly sentence: string;
}

/** The table of codes. Responses, logs and documentation use it. */
export const errorKinds = {
  malformed_request: {
    status: 400,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The request is malformed.',
  },
  method_refused: {
    status: 501,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'This method is not served here.',
  },
  method_not_allowed: {
    status: 405,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'This method is not allowed here.',
  },
  expectation_failed: {
    status: 417,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The only supported expectation is 100-continue.',
  },
  target_too_long: {
    status: 414,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The request target is too long.',
  },
  fields_too_large: {
    status: 431,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The header section is too large.',
  },
  request_timeout: {
    status: 408,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The request did not arrive in time.',
  },
  request_body_incomplete: {
    status: 400,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The request body ended before it was whole.',
  },
  body_too_large: {
    status: 413,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The body of the request is too large.',
  },
  client_forbidden: {
    status: 403,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'This client address is not allowed here.',
  },
  credentials_required: {
    status: 401,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'This resource requires credentials.',
  },
  credentials_refused: {
    status: 401,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'These credentials are not valid here.',
  },
  credentials_unchecked: {
    status: 503,
    source: 'internal',
    proxyStatus: 'http_request_denied',
    sentence: 'Too many credentials are being checked.',
  },
  key_refused: {
    status: 403,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'This resource requires a key, and the request has no valid one.',
  },
  signature_refused: {
    status: 403,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'The signature of this URL is missing, not valid, or has expired.',
  },
  rate_limited: {
    status: 429,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'Too many requests in a short time.',
  },
  too_many_requests: {
    status: 429,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'Too many requests at a time.',
  },
  origin_share_spent: {
    status: 429,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'Too much was fetched from the origin for what was read; stored responses are still available.',
  },
  too_many_connections: {
    status: 503,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'Too many connections at a time.',
  },
  tls_handshake_failed: {
    status: 400,
    source: 'client',
    proxyStatus: 'tls_protocol_error',
    sentence: 'The TLS handshake failed.',
  },
  proxy_header_refused: {
    status: 400,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'The connection did not begin with the PROXY protocol of a trusted proxy.',
  },
  tunnel_idle: {
    status: 408,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The tunnel was idle for too long.',
  },
  http1_required: {
    status: 421,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'The origin authenticates connections (NTLM, Negotiate), which takes HTTP/1.1.',
  },
  client_gone: {
    status: 499,
    source: 'client',
    proxyStatus: 'http_request_error',
    sentence: 'The client left before its response was ready.',
  },
  misdirected: {
    status: 421,
    source: 'client',
    proxyStatus: 'http_request_denied',
    sentence: 'This server is not known by that name.',
  },
  no_route: {
    status: 404,
    source: 'client',
    proxyStatus: 'destination_not_found',
    sentence: 'No route is configured for this host and path.',
  },
  loop_detected: {
    status: 508,
    source: 'client',
    proxyStatus: 'proxy_loop_detected',
    sentence: 'The request has passed through this proxy before.',
  },
  not_in_cache: {
    status: 504,
    source: 'client',
    proxyStatus: 'proxy_internal_response',
    sentence: 'The request asks for a stored response only (only-if-cached) and there is none that may be used.',
  },
  origin_busy: {
    status: 503,
    source: 'internal',
    proxyStatus: 'connection_limit_reached',
    sentence: 'Too much is being fetched from the origin already.',
  },
  origin_unresolved: {
    status: 502,
    source: 'origin',
    proxyStatus: 'dns_error',
    sentence: "The origin's name cannot be resolved.",
  },
  origin_refused: {
    status: 502,
    source: 'origin',
    proxyStatus: 'connection_refused',
    sentence: 'The origin cannot be reached.',
  },
  origin_connect_timeout: {
    status: 504,
    source: 'origin',
    proxyStatus: 'connection_timeout',
    sentence: 'The connection to the origin was not made in time.',
  },
  origin_tls_failed: {
    status: 502,
    source: 'origin',
    proxyStatus: 'tls_protocol_error',
    sentence: 'The TLS handshake with the origin failed.',
  },
  origin_certificate_refused: {
    status: 502,
    source: 'origin',
    proxyStatus: 'tls_certificate_error',
    sentence: "The origin's TLS certificate was not accepted.",
  },
  origin_reset: {
    status: 502,
    source: 'origin',
    proxyStatus: 'connection_terminated',
    sentence: 'The origin closed the connection before its response was whole.',
  },
  origin_ill_framed: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_protocol_error',
    sentence: 'The origin sent a response that is not well-formed HTTP.',
  },
  origin_head_too_large: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_response_header_section_size',
    sentence: 'The header section of the response from the origin is too large.',
  },
  origin_bare_lf: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_protocol_error',
    sentence: 'The header of the response from the origin ends lines with LF alone (RFC 9112 section 2.2).',
  },
  origin_body_short: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_response_incomplete',
    sentence: 'The origin sent fewer bytes than it promised.',
  },
  origin_tls_truncated: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_response_incomplete',
    sentence: 'The origin closed TLS without close_notify: its response may be truncated.',
  },
  origin_timeout: {
    status: 504,
    source: 'origin',
    proxyStatus: 'http_response_timeout',
    sentence: 'The origin did not answer in time.',
  },
  origin_digest_mismatch: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_protocol_error',
    sentence: 'The origin sent bytes that do not match its digest.',
  },
  origin_failed_rest: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_response_incomplete',
    sentence: 'The origin did not give the rest of the response.',
  },
  origin_refused_rest: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_response_incomplete',
    sentence: 'The origin refused to give the rest of the response.',
  },
  generation_changed: {
    status: 502,
    source: 'origin',
    proxyStatus: 'http_response_incomplete',
    sentence: 'The representation changed at the origin while it was being transferred.',
  },
  bytes_gone: {
    status: 500,
    source: 'store',
    proxyStatus: 'proxy_internal_error',
    sentence: 'Stored bytes are damaged or gone.',
  },
  out_of_descriptors: {
    status: 503,
    source: 'internal',
    proxyStatus: 'proxy_internal_error',
    sentence: 'The proxy has too many connections and files open.',
  },
  others_unreachable: {
    status: 503,
    source: 'store',
    proxyStatus: 'proxy_internal_error',
    sentence: 'The other nodes of this cache cannot be told of a change now.',
  },
  internal: {
    status: 500,
    source: 'internal',
    proxyStatus: 'proxy_internal_error',
    sentence: 'The proxy failed to handle the request.',
  },
} as const satisfies Record<string, ErrorKind>;

/** A code of the table. */
export type ErrorCode = keyof typeof errorKinds;

/** A failure of a request, named by its code. `detail` is for logs and is never sent to a client. */
export class ProxyError extends Error {
  readonly code: ErrorCode;
  readonly detail: string | undefined;
  /** Further fields for the client, such as a challenge or Retry-After. */
  readonly fields: Fields;

  constructor(code: ErrorCode, options: { detail?: string; cause?: unknown; fields?: Fields } = {}) {
    super(errorKinds[code].sentence, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ProxyError';
    this.code = code;
    this.detail = options.detail;
    this.fields = options.fields ?? [];
  }

  get status(): number {
    return errorKinds[this.code].status;
  }

  get source(): ErrorKind['source'] {
    return errorKinds[this.code].source;
  }
}

/** Returns any thrown value as a `ProxyError`; any other error becomes `internal`, with its cause. */
export function toProxyError(thrown: unknown): ProxyError {
  if (thrown instanceof ProxyError) return thrown;
  return new ProxyError('internal', {
    cause: thrown,
    detail: thrown instanceof Error ? thrown.message : String(thrown),
  });
}
