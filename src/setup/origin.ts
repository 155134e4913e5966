/** From the configuration to the origins of a route. */

import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { RouteConfig } from '../config/schema.ts';
import type { Fields } from '../http/fields.ts';
import { createHttp2Origin } from '../origin/http2-origin.ts';
import type { Origin } from '../origin/origin.ts';
import {
  createOriginGroup,
  type GroupMember,
  type OriginGroup,
  type OriginGroupOptions,
} from '../origin/origin-group.ts';
import { hostOfOrigin } from '../origin/place.ts';
import { createUndiciOrigin, type OriginTls } from '../origin/undici-origin.ts';
import type { Route } from '../routing/route.ts';
import type { Emit } from '../telemetry/events.ts';
import { backgroundClock, randomFraction, seconds } from './system.ts';

type OriginConfig = RouteConfig['origin'];

/** The parts of a route that are about its origins. */
export type RouteOrigins = Pick<Route, 'originUrl' | 'holdOrigin' | 'tls' | 'timeouts' | 'host'> & {
  readonly origin: OriginGroup;
};

/** Creates them. Rejects when a file of certificates or a key cannot be read, or is none. */
export async function createRouteOrigins(config: OriginConfig, routeName: string, emit: Emit): Promise<RouteOrigins> {
  const tls = await readOriginTls(config);
  const urls = [config.url, ...config.alternatives].map((url) => new URL(url));
  const isChecked = config.health.check !== undefined && urls.length > 1;
  const members = urls.map(
    (url): GroupMember => ({
      url,
      origin: createOrigin(url, config, tls),
      checkOrigin: isChecked ? createOrigin(url, { ...config, connections: 1 }, tls) : undefined,
      host: config.host === 'origin' && urls.length > 1 ? hostOfOrigin(url) : undefined,
    }),
  );
  const origin = createOriginGroup({
    members,
    choice: config.choice,
    retries: config.retries,
    health: { failures: config.health.failures, restMs: seconds(config.health.restSeconds) },
    check: checkOf(config),
    clock: backgroundClock,
    random: randomFraction,
    onHealth: (url, isWell, detail) => {
      const message = isWell
        ? `the origin ${url.href} is well again`
        : `the origin ${url.href} is not asked for a while`;
      emit({ kind: 'origin', route: routeName, message, detail });
    },
  });
  return {
    originUrl: urls[0] as URL,
    origin,
    holdOrigin: urls.length > 1 ? () => origin.hold() : undefined,
    tls,
    timeouts: {
      connectMs: wholeMs(config.connectTimeoutSeconds),
      answerMs: wholeMs(config.headersTimeoutSeconds),
    },
    host: config.host === 'origin' || config.host === 'keep' ? config.host : { name: config.host },
  };
}

function createOrigin(url: URL, config: OriginConfig, tls: OriginTls): Origin {
  const options = {
    url: url.href,
    connectTimeoutMs: wholeMs(config.connectTimeoutSeconds),
    headersTimeoutMs: wholeMs(config.headersTimeoutSeconds),
    bodyTimeoutMs: wholeMs(config.bodyTimeoutSeconds),
    connections: config.connections,
    keepAliveTimeoutMs: wholeMs(config.keepAliveTimeoutSeconds),
    tls,
  };
  return config.protocol === 'http2' && url.protocol === 'https:'
    ? createHttp2Origin({ ...options, clock: backgroundClock })
    : createUndiciOrigin(options);
}

/** Milliseconds as undici takes them. */
function wholeMs(count: number): number {
  return Math.round(seconds(count));
}

function checkOf({ health: { check }, host }: OriginConfig): OriginGroupOptions['check'] {
  if (check === undefined) return undefined;
  const { path, intervalSeconds, timeoutSeconds, passes } = check;
  const fieldsFor = (url: URL): Fields => [
    ['host', host === 'origin' || host === 'keep' ? hostOfOrigin(url) : host],
    ['user-agent', 'rangeway-health-check'],
    ['accept', '*/*'],
  ];
  return { path, intervalMs: seconds(intervalSeconds), timeoutMs: seconds(timeoutSeconds), passes, fieldsFor };
}

async function readOriginTls({ caFile, certFile, keyFile, insecureTls }: OriginConfig): Promise<Route['tls']> {
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
