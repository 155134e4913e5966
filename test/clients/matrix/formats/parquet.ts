/** A Parquet file of several row groups. */

import { parquetWriteBuffer } from 'hyparquet-writer';
import { patternByte } from '../../../support/values/pattern-body.ts';

/** The rows of the table, and of each of its groups. */
export const rowCount = 200_000;
const groupRows = 20_000;

/** Returns the value of `number` in a row. */
export function numberInRow(row: number): number {
  return (patternByte(row) << 16) | (patternByte(row, 1) << 8) | patternByte(row, 2);
}

/** Makes the file: the columns `row` and `number`, uncompressed. */
export function makeTable(): Buffer {
  const rows = Array.from({ length: rowCount }, (_, row) => row);
  const buffer = parquetWriteBuffer({
    columnData: [
      { name: 'row', data: rows, type: 'INT32' },
      { name: 'number', data: rows.map(numberInRow), type: 'INT32' },
    ],
    rowGroupSize: groupRows,
    codec: 'UNCOMPRESSED',
  });
  return Buffer.from(buffer);
}
