/** Creates the gate of a route from the configuration: access, limits for each client, fields of responses, purges, and error pages. */

import { randomBytes } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { extname } from 'node:path';
import type { RouteConfig } from '../config/schema.ts';
import type { SecretSource } from '../config/secret-source.ts';
import { createErrorPages, type ErrorPage, type ErrorPages, noErrorPages } from '../delivery/problem.ts';
import { type Access, createAccess } from '../guard/access/access.ts';
import {
  apiKeyRule,
  bearerRule,
  createTokenTable,
  findSharedToken,
  type NamedSecret,
  parseNamedSecrets,
  type SecretRule,
  type TokenTable,
} from '../guard/access/authorization.ts';
import {
  type BasicCheck,
  createBasicCheck,
  createPasswordChecks,
  parsePasswordHash,
} from '../guard/access/passwords.ts';
import { createSignatureCheck, type SignatureCheck, signingKeyRule } from '../guard/access/signed-url.ts';
import { createPeerList } from '../guard/client.ts';
import {
  createCors,
  createFieldChange,
  createPresentation,
  createSecurityFields,
  type Presentation,
} from '../guard/fields/presentation.ts';
import { createGate, type Gate } from '../guard/gate.ts';
import { type Allowances, createAllowances } from '../guard/limits/allowances.ts';
import type { PurgeRules } from '../guard/purge.ts';
import type { Heir } from './inheritance.ts';
import { readSecret, unusable } from './secrets.ts';
import { clientShare, descriptorLimit, monotonicClock, originDescriptors, secondsToMs, systemClock } from './system.ts';

/** Creates a gate. Rejects when a secret or a file of it cannot be read. */
export async function createRouteGate(config: RouteConfig, heir: Heir): Promise<Gate> {
  return createGate({
    access: await createRouteAccess(config, heir),
    allowances: createRouteAllowances(config, heir),
    presentation: createRoutePresentation(config),
    purge: purgeRules(config),
    errorPages: await readErrorPages(config),
  });
}

function purgeRules({ purge: { peers, by } }: RouteConfig): PurgeRules | undefined {
  return peers.length === 0 ? undefined : { mayPurge: createPeerList(peers), kinds: new Set(by) };
}

/**
 * One for the process, because its thread pool is shared: two of Node's four threads (by default) stay free for files. A check that
 * waits keeps one request in memory, and is made within some seconds.
 */
const passwordChecks = createPasswordChecks({ concurrent: 2, total: 64, perClient: 16 });

const keyBytes = 32;

/** Creates the checks of a route. Rejects when a secret cannot be read, with an error that names its source and line. */
async function createRouteAccess({ access }: RouteConfig, heir: Heir): Promise<Access> {
  const { allow, deny, realm, basic, bearer, apiKey, signedUrls, forwardCredentials } = access;
  const isOpen = [basic, bearer, apiKey, signedUrls].every((source) => source === undefined);
  return createAccess({
    allow: allow === undefined ? undefined : createPeerList(allow),
    deny: deny.length === 0 ? undefined : createPeerList(deny),
    credentials: isOpen
      ? undefined
      : {
          realm,
          basic: basic && (await readBasic(basic, heir)),
          bearer: bearer && (await readTokens(bearer, bearerRule)),
          apiKey: apiKey && (await readTokens(apiKey, apiKeyRule)),
          signedUrls: signedUrls && (await readSigningKeys(signedUrls)),
          areForwarded: forwardCredentials,
        },
  });
}

/** Returns the options of the cache. Requests with fields that make a response personal bypass it (`personalFields`). */
export function cacheOptions({ access, cache }: Pick<RouteConfig, 'access' | 'cache'>): RouteConfig['cache'] {
  const { bypass } = cache;
  const personal = personalFields(access).filter((name) => !bypass.fields.includes(name));
  if (personal.length === 0) return cache;
  return { ...cache, bypass: { ...bypass, fields: [...bypass.fields, ...personal] } };
}

/**
 * An origin that gets the API key of a client may answer for this client alone. RFC 9111 §3.5 keeps such responses out of the store
 * for Authorization, but for no other field.
 */
function personalFields({ forwardCredentials, apiKey }: RouteConfig['access']): readonly string[] {
  return forwardCredentials && apiKey !== undefined ? ['x-api-key'] : [];
}

