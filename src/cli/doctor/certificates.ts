/** Whether the certificate files of listeners and origins can be used, and for how long. */

import type { Config } from '../../config/schema.ts';
import { createNameChoice } from '../../listener/accept/tls.ts';
import { type Diagnosis, fine, found } from './diagnosis.ts';

/** One certificate of a file. */
export interface CertificateFact {
  /** Who it is for, and who signed it, in one line. */
  readonly subject: string;
  readonly issuer: string;
  /** Its DNS names and IP addresses; names in lower case. */
  readonly names: readonly string[];
  readonly addresses: readonly string[];
  /** Epoch milliseconds. */
  readonly validFrom: number;
  readonly validTo: number;
  readonly isSelfSigned: boolean;
  /** Whether the next certificate of the file has signed it; undefined for the last one. */
  readonly isSignedByNext: boolean | undefined;
  /** Whether the key of the pair is its key; undefined without a key. */
  readonly isOfKey: boolean | undefined;
}

/** Facts of a certificate file, and of the key that belongs to it. */
export interface CertificateFacts {
  /** The option that names it, such as `listen[0].tls.certificates[0]`. */
  readonly option: string;
  /** `server`: for clients; `client`: shown to origins; `authority`: what origins are checked with. */
  readonly use: 'server' | 'client' | 'authority';
  readonly certFile: string;
  readonly keyFile: string | undefined;
  /** Why the server could not use the files; undefined where it can. */
  readonly fault: string | undefined;
  readonly certificates: readonly CertificateFact[];
  /** Whether one of the authorities that Node brings has signed the last certificate of the file. */
  readonly isIssuerKnown: boolean;
  /** Permissions of the file of the key. */
  readonly keyMode: number | undefined;
}

const dayMs = 86_400_000;
/** Certificates are usually renewed a month before they expire; with a week left, that has failed. */
const renewedDays = 30;
const urgentDays = 7;

/** Returns the findings about certificates. `now` is in epoch milliseconds. */
export function judgeCertificates(
  facts: readonly CertificateFacts[],
  config: Pick<Config, 'listen' | 'routes'>,
  now: number,
): readonly Diagnosis[] {
  return [...facts.flatMap((each) => judgeFile(each, now)), ...judgeNames(facts, config)];
}

function judgeFile(facts: CertificateFacts, now: number): Diagnosis[] {
  const { option, certFile, keyFile, fault, certificates, use } = facts;
  const where = `${option} (${certFile})`;
  const position = certificates.findIndex(({ isOfKey }) => isOfKey === true);
  if (position > 0) {
    const what = `the certificate of the key is number ${position + 1} in the file, and has to be the first`;
    return [found('problem', 'certificate', what, 'put it first, then the certificates that have signed it', where)];
  }
  if (fault !== undefined) return [found('problem', 'certificate', fault, adviceOnFault(fault, keyFile), where)];
  const findings = [
    ...judgeDates(facts, now, where),
    ...(use === 'server' ? [...judgeChain(facts, where), ...judgeSubject(facts, where)] : []),
    ...judgeKey(facts),
  ];
  return findings.some(({ level }) => level !== 'ok') ? findings : [fine('certificate', describe(facts, now), where)];
}

function adviceOnFault(fault: string, keyFile: string | undefined): string {
  if (/EACCES/.test(fault)) return 'give the user of the server the right to read it: chgrp, and chmod 640';
  if (/ENOENT/.test(fault)) return 'correct the path; it is relative to the configuration file';
  if (/encrypted/.test(fault)) return `openssl pkey -in ${keyFile} -out KEY decrypts it`;
  return 'give the PEM file of the certificate, with those that have signed it, and the PEM file of its key';
}

function describe({ certificates, use }: CertificateFacts, now: number): string {
  const [first] = certificates;
  const soonest = Math.min(...certificates.map(({ validTo }) => validTo));
  const until = `valid for ${days(soonest - now)}`;
  if (use === 'authority')
    return `${certificates.length} ${certificates.length === 1 ? 'authority' : 'authorities'}, ${until}`;
  const names = [...(first?.names ?? []), ...(first?.addresses ?? [])];
  const shown = names.length > 4 ? [...names.slice(0, 4), `${names.length - 4} more`] : names;
  return `for ${use === 'client' ? (first?.subject ?? '') : shown.join(', ')}, ${until}`;
}

