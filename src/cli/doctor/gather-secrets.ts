/** Reads the secrets and other files of a configuration as a start does, and their permissions. */

import { stat } from 'node:fs/promises';
import type { Config } from '../../config/schema.ts';
import type { SecretSource } from '../../config/secret-source.ts';
import { readAdminToken } from '../../setup/admin.ts';
import { readFleetSecrets } from '../../setup/engine-fleet.ts';
import { createRouteGate } from '../../setup/gate.ts';
import { noHeir } from '../../setup/inheritance.ts';
import { readOriginFieldRules, readSigningCredentials } from '../../setup/origin.ts';
import { readSecret } from '../../setup/secrets.ts';
import type { FileFacts, ReadingFault, SecretFacts } from './secrets.ts';

/** Reads the facts. `file` is the configuration file. Never rejects. */
export async function gatherFiles(config: Config, file: string | undefined): Promise<FileFacts> {
  const mode = file === undefined ? undefined : await modeOf(file);
  return {
    config: file === undefined || mode === undefined ? undefined : { path: file, mode },
    secrets: await Promise.all(listSecrets(config).map(secretFacts)),
    faults: withoutRepeated((await Promise.all(attempts(config))).flatMap((fault) => fault ?? [])),
  };
}

/** A secret that cannot be read is also a fault of its route. */
function withoutRepeated(faults: readonly ReadingFault[]): readonly ReadingFault[] {
  return faults.filter(({ option }, at) => faults.findIndex((other) => other.option === option) === at);
}

type NamedSource = readonly [option: string, source: SecretSource];

function listSecrets({ admin, fleet, routes }: Config): readonly NamedSource[] {
  const named = (option: string, source: SecretSource | undefined): NamedSource[] =>
    source === undefined ? [] : [[option, source]];
  return [
    ...named('admin.token', typeof admin === 'object' ? admin.token : undefined),
    ...(fleet?.secret ?? []).flatMap((source) => named('fleet.secret', source)),
    ...routes.flatMap(({ origin: { signing }, access, fields }, index) => [
      ...(['basic', 'bearer', 'apiKey', 'signedUrls'] as const).flatMap((name) =>
        named(`routes[${index}].access.${name}`, access[name]),
      ),
      ...Object.entries(fields.toOrigin.setSecret).flatMap(([name, source]) =>
        named(`routes[${index}].fields.toOrigin.setSecret.${name}`, source),
      ),
      ...(['accessKeyId', 'secretAccessKey', 'sessionToken'] as const).flatMap((name) =>
        named(`routes[${index}].origin.signing.${name}`, signing?.[name]),
      ),
    ]),
  ];
}

async function secretFacts([option, { kind, name }]: NamedSource): Promise<SecretFacts> {
  return { option, source: `${kind}:${name}`, mode: kind === 'file' ? await modeOf(name) : undefined };
}

/** Reads each secret, and then everything by the functions that a start calls. These stop at the first fault. */
function attempts(config: Config): Promise<ReadingFault | undefined>[] {
  const { admin, fleet, routes } = config;
  const token = typeof admin === 'object' ? admin.token : undefined;
  const sources = listSecrets(config);
  // A message names the source, and so the option.
  const optionOf = (reason: string, otherwise: string) =>
    sources.find(([, { kind, name }]) => reason.includes(`${kind}:${name} `))?.[0] ?? otherwise;
  const attempt = async (option: string, work: () => Promise<unknown>): Promise<ReadingFault | undefined> => {
    try {
      await work();
      return undefined;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return { option: optionOf(reason, option), reason };
    }
  };
  return [
    ...sources.map(([option, source]) => attempt(option, () => readSecret(source))),
    attempt('fleet.secret', () => readFleetSecrets(fleet?.secret)),
    ...(token === undefined ? [] : [attempt('admin.token', () => readAdminToken(token))]),
    ...routes.flatMap((route, index) => [
      attempt(`routes[${index}]`, () => createRouteGate(route, noHeir)),
      attempt(`routes[${index}].fields`, () => readOriginFieldRules(route)),
      attempt(`routes[${index}].origin.signing`, () => readSigningCredentials(route.origin.signing)),
    ]),
  ];
}

async function modeOf(path: string): Promise<number | undefined> {
  return (await stat(path).catch(() => undefined))?.mode;
}
