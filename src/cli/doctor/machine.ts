/** What the machine and the process offer, and whether that is enough for a configuration. */

import type { Config } from '../../config/schema.ts';
import { countWorkers } from '../../fleet-main.ts';
import { connectionRules } from '../../setup/listeners.ts';
import { originDescriptors } from '../../setup/system.ts';
import { optionSize, sizeText } from '../text-sections.ts';
import { type Diagnosis, fine, found } from './diagnosis.ts';

/** Facts of the machine and of this process. Undefined where the system does not state one. */
export interface MachineFacts {
  /** As `process.platform`. */
  readonly platform: string;
  /** The version of Node, without `v`. */
  readonly nodeVersion: string;
  /** The program that runs: Node, or the single executable. */
  readonly nodePath: string;
  /** Options that Node itself was started with, by NODE_OPTIONS and by its command line. */
  readonly nodeOptions: readonly string[];
  /** Whether Node is inside the single executable. */
  readonly isSingleExecutable: boolean;
  /** Epoch milliseconds. */
  readonly now: number;
  /** Processors that this process may use. */
  readonly cores: number;
  readonly memoryBytes: number;
  /** The limit of the control group. */
  readonly memoryLimitBytes: number | undefined;
  /** Memory that new processes can get now. */
  readonly availableBytes: number;
  /** Descriptors that a process may have. Node raises its own limit to the hard one. */
  readonly descriptors: number | undefined;
  /** The most connections that wait for a listener (net.core.somaxconn). */
  readonly backlog: number | undefined;
  readonly userId: number | undefined;
  /** Whether the self-check of sendfile passed. */
  readonly doesSendfileWork: boolean;
  /** Whether systemd runs this machine, and whether its program `systemd-notify` is there. */
  readonly systemd: 'absent' | 'present' | 'without-notify';
}

/** Returns the findings about the machine. */
export function judgeMachine(facts: MachineFacts, config: Config): readonly Diagnosis[] {
  return [
    judgeNode(facts),
    ...judgeNodeOptions(facts),
    ...judgeUser(facts),
    judgeCores(facts, config),
    judgeMemory(facts, config),
    ...judgeDescriptors(facts, config),
    ...judgeOriginConnections(facts, config),
    ...judgeBacklog(facts),
    judgeClock(facts),
    ...judgeSendfile(facts, config),
    ...judgeSystemd(facts),
  ];
}

/**
 * The lines of Node that Rangeway supports: the newest version when this version of Rangeway was made, and the day from which it gets
 * no more fixes.
 */
export const nodeLines: Readonly<Record<string, { readonly newest: string; readonly ends: string }>> = {
  24: { newest: '24.21.0', ends: '2028-04-30' },
  26: { newest: '26.10.0', ends: '2029-04-30' },
};

const bestLine = '26';

function judgeNode({ nodeVersion, nodePath, isSingleExecutable, now }: MachineFacts): Diagnosis {
  const [major = ''] = nodeVersion.split('.');
  const line = nodeLines[major];
  const install = isSingleExecutable
    ? 'install a newer version of this program, which brings its own Node'
    : `install Node ${bestLine} from https://nodejs.org`;
  const version = `Node ${nodeVersion}`;
  if (Number(major) < 24) return found('problem', 'node', `${version} is too old`, install, nodePath);
  if (line === undefined && Number(major) > Number(bestLine)) {
    return found('note', 'node', `${version} is newer than what this version was tested with`, undefined, nodePath);
  }
  if (line === undefined) return found('warning', 'node', `${version} gets no more fixes`, install, nodePath);
  if (now > Date.parse(line.ends)) {
    return found('warning', 'node', `${version} gets no more fixes since ${line.ends}`, install, nodePath);
  }
  if (compareVersions(nodeVersion, line.newest) < 0) {
    const what = `${version} is not the newest of its line: ${line.newest} is known`;
    const update = isSingleExecutable ? install : `install Node ${line.newest} or newer`;
    return found('note', 'node', what, `${update}: it has fixes, also of security`, nodePath);
  }
  if (major === bestLine) return fine('node', `${version}, supported until ${line.ends}`, nodePath);
  const what = `${version}, supported until ${line.ends}; sendfile and the release of memory after a burst need Node ${bestLine}`;
  return found('note', 'node', what, install, nodePath);
}

/** Options of Node that the service of packaging/systemd and the single executable have themselves. */
const harmlessOptions: ReadonlySet<string> = new Set(['--disable-sigusr1']);

function judgeNodeOptions({ nodeOptions }: MachineFacts): Diagnosis[] {
  const findings: Diagnosis[] = [];
  const where = 'NODE_OPTIONS';
  const debuggers = nodeOptions.filter((option) => option.startsWith('--inspect'));
  const others = nodeOptions.filter((option) => !(debuggers.includes(option) || harmlessOptions.has(option)));
  if (debuggers.length > 0) {
    const what = `${debuggers.join(' ')} opens the debugger of Node: every user who reaches it runs code in the server`;
    findings.push(found('problem', 'node', what, 'start the server without it', where));
  }
  if (others.length > 0) {
    const what = `Node is started with ${others.join(' ')}`;
    findings.push(found('note', 'node', what, 'the service has its own environment: compare it', where));
  }
  return findings;
}

