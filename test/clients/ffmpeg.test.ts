import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { openCountingOrigin } from '../support/origins/counting-origin.ts';
import { wholeFileOrigins } from '../support/origins/whole-file-origins.ts';
import { itWith, runProgram } from '../support/processes/programs.ts';
import { startProxy } from '../support/processes/rangeway-process.ts';
import { withProxyBefore } from './proxied-file.ts';

const video = fileURLToPath(new URL('../../assets/demo/range-test.mp4', import.meta.url));

describe.each(wholeFileOrigins)(
  'ffmpeg, in front of $name, of a video with its index at the end',
  ({ programs, open }) => {
    itWith(['ffprobe', ...programs], 'ffprobe finds the index', async () =>
      withProxyBefore(
        open,
        async ({ url, bytes, dir }) => {
          const entries = 'format=duration,size:stream=codec_name';
          const args = ['-v', 'error', '-seekable', '1', '-show_entries', entries, '-of', 'json', url];
          const { code, stdout, stderr } = await runProgram('ffprobe', args, dir);
          expect(code, stderr).toBe(0);
          expect(stderr).toBe('');
          expect(JSON.parse(stdout.toString())).toMatchObject({
            format: { duration: '60.000000', size: String(bytes.length) },
            streams: [{ codec_name: 'h264' }, { codec_name: 'aac' }],
          });
        },
        await readFile(video),
      ),
    );

    itWith(['ffmpeg', ...programs], 'ffmpeg decodes the same frames from the 45th second as from the file', async () =>
      withProxyBefore(
        open,
        async ({ url, original, dir }) => {
          const framesOf = async (input: string): Promise<string> => {
            const args = ['-v', 'error', '-ss', '45', '-i', input, '-frames:v', '5', '-an', '-f', 'framemd5', '-'];
            const { code, stdout, stderr } = await runProgram('ffmpeg', args, dir);
            expect(code, stderr).toBe(0);
            expect(stderr).toBe('');
            return stdout.toString();
          };
          const frames = await framesOf(url);
          expect(frames.match(/^0,/gm)?.length).toBe(5);
          expect(frames).toBe(await framesOf(original));
        },
        await readFile(video),
      ),
    );
  },
);

/** Inserts unused bytes before the index of the video (ISO/IEC 14496-12 §8.1.2). The offsets in the index stay right. */
function withUnusedBytes(bytes: Buffer, unusedBytes: number): Buffer {
  const index = bytes.indexOf('moov') - 4;
  const unused = Buffer.alloc(unusedBytes);
  unused.writeUInt32BE(unusedBytes);
  unused.write('free', 4);
  return Buffer.concat([bytes.subarray(0, index), unused, bytes.subarray(index)]);
}

describe('ffprobe, in front of an origin with ranges, of a long video with its index at the end', () => {
  itWith(['ffprobe'], 'makes the origin send a small part of the file', async () => {
    const film = withUnusedBytes(await readFile(video), 160 * 1024 * 1024);
    await using origin = await openCountingOrigin('parts', film.length, (at, end) =>
      film.subarray(at, Math.min(end, at + 65_536)),
    );
    await using proxy = await startProxy(origin.url);
    const args = ['-v', 'error', '-show_entries', 'format=duration', '-of', 'csv=p=0', `${proxy.url}/film.mp4`];
    const { code, stdout, stderr } = await runProgram('ffprobe', args, '/');
    expect(code, stderr).toBe(0);
    expect(stdout.toString().trim()).toBe('60.000000');
    // ffprobe reads the first megabytes for the formats of the streams, and three other places: five megabytes. Each request
    // that it gives up leaves some megabytes in the buffers of the sockets, which count here, and on a busy machine more has come
    // before ffprobe leaves. A request that is not ended then brings nearly everything.
    expect(origin.bytes).toBeLessThan(0.5 * film.length);
  });
});
