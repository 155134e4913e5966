/** Reads the TLS files for connections that this process makes: to origins, and to the engine of the store. */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';

/** The files, and whether certificates are checked. */
interface TlsFiles {
  readonly caFile?: string | undefined;
  readonly certFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly insecureTls: boolean;
}

/** The content of the files. */
export interface ReadTlsFiles {
  readonly ca: string | undefined;
  readonly rejectUnauthorized: boolean;
  readonly cert?: string;
  readonly key?: string;
}

/** Reads the TLS files of a peer. Rejects, with the name of the file, where one cannot be read or used. */
export async function readTlsFiles({ caFile, certFile, keyFile, insecureTls }: TlsFiles): Promise<ReadTlsFiles> {
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8');
  if (ca !== undefined) parseCertificate(ca, caFile as string);
  if (certFile === undefined || keyFile === undefined) return { ca, rejectUnauthorized: !insecureTls };
  const [cert, key] = await Promise.all([readFile(certFile, 'utf8'), readFile(keyFile, 'utf8')]);
  if (!parseCertificate(cert, certFile).checkPrivateKey(parseKey(key, keyFile))) {
    throw new Error(`the certificate in ${certFile} is not for the key in ${keyFile}`);
  }
  return { ca, rejectUnauthorized: !insecureTls, cert, key };
}

function parseCertificate(pem: string, file: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (cause) {
    throw new Error(`there is no PEM certificate in ${file}`, { cause });
  }
}

function parseKey(pem: string, file: string) {
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    throw new Error(`there is no PEM private key without a passphrase in ${file}`, { cause });
  }
}
