/** A server's certificate and its key, read from files and checked. */

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContext, type SecureContextOptions } from 'node:tls';
import { ListenFault } from './listen-fault.ts';

/** Where a certificate and its key are, in PEM. */
export interface CertificateFiles {
  /** The certificate, then those between it and a root. */
  readonly certFile: string;
  readonly keyFile: string;
}

/** A certificate that can be used. */
export interface Certificate {
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
