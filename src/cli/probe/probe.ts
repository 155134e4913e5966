/** `rangeway probe`: asks an origin what it can do, and prints what it lacks and what Rangeway would do about that. */

import { checkConfig } from '../../config/load.ts';
import type { Problem } from '../../config/problems.ts';
import type { RouteConfig } from '../../config/schema.ts';
import type { Fields } from '../../http/fields.ts';
import { basePathOf, hostOfOrigin, type Origin } from '../../origin/origin.ts';
import { createRouteOrigins } from '../../setup/origin.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { openStatusLine } from '../terminal/status-line.ts';
import { safeLine, shareBar, timeLeftText } from '../terminal/style.ts';
import { formatSections, printableJson, replaceTerminalControls, type Section } from '../text-sections.ts';
import { type Finding, findAll } from './findings.ts';
import { mostQuestions, type Observations, observeOrigin } from './questions.ts';

/** The flags of the command. */
export interface ProbeFlags {
  readonly header?: Fields | undefined;
  readonly insecure?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** The origin, and the target to ask it for. */
export interface ProbedPlace {
  /** As in a configuration. */
  readonly originUrl: string;
  /** Origin-form. */
  readonly target: string;
}

/** The version of the format that `--json` prints. */
const VERSION = 1;

/** How long one answer may take, and all answers together. */
const ANSWER_SECONDS = 15;
const ALL_MS = 60_000;

/** Probes an origin; resolves with the exit code. `now` returns epoch milliseconds. */
export async function probe(
  origin: string,
  path: string | undefined,
  flags: ProbeFlags,
  io: CliIo,
  now: () => number,
): Promise<number> {
  const place = readProbedPlace(origin, path);
  if (place === undefined) return fail(io, '[path]: expected a path that begins with "/"', exitCode.misused);
  const probed = await probePlace(place, flags, io, now);
  if (probed.kind === 'invalid') return fail(io, describeProblems(probed.problems), exitCode.misused);
  if (probed.kind === 'failed') {
    const advice = probed.isCertificateRefused ? '; --insecure probes it all the same' : '';
    return fail(io, `${probed.reason}${advice}`, exitCode.failed);
  }
  const { observations, findings } = probed;
  io.stdout.write(flags.json === true ? jsonText(place, observations, findings) : formatFindings(place, findings));
  return observations.whole.status === 200 ? exitCode.done : exitCode.failed;
}

/** What came of probing an origin. `reason` is for people. */
export type ProbeOutcome =
  | { readonly kind: 'probed'; readonly observations: Observations; readonly findings: readonly Finding[] }
  | { readonly kind: 'failed'; readonly reason: string; readonly isCertificateRefused: boolean }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] };

/** Asks an origin for a target, and says so on the status line; never rejects. `now` returns epoch milliseconds. */
export async function probePlace(
  place: ProbedPlace,
  { header, insecure }: Pick<ProbeFlags, 'header' | 'insecure'>,
  io: CliIo,
  now: () => number,
): Promise<ProbeOutcome> {
  const isEncrypted = place.originUrl.startsWith('https:');
  const insecureTls = isEncrypted && insecure === true;
  const checked = routeFor({ url: place.originUrl, insecureTls });
  if (checked.kind === 'invalid') return checked;
  const route = checked.route;

  await using resources = new AsyncDisposableStack();
  const open = async (config: RouteConfig['origin']): Promise<Origin> => {
    const { origin: opened } = await createRouteOrigins(config, 'probe', () => undefined);
    return resources.adopt(opened, (each) => each.close());
  };
  const url = new URL(route.origin.url);
  using status = openStatusLine(io);
  const startedAt = io.now();
  let answered = -1;
  const found = await observeOrigin({
    origin: await open(route.origin),
    http2Origin: isEncrypted ? await open({ ...route.origin, protocol: 'http2' }) : undefined,
    target: place.target,
    fields: fieldsFor(url, header),
    now,
    signal: AbortSignal.timeout(ALL_MS),
    onAsk(method, added) {
      answered += 1;
      const progress = formatQuestions(answered, mostQuestions(isEncrypted), (io.now() - startedAt) / 1000);
      status.show(`${progress}  asking: ${describeQuestion(method, place.target, added)}`);
    },
  });
  status[Symbol.dispose]();
  if ('kind' in found) {
    const reason = replaceTerminalControls(`${url.href} cannot be asked: ${found.detail}`);
    return { kind: 'failed', reason, isCertificateRefused: found.code === 'origin_certificate_refused' };
  }
  const findings = findAll(found, route.cache, { isEncrypted, isVerified: !insecureTls });
  return { kind: 'probed', observations: found, findings };
}

