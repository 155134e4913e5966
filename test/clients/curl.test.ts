import { copyFile, readFile, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { wholeFileOrigins } from '../support/origins/whole-file-origins.ts';
import { itWith, runProgram } from '../support/processes/programs.ts';
import { fileSizeBytes, shareProxyBefore } from './proxied-file.ts';

describe.each(wholeFileOrigins)('curl, in front of $name', ({ programs, open }) => {
  const needs = ['curl', ...programs];
  const withFile = shareProxyBefore(open);

  const singles: readonly (readonly [range: string, start: number, end: number])[] = [
    ['0-0', 0, 1],
    ['0-99', 0, 100],
    ['262100-262200', 262_100, 262_201],
    ['1000000-', 1_000_000, fileSizeBytes],
    [`${fileSizeBytes - 1}-`, fileSizeBytes - 1, fileSizeBytes],
    ['-1', fileSizeBytes - 1, fileSizeBytes],
    ['-300000', fileSizeBytes - 300_000, fileSizeBytes],
    ['-99999999', 0, fileSizeBytes],
    ['5-99999999', 5, fileSizeBytes],
  ];
  for (const [range, start, end] of singles) {
    itWith(needs, `-r ${range}`, () =>
      withFile(async ({ url, bytes, dir }) => {
        // The first response comes from a running fill, the second from the store.
        for (const occasion of ['first', 'second']) {
          const args = ['-sS', '-D', 'head', '-r', range, url];
          const { code, stdout } = await runProgram('curl', args, dir);
          expect(code, occasion).toBe(0);
          expect(await readFile(join(dir, 'head'), 'utf8'), occasion).toMatch(/^HTTP\/1\.1 206 /);
          expect(stdout.equals(bytes.subarray(start, end)), `${occasion}: ${stdout.length} bytes`).toBe(true);
        }
      }),
    );
  }

  itWith(needs, '-r 0-9,500000-500099,-5: each part has the bytes of its Content-Range', () =>
    withFile(async ({ url, bytes, dir }) => {
      const args = ['-sS', '-D', 'head', '-r', '0-9,500000-500099,-5', url];
      const { code, stdout } = await runProgram('curl', args, dir);
      expect(code).toBe(0);
      const head = await readFile(join(dir, 'head'), 'utf8');
      const boundary = /^content-type: multipart\/byteranges; ?boundary=(\S+)/im.exec(head)?.[1];
      expect(boundary, head).toBeDefined();
      const parts = splitParts(stdout, boundary ?? '');
      expect(parts.map(({ range }) => range)).toEqual([
        `bytes 0-9/${fileSizeBytes}`,
        `bytes 500000-500099/${fileSizeBytes}`,
        `bytes ${fileSizeBytes - 5}-${fileSizeBytes - 1}/${fileSizeBytes}`,
      ]);
      expect(Buffer.concat(parts.map(({ content }) => content))).toEqual(
        Buffer.concat([bytes.subarray(0, 10), bytes.subarray(500_000, 500_100), bytes.subarray(-5)]),
      );
    }),
  );

  itWith(needs, '-r past the end: 416 with the length', () =>
    withFile(async ({ url, dir }) => {
      const { code, stdout } = await runProgram('curl', ['-sS', '-o', '-', '-D', '-', '-r', '99999999-', url], dir);
      expect(code).toBe(0);
      expect(stdout.toString('latin1')).toMatch(/^HTTP\/1\.1 416 /);
      expect(stdout.toString('latin1').toLowerCase()).toContain(`content-range: bytes */${fileSizeBytes}\r\n`);
    }),
  );

  for (const present of [1, 700_000, fileSizeBytes - 1, fileSizeBytes]) {
    itWith(needs, `-C - resumes a file with ${present} of ${fileSizeBytes} bytes`, () =>
      withFile(async ({ url, bytes, dir, original }) => {
        const partial = join(dir, 'partial');
        await copyFile(original, partial);
        await truncate(partial, present);
        const { code, stderr } = await runProgram('curl', ['-sS', '-C', '-', '-o', partial, url], dir);
        expect(code, stderr).toBe(0);
        expect((await readFile(partial)).equals(bytes)).toBe(true);
      }),
    );
  }

  itWith(needs, '-C - appends to the partial file, and does not begin anew', () =>
    withFile(async ({ url, bytes, dir }) => {
      const partial = join(dir, 'partial');
      const present = Buffer.alloc(1000, 'x');
      await writeFile(partial, present);
      expect((await runProgram('curl', ['-sS', '-C', '-', '-o', partial, url], dir)).code).toBe(0);
      expect((await readFile(partial)).equals(Buffer.concat([present, bytes.subarray(1000)]))).toBe(true);
    }),
  );

  itWith(needs, 'a plain download has every byte', () =>
    withFile(async ({ url, bytes, dir }) => {
      const { code, stdout } = await runProgram('curl', ['-sS', '--fail', url], dir);
      expect(code).toBe(0);
      expect(stdout.equals(bytes)).toBe(true);
    }),
  );
});

/** Returns the parts of a multipart/byteranges body (RFC 9110 §14.6) in order. Throws where it is malformed. */
function splitParts(body: Buffer, boundary: string): { range: string; content: Buffer }[] {
  const delimiter = Buffer.from(`--${boundary}`, 'latin1');
  const parts: { range: string; content: Buffer }[] = [];
  let at = body.indexOf(delimiter);
  while (body.toString('latin1', at + delimiter.length, at + delimiter.length + 2) !== '--') {
    const headStart = at + delimiter.length + 2;
    const headEnd = body.indexOf('\r\n\r\n', headStart);
    at = body.indexOf(delimiter, headEnd);
    if (headEnd < 0 || at < 0) throw new Error(`not multipart with boundary ${boundary}`);
    const range = /^content-range: (.*)$/im.exec(body.toString('latin1', headStart, headEnd))?.[1]?.trim() ?? '';
    parts.push({ range, content: body.subarray(headEnd + 4, at - 2) });
  }
  return parts;
}
