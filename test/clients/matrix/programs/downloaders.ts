/** curl, wget and aria2c. */

import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Client, check, checkBytes, checkFile, type Place, runIn } from '../client.ts';
import { chunkedOrigin } from '../origins/node-origins.ts';
import {
  apacheOrigin,
  nginxWithoutRanges,
  nginxWithRanges,
  phpOrigin,
  pythonOrigin,
} from '../origins/program-origins.ts';
import { difficult, fileOrigins } from '../origins.ts';

const fileBytes: Client['fileBytes'] = ({ sizes }) => sizes['file.bin'];

/** Writes the first bytes of the file, as an earlier download left them, and returns the path. */
async function leavePart({ dir, fixtures }: Place): Promise<string> {
  const path = join(dir, 'file.bin');
  await writeFile(path, fixtures.file.subarray(0, 700_000));
  return path;
}

const curl = ['-sS', '--fail', '--max-time', '20'];

export const downloaders: readonly Client[] = [
  {
    name: 'curl',
    programs: ['curl'],
    origins: fileOrigins,
    fileBytes,
    async run(place) {
      const { url, fixtures } = place;
      const { stdout } = await runIn(place, 'curl', [...curl, url('file.bin')]);
      checkBytes('the file', stdout, fixtures.file);
    },
  },
  {
    name: 'curl --compressed',
    programs: ['curl'],
    origins: [apacheOrigin],
    fileBytes,
    async run(place) {
      const { url, fixtures } = place;
      const { stdout } = await runIn(place, 'curl', [...curl, '--compressed', url('file.bin')]);
      checkBytes('the file', stdout, fixtures.file);
    },
  },
  {
    name: 'curl -r',
    programs: ['curl'],
    origins: fileOrigins,
    fileBytes,
    async run(place) {
      const { url, fixtures } = place;
      const { stdout } = await runIn(place, 'curl', [...curl, '-r', '900000-900999', url('file.bin')]);
      checkBytes('the range', stdout, fixtures.file.subarray(900_000, 901_000));
    },
  },
  {
    name: 'curl -r, several ranges',
    programs: ['curl'],
    origins: difficult,
    fileBytes,
    async run(place) {
      const { url, fixtures } = place;
      const { stdout } = await runIn(place, 'curl', [...curl, '-r', '0-9,500000-500099,-5', url('file.bin')]);
      const parts = [
        fixtures.file.subarray(0, 10),
        fixtures.file.subarray(500_000, 500_100),
        fixtures.file.subarray(-5),
      ];
      check(stdout.length < 2000, `the response has ${stdout.length} bytes`);
      check(
        parts.every((part) => stdout.includes(part)),
        'a part is missing',
      );
    },
  },
  {
    name: 'curl -C -',
    programs: ['curl'],
    origins: fileOrigins,
    fileBytes,
    async run(place) {
      const path = await leavePart(place);
      await runIn(place, 'curl', [...curl, '-C', '-', '-o', path, place.url('file.bin')]);
      await checkFile(path, place.fixtures.file);
    },
  },
  {
    name: 'curl, HTTP/2',
    programs: ['curl'],
    origins: [pythonOrigin, chunkedOrigin, nginxWithRanges],
    fileBytes,
    async run(place) {
      const { url, fixtures } = place;
      const args = ['--http2-prior-knowledge', '-r', '900000-', '-w', '%{stderr}%{http_version}', url('file.bin')];
      const { stdout, stderr } = await runIn(place, 'curl', [...curl, ...args]);
      check(stderr === '2', `the version is ${stderr}`);
      checkBytes('the range', stdout, fixtures.file.subarray(900_000));
    },
  },
  {
    name: 'curl --parallel, 4 ranges',
    programs: ['curl'],
    origins: difficult,
    fileBytes,
    async run(place) {
      const { url, dir, fixtures } = place;
      const ranges = ['0-399999', '400000-799999', '800000-1199999', '1200000-'];
      const args = ranges.flatMap((range, at) => [
        ...(at === 0 ? [] : ['--next']),
        ...[...curl, '-r', range, '-o', `part-${at}`, url('file.bin')],
      ]);
      await runIn(place, 'curl', ['--parallel', '--parallel-immediate', ...args]);
      const parts = await Promise.all(ranges.map((_, at) => readFile(join(dir, `part-${at}`))));
      checkBytes('the parts', Buffer.concat(parts), fixtures.file);
    },
  },
  {
    name: 'wget',
    programs: ['wget'],
    origins: difficult,
    fileBytes,
    async run(place) {
      const { url, dir, fixtures } = place;
      await runIn(place, 'wget', ['-nv', '--tries=5', '--waitretry=0', '-O', 'file.bin', url('file.bin')]);
      await checkFile(join(dir, 'file.bin'), fixtures.file);
    },
  },
  {
    name: 'wget -c',
    programs: ['wget'],
    origins: fileOrigins,
    fileBytes,
    async run(place) {
      const path = await leavePart(place);
      // wget -c and -O together append; -O alone names the file.
      await runIn(place, 'wget', ['-c', '-nv', '--tries=1', '-O', path, place.url('file.bin')]);
      await checkFile(path, place.fixtures.file);
    },
  },
  {
    name: 'aria2c, 16 connections',
    programs: ['aria2c'],
    origins: [pythonOrigin, chunkedOrigin, nginxWithRanges, nginxWithoutRanges, phpOrigin],
    fileBytes: ({ large }) => large.length,
    async run(place) {
      const { url, dir, fixtures, requests } = place;
      const limits = ['-x16', '-s16', '--min-split-size=1M', '--max-tries=1', '--file-allocation=none'];
      const quiet = ['--no-conf', '--quiet', '--check-certificate=false', '--auto-file-renaming=false'];
      await runIn(place, 'aria2c', [...limits, ...quiet, '-o', 'file.bin', url('large.bin')]);
      await checkFile(join(dir, 'file.bin'), fixtures.large);
      // aria2c uses several connections only where the length is known from the first response.
      const isSplit = [pythonOrigin, nginxWithRanges, nginxWithoutRanges].includes(place.origin);
      if (isSplit) check(requests().length >= 16, `aria2c sent ${requests().length} requests`);
    },
  },
];
