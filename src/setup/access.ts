/** From the configuration to who may pass. */

import { randomBytes } from 'node:crypto';
import type { RouteConfig } from '../config/schema.ts';
import type { SecretSource } from '../config/values.ts';
import { type Access, createAccess } from '../guard/access.ts';
import { type BasicCheck, createBasicCheck } from '../guard/basic.ts';
import { type NamedSecret, parseNamedSecrets, type SecretRule } from '../guard/named-secrets.ts';
import { createPasswordChecks } from '../guard/password-checks.ts';
import { parsePasswordHash } from '../guard/password-hash.ts';
import { createPeerList } from '../guard/peers.ts';
import { createSignatureCheck, type SignatureCheck, signingKeyRule } from '../guard/signed-url.ts';
import { apiKeyRule, bearerRule, createTokenTable, findSharedToken, type TokenTable } from '../guard/tokens.ts';
import type { Heir } from './inheritance.ts';
import { readSecret, unusable } from './secrets.ts';
import { systemClock } from './system.ts';

/**
 * One for the process, as its pool of threads is: two of the four that Node has by default stay free for files. What waits
 * takes memory for a request each, and is checked within some seconds.
 */
const passwordChecks = createPasswordChecks({ concurrent: 2, total: 64, perClient: 16 });

const keyBytes = 32;

/** Creates the checks of a route. Rejects when a secret cannot be read, with an error that names its source and line. */
export async function createRouteAccess({ access }: RouteConfig, heir: Heir): Promise<Access> {
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

/** The options of the cache, with what follows from who gets the credentials: see `personalFields`. */
export function cacheBeside({ access, cache }: Pick<RouteConfig, 'access' | 'cache'>): RouteConfig['cache'] {
  const { bypass } = cache;
  const personal = personalFields(access).filter((name) => !bypass.fields.includes(name));
  if (personal.length === 0) return cache;
  return { ...cache, bypass: { ...bypass, fields: [...bypass.fields, ...personal] } };
}

/**
 * An origin that gets the key of a client may answer for this client alone. RFC 9111 §3.5 keeps such responses out of the
 * store for Authorization; nothing does for other fields.
 */
function personalFields({ forwardCredentials, apiKey }: RouteConfig['access']): readonly string[] {
  return forwardCredentials && apiKey !== undefined ? ['x-api-key'] : [];
}

/** Where the hashes are those of the route before, the passwords that were right there are remembered. */
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
