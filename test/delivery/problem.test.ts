/** The table of errors, and the response that a client gets for each of them. */

import { STATUS_CODES } from 'node:http';
import { describe, expect, it } from 'vitest';
import { errorResponse, presentProblem, problemResponse } from '../../src/delivery/problem.ts';
import { fieldValue } from '../../src/http/fields.ts';
import type { ProxyResponse } from '../../src/http/message.ts';
import { type ErrorCode, errorKinds, ProxyError, toProxyError } from '../../src/http/proxy-error.ts';

const codes = Object.keys(errorKinds) as ErrorCode[];

/** The error types that RFC 9209 §2.3 registers. */
const registeredTypes = new Set(
  `dns_timeout dns_error destination_not_found destination_unavailable destination_ip_prohibited
  destination_ip_unroutable connection_refused connection_terminated connection_timeout connection_read_timeout
  connection_write_timeout connection_limit_reached tls_protocol_error tls_certificate_error tls_alert_received
  http_request_error http_request_denied http_response_incomplete http_response_header_section_size
  http_response_header_size http_response_body_size http_response_trailer_section_size http_response_trailer_size
  http_response_transfer_coding http_response_content_coding http_response_timeout http_upgrade_failed
  http_protocol_error proxy_internal_response proxy_internal_error proxy_configuration_error
  proxy_loop_detected`.split(/\s+/),
);

/** Parts of the causes of errors that no client may see: addresses, paths, versions, secrets. */
const secrets = [
  '10.1.2.3:8443',
  'origin.internal',
  '/var/lib/rangeway/store',
  'ECONNREFUSED',
  'undici',
  'hunter2',
  '26.3.1',
];

function leakyError(code: ErrorCode): ProxyError {
  const cause = Object.assign(new Error(`connect ${secrets.join(' ')}`), { code: 'ECONNREFUSED', address: '10.1.2.3' });
  return new ProxyError(code, { cause, detail: cause.stack ?? '' });
}

/** Everything that a client can see of a response. */
function visible({ status, fields, body }: ProxyResponse): string {
  const text = body.kind === 'bytes' ? Buffer.concat(body.chunks).toString() : '';
  return [status, ...fields.map((field) => field.join(': ')), '', text].join('\n');
}

describe('an error', () => {
  it.each(codes)('%s has its status, title, sentence and Proxy-Status, and reveals nothing of its cause', (code) => {
    const { status, sentence, proxyStatus } = errorKinds[code];
    const response = errorResponse(leakyError(code));
    expect(registeredTypes).toContain(proxyStatus);
    expect(response.status).toBe(status);
    expect(response.fields).toEqual([
      ['content-type', 'application/problem+json'],
      ['cache-control', 'no-store'],
      ['vary', 'Accept'],
      ['x-content-type-options', 'nosniff'],
      ['proxy-status', `rangeway; error=${proxyStatus}`],
    ]);
    // 413 had another phrase before RFC 9110. 499 is not registered, and is never sent to a client.
    const title = response.problem?.title;
    if (status !== 413 && status !== 499) expect(title).toBe(STATUS_CODES[status]);
    expect(response.problem).toEqual({ title, status, detail: sentence });

    for (const accept of ['application/json', 'text/plain', 'text/html', 'image/png']) {
      const seen = visible(presentProblem({ fields: [['accept', accept]] }, response));
      expect(seen).toContain(sentence);
      for (const secret of secrets) expect(seen).not.toContain(secret);
      expect(seen).not.toMatch(/\bat .+:\d+:\d+|node:|\.[jt]s\b|\d+\.\d+\.\d+/);
    }
  });

  it('from a bug reveals no more than the others', () => {
    const seen = visible(errorResponse(toProxyError(new TypeError('cannot read hunter2 of 10.1.2.3'))));
    expect(seen).toContain('"status":500');
    expect(seen).not.toMatch(/hunter2|10\.1/);
  });

  it('has the fields that were added to it, such as a challenge', () => {
    const fields = [['www-authenticate', 'Basic realm="files"']] as const;
    const response = errorResponse(new ProxyError('credentials_required', { fields }));
    expect(response.fields.at(-1)).toEqual(fields[0]);
  });

  it('is JSON without a type, which means about:blank (RFC 9457 §4.2.1)', () => {
    const response = problemResponse(416, 'No requested range lies within.', [['content-range', 'bytes */9']]);
    const { body } = response;
    expect(JSON.parse(Buffer.concat(body.kind === 'bytes' ? body.chunks : []).toString())).toEqual({
      title: 'Range Not Satisfiable',
      status: 416,
      detail: 'No requested range lies within.',
    });
    expect(fieldValue(response.fields, 'content-range')).toBe('bytes */9');
    expect(fieldValue(response.fields, 'proxy-status')).toBeUndefined();
  });
});
