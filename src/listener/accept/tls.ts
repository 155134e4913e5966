/**
 * TLS on accepted connections (RFC 8446). Reads and checks certificates and keys, chooses the certificate by the name that the
 * client sends (SNI, RFC 6066 §3), and reads the files again when they change.
 */

import { constants, createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import type { Socket } from 'node:net';
import {
  createSecureContext,
  createServer,
  type SecureContext,
  type SecureContextOptions,
  type Server,
  type TLSSocket,
} from 'node:tls';
import type { Emit } from '../../telemetry/events.ts';
import { ListenFault } from './bind.ts';

/** Options of TLS on a listener. */
interface TlsOptions {
  readonly certificates: Certificates;
  /** The protocols offered to clients, in order of preference (ALPN, RFC 7301). */
  readonly protocols: readonly string[];
  /** Time limit of a handshake. 0 uses Node's default of two minutes. */
  readonly handshakeTimeoutMs: number;
}

/** Callbacks of a handshake: one of the two is called, once. */
interface HandshakeEnd {
  onSecure(secure: TLSSocket): void;
  /** The handshake has failed, timed out or was interrupted. The connection is destroyed afterwards. */
  onFailed(error: Error & { readonly code?: string }): void;
}

/** Node keeps the underlying connection of a TLS socket in `_parent`. */
type Carried = TLSSocket & { readonly _parent: Socket };

/**
 * Makes TLS handshakes. The certificate is that of the requested name (SNI), or else the first one. A client whose ALPN list has
 * no offered protocol gets the alert no_application_protocol; a client without ALPN gets HTTP/1.1.
 */
export class TlsHandshaker {
  /** Does not listen; gets its connections from `accept`. */
  readonly #server: Server;
  #certificates: Certificates;
  readonly #ends = new WeakMap<Socket, HandshakeEnd>();

  constructor({ certificates, protocols, handshakeTimeoutMs }: TlsOptions) {
    this.#certificates = certificates;
    this.#server = createServer({
      ...certificates.defaultOptions,
      ALPNProtocols: [...protocols],
      SNICallback: (name, callback) => callback(null, this.#certificates.contextFor(name)),
      handshakeTimeout: handshakeTimeoutMs,
    });
    this.#follow(certificates);
    this.#server.on('secureConnection', (secure) => this.#succeed(secure));
    this.#server.on('tlsClientError', (error, secure) => {
      this.#ends.get((secure as Carried)._parent)?.onFailed(error);
      secure.destroy();
    });
  }

  /** Begins a handshake. Bytes that were read from the socket before have been put back. */
  accept(socket: Socket, end: HandshakeEnd): void {
    this.#ends.set(socket, end);
    this.#server.emit('connection', socket);
  }

  /** Uses these certificates from the next handshake on, and closes the previous ones. */
  renew(certificates: Certificates): void {
    this.#certificates.close();
    this.#certificates = certificates;
    this.#server.setSecureContext(certificates.defaultOptions);
    this.#follow(certificates);
  }

  close(): void {
    this.#certificates.close();
  }

  #follow(certificates: Certificates): void {
    certificates.whenChanged(() => this.#server.setSecureContext(certificates.defaultOptions));
  }

  #succeed(secure: TLSSocket): void {
    const { _parent: socket } = secure as Carried;
    const end = this.#ends.get(socket);
    if (end === undefined) {
      secure.destroy();
      return;
    }
    // Node resets TCP sockets only. Over TLS too, a response that broke off must not look complete (RFC 9112 §9.8).
    secure.resetAndDestroy = () => {
      socket.resetAndDestroy();
      return secure;
    };
    // From here on the protocol decides about a client that ends its side.
    secure.allowHalfOpen = true;
    socket.allowHalfOpen = true;
    end.onSecure(secure);
  }
}

/** Only suites with ephemeral keys and authenticated encryption (RFC 9325 §4.2), as all TLS 1.3 suites are. */
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

/** Default period of checking the files, in milliseconds. */
const defaultCheckMs = 1_000;

/** Options of the certificates of a listener. */
interface CertificatesOptions {
  /** At least one. The first certificate is for clients without SNI, or with an unknown name. */
  readonly files: readonly CertificateFiles[];
  readonly minVersion: '1.2' | '1.3';
  readonly emit: Emit;
  /** Returns the time in epoch milliseconds. */
  readonly now: () => number;
  /** Period of checking the files, in milliseconds. */
  readonly checkMs?: number | undefined;
}

interface Place {
  readonly files: CertificateFiles;
  readonly watched: WatchedFiles;
  certificate: Certificate;
}

/** Reads all certificates and keys, and watches their files. Rejects with `ListenFault`, which names a file that cannot be used. */
export async function openCertificates(options: CertificatesOptions): Promise<Certificates> {
  const settings = contextSettings(options.minVersion);
  const places: Place[] = [];
  for (const files of options.files) {
    // Before reading, so that a change in between is noticed.
    const watched = await WatchedFiles.open([files.certFile, files.keyFile]);
    places.push({ files, watched, certificate: await readCertificate(files, settings) });
  }
  return new Certificates(places, settings, options);
}

/** The certificates of one listener, kept up to date with their files. */
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

  /** Options of the default TLS context, which has the first certificate. */
  get defaultOptions(): SecureContextOptions {
    return this.#places[0]?.certificate.options ?? this.#settings;
  }

  /** Returns the context for a name; undefined where no certificate matches. */
  contextFor(name: string): SecureContext | undefined {
    return this.#choice(name);
  }

  /** Sets the callback for changed certificates. */
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
        this.#tell('error', `cannot check ${place.files.certFile}: ${String(error)}`);
      });
    }
    this.#isLooking = false;
  }

  async #lookAt(place: Place): Promise<void> {
    const { files, watched } = place;
    if ((await watched.look()) !== 'changed' || this.#isClosed) return;
    const read = await readCertificate(files, this.#settings).catch((error: unknown) => error);
    // The files changed while they were read: a later check reads them again.
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

  /** Warns about the validity period. The certificate is used anyway: some clients do not check, and without it none can connect. */
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
    // HTTP/2 forbids renegotiation (RFC 9113 §9.2.1); HTTP/1 does not need it.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_NO_COMPRESSION,
  };
}

