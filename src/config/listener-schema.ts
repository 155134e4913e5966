/** The options of the listeners and of the admin listener: where they listen, and which protocols they speak. */

import * as z from 'zod';
import { isHostName, isLoopback, type ListenPlace } from './address.ts';
import { findListenConflicts } from './conflicts.ts';
import { countOption, distinctNames, listenPlace, secretSource } from './values.ts';

const certificate = z.strictObject({
  certFile: z
    .string()
    .min(1)
    .describe('A PEM file with the certificate, followed by its intermediate certificates. Relative to this file.'),
  keyFile: z.string().min(1).describe('The PEM file of its private key. Relative to this file.'),
});

const tls = z
  .strictObject({
    certificates: z
      .array(certificate)
      .min(1)
      .max(1000)
      .describe(
        'The certificates, chosen by the name that a client asks for (SNI, RFC 6066 §3). A client without SNI, or with another name, gets the first. The files are read again when they change.',
      ),
    minVersion: z
      .enum(['1.2', '1.3'])
      .default('1.2')
      .describe('The lowest version of TLS; 1.2 with ephemeral keys and authenticated ciphers only.'),
  })
  .optional()
  .describe('Speaks TLS, with HTTP/2 and HTTP/1.1 on one port (ALPN, RFC 7301).');

const socketMode = z
  .string()
  .regex(/^0?[0-7]{3}$/, 'expected permissions such as "0660"')
  .transform((text) => Number.parseInt(text, 8));

const listenerOptions = z.strictObject({
  address: listenPlace.describe('Where to listen: "[host:]port", "unix:PATH", "systemd" or "systemd:NAME".'),
  tls,
  http2: z
    .boolean()
    .optional()
    .describe(
      'Whether HTTP/2 is spoken besides HTTP/1.1. Without it: with TLS only. HTTP/2 without TLS is for load balancers, which start it with prior knowledge (RFC 9113 §3.3).',
    ),
  redirectToHttpsPort: countOption(1, 65_535)
    .optional()
    .describe('Answers every request here with a redirect to https on this port (RFC 9110 §15.4.9), usually 443.'),
  proxyProtocol: z
    .boolean()
    .default(false)
    .describe(
      'Whether connections begin with the PROXY protocol, version 1 or 2, which states the address of the client. Only trustedProxies may then connect.',
    ),
  mode: socketMode
    .optional()
    .describe('The permissions of a Unix socket, such as "0660"; those of the umask without it.'),
});

const listener = listenerOptions.superRefine(({ address, tls, redirectToHttpsPort, mode }, context) => {
  if (tls !== undefined && redirectToHttpsPort !== undefined) {
    const message = 'is for a listener without tls';
    context.addIssue({ code: 'custom', path: ['redirectToHttpsPort'], message });
  }
  if (mode !== undefined && address.kind !== 'unix') {
    context.addIssue({ code: 'custom', path: ['mode'], message: 'applies to a Unix socket only' });
  }
});

/** A listener that is given as an address only. */
const listenerAt = listenPlace.transform((address): z.output<typeof listener> => ({ address, proxyProtocol: false }));

/** All listeners; a text stands for a single one. */
export const listenSchema = z
  .union([
    listenerAt.transform((only) => [only]),
    z
      .array(z.union([listenerAt, listener]))
      .min(1)
      .max(100)
      .superRefine((listeners: readonly { readonly address: ListenPlace }[], context) => {
        for (const { index, message } of findListenConflicts(listeners.map(({ address }) => address))) {
          context.addIssue({ code: 'custom', path: [index], message });
        }
      }),
  ])
  .prefault('127.0.0.1:8080');

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
    .describe('Where it listens: "[host:]port" or "unix:PATH". Only its owner can use a Unix socket.'),
  token: secretSource
    .optional()
    .describe(
      'The token that the API demands (Authorization: Bearer): "env:NAME", or "file:PATH" relative to this file. Without it the API is served on a Unix socket only. Where other machines can connect, the metrics demand it too.',
    ),
  hosts: distinctNames(hostName, 100)
    .default([])
    .describe(
      'Names that it accepts in Host, besides addresses and "localhost". Another name is refused: a web page may have pointed its own name at our address (DNS rebinding).',
    ),
});

/** The admin listener; without it there is the Unix socket in the store's directory only. */
export const adminSchema = z
  .union(
    [
      z.literal('off'),
      options.superRefine(({ listen, token }, context) => {
        if (listen.kind !== 'tcp' || token !== undefined || isLoopback(listen.host)) return;
        const message = 'is required where other machines can connect';
        context.addIssue({ code: 'custom', path: ['token'], message });
      }),
    ],
    { error: 'expected "off", or an object with "listen", "token" and "hosts"' },
  )
  .optional()
  .describe(
    'Where health, metrics and the API are served besides the Unix socket admin.sock in the directory of the store. Only the user that runs the server can use that socket; it is always there, unless this is "off", which is for nowhere at all.',
  );
