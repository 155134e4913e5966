/** The options of the admin listener. */

import * as z from 'zod';
import { isHostName } from './address.ts';
import { listenPlace, names, secretSource } from './values.ts';

const adminPlace = listenPlace.refine(
  ({ kind }) => kind !== 'systemd',
  'expected [host:]port such as "9180" or "unix:PATH"',
);

const hostName = z
  .string()
  .refine(isHostName, 'expected a host name such as "media.example.org", without scheme and port')
  .toLowerCase();

const options = z.strictObject({
  listen: adminPlace
    .prefault('127.0.0.1:9180')
    .describe('Where it listens: "[host:]port" or "unix:PATH". A Unix socket is for its owner alone.'),
  token: secretSource
    .optional()
    .describe(
      'What the API asks of its clients (Authorization: Bearer): "env:NAME", or "file:PATH" relative to this file. Without it the API is there on a Unix socket only. Where others than this machine can connect, the metrics ask for it too.',
    ),
  hosts: names(hostName, 100)
    .default([])
    .describe(
      'Names that it may be called by, in Host, besides addresses and "localhost". Another one may be that of a web page which has given itself our address.',
    ),
});

/** The admin listener; without it there is the Unix socket in the store's directory only. */
export const adminSchema = z
  .union(
    [
      z.literal('off'),
      options.superRefine(({ listen, token }, context) => {
        if (listen.kind !== 'tcp' || token !== undefined || isLoopback(listen.host)) return;
        const message = 'is needed where others than this machine can connect';
        context.addIssue({ code: 'custom', path: ['token'], message });
      }),
    ],
    { error: 'expected "off", or an object with "listen", "token" and "hosts"' },
  )
  .optional()
  .describe(
    'Where those who run the server reach health, metrics, and an API, besides the Unix socket admin.sock in the directory of the store, which is for the user alone that runs it and is always there; "off" for nowhere at all.',
  );

/** Whether only this machine can connect to a host's addresses. */
export function isLoopback(host: string): boolean {
  return host.toLowerCase() === 'localhost' || host === '::1' || /^127(\.\d+){3}$/.test(host);
}
