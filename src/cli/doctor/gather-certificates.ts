/** Reads the certificate files that a configuration names. */

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { rootCertificates } from 'node:tls';
import type { Config, RouteConfig } from '../../config/schema.ts';
import { dnsNames, readCertificate } from '../../listener/accept/tls.ts';
import { readTlsFiles } from '../../setup/tls-files.ts';
import type { CertificateFact, CertificateFacts } from './certificates.ts';

/** Reads the facts of all certificate files. Never rejects: what is wrong with a file is a fact. */
export async function gatherCertificates({
  listen,
  routes,
}: Pick<Config, 'listen' | 'routes'>): Promise<readonly CertificateFacts[]> {
  const ofListeners = listen.flatMap(({ tls }, at) =>
    (tls?.certificates ?? []).map(async (pair, index) => {
      const option = `listen[${at}].tls.certificates[${index}]`;
      const fault = await faultOf(readCertificate(pair, {}));
      return await factsOf({ option, use: 'server', ...pair, fault });
    }),
  );
  const ofOrigins = routes.map(({ origin }, at) => originFacts(origin, `routes[${at}].origin`));
  return [...(await Promise.all(ofListeners)), ...(await Promise.all(ofOrigins)).flat()];
}

async function originFacts(origin: RouteConfig['origin'], option: string): Promise<readonly CertificateFacts[]> {
  const { caFile, certFile, keyFile } = origin;
  const facts: CertificateFacts[] = [];
  if (caFile !== undefined) {
    const fault = await faultOf(readTlsFiles({ ...origin, certFile: undefined, keyFile: undefined }));
    facts.push(
      await factsOf({ option: `${option}.caFile`, use: 'authority', certFile: caFile, keyFile: undefined, fault }),
    );
  }
  if (certFile !== undefined && keyFile !== undefined) {
    const fault = await faultOf(readTlsFiles({ ...origin, caFile: undefined }));
    facts.push(await factsOf({ option: `${option}.certFile`, use: 'client', certFile, keyFile, fault }));
  }
  return facts;
}

type Known = Pick<CertificateFacts, 'option' | 'use' | 'certFile' | 'keyFile' | 'fault'>;

async function factsOf(known: Known): Promise<CertificateFacts> {
  const { certFile, keyFile } = known;
  const parsed = parseAll(await readText(certFile));
  const key = keyFile === undefined ? undefined : parseKey(await readText(keyFile));
  const keyMode = keyFile === undefined ? undefined : (await stat(keyFile).catch(() => undefined))?.mode;
  const certificates = parsed.map((each, at): CertificateFact => {
    const next = parsed[at + 1];
    return {
      subject: nameOf(each.subject),
      issuer: nameOf(each.issuer),
      names: dnsNames(each.subjectAltName ?? ''),
      addresses: [...(each.subjectAltName ?? '').matchAll(/(?<=^|, )IP Address:([\d.:A-Fa-f]+)/g)].map(
        ([, ip = '']) => ip,
      ),
      validFrom: Date.parse(each.validFrom),
      validTo: Date.parse(each.validTo),
      isSelfSigned: isSignedBy(each, each),
      isSignedByNext: next === undefined ? undefined : isSignedBy(each, next),
      isOfKey: key === undefined ? undefined : each.checkPrivateKey(key),
    };
  });
  const last = parsed.at(-1);
  return { ...known, certificates, isIssuerKnown: last !== undefined && isKnown(last), keyMode };
}

function isSignedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}

/** Checks whether an authority that Node brings has signed a certificate, or is it. */
function isKnown(certificate: X509Certificate): boolean {
  return rootCertificates.some((pem) => {
    const root = new X509Certificate(pem);
    return root.subject === certificate.issuer && isSignedBy(certificate, root);
  });
}

function parseAll(text: string): X509Certificate[] {
  const blocks =
    text.match(/-----BEGIN (?:TRUSTED )?CERTIFICATE-----[\s\S]*?-----END (?:TRUSTED )?CERTIFICATE-----/g) ?? [];
  return blocks.flatMap((block) => {
    try {
      return [new X509Certificate(block)];
    } catch {
      return [];
    }
  });
}

function parseKey(text: string): KeyObject | undefined {
  try {
    return createPrivateKey(text);
  } catch {
    return undefined;
  }
}

/** Returns the common name of a subject or issuer, or all of it where it has none. */
function nameOf(name: string): string {
  return /^CN=(.*)$/m.exec(name)?.[1] ?? name.replaceAll('\n', ', ');
}

async function readText(path: string): Promise<string> {
  return await readFile(path, 'utf8').catch(() => '');
}

async function faultOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
