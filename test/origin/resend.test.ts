/** Which requests are sent again: one row per situation. */

import { describe, expect, it } from 'vitest';
import type { BodyStream } from '../../src/http/message.ts';
import { type ErrorCode, ProxyError } from '../../src/http/proxy-error.ts';
import { type Attempt, mayResend } from '../../src/origin/group/resend.ts';
import type { OriginResponse } from '../../src/origin/origin.ts';
import { OriginError } from '../../src/origin/origin-error.ts';
import { originRequest } from '../support/origins/origin-request.ts';

const sent = (code: ErrorCode): Attempt => ({ kind: 'failed', error: new OriginError(code, { isUnsent: false }) });
const unsent = (code: ErrorCode): Attempt => ({ kind: 'failed', error: new OriginError(code, { isUnsent: true }) });
const status = (code: number): Attempt => ({ kind: 'response', response: { status: code } as OriginResponse });
const body: BodyStream = { async *[Symbol.asyncIterator]() {}, close: () => undefined };

/** An attempt, and the methods that are sent again after it: to another origin, or to a lone one. */
type Row = [name: string, attempt: Attempt, other: string, lone: string];

const methods = ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE', 'POST', 'PATCH', 'get'];
const all = methods.join(' ');
const reading = 'GET HEAD';
const idempotent = 'GET HEAD OPTIONS PUT DELETE';

describe('without a body', () => {
  it.each<Row>([
    ['refused', unsent('origin_refused'), all, ''],
    ['unresolved', unsent('origin_unresolved'), all, ''],
    ['not connected in time', unsent('origin_connect_timeout'), all, ''],
    ['TLS failed', unsent('origin_tls_failed'), all, ''],
    ['the client certificate refused, after the handshake', sent('origin_tls_failed'), '', ''],
    ['a stream that was refused', unsent('origin_reset'), all, all],
    ['broken off', sent('origin_reset'), idempotent, idempotent],
    ['no answer in time', sent('origin_timeout'), reading, ''],
    ['ill-framed', sent('origin_ill_framed'), '', ''],
    ['the client left', { kind: 'failed', error: new ProxyError('client_gone') }, '', ''],
    ['a bug', { kind: 'failed', error: new Error('oops') }, '', ''],
    ['502', status(502), reading, ''],
    ['503', status(503), reading, ''],
    ['504', status(504), reading, ''],
    ['500', status(500), '', ''],
    ['429', status(429), '', ''],
    ['200', status(200), '', ''],
  ])('%s', (_name, attempt, other, lone) => {
    const resent = (hasOther: boolean) =>
      methods
        .filter((method) =>
          mayResend(attempt, { request: originRequest({ method }), isAnswered: false, isBodyKept: true, hasOther }),
        )
        .join(' ');
    expect({ other: resent(true), lone: resent(false) }).toEqual({ other, lone });
  });
});

describe('with a body', () => {
  it.each<[name: string, attempt: Attempt, isBodyKept: boolean, sentAgain: string]>([
    ['refused', unsent('origin_refused'), true, 'PUT POST'],
    ['refused, more read than is kept', unsent('origin_refused'), false, ''],
    ['a stream that was refused', unsent('origin_reset'), true, 'PUT POST'],
    ['a stream that was refused, more read than is kept', unsent('origin_reset'), false, ''],
    ['broken off', sent('origin_reset'), true, 'PUT'],
    ['broken off, more read than is kept', sent('origin_reset'), false, ''],
    ['no answer in time', sent('origin_timeout'), true, ''],
    ['503', status(503), true, ''],
  ])('%s', (_name, attempt, isBodyKept, sentAgain) => {
    const resent = ['PUT', 'POST'].filter((method) =>
      mayResend(attempt, { request: originRequest({ method, body }), isAnswered: false, isBodyKept, hasOther: true }),
    );
    expect(resent.join(' ')).toBe(sentAgain);
  });
});

describe('nothing is sent again', () => {
  it.each([unsent('origin_refused'), sent('origin_reset'), status(503)])(
    'once the client has received something: %#',
    (attempt) => {
      const request = originRequest();
      expect(mayResend(attempt, { request, isAnswered: true, isBodyKept: true, hasOther: true })).toBe(false);
    },
  );

  it.each([unsent('origin_refused'), sent('origin_reset'), status(503)])(
    'for a client that has left: %#',
    (attempt) => {
      const request = originRequest({ signal: AbortSignal.abort() });
      expect(mayResend(attempt, { request, isAnswered: false, isBodyKept: true, hasOther: true })).toBe(false);
    },
  );
});
