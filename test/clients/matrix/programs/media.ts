/** ffprobe and ffmpeg, with a film whose index is at the end. */

import { join } from 'node:path';
import { type Client, check, runIn } from '../client.ts';
import { difficult, fileOrigins } from '../origins.ts';

const fileBytes: Client['fileBytes'] = ({ sizes }) => sizes['film.mp4'];

export const media: readonly Client[] = [
  {
    name: 'ffprobe',
    programs: ['ffprobe'],
    origins: fileOrigins,
    fileBytes,
    withoutMs: 3000,
    async run(place) {
      const { url } = place;
      const args = ['-v', 'error', '-seekable', '1', '-show_entries', 'format=duration', '-of', 'csv=p=0'];
      const { stdout } = await runIn(place, 'ffprobe', [...args, url('film.mp4')]);
      check(stdout.toString().trim() === '60.000000', `the duration is ${stdout}`);
    },
  },
  {
    name: 'ffmpeg -ss 45',
    programs: ['ffmpeg'],
    origins: difficult,
    fileBytes,
    async run(place) {
      const { url, fixtures } = place;
      const framesOf = async (input: string): Promise<string> => {
        const args = ['-v', 'error', '-ss', '45', '-i', input, '-frames:v', '3', '-an', '-f', 'framemd5', '-'];
        return (await runIn(place, 'ffmpeg', args)).stdout.toString();
      };
      const frames = await framesOf(url('film.mp4'));
      check(frames === (await framesOf(join(fixtures.dir, 'film.mp4'))), 'the frames are not those of the file');
    },
  },
];
