/** Lists of names and secrets as text: one `name:secret` in a line. */

/** One line of a list. */
export interface NamedSecret {
  /** In Unicode's composed form (NFC). */
  readonly name: string;
  readonly secret: string;
  /** The number of its line, from 1. */
  readonly line: number;
}

/** A list, or why it is none, in words that have nothing of a secret in them. */
export type NamedSecretsReading =
  | { readonly kind: 'list'; readonly secrets: readonly NamedSecret[] }
  | { readonly kind: 'refused'; readonly reason: string };

/** What the secrets of a list have to be; `reason` follows "has a fault in line 3: " and holds no secret. */
export type SecretRule = (entry: NamedSecret) => string | undefined;

const maxNameLength = 255;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/;

/** Whether a text has characters that no name and no password may have (RFC 7617 §2). */
export function hasControlCharacter(text: string): boolean {
  return controlCharacter.test(text);
}

/**
 * Reads a list. Blank lines, and lines that begin with `#`, are nothing; a line ends with LF or CRLF. The first colon ends
 * the name. No two lines have the same name. White space around either is a mistake that could not be seen later, so it is
 * one now.
 */
export function parseNamedSecrets(text: string, rule: SecretRule): NamedSecretsReading {
  const secrets = new Map<string, NamedSecret>();
  for (const [index, content] of text.split(/\r?\n/).entries()) {
    const line = index + 1;
    if (/^\s*(?:#|$)/.test(content)) continue;
    const entry = parseLine(content, line);
    const reason = typeof entry === 'string' ? entry : faultAmong(entry, secrets, rule);
    if (typeof entry === 'string' || reason !== undefined)
      return { kind: 'refused', reason: `has a fault in line ${line}: ${reason}` };
    secrets.set(entry.name, entry);
  }
  if (secrets.size === 0) return { kind: 'refused', reason: 'has no line "name:secret"' };
  return { kind: 'list', secrets: [...secrets.values()] };
}

function parseLine(content: string, line: number): NamedSecret | string {
  const colon = content.indexOf(':');
  if (colon === -1) return 'there is no colon between a name and a secret';
  const name = content.slice(0, colon).normalize('NFC');
  const secret = content.slice(colon + 1);
  if (name === '') return 'there is no name before the colon';
  if (secret === '') return 'there is no secret after the colon';
  if (name !== name.trim() || secret !== secret.trim()) return 'there is white space around the name or the secret';
  if (hasControlCharacter(content)) return 'there is a control character in it';
  if (name.length > maxNameLength) return `the name has more than ${maxNameLength} characters`;
  return { name, secret, line };
}

function faultAmong(
  entry: NamedSecret,
  before: ReadonlyMap<string, NamedSecret>,
  rule: SecretRule,
): string | undefined {
  const same = before.get(entry.name);
  return same === undefined ? rule(entry) : `the name is that of line ${same.line}`;
}
