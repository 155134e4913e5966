/** The error codes of failures that no test can provoke at will. */

import { describe, expect, it } from 'vitest';
import { ProxyError } from '../../src/http/proxy-error.ts';
import { originError, type Stage } from '../../src/origin/origin-error.ts';

interface Facts {
  readonly name?: string;
  readonly code?: string;
  readonly syscall?: string;
  readonly message?: string;
}

describe('originError', () => {
  it.each<[stage: Stage, facts: Facts, isTls: boolean, want: string]>([
    ['connecting', { code: 'ENOTFOUND', syscall: 'getaddrinfo' }, false, 'origin_unresolved'],
    ['connecting', { code: 'EAI_AGAIN', syscall: 'getaddrinfo' }, false, 'origin_unresolved'],
    ['connecting', { code: 'EAI_FAIL', syscall: 'getaddrinfo' }, true, 'origin_unresolved'],
    ['connecting', { code: 'ECONNREFUSED', syscall: 'connect' }, true, 'origin_refused'],
    ['connecting', { code: 'EHOSTUNREACH', syscall: 'connect' }, false, 'origin_refused'],
    ['connecting', { code: 'ENETUNREACH', syscall: 'connect' }, false, 'origin_refused'],
    ['connecting', { code: 'EADDRNOTAVAIL', syscall: 'connect' }, false, 'origin_refused'],
    ['connecting', { code: 'ETIMEDOUT', syscall: 'connect' }, false, 'origin_connect_timeout'],
    ['connecting', { code: 'UND_ERR_CONNECT_TIMEOUT' }, true, 'origin_connect_timeout'],
    ['connecting', { code: 'ECONNRESET' }, true, 'origin_tls_failed'],
    ['connecting', { code: 'CERT_HAS_EXPIRED' }, true, 'origin_certificate_refused'],
    ['connecting', { code: 'ERR_TLS_CERT_ALTNAME_INVALID' }, true, 'origin_certificate_refused'],
    ['connecting', { code: 'ERROR_IN_CERT_NOT_AFTER_FIELD' }, true, 'origin_certificate_refused'],
    ['connecting', { code: 'ERR_SSL_WRONG_VERSION_NUMBER' }, true, 'origin_tls_failed'],
    ['connecting', { code: 'EPROTO' }, true, 'origin_tls_failed'],
    ['connecting', { code: 'EMFILE', syscall: 'connect' }, false, 'out_of_descriptors'],
    ['connecting', { code: 'EMFILE', syscall: 'getaddrinfo' }, true, 'out_of_descriptors'],
    ['connecting', { code: 'ENFILE' }, false, 'out_of_descriptors'],
    ['connecting', { code: 'UND_ERR_DESTROYED' }, true, 'internal'],
    ['connecting', { name: 'TypeError' }, true, 'internal'],
    ['waiting', { code: 'ECONNRESET', syscall: 'read' }, false, 'origin_reset'],
    ['waiting', { code: 'EPIPE', syscall: 'write' }, false, 'origin_reset'],
    ['waiting', { code: 'UND_ERR_SOCKET', message: 'other side closed' }, false, 'origin_reset'],
    ['waiting', { code: 'UND_ERR_SOCKET', message: 'bad response' }, false, 'origin_ill_framed'],
    ['waiting', { code: 'ETIMEDOUT', syscall: 'read' }, false, 'origin_timeout'],
    ['waiting', { code: 'UND_ERR_HEADERS_TIMEOUT' }, false, 'origin_timeout'],
    ['waiting', { code: 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED' }, true, 'origin_tls_failed'],
    ['waiting', { name: 'HTTPParserError', message: 'Invalid EOF state' }, false, 'origin_ill_framed'],
    ['waiting', { name: 'AssertionError', code: 'ERR_ASSERTION' }, false, 'internal'],
    ['reading', { code: 'ECONNRESET', syscall: 'read' }, false, 'origin_reset'],
    ['reading', { code: 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC' }, true, 'origin_reset'],
    ['reading', { code: 'ETIMEDOUT', syscall: 'read' }, false, 'origin_timeout'],
    ['reading', { code: 'UND_ERR_BODY_TIMEOUT' }, false, 'origin_timeout'],
    ['reading', { code: 'UND_ERR_SOCKET', message: 'other side closed' }, false, 'origin_body_short'],
    ['reading', { name: 'HTTPParserError', message: 'Invalid EOF state' }, false, 'origin_body_short'],
    ['reading', { name: 'HTTPParserError', message: 'Invalid character in chunk size' }, false, 'origin_ill_framed'],
    ['reading', { name: 'TypeError' }, false, 'internal'],
  ])('%s %j (TLS: %s)', (stage, facts, isTls, want) => {
    expect(originError(Object.assign(new Error('x'), facts), stage, isTls).code).toBe(want);
  });

  it('names the options that help where the certificate is not trusted', () => {
    const error = Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
    const detail = originError(error, 'connecting', true).detail ?? '';
    for (const word of ['self-signed', 'origin.caFile', 'origin.insecureTls', '--insecure-tls'])
      expect(detail).toContain(word);
  });

  it('reports the failure of the first address of a name', () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED ::1:1'), {
      code: 'ECONNREFUSED',
      syscall: 'connect',
    });
    const error = originError(new AggregateError([refused, new Error('other')]), 'connecting', true);
    expect([error.code, error.detail]).toEqual(['origin_refused', 'ECONNREFUSED: connect ECONNREFUSED ::1:1']);
  });

  it.each([undefined, 'text', new AggregateError([])])('accepts any thrown value: %s', (thrown) => {
    expect(originError(thrown, 'waiting', false).code).toBe('internal');
  });

  it('returns a ProxyError unchanged', () => {
    const error = new ProxyError('request_body_incomplete');
    expect(originError(error, 'waiting', false)).toBe(error);
  });
});
