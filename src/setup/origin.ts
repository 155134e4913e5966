/** Creates the origins of a route from the configuration, and the rules for the fields that origins get. */

import { hash, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import type { RouteConfig } from '../config/schema.ts';
import type { SecretSource } from '../config/secret-source.ts';
import { withHyphens } from '../guard/fields/forwarding.ts';
import type { Fields } from '../http/fields.ts';
import { Health, type HealthRules } from '../origin/group/health.ts';
import {
  createOriginGroup,
  type GroupMember,
  type OriginGroup,
  type OriginGroupOptions,
} from '../origin/group/origin-group.ts';
import { createHttp2Origin } from '../origin/http2/http2-origin.ts';
import { createObservedOrigin } from '../origin/observed-origin.ts';
import { type ConnectedOrigin, hostOfOrigin, type Origin } from '../origin/origin.ts';
import { createSignedOrigin, createSigner, type Sign, type SigningCredentials } from '../origin/signed-origin.ts';
import { createUndiciOrigin, type OriginTls, type UndiciOriginOptions } from '../origin/undici-origin.ts';
import type { OriginFieldRules, Route } from '../routing/router.ts';
import type { Emit } from '../telemetry/events.ts';
import { openTracing } from '../telemetry/tracing.ts';
import { type Heir, noHeir } from './inheritance.ts';
import { version } from './package-files.ts';
import { readSecret, unusable } from './secrets.ts';
import {
  backgroundClock,
  clientShare,
  descriptorLimit,
  originDescriptors,
  randomFraction,
  secondsToMs,
  systemClock,
} from './system.ts';
import { readTlsFiles } from './tls-files.ts';

type OriginConfig = RouteConfig['origin'];

/** The parts of a route that concern its origins. */
type RouteOrigins = Pick<Route, 'originUrl' | 'holdOrigin' | 'listOrigins' | 'tls' | 'timeouts' | 'host'> & {
  readonly origin: OriginGroup;
};

/**
 * Creates the origins of a route. Takes over those of the previous configuration, with all that is known of them, where their options
 * are unchanged; and the health of a member where its URL and the health rules are. Rejects when a certificate or a key cannot
 * be read, or is invalid.
 */
export async function createRouteOrigins(
  config: OriginConfig,
  routeName: string,
  emit: Emit,
  heir: Heir = noHeir,
): Promise<RouteOrigins> {
  const tls = await readTlsFiles(config);
  const credentials = await readSigningCredentials(config.signing);
  const signing = credentials === undefined ? undefined : await createSigning(config, credentials);
  const urls = [config.url, ...config.alternatives].map((url) => new URL(url));
  const rules: HealthRules = {
    failures: config.health.failures,
    restMs: secondsToMs(config.health.restSeconds),
    passes: config.health.check?.passes,
  };
  const onHealth = (url: URL, isWell: boolean, detail: string) =>
    emit({ kind: 'origin', route: routeName, message: describeHealth(url, isWell), detail });
  const healths = urls.map((url) =>
    heir.take('health', [routeName, url, rules], () => {
      return new Health(rules, backgroundClock.now, (isWell, reason) => onHealth(url, isWell, reason));
    }),
  );
  const observe = createObserver(routeName, emit);
  const origin = heir.take('origins', [routeName, config, tls, credentials], () =>
    createOriginGroup({
      members: urls.map((url, index) => {
        const reports = { observe, onWait: createShortageReport(url, routeName, emit) };
        return createMember(url, config, { tls, signing }, healths[index] as Health, reports);
      }),
      choice: config.choice,
      retries: config.retries,
      health: rules,
      check: checkOf(config),
      clock: backgroundClock,
      random: randomFraction,
      onHealth,
    }),
  );
  return {
    originUrl: urls[0] as URL,
    origin,
    holdOrigin: urls.length > 1 ? (owner) => origin.hold(owner) : undefined,
    listOrigins: () => origin.listMembers(),
    tls,
    timeouts: {
      connectMs: wholeMs(config.connectTimeoutSeconds),
      answerMs: wholeMs(config.headersTimeoutSeconds),
    },
    host: config.host === 'origin' || config.host === 'keep' ? config.host : { name: config.host },
  };
}

function describeHealth(url: URL, isWell: boolean): string {
  return isWell ? `the origin ${url.href} is well again` : `the origin ${url.href} is not asked for a while`;
}

/** Wraps an origin, so that its exchanges are reported. */
type Observe = (origin: Origin, url: URL) => Origin;

function createObserver(route: string, emit: Emit): Observe {
  const { now } = backgroundClock;
  const tracer = openTracing(version);
  return (origin, url) => createObservedOrigin(origin, { route, url, emit, now, tracer });
}

/** How an origin is verified, and how requests to it are signed. */
interface Trust {
  readonly tls: OriginTls;
  readonly signing: Signing | undefined;
}

/** Signs requests of clients, and those of health checks, whose query is the operator's. */
interface Signing {
  readonly sign: Sign;
  readonly signCheck: Sign;
}

async function createSigning({ signing }: OriginConfig, credentials: SigningCredentials): Promise<Signing | undefined> {
  if (signing === undefined) return undefined;
  const { region, service, parameters } = signing;
  const options = { credentials, region, service, now: systemClock.now };
  return {
    sign: await createSigner({ ...options, isParameterSent: (name) => parameters.includes(name) }),
    signCheck: await createSigner({ ...options, isParameterSent: () => true }),
  };
}

/** What is reported of an origin. */
interface OriginReports {
  readonly observe: Observe;
  readonly onWait: UndiciOriginOptions['onWait'];
}

function createMember(
  url: URL,
  config: OriginConfig,
  trust: Trust,
  health: Health,
  { observe, onWait }: OriginReports,
): GroupMember {
  const isMany = config.alternatives.length > 0;
  const isChecked = config.health.check !== undefined && isMany;
  const { tls, signing } = trust;
  const origin = signed(createOrigin(url, config, tls, onWait), signing?.sign);
  const checkOrigin = isChecked
    ? signed(createOrigin(url, { ...config, connections: 1 }, tls), signing?.signCheck)
    : undefined;
  return {
    url,
    origin: observe(origin, url),
    checkOrigin,
    host: config.host === 'origin' && isMany ? hostOfOrigin(url) : undefined,
    health,
    readUse: () => origin.use,
    retire() {
      origin.retire();
      checkOrigin?.retire();
    },
  };
}

function signed(origin: ConnectedOrigin, sign: Sign | undefined): ConnectedOrigin {
  return sign === undefined ? origin : createSignedOrigin(origin, sign);
}

function createOrigin(
  url: URL,
  config: OriginConfig,
  tls: OriginTls,
  onWait?: UndiciOriginOptions['onWait'],
): ConnectedOrigin {
  const most = originDescriptors(descriptorLimit());
  const connections = Math.min(config.connections ?? most, most);
  const options: UndiciOriginOptions = {
    url: url.href,
    connectTimeoutMs: wholeMs(config.connectTimeoutSeconds),
    headersTimeoutMs: wholeMs(config.headersTimeoutSeconds),
    bodyTimeoutMs: wholeMs(config.bodyTimeoutSeconds),
    connections,
    connectionsPerClient: config.connectionsPerClient ?? clientShare(connections),
    maySharesBeExceeded: config.connectionsPerClient === undefined,
    unansweredRequests: config.unansweredRequests,
    patience: { waitMs: wholeMs(config.waitSeconds), clock: backgroundClock },
    onWait,
    keepAliveTimeoutMs: wholeMs(config.keepAliveTimeoutSeconds),
    requiresCloseNotify: config.closeDelimited === 'store',
    tls,
  };
  return config.protocol === 'http2' && url.protocol === 'https:'
    ? createHttp2Origin({ ...options, clock: backgroundClock })
    : createUndiciOrigin(options);
}

/** How often the log says that requests wait for the same origin, in milliseconds. */
const shortageEveryMs = 60_000;

/** Returns a function that reports, once a minute, which limit makes requests wait for an origin, and what holds the places. */
function createShortageReport(url: URL, route: string, emit: Emit): UndiciOriginOptions['onWait'] {
  let nextAt = Number.NEGATIVE_INFINITY;
  return ({ limit, most, use }) => {
    const now = backgroundClock.now();
    if (now < nextAt) return;
    nextAt = now + shortageEveryMs;
    const { streams, fills, unanswered, waiting } = use();
    const message = `requests wait for the origin ${url.href}: origin.${limit} (${most}) is reached`;
    const detail = `in use: ${streams} by streams, ${fills} by fills, ${unanswered} by unanswered requests; waiting: ${waiting}`;
    emit({ kind: 'origin', route, message, detail });
  };
}

/** Returns whole milliseconds, as undici requires them. */
function wholeMs(count: number): number {
  return Math.round(secondsToMs(count));
}

function checkOf({ health: { check }, host }: OriginConfig): OriginGroupOptions['check'] {
  if (check === undefined) return undefined;
  const { path, intervalSeconds, timeoutSeconds, passes } = check;
  const fieldsFor = (url: URL): Fields => [
    ['host', host === 'origin' || host === 'keep' ? hostOfOrigin(url) : host],
    ['user-agent', 'rangeway-health-check'],
    ['accept', '*/*'],
  ];
  return { path, intervalMs: secondsToMs(intervalSeconds), timeoutMs: secondsToMs(timeoutSeconds), passes, fieldsFor };
}

const derive = promisify<string, string, number, Buffer>(scrypt);

/** A field value (RFC 9110 §5.5) of visible ASCII, with spaces and tabs inside. */
const fieldText = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

/** `Origin` names the page that asks. Where CORS is answered here, the origin has no use for it. */
const fieldsOfPages: ReadonlySet<string> = new Set(['origin']);
const none: ReadonlySet<string> = new Set();

/** A name of a key: in a signature it ends at the first `/` or `,`. */
const keyName = {
  pattern: /^[\x21-\x2b\x2d\x2e\x30-\x7e]+$/,
  fault: 'is no name of a key: expected visible ASCII without spaces, commas and slashes',
};
const keyText = { pattern: /^[\x21-\x7e]+$/, fault: 'is no key: expected one line of visible ASCII without spaces' };

/** Reads the key that signs requests; undefined where nothing is signed. Rejects when one of its parts cannot be used. */
export async function readSigningCredentials(
  signing: OriginConfig['signing'],
): Promise<SigningCredentials | undefined> {
  if (signing === undefined) return undefined;
  const { sessionToken } = signing;
  return {
    accessKeyId: await readKeyPart(signing.accessKeyId, keyName),
    secretAccessKey: await readKeyPart(signing.secretAccessKey, keyText),
    ...(sessionToken === undefined ? {} : { sessionToken: await readKeyPart(sessionToken, keyText) }),
  };
}

async function readKeyPart(source: SecretSource, { pattern, fault }: typeof keyName): Promise<string> {
  const part = await readSecret(source);
  if (!pattern.test(part)) throw unusable(source, fault);
  return part;
}

/**
 * Where requests are signed, credentials of clients and all fields that are meant for the bucket are removed. A client could
 * otherwise charge costs to an account, or name a key of encryption.
 */
const removedWhenSigned = { names: ['authorization'], families: ['x-amz-', 'x-goog-'] } as const;

/** Creates the rules of a route; undefined where it has none. Rejects when a secret cannot be read. */
export async function readOriginFieldRules({
  fields,
  cors,
  origin,
}: RouteConfig): Promise<OriginFieldRules | undefined> {
  const { remove, set, add, setSecret } = fields.toOrigin;
  const secrets = await Promise.all(
    Object.entries(setSecret).map(async ([name, source]) => [name, await readFieldValue(source)] as const),
  );
  const constant: Fields = [...Object.entries(set), ...secrets, ...Object.entries(add)];
  const isSigned = origin.signing !== undefined;
  const removedNames = [...remove, ...Object.keys(set), ...Object.keys(setSecret)];
  const removed = new Set([...removedNames, ...(isSigned ? removedWhenSigned.names : [])].map(withHyphens));
  const removedFamilies = isSigned ? removedWhenSigned.families : undefined;
  const isCorsOurs = cors !== undefined;
  if (constant.length === 0 && removed.size === 0 && !isCorsOurs) return undefined;
  const named = [[...removed].sort(), constant, isCorsOurs, ...(isSigned ? [removedFamilies] : [])];
  const scope = await nameRules(named, secrets.length > 0);
  return { removed, removedFamilies, removedFromShared: isCorsOurs ? fieldsOfPages : none, constant, scope };
}

async function readFieldValue(source: SecretSource): Promise<string> {
  const value = await readSecret(source);
  if (!fieldText.test(value)) throw unusable(source, 'is no value that a field can have: one line of visible ASCII');
  return value;
}

/**
 * Returns a short name for rules. It is part of keys, which are stored and logged. With a secret among the rules it takes so long to
 * compute that a weak secret cannot be found by trying.
 */
async function nameRules(rules: unknown, hasSecret: boolean): Promise<string> {
  const text = JSON.stringify(rules);
  if (!hasSecret) return hash('sha256', text, 'hex').slice(0, 16);
  return (await derive(text, 'rangeway: fields to the origin', 8)).toString('hex');
}
