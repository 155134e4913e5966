/** The certificates of a listener: one for each name, read again when their files change. */

import { constants } from 'node:crypto';
import type { SecureContext, SecureContextOptions } from 'node:tls';
import type { Emit } from '../telemetry/events.ts';
import { type Certificate, type CertificateFiles, readCertificate } from './certificate.ts';
import { WatchedFiles } from './file-changes.ts';
import { createNameChoice } from './name-choice.ts';

/** Ephemeral keys and authenticated encryption only (RFC 9325 §4.2); those of TLS 1.3 are nothing else. */
const ciphers = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':');

/** How often the files are looked at. */
const defaultCheckMs = 1_000;

/** What certificates are opened with. */
export interface CertificatesOptions {
  /** At least one; the first is for who asks for no name, or for another one. */
  readonly files: readonly CertificateFiles[];
  readonly minVersion: '1.2' | '1.3';
  readonly emit: Emit;
  /** Tells the time in epoch milliseconds. */
  readonly now: () => number;
  /** How often the files are looked at, in milliseconds. */
  readonly checkMs?: number | undefined;
}

interface Place {
  readonly files: CertificateFiles;
  readonly watched: WatchedFiles;
  certificate: Certificate;
}

/** Reads all of them. Throws `ListenFault`, which names the file, when one cannot be used. */
export async function openCertificates(options: CertificatesOptions): Promise<Certificates> {
  const settings = contextSettings(options.minVersion);
  const places: Place[] = [];
  for (const files of options.files) {
    // Before they are read, so that a change in between is noticed.
    const watched = await WatchedFiles.open([files.certFile, files.keyFile]);
    places.push({ files, watched, certificate: await readCertificate(files, settings) });
  }
  return new Certificates(places, settings, options);
}

/** Those of one listener. */
export class Certificates {
  readonly #places: readonly Place[];
  readonly #settings: SecureContextOptions;
  readonly #options: CertificatesOptions;
  readonly #timer: NodeJS.Timeout;
  #choice: (name: string) => SecureContext | undefined = () => undefined;
  #onChange: (() => void) | undefined;
  #isLooking = false;
  #isClosed = false;

  constructor(places: readonly Place[], settings: SecureContextOptions, options: CertificatesOptions) {
    this.#places = places;
    this.#settings = settings;
    this.#options = options;
    this.#choose();
    for (const place of places) this.#warn(place);
    this.#timer = setInterval(() => void this.#look(), options.checkMs ?? defaultCheckMs).unref();
  }

  /** What a server's own context is made of: the first certificate. */
  get defaultOptions(): SecureContextOptions {
    return this.#places[0]?.certificate.options ?? this.#settings;
  }

  /** The context for a name; undefined where no certificate is for it. */
  contextFor(name: string): SecureContext | undefined {
    return this.#choice(name);
  }

  /** Calls back after each change. */
  whenChanged(callback: () => void): void {
    this.#onChange = callback;
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    for (const place of this.#places) {
      await this.#lookAt(place).catch((error: unknown) => {
        this.#tell('error', `cannot look at ${place.files.certFile}: ${String(error)}`);
      });
    }
    this.#isLooking = false;
  }

  async #lookAt(place: Place): Promise<void> {
    const { files, watched } = place;
    if ((await watched.look()) !== 'changed' || this.#isClosed) return;
    const read = await readCertificate(files, this.#settings).catch((error: unknown) => error);
    // They changed while they were read: the next looks will tell.
    if ((await watched.look()) !== 'changed' || this.#isClosed) return;
    watched.take();
    if (read instanceof Error) {
      this.#tell('error', `${read.message}; the certificate in use stays`);
      return;
    }
    place.certificate = read as Certificate;
    this.#choose();
    this.#onChange?.();
    this.#tell('info', `the certificate in ${files.certFile} has changed and is in use`);
    this.#warn(place);
  }

  #choose(): void {
    this.#choice = createNameChoice(
      this.#places.map(({ certificate: { names, context } }) => ({ names, value: context })),
    );
  }

  /** One that is not valid is used all the same: some clients do not look, and none is helped by no certificate. */
  #warn({ certificate, files }: Place): void {
    const now = this.#options.now();
    const { validFrom, validTo } = certificate;
    if (now > validTo) {
      this.#tell('warn', `the certificate in ${files.certFile} has expired (${new Date(validTo).toISOString()})`);
    } else if (now < validFrom) {
      this.#tell(
        'warn',
        `the certificate in ${files.certFile} is not valid yet (${new Date(validFrom).toISOString()})`,
      );
    }
  }

  #tell(level: 'info' | 'warn' | 'error', message: string): void {
    this.#options.emit({ kind: 'listener', level, message });
  }
}

function contextSettings(minVersion: '1.2' | '1.3'): SecureContextOptions {
  return {
    minVersion: `TLSv${minVersion}`,
    ciphers,
    honorCipherOrder: true,
    // HTTP/2 forbids renegotiation (RFC 9113 §9.2.1), and HTTP/1 has no use for it.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_COMPRESSION,
  };
}
