/** Which trailer fields may be sent (RFC 9110 §6.5.1). */

import { describe, expect, it } from 'vitest';
import type { Fields } from '../../src/http/fields.ts';
import { selectTrailers } from '../../src/listener/respond.ts';

function select(fields: Fields | undefined): Fields {
  const trailers = fields === undefined ? undefined : () => fields;
  return selectTrailers({ trailers, close: () => {}, async *[Symbol.asyncIterator]() {} });
}

describe('trailer fields', () => {
  it.each(['x-checksum', 'content-digest', 'repr-digest', 'digest', 'server-timing', 'grpc-status', 'link'])(
    'that are sent: %s',
    (name) => {
      expect(select([[name, 'a']])).toEqual([[name, 'a']]);
    },
  );

  it.each(
    ['content-length', 'transfer-encoding', 'connection', 'trailer', 'te', 'upgrade', 'keep-alive', 'host', 'expect']
      .concat(['range', 'if-match', 'if-none-match', 'authorization', 'www-authenticate', 'set-cookie', 'cookie'])
      .concat(['cache-control', 'expires', 'age', 'date', 'vary', 'location', 'retry-after', 'content-type', 'etag'])
      .concat(['content-encoding', 'content-range', 'max-forwards', 'pragma', 'last-modified', ':status', 'x y', '']),
  )('that are dropped: %j', (name) => {
    expect(
      select([
        [name, 'a'],
        ['x', 'y'],
      ]),
    ).toEqual([['x', 'y']]);
  });

  it.each(['a\r\nb: c', 'a\nb', 'a\0b'])('whose value cannot be written are dropped: %j', (value) => {
    expect(select([['x', value]])).toEqual([]);
  });

  it('are none where the body has none', () => {
    expect(select(undefined)).toEqual([]);
  });
});
