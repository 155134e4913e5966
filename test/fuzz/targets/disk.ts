/** Data that the disk store reads back: rows of its index, and checksums of blocks. */

import { BlockSums, sumOf } from '../../../src/store/disk/bodies/block-sums.ts';
import { parseRow, rowSum } from '../../../src/store/disk/index/index-rows.ts';
import { must, mustEqual, type Target } from '../target.ts';

const place = { key: 'k', variant: '', generation: 'g', sizeBytes: 3, isInline: false };
const metadata = '{"status":200,"fields":[]}';

const indexRow: Target = {
  name: 'index-row',
  seeds: [`k\n\ng\n3\n0\n${metadata}`, `k\nv\ng2\n9007199254740991\n1\n${metadata}`, 'k\n\ng\n3\n0\n{'],
  words: ['\n', 'k', 'g', '3', '0', '1', metadata, '"', '{', '}'],
  check(input) {
    const [key = '', variant = '', generation = '', size = '', inline = '', ...rest] = input.split('\n');
    const row = {
      key,
      variant,
      generation,
      size_bytes: Number(size),
      is_inline: Number(inline),
      metadata: rest.join('\n'),
      is_complete: 1,
      pinned_until: null,
      checksum: rowSum(place, metadata),
    };
    // Only the row that was written is accepted: any other row has another checksum.
    const found = parseRow(row as unknown as Parameters<typeof parseRow>[0], key);
    if (found === undefined) return;
    const { key: k, variant: v, generation: g, sizeBytes, isInline } = found;
    mustEqual(
      { key: k, variant: v, generation: g, sizeBytes, isInline },
      place,
      'a row with another checksum is refused',
    );
  },
};

const blockSums: Target = {
  name: 'block-sums',
  seeds: [
    '',
    '\x03\0\0\0\x01\x02\x03\x04',
    '\0\0\0\0\xff\xff\xff\xff\x05\0\0\0abcd',
    '\xff\xff\xff\xff\xff\xff\xff\xff',
  ],
  words: ['\0\0\0\0', '\x01\0\0\0', '\xff\xff\xff\xff', 'abcdefgh'],
  check(input) {
    const sums = new BlockSums(Buffer.from(input, 'latin1'));
    const count = Math.floor(input.length / 8);
    mustEqual(
      [sums.get(-1), sums.get(count), sums.get(2 ** 31)],
      [undefined, undefined, undefined],
      'a block without checksum has none',
    );
    for (let index = 0; index < Math.min(count, 50); index += 1) {
      const sum = sums.get(index);
      if (sum !== undefined) must(sum.sizeBytes > 0 && sum.sizeBytes < 2 ** 32, 'a block with a checksum has bytes');
    }
    const one = sumOf('g', 3, Buffer.from(input, 'latin1'));
    sums.set(3, one);
    mustEqual(sums.get(3), input === '' ? undefined : one, 'a checksum that was set is returned');
    sums.set(3, undefined);
    mustEqual(sums.get(3), undefined, 'a checksum that was removed is not returned');
  },
};

export const diskTargets: readonly Target[] = [indexRow, blockSums];
