/**
 * Sets fields of responses on their way to the client: CORS (Fetch §3.3, "CORS protocol"), security fields in place of the
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
import { ObservedBody } from '../../http/observed-body.ts';

/** The parts of a request that decide how its response is presented. */
type PresentedRequest = Pick<ProxyRequest, 'method' | 'scheme' | 'fields'>;

/** The rules of one route. */
export interface Presentation {
  /** Returns the answer to a preflight request (CORS); undefined for a request that is not answered here. */
  answerPreflight(request: ProxyRequest): ProxyResponse | undefined;
  present(request: PresentedRequest, response: ProxyResponse): ProxyResponse;
  /** Checks whether a response to a request with this Origin differs from one to a request without Origin. */
  isSingledOut(origin: string): boolean;
  /** Checks whether a response keeps its lines of these fields, and gets no further ones. */
  leaves(names: readonly string[]): boolean;
  /** Returns the fields of an interim response, without CORS fields and without those that the operator's rules remove or set. */
  presentInterim(fields: Fields): Fields;
}

/** Changes no response. */
export const plainPresentation: Presentation = {
  answerPreflight: () => undefined,
  present: (_request, response) => response,
  isSingledOut: () => false,
  leaves: () => true,
  presentInterim: (fields) => fields,
};

/** The parts of a presentation; undefined where the operator does not want one. */
export interface PresentationParts {
  readonly cors: Cors | undefined;
  readonly security: SecurityFields | undefined;
  readonly change: FieldChange | undefined;
}

/** Creates the rules of a route. The operator's rules for single fields come last, so they override the others. */
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

/** A field that is removed from the head must not follow in the trailer section. */
function withoutTrailers(body: Body, change: FieldChange): Body {
  if (body.kind !== 'stream' || body.stream.trailers === undefined) return body;
  return { ...body, stream: ObservedBody.of(body.stream, { changeTrailers: change.strip }) };
}

/** The operator's CORS policy. Field names are in lower case. */
export interface CorsPolicy {
  /** Web origins as browsers write them in Origin, or `*` for all. */
  readonly origins: readonly string[];
  readonly credentials: boolean;
  readonly methods: readonly string[];
  /** In addition to those that pages may always set. */
  readonly requestFields: readonly string[];
  /** In addition to those that pages may always read. */
  readonly exposeFields: readonly string[];
  readonly maxAgeSeconds: number;
}

/** The CORS rules of a route. */
interface Cors {
  /** Returns the answer to a preflight request; undefined for every other request. */
  answerPreflight(request: Pick<ProxyRequest, 'method' | 'fields'>): ProxyResponse | undefined;
  /** Returns the fields of a response with our CORS fields in place of the origin's. */
  present(request: Pick<ProxyRequest, 'method' | 'fields'>, fields: Fields): Fields;
  /** Checks whether a response to a request with this Origin differs from one to a request without Origin. */
  isSingledOut(origin: string): boolean;
}

/**
 * Fields that pages may always set: those of range requests, preconditions and content negotiation. Browsers send some of them
 * without a preflight request, but only with some values (Fetch §2.2.2): for example a Range of one range that has a start.
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
 * Fields that pages may always read, besides those that Fetch exposes anyway (Cache-Control, Content-Language, Content-Length,
 * Content-Type, Expires, Last-Modified, Pragma). Without Content-Range a page does not know which bytes it has received.
 */
const plainResponseFields = ['accept-ranges', 'age', 'content-encoding', 'content-length', 'content-range', 'etag'];

/** A preflight request is recognised by its method and these two fields. */
const preflightVary = 'Origin, Access-Control-Request-Method';

/**
 * Creates the rules. Preflight requests are answered here, because they carry no credentials, and old origins do not support them.
 * A page that is not allowed gets no CORS fields, so the browser refuses it. Access-Control-Allow-Private-Network is never sent:
 * pages of the internet have no business in private networks. Where only some web origins are allowed, responses vary by Origin,
 * also where the request has none: a cache on the way must not give one response to all pages (Fetch §3.3.5).
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

/** Whether a response field is a CORS field. */
function isCorsField(name: string): boolean {
  return name.startsWith('access-control-');
}

/** Fetch §3.3.2. */
function isPreflight({ method, fields }: Pick<ProxyRequest, 'method' | 'fields'>): boolean {
  return method === 'OPTIONS' && hasField(fields, 'origin') && hasField(fields, 'access-control-request-method');
}

/** A copy whose Vary nominates a field; a Vary with `*`, which nominates all fields, does not change. */
function withVary(fields: Fields, name: string): Fields {
  const value = fieldValue(fields, 'vary');
  const members = listMembers(value);
  const isThere = members.some((member) => member === '*' || member.toLowerCase() === name.toLowerCase());
  return isThere ? fields : withField(fields, 'vary', [...members, name].join(', '));
}

function fieldList(always: readonly string[], more: readonly string[]): string {
  return [...new Set([...always, ...more])].map(wireFieldName).join(', ');
}

/** The operator's security fields; a field that is not set stays the origin's. */
export interface SecurityPolicy {
  readonly strictTransportSecurity?: string | undefined;
  readonly contentTypeOptions: boolean;
  readonly frameOptions?: string | undefined;
  readonly contentSecurityPolicy?: string | undefined;
  readonly referrerPolicy?: string | undefined;
}

/** Returns the fields of a response with the security fields in place of the origin's. */
type SecurityFields = (request: Pick<ProxyRequest, 'scheme'>, fields: Fields) => Fields;

/**
 * Creates the rules; undefined where the operator sets none. Strict-Transport-Security is for clients that use TLS, to this proxy or
 * to a trusted one before it: other clients must not get it (RFC 6797 §7.2).
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

/** The operator's rules for single fields. Names are in lower case. */
export interface FieldRules {
  readonly remove: readonly string[];
  /** In place of lines of the same name. */
  readonly set: Readonly<Record<string, string>>;
  /** In addition to lines of the same name. */
  readonly add: Readonly<Record<string, string>>;
}

/** The rules as functions. */
interface FieldChange {
  /** Returns the fields of a response, with those that are set or added, and without those that are removed. */
  apply(fields: Fields): Fields;
  /** Returns fields without those that are removed or set: for interim responses and trailer sections, which get no fields. */
  strip(fields: Fields): Fields;
}

/** Creates the rules; undefined where there are none. */
export function createFieldChange({ remove, set, add }: FieldRules): FieldChange | undefined {
  const added: Fields = [...Object.entries(set), ...Object.entries(add)];
  const removed = new Set([...remove, ...Object.keys(set)]);
  if (removed.size === 0 && added.length === 0) return undefined;
  const strip = (fields: Fields): Fields => withoutFields(fields, removed);
  return { strip, apply: (fields) => [...strip(fields), ...added] };
}
