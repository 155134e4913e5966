/**
 * Maps the references in fields between an origin and its clients, who use other names and paths for the same resources: responses
 * on their way back, before they are stored, and requests on their way to the origin. Pure.
 *
 * A reference of the origin to itself becomes one without scheme and authority (RFC 9110 §10.2.2, RFC 3986 §4.2). So it is right for
 * every client of a stored response, also behind a proxy whose name and scheme are not known here. Bytes that need no change stay.
 */

import { type Field, type Fields, fieldValue, withField } from '../http/fields.ts';

/** The names and paths by which an origin and its clients know the same resources. */
export interface ReferenceRules {
  /** The scheme of the origin. */
  readonly scheme: 'http' | 'https';
  /** The URI origins that the configuration gives it, such as `http://127.0.0.1:3000` (RFC 6454 §6.1). */
  readonly names: ReadonlySet<string>;
  /** The path before all paths at the origin, without a slash at its end: `/base`, or empty. */
  readonly basePath: string;
  /** The path before all paths of clients that the origin does not get, in the same form: `/app`, or empty. */
  readonly prefix: string;
}

/** The request at the origin whose response is mapped. */
export interface AskedOrigin {
  /** Origin-form. */
  readonly target: string;
  readonly fields: Fields;
}

/** Fields whose value is one reference. */
const referenceFields: ReadonlySet<string> = new Set(['location', 'content-location', 'sourcemap']);

/** Returns the fields of a response with the references that a client resolves rightly; the same object where none differs. */
export function clientReferences(fields: Fields, rules: ReferenceRules, asked: AskedOrigin): Fields {
  let isChanged = false;
  const mapped = fields.map((field): Field => {
    const value = mapField(field, (reference) => clientReference(reference, rules, asked));
    if (value === field[1]) return field;
    isChanged = true;
    return [field[0], value];
  });
  return isChanged ? mapped : fields;
}

