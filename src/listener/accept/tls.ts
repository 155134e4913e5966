/**
 * TLS on accepted connections (RFC 8446): certificates and keys are read from files, checked, chosen by the name that the
 * client asks for (SNI, RFC 6066 §3), and read again when the files change.
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

/** What TLS is spoken with. */
interface TlsOptions {
  readonly certificates: Certificates;
  /** What is offered to clients, the best first (ALPN, RFC 7301). */
  readonly protocols: readonly string[];
  /** How long a handshake may take. 0 leaves that to Node, which waits for two minutes. */
  readonly handshakeTimeoutMs: number;
}

/** What a handshake comes to: one of the two is called, once. */
interface HandshakeEnd {
  onSecure(secure: TLSSocket): void;
  /** It has failed, or did not come to its end; the connection is ended after this. */
  onFailed(error: Error & { readonly code?: string }): void;
}

/** Node keeps the connection that TLS runs on there. */
type Carried = TLSSocket & { readonly _parent: Socket };

/**
 * Makes handshakes. The certificate is that of the name that a client asks for, or the first one. A client that offers only
 * protocols that are not offered here gets the alert no_application_protocol; one that offers none is spoken HTTP/1.1 with.
 */
export class TlsFront {
  /** Owns no port: it is given connections. */
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

  /** Begins a handshake. What was read of the socket before was put back. */
  accept(socket: Socket, end: HandshakeEnd): void {
    this.#ends.set(socket, end);
    this.#server.emit('connection', socket);
  }

  /** Uses these from the next handshake on, and closes those before. */
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
    // Node has it for TCP only. What was broken off must not look whole here either (RFC 9112 §9.8).
    secure.resetAndDestroy = () => {
      socket.resetAndDestroy();
      return secure;
    };
    end.onSecure(secure);
  }
}

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
interface CertificatesOptions {
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

/** Where a certificate and its key are, in PEM. */
export interface CertificateFiles {
  /** The certificate, then those between it and a root. */
  readonly certFile: string;
  readonly keyFile: string;
}

/** A certificate that can be used. */
interface Certificate {
  /** The DNS names that it is for, in lower case, wildcards included (RFC 6125 §6.4). */
  readonly names: readonly string[];
  /** From when, and until when, it is valid, in epoch milliseconds. */
  readonly validFrom: number;
  readonly validTo: number;
  /** What a TLS context is made of. */
  readonly options: SecureContextOptions;
  readonly context: SecureContext;
}

/**
 * Reads and checks a pair of files. `settings` are those of the context. Throws `ListenFault`, which names the file, when one
 * cannot be read, is not what it should be, or does not belong to the other.
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
 * The DNS names among the alternative names of a subject, as Node writes them: `DNS:a.example, IP Address:192.0.2.1`. A name
 * with characters that names do not have stands in quotes there, and is none.
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

/** Something that is for certain names. */
interface Named<T> {
  /** In lower case; `*.` stands for exactly one label (RFC 6125 §6.4.3). */
  readonly names: readonly string[];
  readonly value: T;
}

/**
 * Creates the choice: what has the exact name goes before what has a wildcard for it, the first before the later ones.
 * Undefined for a name that nothing is for.
 */
export function createNameChoice<T>(choices: readonly Named<T>[]): (name: string) => T | undefined {
  const byName = new Map<string, T>();
  for (const { names, value } of choices) {
    for (const name of names) if (!byName.has(name)) byName.set(name, value);
  }
  return (asked) => {
    const name = asked.toLowerCase().replace(/\.$/, '');
    // Nobody asks for a wildcard; its own text must not be taken for a name.
    if (name.startsWith('*')) return undefined;
    return byName.get(name) ?? byName.get(name.replace(/^[^.]+/, '*'));
  };
}

/** What one look at some files tells. */
type FileLook = 'same' | 'changing' | 'changed';

/** Files that belong together, such as a certificate and its key. */
class WatchedFiles {
  readonly #paths: readonly string[];
  /** As they were when they were last taken for good, and as they were at the last look. */
  #taken: string;
  #seen: string;

  private constructor(paths: readonly string[], state: string) {
    this.#paths = paths;
    this.#taken = state;
    this.#seen = state;
  }

  /** Remembers the files as they are now. */
  static async open(paths: readonly string[]): Promise<WatchedFiles> {
    return new WatchedFiles(paths, await stateOf(paths));
  }

  /**
   * Looks at them. They are `changed` when they are not as they were taken, and are as they were at the look before, so that
   * files that are replaced one after the other are not taken half-way.
   */
  async look(): Promise<FileLook> {
    const state = await stateOf(this.#paths);
    const isSettled = state === this.#seen;
    this.#seen = state;
    if (state === this.#taken) return 'same';
    return isSettled ? 'changed' : 'changing';
  }

  /** Takes them as they were at the last look: they are looked at no more closely until they change again. */
  take(): void {
    this.#taken = this.#seen;
  }
}

async function stateOf(paths: readonly string[]): Promise<string> {
  const states = await Promise.all(paths.map(fileState));
  return states.join(' ');
}

/** Follows links; the nanoseconds tell two versions of one size apart. */
async function fileState(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
  }
}