/** The files of a certificate and its key, in PEM. */
export interface CertificateFiles {
  /** The certificate, followed by its intermediate certificates. */
  readonly certFile: string;
  readonly keyFile: string;
}

/** A checked certificate with its TLS context. */
interface Certificate {
  /** Its DNS names in lower case, wildcards included (RFC 6125 §6.4). */
  readonly names: readonly string[];
  /** Start and end of its validity, in epoch milliseconds. */
  readonly validFrom: number;
  readonly validTo: number;
  /** Options of its TLS context. */
  readonly options: SecureContextOptions;
  readonly context: SecureContext;
}

/**
 * Reads and checks a certificate and its key. `settings` go into the TLS context. Rejects with `ListenFault`, which names the
 * file, when a file cannot be read, is not valid PEM, or does not belong to the other.
 */
export async function readCertificate(files: CertificateFiles, settings: SecureContextOptions): Promise<Certificate> {
  const { certFile, keyFile } = files;
  const cert = await readPem(certFile);
  const key = await readPem(keyFile);
  const parsed = parseCertificate(certFile, cert);
  if (!parsed.checkPrivateKey(parseKey(keyFile, key))) {
    throw new ListenFault(`cannot use ${certFile}: the key in ${keyFile} is not the one of this certificate`);
  }
  const options = { ...settings, cert, key };
  return {
    names: dnsNames(parsed.subjectAltName ?? ''),
    validFrom: Date.parse(parsed.validFrom),
    validTo: Date.parse(parsed.validTo),
    options,
    context: createContext(certFile, options),
  };
}

/**
 * Returns the DNS names of a subjectAltName in Node's format, such as `DNS:a.example, IP Address:192.0.2.1`, in lower case. Node
 * quotes names with invalid characters; these are skipped.
 */
export function dnsNames(subjectAltName: string): string[] {
  const found = subjectAltName.matchAll(/"(?:[^"\\]|\\.)*"|(?<=^|, )DNS:(?<name>[^\s,"]+)(?=,|$)/g);
  return [...found].flatMap(({ groups }) => groups?.['name']?.toLowerCase() ?? []);
}

async function readPem(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new ListenFault(`cannot use ${path}: ${reason(error)}`, { cause: error });
  }
}

function parseCertificate(path: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new ListenFault(`cannot use ${path}: it holds no certificate in PEM`, { cause: error });
  }
}

function parseKey(path: string, pem: string): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (error) {
    const message = pem.includes('ENCRYPTED') ? 'the key is encrypted' : 'it holds no private key in PEM';
    throw new ListenFault(`cannot use ${path}: ${message}`, { cause: error });
  }
}

function createContext(path: string, options: SecureContextOptions): SecureContext {
  try {
    return createSecureContext(options);
  } catch (error) {
    throw new ListenFault(`cannot use ${path}: ${reason(error)}`, { cause: error });
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A value that applies to certain names. */
interface Named<T> {
  /** In lower case; `*.` stands for exactly one label (RFC 6125 §6.4.3). */
  readonly names: readonly string[];
  readonly value: T;
}

/**
 * Creates a look-up by name. An exact name wins over a wildcard; among equal names the first value wins. The look-up returns
 * undefined for a name without a match.
 */
export function createNameChoice<T>(choices: readonly Named<T>[]): (name: string) => T | undefined {
  const byName = new Map<string, T>();
  for (const { names, value } of choices) {
    for (const name of names) if (!byName.has(name)) byName.set(name, value);
  }
  return (requested) => {
    const name = requested.toLowerCase().replace(/\.$/, '');
    // The text of a wildcard is not a name and must not match itself.
    if (name.startsWith('*')) return undefined;
    return byName.get(name) ?? byName.get(name.replace(/^[^.]+/, '*'));
  };
}

/** The result of one check of files. */
type FileLook = 'same' | 'changing' | 'changed';

/** Files that belong together, such as a certificate and its key. */
class WatchedFiles {
  readonly #paths: readonly string[];
  /** The state of the files when they were last accepted (`take`), and at the last check. */
  #taken: string;
  #seen: string;

  private constructor(paths: readonly string[], state: string) {
    this.#paths = paths;
    this.#taken = state;
    this.#seen = state;
  }

  /** Starts watching, with the current state as accepted. */
  static async open(paths: readonly string[]): Promise<WatchedFiles> {
    return new WatchedFiles(paths, await stateOf(paths));
  }

  /**
   * Checks the files. Returns `changed` when they differ from the accepted state and equal the state of the previous check, so
   * that files that are being replaced one after the other are not read half-way.
   */
  async look(): Promise<FileLook> {
    const state = await stateOf(this.#paths);
    const isSettled = state === this.#seen;
    this.#seen = state;
    if (state === this.#taken) return 'same';
    return isSettled ? 'changed' : 'changing';
  }

  /** Accepts the state of the last check: `look` returns `same` until the files change again. */
  take(): void {
    this.#taken = this.#seen;
  }
}

async function stateOf(paths: readonly string[]): Promise<string> {
  const states = await Promise.all(paths.map(fileState));
  return states.join(' ');
}

/** Identifies the version of a file, following links. The nanoseconds distinguish versions of equal size. */
async function fileState(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
  }
}
