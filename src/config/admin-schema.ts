/** The options of the admin listener. */

import * as z from 'zod';
import { listenPlace, secretSource } from './values.ts';

const adminPlace = listenPlace.refine(
  ({ kind }) => kind !== 'systemd',
  'expected [host:]port such as "9180" or "unix:PATH"',
);

const options = z.strictObject({
  listen: adminPlace
    .prefault('127.0.0.1:9180')
    .describe('Where it listens: "[host:]port" or "unix:PATH". A Unix socket is for its owner alone.'),
  token: secretSource
    .optional()
    .describe(
      'What the API asks of its clients (Authorization: Bearer): "env:NAME", or "file:PATH" relative to this file. Without it the API is there on a Unix socket only. Where others than this machine can connect, the metrics ask for it too.',
    ),
});

/** The admin listener; without it there is none. */
export const adminSchema = options
  .superRefine(({ listen, token }, context) => {
    if (listen.kind !== 'tcp' || token !== undefined || isLoopback(listen.host)) return;
    const message = 'is needed where others than this machine can connect';
    context.addIssue({ code: 'custom', path: ['token'], message });
  })
  .optional()
  .describe('A listener for those who run the server: health, metrics, and an API. Without this there is none.');

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d+){3}$/.test(host);
}
