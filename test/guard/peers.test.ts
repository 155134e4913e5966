/** Lists of peers by address ranges. */

import { describe, expect, it } from 'vitest';
import { parseAddressRange } from '../../src/config/address.ts';
import { createPeerList } from '../../src/guard/client.ts';

function listOf(...texts: readonly string[]) {
  return createPeerList(texts.map(parseAddressRange).filter((range) => range !== undefined));
}

describe('createPeerList', () => {
  it.each([
    ['127.0.0.1', ['127.0.0.1/32'], true],
    ['127.0.0.2', ['127.0.0.1/32'], false],
    ['::ffff:127.0.0.1', ['127.0.0.1/32'], true],
    ['::FFFF:127.0.0.1', ['127.0.0.1'], true],
    ['::ffff:127.0.0.2', ['127.0.0.1/32'], false],
    ['::ffff:7f00:1', ['127.0.0.1/32'], true],
    ['::ffff:7f00:2', ['127.0.0.1/32'], false],
    ['0:0:0:0:0:FFFF:7f00:0001', ['127.0.0.1/32'], true],
    ['0::ffff:127.0.0.1', ['127.0.0.1/32'], true],
    ['::ffff:7f00:1', ['::/0'], false],
    ['1::ffff:7f00:1', ['127.0.0.1/32'], false],
    ['::1', ['127.0.0.1/32'], false],
    ['::1', ['127.0.0.1/32', '::1/128'], true],
    ['0:0:0:0:0:0:0:1', ['::1'], true],
    ['::2', ['::1/128'], false],
    ['10.200.3.4', ['10.0.0.0/8'], true],
    ['10.200.3.4', ['10.99.0.0/8'], true],
    ['11.0.0.1', ['10.0.0.0/8'], false],
    ['192.0.2.7', ['0.0.0.0/0'], true],
    ['::1', ['0.0.0.0/0'], false],
    ['192.0.2.7', ['::/0'], false],
    ['::ffff:192.0.2.7', ['::/0'], false],
    ['fd00::7', ['fd00::/8'], true],
    ['fe80::1%eth0', ['fe80::/10'], true],
    ['192.0.2.7', [], false],
    ['', ['0.0.0.0/0', '::/0'], false],
    ['localhost', ['0.0.0.0/0', '::/0'], false],
    ['127.0.0.1, 192.0.2.7', ['0.0.0.0/0', '::/0'], false],
  ])('%j on %j: %s', (address, ranges, want) => expect(listOf(...ranges)(address)).toBe(want));
});
