import { copyFile, readFile, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { wholeFileOrigins } from '../support/origins/whole-file-origins.ts';
import { itWith, runProgram } from '../support/processes/programs.ts';
import { fileName, fileSizeBytes, shareProxyBefore } from './proxied-file.ts';

describe.each(wholeFileOrigins)('wget, in front of $name', ({ programs, open }) => {
  const needs = ['wget', ...programs];
  const withFile = shareProxyBefore(open);

  itWith(needs, 'a plain download has every byte', () =>
    withFile(async ({ url, bytes, dir }) => {
      const { code, stderr } = await runProgram('wget', ['-nv', '--tries=1', url], dir);
      expect(code, stderr).toBe(0);
      expect((await readFile(join(dir, fileName))).equals(bytes)).toBe(true);
    }),
  );

  for (const present of [1, 700_000, fileSizeBytes - 1, fileSizeBytes]) {
    itWith(needs, `-c continues a file with ${present} of ${fileSizeBytes} bytes`, () =>
      withFile(async ({ url, bytes, dir, original }) => {
        const partial = join(dir, fileName);
        await copyFile(original, partial);
        await truncate(partial, present);
        const { code, stderr } = await runProgram('wget', ['-c', '--tries=1', url], dir);
        expect(code, stderr).toBe(0);
        expect(stderr).toMatch(present === fileSizeBytes ? /already fully retrieved/ : /206 Partial Content/);
        expect((await readFile(partial)).equals(bytes)).toBe(true);
      }),
    );
  }
});
