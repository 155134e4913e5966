/** Makes text from outside fit for a log: secrets are left out, and nothing in it can forge a line or drive a terminal. */

const mark = '[redacted]';

/** Words in the name of a query parameter that mark its value as a secret. */
const secretWords: ReadonlySet<string> = new Set([
  'accesskey',
  'apikey',
  'assertion',
  'auth',
  'authkey',
  'authorization',
  'bearer',
  'credential',
  'credentials',
  'hdnea',
  'hdntl',
  'hdnts',
  'hash',
  'hmac',
  'invite',
  'jwt',
  'key',
  'magic',
  'nonce',
  'otp',
  'pass',
  'passphrase',
  'pin',
  'pw',
  'pwd',
  'reset',
  'samlart',
  'samlrequest',
  'samlresponse',
  'sas',
  'session',
  'sid',
  'sig',
  'ssid',
  'ticket',
  'tkn',
  'verifier',
]);

/** Names that mark a secret only as a whole, not as a word of a longer name. */
const secretNames: ReadonlySet<string> = new Set(['code', 'policy', 'refresh', 'state']);

/** Parts that mark a secret anywhere in a name, and the prefixes that signed URLs of object stores use. */
const secretPart = /token|secret|passw|signature|sess(?:ion)?id|^x-(?:amz|goog|ms)-/;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const unsafeCharacters = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

const parameterName = /[?&;]([^=?&;#\s]+)=/g;

/** What ends the authority of a URL (RFC 3986 §3.2). */
const authorityEnd = /[/?#\s]/g;

/** The longest text that is shown, in characters; it holds every URL that a listener takes. */
const maxCharacters = 16_384;

const knownNames = new Map<string, boolean>();
const knownNamesMax = 256;
/** Longer names are examined each time, so that clients cannot fill the memory with them. */
const knownNameCharacters = 64;

/**
 * Redacts a text for a log. `[redacted]` replaces user names and passwords in URLs, and the values of query parameters whose
 * names look secret. Control characters, line separators and marks of writing direction become `\x1b` or `\u2028`. What follows the
 * first 16,384 characters is left out, and the end says how much that is.
 */
export function redact(text: string): string {
  const clean = escapeUnsafe(withoutSecretParameters(withoutUserinfo(text)));
  if (clean.length <= maxCharacters) return clean;
  return `${clean.slice(0, maxCharacters)}… (${clean.length - maxCharacters} more characters)`;
}

/** Checks whether the name of a query parameter, still percent-encoded, looks like that of a secret. */
export function isSecretName(name: string): boolean {
  const decoded = decodeName(name);
  const lower = decoded.toLowerCase();
  if (secretNames.has(lower) || secretPart.test(lower)) return true;
  const words = decoded.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').toLowerCase();
  return words.split(/[^a-z\d]+/).some((word) => secretWords.has(word));
}

/** Decodes byte by byte, so that one malformed sequence does not hide the others. */
function decodeName(name: string): string {
  if (!name.includes('%')) return name;
  return name.replace(/%([0-9a-f]{2})/gi, (_triplet, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
}

/** Works in one pass, because a client chooses the text: each authority is searched once. */
function withoutUserinfo(text: string): string {
  if (!text.includes('@')) return text;
  let clean = '';
  let copiedTo = 0;
  for (let start = text.indexOf('://'); start !== -1; start = text.indexOf('://', start)) {
    start += 3;
    authorityEnd.lastIndex = start;
    const end = authorityEnd.exec(text)?.index ?? text.length;
    const at = text.slice(start, end).lastIndexOf('@');
    if (at === -1) continue;
    clean += text.slice(copiedTo, start) + mark;
    copiedTo = start + at;
  }
  return clean + text.slice(copiedTo);
}

/** Works in one pass, because a client chooses the text: each part between separators is examined once. */
function withoutSecretParameters(text: string): string {
  if (!hasSecretParameter(text)) return text;
  const [first = '', ...rest] = text.split(/([?&;#\s])/);
  let clean = first;
  let inSecret = false;
  for (let index = 0; index < rest.length; index += 2) {
    const separator = rest[index] ?? '';
    const part = rest[index + 1] ?? '';
    const equals = part.indexOf('=');
    // A `;` or `?` may belong to the value of the secret before it, unless a name follows.
    if (inSecret && equals === -1 && (separator === ';' || separator === '?')) continue;
    inSecret = equals > 0 && /[?&;]/.test(separator) && isKnownSecret(part.slice(0, equals));
    clean += separator + (inSecret ? part.slice(0, equals + 1) + mark : part);
  }
  return clean;
}

/** Checks whether a text has a query parameter whose name looks secret. */
export function hasSecretParameter(text: string): boolean {
  if (!text.includes('=')) return false;
  parameterName.lastIndex = 0;
  for (let match = parameterName.exec(text); match !== null; match = parameterName.exec(text)) {
    if (isKnownSecret(match[1] ?? '')) return true;
  }
  return false;
}

/** Memoises `isSecretName`: most requests use the same few names. */
function isKnownSecret(name: string): boolean {
  const known = knownNames.get(name);
  if (known !== undefined) return known;
  const isSecret = isSecretName(name);
  if (name.length > knownNameCharacters) return isSecret;
  // Clients choose names, so the map is bounded.
  if (knownNames.size >= knownNamesMax) knownNames.clear();
  knownNames.set(name, isSecret);
  return isSecret;
}

function escapeUnsafe(text: string): string {
  return text.replaceAll(unsafeCharacters, (character) => {
    const code = character.charCodeAt(0);
    return code < 256 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}
