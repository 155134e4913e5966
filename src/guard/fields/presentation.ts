/**
 * The fields that responses get on their way to the client: CORS (Fetch §3.3, "CORS protocol"), security fields in place of the
 * origin's, and the operator's rules.
 */

import {
  type Field,
  type Fields,
  fieldValue,
  hasField,
  listMembers,
  wireFieldName,
  withField,
  withoutFields,
} from '../../http/fields.ts';
import type { Body, ProxyRequest, ProxyResponse } from '../../http/message.ts';

/** What of a request decides how its response is presented. */
type PresentedRequest = Pick<ProxyRequest, 'method' | 'scheme' | 'fields'>;

/** The rules of one route. */
export interface Presentation {
  /** The answer to a preflight request (CORS), where this is one that is answered here. */
  answerPreflight(request: ProxyRequest): ProxyResponse | undefined;
  present(request: PresentedRequest, response: ProxyResponse): ProxyResponse;
  /** Whether a response to this web origin differs from one to a client that names none. */
  isSingledOut(origin: string): boolean;
  /** Whether a response keeps what it has of these fields, and is given none of them. */
  leaves(names: readonly string[]): boolean;
  /** The fields of an interim response: it is given nothing, and loses what a response loses. */
  presentInterim(fields: Fields): Fields;
}

/** Gives responses nothing. */
export const plainPresentation: Presentation = {
  answerPreflight: () => undefined,
  present: (_request, response) => response,
  isSingledOut: () => false,
  leaves: () => true,
  presentInterim: (fields) => fields,
};

/** What a presentation is made of; each part only where the operator wants it. */
export interface PresentationParts {
  readonly cors: Cors | undefined;
  readonly security: SecurityFields | undefined;
  readonly change: FieldChange | undefined;
}

/** Creates the rules of a route. The operator's rules for single fields come last, and so have the last word. */
export function createPresentation({ cors, security, change }: PresentationParts): Presentation {
  if (cors === undefined && security === undefined && change === undefined) return plainPresentation;
  return {
    answerPreflight: (request) => cors?.answerPreflight(request),
    present(request, response) {
      let { fields } = response;
      if (cors !== undefined) fields = cors.present(request, fields);
      if (security !== undefined) fields = security(request, fields);
      if (change === undefined) return { ...response, fields };
      return { ...response, fields: change.apply(fields), body: withoutTrailers(response.body, change) };
    },
    isSingledOut: (origin) => cors?.isSingledOut(origin) === true,
    leaves(names) {
      const fields = names.map((name): Field => [name, 'kept']);
      const changed = (change?.apply(fields) ?? fields).filter(([name]) => names.includes(name));
      return changed.length === names.length && changed.every(([, value]) => value === 'kept');
    },
    presentInterim(fields) {
      const own = cors === undefined ? fields : fields.filter(([name]) => !isCorsField(name));
      return change === undefined ? own : change.strip(own);
    },
  };
}

/** What is taken out of a head is not to come after its body either. */
function withoutTrailers(body: Body, change: FieldChange): Body {
  if (body.kind !== 'stream' || body.stream.trailers === undefined) return body;
  const { stream } = body;
  const { take } = stream;
  const stripped = {
    take: take && (() => take.call(stream)),
    [Symbol.asyncIterator]: () => stream[Symbol.asyncIterator](),
    trailers: () => change.strip(stream.trailers?.() ?? []),
    close: () => stream.close(),
  };
  return { ...body, stream: stripped };
}

/** What the operator decided. Field names are in lower case. */
export interface CorsPolicy {
  /** Web origins as browsers write them in Origin, or `*` for all. */
  readonly origins: readonly string[];
  readonly credentials: boolean;
  readonly methods: readonly string[];
  /** Besides those that pages may always set. */
  readonly requestFields: readonly string[];
  /** Besides those that pages may always read. */
  readonly exposeFields: readonly string[];
  readonly maxAgeSeconds: number;
}

/** The requests and responses of a route under such a policy. */
interface Cors {
  /** The answer to a preflight request; undefined for every other request. */
  answerPreflight(request: Pick<ProxyRequest, 'method' | 'fields'>): ProxyResponse | undefined;
  /** What a response says of CORS, in place of what the origin says of it. */
  present(request: Pick<ProxyRequest, 'method' | 'fields'>, fields: Fields): Fields;
  /** Whether a response to this web origin differs from one to a client that names none. */
  isSingledOut(origin: string): boolean;
}

/**
 * What pages may always set: what range requests, their conditions and content negotiation need. Browsers let some of these
 * pass without asking, but only with some values (Fetch §2.2.2): a Range of one range that begins somewhere, for example.
 */
const plainRequestFields = [
  'accept',
  'accept-language',
  'content-language',
  'range',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
];

/**
 * What pages may always read, besides what Fetch exposes anyway (Cache-Control, Content-Language, Content-Length, Content-Type,
 * Expires, Last-Modified, Pragma): without Content-Range a page does not know what it has got.
 */
const plainResponseFields = ['accept-ranges', 'age', 'content-encoding', 'content-length', 'content-range', 'etag'];

/** Whether a request is answered as a preflight request is told by its method and these two fields. */
const preflightVary = 'Origin, Access-Control-Request-Method';

/**
 * Creates the rules. Preflight requests are answered here, because they carry no credentials and old origins know nothing of
 * them; a page that is not allowed is told nothing, and so the browser refuses it. Nobody is let into private networks
 * (Access-Control-Allow-Private-Network): pages of the internet have no business there. What goes to some origins only varies
 * by Origin, also where the request has none: a cache on the way must not give one answer to all (Fetch §3.3.5).
 */
