/** All clients of the matrix, in the order of the table. */

import type { Client } from './client.ts';
import { downloaders } from './programs/downloaders.ts';
import { liveClients } from './programs/live.ts';
import { media } from './programs/media.ts';
import { packageTools } from './programs/package-tools.ts';
import { pages } from './programs/pages.ts';
import { readers } from './programs/readers.ts';

export const clients: readonly Client[] = [
  ...downloaders,
  ...media,
  ...packageTools,
  ...readers,
  ...pages,
  ...liveClients,
];
