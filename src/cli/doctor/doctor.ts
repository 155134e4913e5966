/**
 * `rangeway doctor`: checks this machine and a configuration, and says what to change. Gathering facts and judging them are apart:
 * each area has a file with its facts and its findings, which is pure, and a file that gathers the facts.
 */

import type { Config } from '../../config/schema.ts';
import { enginePorts } from '../../setup/redis-engine.ts';
import { ownDirectory } from '../../setup/store.ts';
import { type CliIo, exitCode } from '../io.ts';
import { resolveConfig, type ServeFlags, withStoreDirectory } from '../serve-config.ts';
import { wantsColors } from '../terminal/abilities.ts';
import { type CertificateFacts, judgeCertificates } from './certificates.ts';
import { type Diagnosis, diagnosesJson, formatDiagnoses } from './diagnosis.ts';
import { type EngineFacts, judgeEngine } from './engine.ts';
import { gatherCertificates } from './gather-certificates.ts';
import { gatherEngine } from './gather-engine.ts';
import { gatherMachine } from './gather-machine.ts';
import { gatherOrigins } from './gather-origins.ts';
import { gatherListenRights, gatherPlaces } from './gather-places.ts';
import { gatherFiles } from './gather-secrets.ts';
import { gatherStore } from './gather-store.ts';
import { judgeMachine, type MachineFacts } from './machine.ts';
import { judgeOrigins, type OriginFacts } from './origins.ts';
import { judgePlaces, type ListenRights, type PlaceFacts } from './places.ts';
import { type FileFacts, judgeFiles } from './secrets.ts';
import { judgeStore, type StoreFacts } from './store.ts';

/** The flags of the command: those of `serve`, and its own. */
export interface DoctorFlags extends ServeFlags {
  readonly json?: boolean | undefined;
}

/** Everything that findings are made from. */
export interface Facts {
  readonly machine: MachineFacts;
  /** Undefined for a store in memory or in an engine without a local disk, and for a temporary directory. */
  readonly store: StoreFacts | undefined;
  /** Undefined for a store that is in no engine. */
  readonly engine?: EngineFacts | undefined;
  readonly rights: ListenRights;
  readonly places: readonly PlaceFacts[];
  readonly certificates: readonly CertificateFacts[];
  readonly files: FileFacts;
  /** Undefined where no origin was given. */
  readonly origins: readonly OriginFacts[] | undefined;
}

/** What facts are gathered about. */
export interface Examined {
  /** With the directory of its store. */
  readonly config: Config;
  /** The configuration file; undefined without one. */
  readonly file: string | undefined;
  readonly hasOrigins: boolean;
}

/** Gathers the facts. Never rejects. */
export type GatherFacts = (examined: Examined, io: CliIo) => Promise<Facts>;

/** Stands for the origin where none was given; it is not asked. */
const noOrigin = 'http://origin.invalid';

/** Examines a machine and a configuration; resolves with the exit code: 1 where there is a problem. */
export async function doctor(
  origin: string | undefined,
  flags: DoctorFlags,
  io: CliIo,
  gather: GatherFacts = gatherFacts,
): Promise<number> {
  const hasOrigins = origin !== undefined || flags.config !== undefined;
  const resolved = await resolveConfig(hasOrigins ? origin : noOrigin, flags);
  if (resolved.kind === 'refused') {
    for (const line of resolved.lines) io.stderr.write(`${line}\n`);
    return exitCode.misused;
  }
  const config = withStoreDirectory(resolved.config, io);
  const facts = await gather({ config, file: flags.config, hasOrigins }, io);
  const findings = judge(facts, config);
  const checked = describeChecked(origin, flags);
  io.stdout.write(
    flags.json === true
      ? diagnosesJson(checked, findings)
      : formatDiagnoses(checked, findings, wantsColors(io.stdout, io.env)),
  );
  return findings.some(({ level }) => level === 'problem') ? exitCode.failed : exitCode.done;
}

/** Returns all findings, from the machine outwards to the origins. */
export function judge(facts: Facts, config: Config): readonly Diagnosis[] {
  const { machine, store, engine, rights, places, certificates, files, origins } = facts;
  return [
    ...judgeMachine(machine, config),
    ...judgeStore(store, config),
    ...(engine === undefined ? [] : judgeEngine(engine)),
    ...judgePlaces(places, rights),
    ...judgeCertificates(certificates, config, machine.now),
    ...judgeFiles(files),
    ...judgeOrigins(origins),
  ];
}

const gatherFacts: GatherFacts = async ({ config, file, hasOrigins }, io) => {
  const { store } = config;
  const stored = ownDirectory(store);
  const marks = { dir: stored, enginePorts: store.type === 'redis' ? enginePorts(store) : [] };
  const [places, certificates, files, origins, storeFacts, engine] = await Promise.all([
    gatherPlaces(config, marks),
    gatherCertificates(config),
    gatherFiles(config, file),
    hasOrigins ? gatherOrigins(config, { now: Date.now, elapsed: io.now }) : undefined,
    stored === undefined ? undefined : gatherStore(stored, io.now),
    store.type === 'redis' ? gatherEngine(store, io.now) : undefined,
  ]);
  const machine = gatherMachine(io.env, Date.now);
  return { machine, store: storeFacts, engine, rights: gatherListenRights(), places, certificates, files, origins };
};

function describeChecked(origin: string | undefined, { config }: ServeFlags): string {
  if (config !== undefined && origin !== undefined) return `${config}, in front of ${origin}`;
  return (
    config ?? (origin === undefined ? 'this machine, with the default options' : `this machine, in front of ${origin}`)
  );
}