function mapField([name, value]: Field, map: (reference: string) => string): string {
  if (referenceFields.has(name)) return map(value);
  // RFC 8288 §3: a reference in angle brackets begins each element.
  if (name === 'link') return value.replace(/((?:^|,)\s*<)([^<>]*)(?=>)/g, (_all, start, uri) => start + map(uri));
  if (name !== 'refresh') return value;
  // HTML, pragma directive "refresh": seconds, a separator, perhaps `url=`, perhaps quotes.
  const [all = '', start = '', quote = ''] = /^([\d.\s]*[;,]\s*(?:url\s*=\s*)?)(["']?)/i.exec(value) ?? [];
  if (start === '') return value;
  const rest = value.slice(all.length);
  const end = quote === '' ? -1 : rest.indexOf(quote);
  return end < 0 ? all + map(rest) : all + map(rest.slice(0, end)) + rest.slice(end);
}

/** An absolute or protocol-relative reference: scheme, authority without user information, the rest. */
const absolute = /^(?:(https?):)?\/\/([^/?#\\@\s]+)(?=[/?#]|$)(.*)$/is;

/**
 * Maps one reference of a response. A reference to another server stays, and so does one to a path at the origin that no client can
 * ask for. Where a prefix is stripped, a path that has it already stays: the application knows where clients see it.
 */
export function clientReference(reference: string, rules: ReferenceRules, asked: AskedOrigin): string {
  const [, scheme, authority, rest = ''] = absolute.exec(reference) ?? [];
  if (authority === undefined) {
    return /^\/(?![/\\])/.test(reference) ? (clientPath(reference, rules) ?? reference) : reference;
  }
  const path = rest.startsWith('/') ? rest : `/${rest}`;
  return isOwn(scheme?.toLowerCase() ?? rules.scheme, authority, path, rules, asked)
    ? (clientPath(path, rules) ?? reference)
    : reference;
}

function isOwn(scheme: string, authority: string, path: string, rules: ReferenceRules, asked: AskedOrigin): boolean {
  const named = URL.parse(`${scheme}://${authority}`);
  if (named === null) return false;
  const seen = fieldValue(asked.fields, 'host');
  const isNamed = (by: string) =>
    rules.names.has(`${by}://${named.host}`) ||
    (seen !== undefined && URL.parse(`${by}://${seen}`)?.host === named.host);
  if (scheme === rules.scheme) return isNamed(scheme);
  // An application that knows the scheme of its client may use it with the name that it sees. Where that only leads from http to
  // https, at the URI that was asked for, a client that uses https already would come here again without end.
  const isToItself = path.replace(/#.*$/s, '') === asked.target;
  return scheme === fieldValue(asked.fields, 'x-forwarded-proto') && !isToItself && isNamed(rules.scheme);
}

/** Undefined where the path is not below the base path of the origin. */
function clientPath(path: string, { basePath, prefix }: ReferenceRules): string | undefined {
  if (prefix !== '' && isBelow(path, prefix) && !isBelow(path, basePath + prefix)) return withoutAuthority(path);
  if (!isBelow(path, basePath)) return undefined;
  const below = path.slice(basePath.length);
  const rooted = below.startsWith('/') ? below : `/${below}`;
  return withoutAuthority(prefix === '' || isBelow(rooted, prefix) ? rooted : prefix + rooted);
}

/** Two slashes at the beginning would name another server (RFC 3986 §4.2), and browsers read a backslash as a slash. */
function withoutAuthority(path: string): string {
  return /^\/[/\\]/.test(path) ? `/.${path}` : path;
}

function isBelow(path: string, base: string): boolean {
  return base === '' || (path.startsWith(base) && /^(?:[/?#]|$)/.test(path.slice(base.length)));
}

/** A request of a client, and the name that the origin gets in its place. */
export interface MappedRequest {
  readonly scheme: 'http' | 'https';
  /** The normalised authority that the client used. */
  readonly authority: string;
  /** The Host that the origin sees. */
  readonly host: string;
  /** Whether this server has the name that the client used: then the name of the page that asks is replaced with it. */
  readonly isNameOfServer: boolean;
}

/**
 * Returns the fields of a request in which the origin finds the name that it sees in Host where the client has written exactly the
 * name that it used: Origin (RFC 6454 §7) and Referer (RFC 9110 §10.1.3) where this server has that name, as a page of any site may
 * be reached by a name that someone has made to point here; always Destination of COPY and MOVE, and the resources that the conditions
 * in If are about (RFC 4918 §10.3, §10.4). All others stay.
 */
export function originReferences(fields: Fields, request: MappedRequest, rules: ReferenceRules): Fields {
  const isReplaced = request.isNameOfServer && request.host !== request.authority;
  let mapped = fields;
  for (const [name, value] of fields) {
    const next = originField(name, value, isReplaced, (reference) => originReference(reference, name, request, rules));
    if (next !== value) mapped = withField(mapped, name, next);
  }
  return mapped;
}

function originField(name: string, value: string, isReplaced: boolean, map: (reference: string) => string): string {
  if (name === 'origin' || name === 'referer') return isReplaced ? map(value) : value;
  if (name === 'destination') return map(value);
  // RFC 4918 §10.4.2: a tag in angle brackets before its lists, which are in parentheses. Entity tags may contain either.
  return name === 'if'
    ? value.replace(ifParts, (all, uri?: string) => (uri === undefined ? all : `<${map(uri)}>`))
    : value;
}

/** A list of If with its tokens and entity tags, or the URI of a tag. A list needs no end: so no input is read twice. */
const ifParts = /\((?:"[^"]*"|[^)"])*\)?|<([^<>]*)>/g;

function originReference(value: string, name: string, request: MappedRequest, rules: ReferenceRules): string {
  if (/^\/(?![/\\])/.test(value)) return name === 'referer' ? value : originPath(value, rules);
  const [, scheme, authority = '', rest = ''] = absolute.exec(value) ?? [];
  if (scheme?.toLowerCase() !== request.scheme) return value;
  if (URL.parse(`${scheme}://${authority}`)?.host !== request.authority) return value;
  const start = `${rules.scheme}://${request.host}`;
  if (name === 'origin') return rest === '' ? start : value;
  return start + originPath(rest, rules);
}

/** Maps a path of a client, perhaps with a query; one that is not below the prefix stays. */
function originPath(path: string, { prefix, basePath }: ReferenceRules): string {
  if (!path.startsWith('/') || !isBelow(path, prefix)) return path;
  const below = path.slice(prefix.length);
  return basePath + (below.startsWith('/') ? below : `/${below}`);
}

/** Returns the fields of a request to the origin with another Host, also in fields that name the page that asks by the earlier one. */
export function withHost(fields: Fields, host: string): Fields {
  const earlier = fieldValue(fields, 'host');
  return fields.map((field): Field => {
    const [name, value] = field;
    if (name === 'host') return ['host', host];
    const next = originField(name, value, true, (reference) => {
      const [, scheme, authority, rest] = absolute.exec(reference) ?? [];
      return authority === earlier && scheme !== undefined ? `${scheme}://${host}${rest}` : reference;
    });
    return next === value ? field : [name, next];
  });
}
