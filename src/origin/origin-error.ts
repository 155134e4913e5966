/** Names the failure of an exchange: converts errors of sockets, TLS and the HTTP parser to `ProxyError`. */

import { type ErrorCode, ProxyError } from '../http/proxy-error.ts';

/** The stage of an exchange: it has no connection yet, waits for the final head, or reads the body. */
export type Stage = 'connecting' | 'waiting' | 'reading';

/** A failure of an exchange that states whether the origin can have acted on the request. */
export class OriginError extends ProxyError {
  /** Whether it is certain that the origin has not acted on the request (RFC 9110 §9.2.2, RFC 9113 §8.7). */
  readonly isUnsent: boolean;

  constructor(code: ErrorCode, options: { detail?: string; cause?: unknown; isUnsent: boolean }) {
    super(code, options);
    this.isUnsent = options.isUnsent;
  }
}

/** The name of the HTTP parser's errors, of which some have no code. */
const parserError = 'HTTPParserError';

/** Codes with one meaning at every stage. */
const codes: ReadonlyMap<string, ErrorCode> = new Map<string, ErrorCode>([
  ['ENOTFOUND', 'origin_unresolved'],
  ['UND_ERR_CONNECT_TIMEOUT', 'origin_connect_timeout'],
  ['UND_ERR_HEADERS_TIMEOUT', 'origin_timeout'],
  ['UND_ERR_BODY_TIMEOUT', 'origin_timeout'],
  ['UND_ERR_REQ_CONTENT_LENGTH_MISMATCH', 'request_body_incomplete'],
  ['UND_ERR_INVALID_ARG', 'malformed_request'],
]);

/** Returns the error that ended an exchange as a `ProxyError`. `isTls` says whether the connection uses TLS. */
export function originError(thrown: unknown, stage: Stage, isTls: boolean): ProxyError {
  if (thrown instanceof ProxyError) return thrown;
  const error = firstError(thrown);
  const code = errorCode(error, stage, isTls);
  const parts = [lineFaults.get(code), error.code, error.message].filter((part) => part !== undefined && part !== '');
  const detail = `${parts.join(': ')}${code === 'origin_certificate_refused' ? certificateAdvice : ''}`;
  return new OriginError(code, { cause: thrown, detail, isUnsent: stage === 'connecting' });
}

/** Explanations for operators, where the parser's own message explains too little. */
const lineFaults: ReadonlyMap<ErrorCode, string> = new Map<ErrorCode, string>([
  ['origin_bare_lf', 'the response header ends lines with a bare LF (RFC 9112 §2.2)'],
  ['origin_head_too_large', 'the response header is larger than 64 KiB'],
]);

/** Advice about a certificate that is not trusted. It is for the log: clients never see the detail. */
const certificateAdvice =
  '; set "origin.caFile" to trust the authority that signed it, or "origin.insecureTls" (--insecure-tls) to accept any certificate';

interface SystemError extends Error {
  readonly code?: string;
  readonly syscall?: string;
  /** The bytes at which the parser failed. */
  readonly data?: unknown;
}

/** The first of several errors: a name with several addresses fails with one error per address. */
function firstError(thrown: unknown): SystemError {
  const error = thrown instanceof AggregateError ? (thrown.errors[0] as unknown) : thrown;
  return error instanceof Error ? error : new Error(String(error));
}

function errorCode(error: SystemError, stage: Stage, isTls: boolean): ErrorCode {
  const known = codes.get(error.code ?? '');
  if (known !== undefined) return known;
  switch (stage) {
    case 'connecting':
      return connectingCode(error, isTls);
    case 'waiting':
      return waitingCode(error);
    case 'reading':
      return readingCode(error);
  }
}

function connectingCode({ code, syscall }: SystemError, isTls: boolean): ErrorCode {
  // No fault of the origin: this process, or this machine, has no descriptor left.
  if (code === 'EMFILE' || code === 'ENFILE') return 'out_of_descriptors';
  if (syscall === 'getaddrinfo') return 'origin_unresolved';
  if (code === 'ETIMEDOUT') return 'origin_connect_timeout';
  if (syscall === 'connect') return 'origin_refused';
  if (code === undefined || code.startsWith('UND_ERR')) return 'internal';
  if (!isTls) return 'origin_refused';
  return isCertificateFault(code) ? 'origin_certificate_refused' : 'origin_tls_failed';
}

/** The codes of untrusted certificates are OpenSSL's; the codes of all other errors begin with `E`. */
function isCertificateFault(code: string): boolean {
  return code === 'ERR_TLS_CERT_ALTNAME_INVALID' || !/^E(?:[A-Z]+$|RR_)/.test(code);
}

function waitingCode(error: SystemError): ErrorCode {
  const { name, code, message } = error;
  if (name === parserError) return message.includes('Missing expected CR') ? 'origin_bare_lf' : 'origin_ill_framed';
  if (code === 'UND_ERR_HEADERS_OVERFLOW' || code === 'HPE_HEADER_OVERFLOW') return 'origin_head_too_large';
  // A parser that fails in the head may have read a Content-Length; the fault is in the head, not a short body.
  if (code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return 'origin_ill_framed';
  if (code === 'UND_ERR_SOCKET') return /^bad (response|upgrade)$/.test(message) ? 'origin_ill_framed' : 'origin_reset';
  // With TLS 1.3 an origin refuses a client after the handshake.
  if (code?.startsWith('ERR_SSL_')) return 'origin_tls_failed';
  return brokenConnectionCode(code);
}

function readingCode({ name, code, message }: SystemError): ErrorCode {
  // Three forms of one fault: the connection was closed in order, but too early.
  if (code === 'UND_ERR_SOCKET' || code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH') return 'origin_body_short';
  // Trailers without end.
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'origin_ill_framed';
  if (name === parserError) return message.includes('Invalid EOF state') ? 'origin_body_short' : 'origin_ill_framed';
  return code?.startsWith('ERR_SSL_') ? 'origin_reset' : brokenConnectionCode(code);
}

function brokenConnectionCode(code: string | undefined): ErrorCode {
  if (code === 'ETIMEDOUT') return 'origin_timeout';
  return code !== undefined && /^E[A-Z]+$/.test(code) ? 'origin_reset' : 'internal';
}