function compareVersions(one: string, other: string): number {
  const parts = [one, other].map((version) => version.split('.').map((part) => Number.parseInt(part, 10)));
  for (const at of [0, 1, 2]) {
    const difference = (parts[0]?.[at] ?? 0) - (parts[1]?.[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function judgeUser({ userId }: MachineFacts): Diagnosis[] {
  if (userId !== 0) return [];
  const what = 'this ran as root, for which permissions count less than for the user of the server';
  return [
    found('note', 'user', what, 'run it as that user: sudo -u USER rangeway doctor …; Rangeway itself needs no root'),
  ];
}

function judgeCores({ cores }: MachineFacts, config: Config): Diagnosis {
  const workers = countWorkers(config);
  const have = `${cores} ${cores === 1 ? 'core' : 'cores'}`;
  const want = `${workers} ${workers === 1 ? 'process serves' : 'processes serve'}`;
  if (workers > cores) {
    const what = `${want}, on ${have}: they take turns, and share the memory tier into smaller parts`;
    return found('warning', 'cores', what, 'workers (--workers): "auto", which is one for each core', 'workers');
  }
  if (workers === 1 && cores >= 4 && config.store.type !== 'memory') {
    const what = `${want}, on ${have}: enough for thousands of requests a second, but it uses one core only`;
    return found('note', 'cores', what, 'for more: workers (--workers) "auto"', 'workers');
  }
  return fine('cores', `${want}, on ${have}`, 'workers');
}

/** What a process takes at its start, and what it may keep for some time after a burst: docs/operations.md, Sizes. */
const processBytes = 140e6;
const burstBytes = 200e6;
/** Blocks that are read ahead take up to a quarter of the memory tier in addition. */
const tierFactor = 1.25;

function judgeMemory({ memoryBytes, memoryLimitBytes, availableBytes }: MachineFacts, config: Config): Diagnosis {
  const { store } = config;
  const workers = countWorkers(config);
  // The supervisor of several workers is a process too.
  const processes = workers === 1 ? 1 : workers + 1;
  const [where, flag, kept] =
    store.type !== 'memory'
      ? (['store.memoryBytes', '--memory', store.memoryBytes * tierFactor] as const)
      : (['store.maxSizeBytes', '--max-size', store.maxSizeBytes] as const);
  const limit = Math.min(memoryBytes, memoryLimitBytes ?? Number.POSITIVE_INFINITY);
  const isGrouped = memoryLimitBytes !== undefined && memoryLimitBytes < memoryBytes;
  const limitText = `${isGrouped ? 'the control group allows' : 'this machine has'} ${sizeText(limit)}`;
  const need = processes * processBytes + kept;
  const most = need + workers * burstBytes;
  const needText = `${processes === 1 ? 'the process takes' : `${processes} processes take`} about ${sizeText(need)}, and up to ${sizeText(most)} after a burst`;
  const spare = limit - processes * processBytes - workers * burstBytes;
  const factor = store.type === 'memory' ? 1 : tierFactor;
  const advice =
    spare / factor >= 1e6
      ? `${where} (${flag}): ${optionSize(spare / factor)} or less`
      : workers > 1
        ? 'fewer workers (--workers), or more memory'
        : 'more memory: a Rangeway without any cache needs 350 MB';
  if (need > limit) return found('problem', 'memory', `${needText}; ${limitText}`, advice, where);
  if (most > limit) return found('warning', 'memory', `${needText}; ${limitText}`, advice, where);
  if (need > availableBytes) {
    const what = `${needText}; ${limitText}, of which ${sizeText(availableBytes)} are available now`;
    return found(
      'note',
      'memory',
      what,
      'fine if a Rangeway has them that ends before; otherwise stop something',
      where,
    );
  }
  return fine('memory', `${needText}; ${limitText}`, where);
}

/** Descriptors that a server needs to be of use: some for clients, and some for files and origins. */
const fewestDescriptors = 512;
/** Descriptors that a process keeps for other things than clients. */
const keptDescriptors = 1000;

function judgeDescriptors({ descriptors }: MachineFacts, config: Config): Diagnosis[] {
  if (descriptors === undefined) return [];
  const { connections } = config.limits;
  const workers = countWorkers(config);
  const wanted = connections === 0 ? 0 : Math.ceil(connections / workers);
  const clients = connectionRules(config, workers, descriptors).connections;
  const each = workers === 1 ? '' : ' of each worker';
  const has = `${descriptors} descriptors${each}`;
  const topic = 'descriptors';
  const where = 'limits.connections';
  if (descriptors < fewestDescriptors) {
    const advice = `LimitNOFILE=${suited(Math.max(wanted, 20_000))} in the unit of systemd, or ulimit -n before the start`;
    return [found('problem', topic, `${has} are too few: ${clients} clients at a time`, advice, where)];
  }
  if (wanted === 0) return [fine(topic, `${has}: ${clients} clients at a time`, where)];
  if (clients >= wanted) return [fine(topic, `${has}, for ${wanted} clients at a time and 1000 other uses`, where)];
  const what = `${has} are enough for ${clients} clients at a time; the connections beyond, up to the ${wanted} that are allowed, are closed at once`;
  const advice = `LimitNOFILE=${suited(wanted)} in the unit of systemd, or ulimit -n ${suited(wanted)}; or ${where}: ${clients * workers}`;
  return [found(clients * 2 < wanted ? 'warning' : 'note', topic, what, advice, where)];
}

/** So many streams at a time are not many: an office with some event streams in each browser has them. */
const fewestOriginConnections = 512;

/** Warns where event streams, long polls and downloads would soon keep other requests waiting for a connection to the origin. */
function judgeOriginConnections({ descriptors }: MachineFacts, { routes }: Config): Diagnosis[] {
  if (descriptors === undefined || descriptors < fewestDescriptors) return [];
  const allowed = originDescriptors(descriptors);
  return routes.flatMap(({ origin: { connections = allowed } }, index) => {
    const most = Math.min(connections, allowed);
    if (most >= fewestOriginConnections) return [];
    const what = `at most ${most} connections to the origin at a time: as many event streams, long polls and slow downloads keep all other requests waiting`;
    const isOurs = connections < allowed;
    const needed = suited(fewestOriginConnections * 8);
    const advice = isOurs
      ? `leave "connections" out; "unansweredRequests" and "limits.fills" protect a weak origin without counting streams`
      : `LimitNOFILE=${needed} in the unit of systemd, or ulimit -n ${needed}: an origin gets an eighth of the descriptors`;
    return [found('warning', 'connections', what, advice, `routes[${index}].origin.connections`)];
  });
}

/** Returns a limit that is enough for these clients: the next power of two. */
function suited(clients: number): number {
  return 2 ** Math.ceil(Math.log2(clients + keptDescriptors));
}

/** The backlog that Node asks for. */
const nodeBacklog = 511;

function judgeBacklog({ backlog }: MachineFacts): Diagnosis[] {
  if (backlog === undefined) return [];
  if (backlog >= nodeBacklog) return [fine('backlog', `up to ${nodeBacklog} connections wait for each listener`)];
  const what = `only ${backlog} connections wait for a listener (net.core.somaxconn); a burst of clients gets time-outs`;
  const advice = 'sysctl -w net.core.somaxconn=4096, and the same line in /etc/sysctl.d/rangeway.conf';
  return [found('warning', 'backlog', what, advice)];
}

/** No clock was before this time when this version was made. */
const madeAt = Date.parse('2026-11-01');

function judgeClock({ now }: MachineFacts): Diagnosis {
  const text = Number.isNaN(new Date(now).getTime()) ? String(now) : new Date(now).toISOString().slice(0, 19);
  if (now >= madeAt) return fine('clock', `${text} UTC`);
  const what = `${text} UTC cannot be: certificates are not valid yet, and lifetimes are wrong`;
  return found('problem', 'clock', what, 'timedatectl set-ntp true');
}

function judgeSendfile({ doesSendfileWork, platform, nodeVersion }: MachineFacts, { store }: Config): Diagnosis[] {
  if (store.type !== 'disk') return [];
  const where = 'store.sendfile';
  if (store.sendfile === 'off') return [fine('sendfile', 'off: the process sends bodies itself', where)];
  if (doesSendfileWork) return [fine('sendfile', 'the kernel sends larger bodies directly from the files', where)];
  const what =
    'the system cannot send bodies directly from the files here; the process sends them itself, at more cost';
  const needs = [...(platform === 'linux' ? [] : ['Linux']), ...(/^2[0-5]\./.test(nodeVersion) ? ['Node 26'] : [])];
  const advice = `it needs ${needs.length === 0 ? 'a Node with node:ffi, and the permission to use it' : needs.join(' and ')}`;
  return [found(store.sendfile === 'on' ? 'warning' : 'note', 'sendfile', what, advice, where)];
}

function judgeSystemd({ systemd, nodePath }: MachineFacts): Diagnosis[] {
  if (systemd === 'absent') return [];
  const findings: Diagnosis[] = [];
  if (systemd === 'without-notify') {
    const what = 'there is no program systemd-notify, by which a service says that it is ready';
    findings.push(
      found('warning', 'systemd', what, 'install it (apt-get install systemd), or Type=simple in the unit'),
    );
  }
  if (/^\/(?:home|root|run\/user)\//.test(nodePath)) {
    const what = 'the unit of packaging/systemd hides /home and /root, where this program is (ProtectHome=yes)';
    findings.push(found('note', 'systemd', what, 'for a service install it for all users, below /usr/local', nodePath));
  }
  return findings.length > 0 ? findings : [fine('systemd', 'it can run Rangeway as a service (packaging/systemd)')];
}
