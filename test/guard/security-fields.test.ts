import { describe, expect, it } from 'vitest';
import { createSecurityFields, type SecurityPolicy } from '../../src/guard/fields/presentation.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const nothing: SecurityPolicy = { contentTypeOptions: false };
const theirs = fieldsOf(
  'Strict-Transport-Security: max-age=1',
  'X-Content-Type-Options: maybe',
  'X-Frame-Options: ALLOWALL',
  'Content-Security-Policy: default-src *',
  'Content-Security-Policy: img-src *',
  'Referrer-Policy: unsafe-url',
  'Content-Type: text/html',
);
const names = theirs.map(([name]) => name);

describe('createSecurityFields', () => {
  it('returns undefined without options', () => expect(createSecurityFields(nothing)).toBeUndefined());

  it.each<[policy: Partial<SecurityPolicy>, line: string]>([
    [{ contentTypeOptions: true }, 'X-Content-Type-Options: nosniff'],
    [{ frameOptions: 'DENY' }, 'X-Frame-Options: DENY'],
    [{ contentSecurityPolicy: "default-src 'self'" }, "Content-Security-Policy: default-src 'self'"],
    [{ referrerPolicy: 'no-referrer' }, 'Referrer-Policy: no-referrer'],
    [{ strictTransportSecurity: 'max-age=63072000' }, 'Strict-Transport-Security: max-age=63072000'],
  ])('%j replaces one field of the origin, and keeps the others', (policy, line) => {
    const fields = createSecurityFields({ ...nothing, ...policy })?.({ scheme: 'https' }, theirs) ?? [];
    const [[name, value] = ['', '']] = fieldsOf(line);
    expect(fields.at(-1)).toEqual([name, value]);
    expect(fields.slice(0, -1)).toEqual(theirs.filter(([other]) => other !== name));
    expect(names).toContain(name);
  });

  it('sends no Strict-Transport-Security without TLS, not even that of the origin (RFC 6797 §7.2)', () => {
    const security = createSecurityFields({ ...nothing, strictTransportSecurity: 'max-age=2', frameOptions: 'DENY' });
    const fields = security?.({ scheme: 'http' }, theirs) ?? [];
    expect(fields.map(([name]) => name)).not.toContain('strict-transport-security');
    expect(fields.at(-1)).toEqual(['x-frame-options', 'DENY']);
  });
});
