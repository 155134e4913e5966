import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect } from 'vitest';
import { itWith, runProgram } from '../support/programs.ts';
import { wholeFileOrigins } from '../support/whole-file-origins.ts';
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