/** Formats findings as labelled lines; text from the origin is in them as it was sent. */
export function formatProbed(findings: readonly Finding[]): string {
  return formatSections(findings.map(sectionOf));
}

/** Without `path`, `origin` names the resource to ask for. With it, `origin` is a base URL. Undefined where `path` is no path. */
export function readProbedPlace(origin: string, path: string | undefined): ProbedPlace | undefined {
  if (path !== undefined && !/^\/[^\s#]*$/.test(path)) return undefined;
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:';
  // The check of the route reports what is no URL of an origin.
  if (url === undefined || !(isHttp || url.protocol === 'unix:')) return { originUrl: origin, target: path ?? '/' };
  if (isHttp && path === undefined && url.username === '' && url.password === '') {
    return { originUrl: url.origin, target: url.pathname + url.search };
  }
  const { pathname, search } = new URL(`http://origin${basePathOf(url)}${path ?? '/'}`);
  return { originUrl: origin, target: pathname + search };
}

type CheckedRoute =
  | { readonly kind: 'ok'; readonly route: RouteConfig }
  | { readonly kind: 'invalid'; readonly problems: readonly Problem[] };

/** Returns the route of this origin with default options, but without retries and with short timeouts. */
function routeFor({ url, insecureTls }: { readonly url: string; readonly insecureTls: boolean }): CheckedRoute {
  const origin = {
    url,
    ...(insecureTls ? { insecureTls } : {}),
    connectTimeoutSeconds: ANSWER_SECONDS,
    headersTimeoutSeconds: ANSWER_SECONDS,
    retries: { attempts: 0 },
  };
  const checked = checkConfig({ routes: [{ origin }] }, '.');
  if (checked.kind === 'invalid') return checked;
  const [route] = checked.config.routes;
  return route === undefined ? { kind: 'invalid', problems: [] } : { kind: 'ok', route };
}

function describeProblems(problems: readonly Problem[]): string {
  return problems.map(({ message }) => `<origin-url>: ${message}`).join('; ');
}

/** Formats how many of the requests are answered, and the time that the others take at the speed of these. */
function formatQuestions(answered: number, most: number, seconds: number): string {
  const left = answered === 0 ? '' : `, ${timeLeftText(((most - answered) * seconds) / answered)} left`;
  return `${shareBar(answered / most, 16)}  ${answered} of at most ${most}${left}`;
}

/** Formats a request for the line of progress. */
function describeQuestion(method: string, target: string, added: Fields): string {
  return safeLine([`${method} ${target}`, ...added.map(([name, value]) => `${name}: ${value}`)].join('  '));
}

function fieldsFor(url: URL, given: Fields = []): Fields {
  const own: Fields = [
    ['host', hostOfOrigin(url)],
    ['user-agent', 'rangeway-probe'],
    ['accept', '*/*'],
  ];
  const added = given.map(([name, value]) => [name.toLowerCase(), value] as const);
  return [...own.filter(([name]) => !added.some(([other]) => other === name)), ...added];
}

function jsonText({ originUrl, target }: ProbedPlace, { whole }: Observations, findings: readonly Finding[]): string {
  const value = { version: VERSION, origin: originUrl, target, status: whole.status, findings };
  return `${printableJson(value, 2)}\n`;
}

function formatFindings({ originUrl, target }: ProbedPlace, findings: readonly Finding[]): string {
  const lacks = findings.filter(({ isLack }) => isLack).map(({ topic }) => topicNames[topic]);
  const sum = lacks.length === 0 ? 'nothing is missing' : `missing: ${lacks.join(', ')}`;
  return replaceTerminalControls(
    `GET ${target} of ${originUrl}\n\n${formatProbed(findings)}\n${formatSections([{ label: 'in short', lines: [sum] }])}`,
  );
}

function sectionOf({ topic, fact, remedy, options = [] }: Finding): Section {
  const hint = options.length === 0 ? '' : ` (${options.join(', ')})`;
  if (remedy === undefined) return { label: topicNames[topic], lines: [`${fact}${hint}`] };
  return { label: topicNames[topic], lines: [fact, `Rangeway ${remedy}${hint}`] };
}

const topicNames: Readonly<Record<Finding['topic'], string>> = {
  answer: 'answer',
  header: 'header',
  login: 'login',
  length: 'length',
  head: 'HEAD',
  ranges: 'ranges',
  suffix: 'last bytes',
  'if-range': 'If-Range',
  validator: 'validator',
  validation: 'validation',
  freshness: 'freshness',
  storing: 'storing',
  vary: 'variants',
  sharing: 'sharing',
  cookies: 'cookies',
  digest: 'digest',
  tls: 'TLS',
  http2: 'HTTP/2',
};
