/** Whether the secrets and other files of a configuration can be read, and who else can read them. */

import { type Diagnosis, fine, found } from './diagnosis.ts';

/** Facts of a secret of the configuration. */
export interface SecretFacts {
  /** The option that names it, such as `admin.token`. */
  readonly option: string;
  /** Where it is: `env:NAME` or `file:PATH`. */
  readonly source: string;
  /** Permissions of the file; undefined for a variable, and where there is no file. */
  readonly mode: number | undefined;
}

/** Why something that a start reads cannot be used. */
export interface ReadingFault {
  /** The option, or the route, that it belongs to. */
  readonly option: string;
  readonly reason: string;
}

/** Facts of all files of a configuration but certificates. */
export interface FileFacts {
  /** The configuration file and its permissions; undefined without one. */
  readonly config: { readonly path: string; readonly mode: number } | undefined;
  readonly secrets: readonly SecretFacts[];
  readonly faults: readonly ReadingFault[];
}

/** Returns the findings about the configuration file and the secrets. */
export function judgeFiles({ config, secrets, faults }: FileFacts): readonly Diagnosis[] {
  return [
    ...(config === undefined ? [] : [judgeConfigFile(config)]),
    ...faults.map(({ option, reason }) => found('problem', topicOf(reason), reason, adviceOnFault(reason), option)),
    ...secrets.filter(({ option }) => !faults.some((fault) => fault.option === option)).flatMap(judgeSecret),
  ];
}

function judgeConfigFile({ path, mode }: NonNullable<FileFacts['config']>): Diagnosis {
  if ((mode & 0o002) === 0) return fine('config', 'it is valid', path);
  const what = 'it is valid, but every user of this machine can change it, and so where requests go';
  return found('warning', 'config', what, `chmod o-w ${path}`, path);
}

/** A gate also reads error pages. */
function topicOf(reason: string): 'secret' | 'config' {
  return reason.startsWith('the secret ') ? 'secret' : 'config';
}

function adviceOnFault(reason: string): string {
  if (/is not set$/.test(reason))
    return 'set the variable where the server is started, such as in EnvironmentFile= of the unit';
  if (/EACCES/.test(reason)) return 'give the user of the server the right to read it: chgrp, and chmod 640';
  if (/ENOENT/.test(reason)) return 'create it; a relative path starts at the configuration file';
  if (/\b16\b/.test(reason)) return 'openssl rand -base64 32 makes a good one';
  return 'correct it; the documentation of the option says what it has to hold';
}

function judgeSecret({ option, source, mode }: SecretFacts): Diagnosis[] {
  if (mode === undefined || (mode & 0o006) === 0) return [fine('secret', `${source} can be used`, option)];
  const can = (mode & 0o002) === 0 ? 'read' : 'change';
  const what = `every user of this machine can ${can} ${source} (mode ${(mode & 0o777).toString(8).padStart(4, '0')})`;
  return [found('warning', 'secret', what, `chmod o= ${source.replace(/^file:/, '')}`, option)];
}
