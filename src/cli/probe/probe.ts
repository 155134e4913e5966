/** `rangeway probe`: asks an origin what it can do, and prints what it lacks and what Rangeway would do about that. */

import { checkConfig } from '../../config/load.ts';
import type { Problem } from '../../config/problems.ts';
import type { RouteConfig } from '../../config/schema.ts';
import type { Fields } from '../../http/fields.ts';
import { basePathOf, hostOfOrigin, type Origin } from '../../origin/origin.ts';
import { createRouteOrigins } from '../../setup/origin.ts';
import { type CliIo, exitCode, fail } from '../io.ts';
import { openStatusLine } from '../terminal/status-line.ts';
import { safeLine } from '../terminal/style.ts';
import { formatSections, printableJson, replaceTerminalControls, type Section } from '../text-sections.ts';
import { type Finding, findAll } from './findings.ts';
import { type Failure, type Observations, observeOrigin } from './questions.ts';

/** The flags of the command. */
export interface ProbeFlags {
  readonly header?: Fields | undefined;
  readonly insecure?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** The origin, and the target to ask it for. */
interface Place {
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
  const place = readPlace(origin, path);
  if (place === undefined) return fail(io, '[path]: expected a path that begins with "/"', exitCode.misused);
  const isEncrypted = place.originUrl.startsWith('https:');
  const insecureTls = isEncrypted && flags.insecure === true;
  const checked = routeFor({ url: place.originUrl, insecureTls });
  if (checked.kind === 'invalid') return fail(io, describeProblems(checked.problems), exitCode.misused);
  const route = checked.route;

  await using resources = new AsyncDisposableStack();
  const open = async (config: RouteConfig['origin']): Promise<Origin> => {
    const { origin: opened } = await createRouteOrigins(config, 'probe', () => undefined);
    return resources.adopt(opened, (each) => each.close());
  };
  const url = new URL(route.origin.url);
  using status = openStatusLine(io);
  const found = await observeOrigin({
    origin: await open(route.origin),
    http2Origin: isEncrypted ? await open({ ...route.origin, protocol: 'http2' }) : undefined,
    target: place.target,
    fields: fieldsFor(url, flags.header),
    now,
    signal: AbortSignal.timeout(ALL_MS),
    onAsk: (method, added) => status.show(`asking: ${describeQuestion(method, place.target, added)}`),
  });
  status[Symbol.dispose]();
  if ('kind' in found) return fail(io, describeFailure(url, found), exitCode.failed);
  const findings = findAll(found, route.cache, { isEncrypted, isVerified: !insecureTls });
  io.stdout.write(flags.json === true ? jsonText(place, found, findings) : formatFindings(place, findings));
  return found.whole.status === 200 ? exitCode.done : exitCode.failed;
}

/** Without `path`, `origin` names the resource to ask for. With it, `origin` is a base URL. Undefined where `path` is no path. */
function readPlace(origin: string, path: string | undefined): Place | undefined {
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

function describeFailure(url: URL, { code, detail }: Failure): string {
  const advice = code === 'origin_certificate_refused' ? '; --insecure probes it all the same' : '';
  return replaceTerminalControls(`${url.href} cannot be asked: ${detail}${advice}`);
}

function jsonText({ originUrl, target }: Place, { whole }: Observations, findings: readonly Finding[]): string {
  const value = { version: VERSION, origin: originUrl, target, status: whole.status, findings };
  return `${printableJson(value, 2)}\n`;
}

function formatFindings({ originUrl, target }: Place, findings: readonly Finding[]): string {
  const sections = findings.map(sectionOf);
  const lacks = findings.filter(({ isLack }) => isLack).map(({ topic }) => topicNames[topic]);
  const sum = lacks.length === 0 ? 'nothing is missing' : `missing: ${lacks.join(', ')}`;
  return replaceTerminalControls(
    `GET ${target} of ${originUrl}\n\n${formatSections(sections)}\n${formatSections([{ label: 'in short', lines: [sum] }])}`,
  );
}

function sectionOf({ topic, fact, remedy, options = [] }: Finding): Section {
  const hint = options.length === 0 ? '' : ` (${options.join(', ')})`;
  if (remedy === undefined) return { label: topicNames[topic], lines: [`${fact}${hint}`] };
  return { label: topicNames[topic], lines: [fact, `Rangeway ${remedy}${hint}`] };
}

const topicNames: Readonly<Record<Finding['topic'], string>> = {
  answer: 'answer',
  length: 'length',
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
