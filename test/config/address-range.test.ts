import { describe, expect, it } from 'vitest';
import { parseAddressRange } from '../../src/config/address.ts';

describe('parseAddressRange', () => {
  it.each([
    ['127.0.0.1', '127.0.0.1', 'ipv4', 32],
    ['127.0.0.1/32', '127.0.0.1', 'ipv4', 32],
    ['10.0.0.0/8', '10.0.0.0', 'ipv4', 8],
    ['10.1.2.3/8', '10.1.2.3', 'ipv4', 8],
    ['0.0.0.0/0', '0.0.0.0', 'ipv4', 0],
    ['::1', '::1', 'ipv6', 128],
    ['fd00::/8', 'fd00::', 'ipv6', 8],
    ['FD00::1/128', 'FD00::1', 'ipv6', 128],
  ])('%s', (text, address, family, prefixLength) => {
    expect(parseAddressRange(text)).toEqual({ address, family, prefixLength });
  });

  it.each([
    '',
    'localhost',
    '10.0.0/8',
    '10.0.0.0/',
    '10.0.0.0/33',
    '10.0.0.0/08',
    '10.0.0.0/-1',
    '10.0.0.0/8/8',
    '10.0.0.256',
    '::1/129',
    '[::1]',
    'fe80::1%eth0',
    '::ffff:127.0.0.1',
    ' 10.0.0.1',
    '10.0.0.1:80',
    '*',
  ])('refuses %j', (text) => expect(parseAddressRange(text)).toBeUndefined());
});
