/** From the configuration to the rules for what an origin gets. */

import { hash, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import type { RouteConfig } from '../config/schema.ts';
import type { SecretSource } from '../config/values.ts';
import { withHyphens } from '../guard/claims.ts';
import type { Fields } from '../http/fields.ts';
import type { OriginFieldRules } from '../routing/route.ts';
import { readSecret, unusable } from './secrets.ts';

const derive = promisify<string, string, number, Buffer>(scrypt);

/** What a field may have for value (RFC 9110 §5.5), of what anybody could type. */
const fieldText = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

/** The field that names the page that asks; where its answer is given here (CORS), the origin has no use for it. */
const fieldsOfPages: ReadonlySet<string> = new Set(['origin']);
const none: ReadonlySet<string> = new Set();

/** Makes the rules of a route; undefined where it has none. Rejects when a secret cannot be read. */
export async function readOriginFieldRules({ fields, cors }: RouteConfig): Promise<OriginFieldRules | undefined> {
  const { remove, set, add, setSecret } = fields.toOrigin;
  const secrets = await Promise.all(
    Object.entries(setSecret).map(async ([name, source]) => [name, await readFieldValue(source)] as const),
  );
  const constant: Fields = [...Object.entries(set), ...secrets, ...Object.entries(add)];
  const removed = new Set([...remove, ...Object.keys(set), ...Object.keys(setSecret)].map(withHyphens));
  const isCorsOurs = cors !== undefined;
  if (constant.length === 0 && removed.size === 0 && !isCorsOurs) return undefined;
  const scope = await nameRules([[...removed].sort(), constant, isCorsOurs], secrets.length > 0);
  return { removed, removedFromShared: isCorsOurs ? fieldsOfPages : none, constant, scope };
}

async function readFieldValue(source: SecretSource): Promise<string> {
  const value = await readSecret(source);
  if (!fieldText.test(value)) throw unusable(source, 'is no value that a field can have: one line of visible ASCII');
  return value;
}

/**
 * A short name for rules. It is in keys, which are stored and logged: with a secret among the rules it takes so long to
 * compute that nobody finds a weak one by trying.
 */
async function nameRules(rules: unknown, hasSecret: boolean): Promise<string> {
  const text = JSON.stringify(rules);
  if (!hasSecret) return hash('sha256', text, 'hex').slice(0, 16);
  return (await derive(text, 'rangeway: fields to the origin', 8)).toString('hex');
}
