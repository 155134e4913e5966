/** Which messages show authentication of the connection: NTLM and Negotiate. */

import { describe, expect, it } from 'vitest';
import {
  hasConnectionCredentials,
  isConnectionBinding,
  isConnectionChallenge,
} from '../../src/semantics/connection-auth.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

describe('connection-bound authentication', () => {
  it.each<[lines: string[], want: boolean]>([
    [['Authorization: NTLM TlRMTVNTUAAB'], true],
    [['Authorization: negotiate YII='], true],
    [['Authorization: Kerberos YII='], true],
    [['Authorization: NTLM'], true],
    [['Proxy-Authorization: NTLM TlRM'], true],
    [['Authorization: Basic eA==', 'Authorization: Negotiate YII='], true],
    [['Authorization: Basic TlRM'], false],
    [['Authorization: NTLMv9 TlRM'], false],
    [['Authorization: Bearer negotiate'], false],
    [['X-Authorization: NTLM TlRM'], false],
    [[], false],
  ])('has credentials: %j', (lines, want) => {
    expect(hasConnectionCredentials(fieldsOf(...lines))).toBe(want);
  });

  it.each<[lines: string[], isChallenge: boolean, isBinding: boolean]>([
    [['WWW-Authenticate: NTLM'], true, true],
    [['WWW-Authenticate: Negotiate, NTLM'], true, true],
    [['WWW-Authenticate: Basic realm="a", Negotiate'], true, true],
    [['WWW-Authenticate: Basic realm="a"', 'WWW-Authenticate: negotiate oYG2'], true, true],
    [['Proxy-Authenticate: NTLM'], true, true],
    [['Persistent-Auth: true'], false, true],
    [['WWW-Authenticate: Basic realm="NTLM"'], false, false],
    [['WWW-Authenticate: Digest realm="a", nonce="b"'], false, false],
    [['WWW-Authenticate: Negotiated'], false, false],
    [[], false, false],
  ])('is shown by a response: %j', (lines, isChallenge, isBinding) => {
    const fields = fieldsOf(...lines);
    expect([isConnectionChallenge(fields), isConnectionBinding(fields)]).toEqual([isChallenge, isBinding]);
  });
});
