/** Pages of other origins: what they may ask for, and which responses they may read (CORS; Fetch §3.3, "CORS protocol"). */

import { wireFieldName } from '../http/field-name.ts';
import { type Fields, fieldValue, hasField, listMembers, withField } from '../http/fields.ts';
import type { ProxyRequest, ProxyResponse } from '../http/message.ts';

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
export interface Cors {
  /** The answer to a preflight request; undefined for every other request. */
  answerPreflight(request: Pick<ProxyRequest, 'method' | 'fields'>): ProxyResponse | undefined;
  /** What a response says of CORS, in place of what the origin says of it. */
  present(request: Pick<ProxyRequest, 'method' | 'fields'>, fields: Fields): Fields;
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
  };
}

/** Whether a response field is one of those by which CORS is spoken. */
export function isCorsField(name: string): boolean {
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