export function createCors(policy: CorsPolicy): Cors {
  const allowed = new Set(policy.origins);
  const credentials: Fields = policy.credentials ? [['access-control-allow-credentials', 'true']] : [];
  const granted: Fields = [
    ...credentials,
    ['access-control-allow-methods', policy.methods.join(', ')],
    ['access-control-allow-headers', fieldList(plainRequestFields, policy.requestFields)],
    ['access-control-max-age', String(policy.maxAgeSeconds)],
  ];
  const exposed: Fields = [
    ...credentials,
    ['access-control-expose-headers', fieldList(plainResponseFields, policy.exposeFields)],
  ];
  const grant = (request: Pick<ProxyRequest, 'fields'>): Fields | undefined => {
    if (allowed.has('*')) return [['access-control-allow-origin', '*']];
    const origin = fieldValue(request.fields, 'origin');
    return origin !== undefined && allowed.has(origin) ? [['access-control-allow-origin', origin]] : undefined;
  };
  return {
    answerPreflight(request) {
      if (!isPreflight(request)) return undefined;
      const origin = grant(request);
      const fields: Fields = [['vary', preflightVary], ...(origin === undefined ? [] : [...origin, ...granted])];
      return { status: 204, fields, body: { kind: 'none' } };
    },
    present(request, fields) {
      if (isPreflight(request)) return fields;
      const own = fields.filter(([name]) => !isCorsField(name));
      const origin = grant(request);
      const varied = allowed.has('*') ? own : withVary(own, 'Origin');
      return origin === undefined ? varied : [...varied, ...origin, ...exposed];
    },
    isSingledOut: (origin) => !allowed.has('*') && allowed.has(origin),
  };
}

/** Whether a response field is one of those by which CORS is spoken. */
function isCorsField(name: string): boolean {
  return name.startsWith('access-control-');
}

/** Fetch §3.3.2. */
function isPreflight({ method, fields }: Pick<ProxyRequest, 'method' | 'fields'>): boolean {
  return method === 'OPTIONS' && hasField(fields, 'origin') && hasField(fields, 'access-control-request-method');
}

/** A copy whose Vary nominates a field; `*`, which nominates all there is, stays what it is. */
function withVary(fields: Fields, name: string): Fields {
  const value = fieldValue(fields, 'vary');
  const members = listMembers(value);
  const isThere = members.some((member) => member === '*' || member.toLowerCase() === name.toLowerCase());
  return isThere ? fields : withField(fields, 'vary', [...members, name].join(', '));
}

function fieldList(always: readonly string[], more: readonly string[]): string {
  return [...new Set([...always, ...more])].map(wireFieldName).join(', ');
}

/** What the operator decided; a field that is not mentioned stays the origin's. */
export interface SecurityPolicy {
  readonly strictTransportSecurity?: string | undefined;
  readonly contentTypeOptions: boolean;
  readonly frameOptions?: string | undefined;
  readonly contentSecurityPolicy?: string | undefined;
  readonly referrerPolicy?: string | undefined;
}

/** Gives a response these fields. */
type SecurityFields = (request: Pick<ProxyRequest, 'scheme'>, fields: Fields) => Fields;

/**
 * Creates the rules; undefined where the operator wants nothing. Strict-Transport-Security is for clients that have asked over
 * TLS, be it of a trusted proxy before this one: others must not get it (RFC 6797 §7.2).
 */
export function createSecurityFields(policy: SecurityPolicy): SecurityFields | undefined {
  const { strictTransportSecurity } = policy;
  const always = [
    ...valued('x-content-type-options', policy.contentTypeOptions ? 'nosniff' : undefined),
    ...valued('x-frame-options', policy.frameOptions),
    ...valued('content-security-policy', policy.contentSecurityPolicy),
    ...valued('referrer-policy', policy.referrerPolicy),
  ];
  const overTls = [...always, ...valued('strict-transport-security', strictTransportSecurity)];
  if (overTls.length === 0) return undefined;
  const ours = new Set(overTls.map(([name]) => name));
  return ({ scheme }, fields) => [...withoutFields(fields, ours), ...(scheme === 'https' ? overTls : always)];
}

function valued(name: string, value: string | undefined): Field[] {
  return value === undefined ? [] : [[name, value]];
}

/** What the operator decided. Names are in lower case. */
export interface FieldRules {
  readonly remove: readonly string[];
  /** In place of those of the same names. */
  readonly set: Readonly<Record<string, string>>;
  /** Besides those of the same names. */
  readonly add: Readonly<Record<string, string>>;
}

/** Rules that are to be followed. */
interface FieldChange {
  /** A response with what is set and added, and without what is removed. */
  apply(fields: Fields): Fields;
  /** Without what is removed or set, for a message that is none of those to which fields are given. */
  strip(fields: Fields): Fields;
}

/** Creates the rules; undefined where there are none. */
export function createFieldChange({ remove, set, add }: FieldRules): FieldChange | undefined {
  const given: Fields = [...Object.entries(set), ...Object.entries(add)];
  const gone = new Set([...remove, ...Object.keys(set)]);
  if (gone.size === 0 && given.length === 0) return undefined;
  const strip = (fields: Fields): Fields => withoutFields(fields, gone);
  return { strip, apply: (fields) => [...strip(fields), ...given] };
}