/** Where the hashes are those of the previous configuration, passwords that were right there need not be hashed again. */
async function readBasic(source: SecretSource, heir: Heir): Promise<BasicCheck> {
  const secrets = await readList(source, () => undefined);
  const hashes = new Map(
    secrets.map(({ name, secret, line }) => {
      const reading = parsePasswordHash(secret);
      if (reading.kind === 'refused') throw unusable(source, `has a fault in line ${line}: ${reading.reason}`);
      return [name, reading.hash];
    }),
  );
  const sameness = secrets.map(({ name, secret }) => [name, secret]);
  return heir.take('passwords', sameness, () =>
    createBasicCheck({ hashes, checks: passwordChecks, key: randomBytes(keyBytes) }),
  );
}

async function readTokens(source: SecretSource, rule: SecretRule): Promise<TokenTable> {
  const entries = await readList(source, rule);
  const shared = findSharedToken(entries);
  if (shared !== undefined)
    throw unusable(source, `has a fault in line ${shared.line}: the secret is that of line ${shared.before}`);
  return createTokenTable(entries, randomBytes(keyBytes));
}

async function readSigningKeys(source: SecretSource): Promise<SignatureCheck> {
  const secrets = new Map((await readList(source, signingKeyRule)).map(({ name, secret }) => [name, secret]));
  return createSignatureCheck(secrets, { now: systemClock.now, decoy: randomBytes(keyBytes).toString('hex') });
}

async function readList(source: SecretSource, rule: SecretRule): Promise<readonly NamedSecret[]> {
  const reading = parseNamedSecrets(await readSecret(source), rule);
  if (reading.kind === 'refused') throw unusable(source, reading.reason);
  return reading.secrets;
}

/** The most requests of one client at a time where the operator sets no number: each that waits takes 10 to 20 KB of memory. */
const waitingPerClient = 4096;

/** Creates the limits of a route. Takes over those of the previous configuration, and what clients have used, where they are equal. */
function createRouteAllowances({ limits }: RouteConfig, heir: Heir): Allowances {
  const { rate, amplification, bodyBytes, requestsPerClient = waitingPerClient, fills, fillsPerClient } = limits;
  const { tunnelsPerClient = clientShare(originDescriptors(descriptorLimit())) } = limits;
  const { factor, freeBytes, windowSeconds } = amplification;
  const rules = {
    bodyBytes,
    requestsPerClient,
    areHitsFree: limits.requestsPerClient === undefined,
    tunnelsPerClient,
    tunnelIdleTimeoutMs: secondsToMs(limits.tunnelIdleTimeoutSeconds),
    fills,
    fillsPerClient,
    rate: rate && { ...rate, burst: rate.burst ?? rate.requests },
    amplification: factor === 0 ? undefined : { factor, freeBytes, windowMs: secondsToMs(windowSeconds) },
  };
  return heir.take('allowances', limits, () => createAllowances(rules, monotonicClock));
}

/** Creates the rules of a route for the fields of responses. */
function createRoutePresentation({ cors, security, fields }: RouteConfig): Presentation {
  return createPresentation({
    cors: cors && createCors(cors),
    security: createSecurityFields(security),
    change: createFieldChange(fields.toClient),
  });
}

/** Pages are kept in memory, and sent to every client that causes an error. */
const maxPageBytes = 1024 * 1024;

/** Media types by file name extension: those that the option allows. */
const mediaTypes: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.htm': 'text/html',
  '.txt': 'text/plain',
  '.json': 'application/json',
  '.xml': 'application/xml',
  '.svg': 'image/svg+xml',
};

/** Reads the pages of a route. Rejects when one cannot be read, and when one is larger than 1 MiB. */
async function readErrorPages({ errorPages }: RouteConfig): Promise<ErrorPages> {
  const named = Object.entries(errorPages);
  if (named.length === 0) return noErrorPages;
  const pages = await Promise.all(
    named.map(async ([statuses, path]): Promise<[string, ErrorPage]> => [statuses, await readPage(path)]),
  );
  return createErrorPages(new Map(pages));
}

async function readPage(path: string): Promise<ErrorPage> {
  const bytes = await readWhole(path);
  const mediaType = mediaTypes[extname(path).toLowerCase()] ?? 'application/octet-stream';
  return { mediaType, contentType: mediaType.startsWith('text/') ? `${mediaType}; charset=utf-8` : mediaType, bytes };
}

async function readWhole(path: string): Promise<Uint8Array> {
  const { size } = await stat(path);
  if (size > maxPageBytes) throw new Error(`the error page ${path} is larger than 1 MiB: ${size} bytes`);
  try {
    return await readFile(path);
  } catch (error) {
    // Not every system error names the path: that of a directory does not.
    throw new Error(`the error page ${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}