function days(ms: number): string {
  const count = Math.floor(ms / dayMs);
  return `${count} ${count === 1 ? 'day' : 'days'}`;
}

function judgeDates({ certificates }: CertificateFacts, now: number, where: string): Diagnosis[] {
  return certificates.flatMap(({ validFrom, validTo, subject }, at) => {
    const which = at === 0 ? 'it' : `number ${at + 1} in the file (${subject})`;
    const renew = 'renew it; the files are read again when they change, without a restart';
    if (now > validTo) {
      const what = `${which} has expired ${days(now - validTo)} ago`;
      return [found('problem', 'certificate', what, renew, where)];
    }
    if (now < validFrom) {
      const what = `${which} is valid in ${days(validFrom - now + dayMs)} only`;
      return [found('problem', 'certificate', what, 'wait, use another one, or set the clock: timedatectl', where)];
    }
    const left = (validTo - now) / dayMs;
    if (left >= renewedDays) return [];
    const what = `${which} expires in ${days(validTo - now)}`;
    return [found(left < urgentDays ? 'warning' : 'note', 'certificate', what, renew, where)];
  });
}

function judgeChain({ certificates, isIssuerKnown }: CertificateFacts, where: string): Diagnosis[] {
  const wrong = certificates.findIndex(({ isSignedByNext }) => isSignedByNext === false);
  if (wrong !== -1) {
    const what = `number ${wrong + 2} in the file has not signed number ${wrong + 1} (${certificates[wrong]?.issuer} has)`;
    return [
      found(
        'warning',
        'certificate',
        what,
        'order the file: the certificate first, each behind the one that it has signed',
        where,
      ),
    ];
  }
  const last = certificates.at(-1);
  if (last === undefined || isIssuerKnown) return [];
  if (last.isSelfSigned) {
    const what = `${certificates.length === 1 ? 'it is signed by itself' : `${last.subject}, which has signed it, is not a public authority`}: clients that do not know it refuse it`;
    return [
      found(
        'note',
        'certificate',
        what,
        'fine for tests, and with clients that trust it; otherwise use a public authority',
        where,
      ),
    ];
  }
  const what = `the file lacks the certificate of ${last.issuer}, which has signed the last one: most clients refuse it`;
  return [
    found('warning', 'certificate', what, 'append it; certbot and others call the whole file fullchain.pem', where),
  ];
}

function judgeSubject({ certificates }: CertificateFacts, where: string): Diagnosis[] {
  const [first] = certificates;
  if (first === undefined || first.names.length + first.addresses.length > 0) return [];
  const what = 'it names no host (subjectAltName): clients refuse it';
  return [found('problem', 'certificate', what, 'have one made with the names that clients use', where)];
}

function judgeKey({ option, keyFile, keyMode }: CertificateFacts): Diagnosis[] {
  if (keyFile === undefined || keyMode === undefined || (keyMode & 0o007) === 0) return [];
  const what = `every user of this machine can ${(keyMode & 0o002) === 0 ? 'read' : 'change'} the key`;
  return [found('warning', 'certificate', what, `chmod o= ${keyFile}`, `${option} (${keyFile})`)];
}

/** Looks for hosts of routes that no certificate of a listener names. Clients that ask for them get the first certificate. */
function judgeNames(
  facts: readonly CertificateFacts[],
  { listen, routes }: Pick<Config, 'listen' | 'routes'>,
): Diagnosis[] {
  const served = facts.filter(({ use, fault }) => use === 'server' && fault === undefined);
  if (served.length === 0 || !listen.some(({ tls }) => tls !== undefined)) return [];
  const names = served.flatMap(({ certificates: [first] }) => first?.names ?? []);
  const choose = createNameChoice([{ names, value: true }]);
  return routes.flatMap(({ match }, index) =>
    (match?.hosts ?? [])
      .filter((host) => !(names.includes(host) || choose(host.replace(/^\*\./, 'x.')) === true))
      .filter((host) => !/^[\d.]+$|^\[/.test(host))
      .map((host) => {
        const what = `no certificate names ${host}: clients that ask for it over TLS get another one, and refuse it`;
        const advice = 'a certificate with this name, in listen[].tls.certificates';
        return found('warning', 'certificate', what, advice, `routes[${index}].match.hosts`);
      }),
  );
}
