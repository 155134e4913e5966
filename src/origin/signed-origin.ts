/**
 * Signs requests to an origin with AWS Signature Version 4, as S3 and the services with its interface require it. The signature is
 * made by `@smithy/signature-v4`; what is signed is decided here.
 */

import { createHash, createHmac } from 'node:crypto';
// Types only: the package is optional, and it is loaded where an origin is signed.
import type { SignatureV4 } from '@smithy/signature-v4';
import { type Fields, fieldLines } from '../http/fields.ts';
import { ProxyError } from '../http/proxy-error.ts';
import type { ConnectedOrigin, OriginRequest } from './origin.ts';

/** The key pair that signs. The session token belongs to a temporary one. */
export interface SigningCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

/** The options of a signer. */
export interface SignerOptions {
  readonly credentials: SigningCredentials;
  readonly region: string;
  readonly service: string;
  /** Returns whether the origin gets a query parameter of this name; all others are left out. */
  readonly isParameterSent: (name: string) => boolean;
  /** Epoch milliseconds: services refuse a signature whose time is more than 15 minutes off. */
  readonly now: () => number;
}

/** Returns a request as it has to be sent: with its signature, or without one where its method is not signed. */
export type Sign = (request: OriginRequest) => Promise<OriginRequest>;

/**
 * Only these methods are signed. Otherwise any client of a route could write to the bucket with the operator's key. Others are sent
 * without a signature, as any stranger could send them.
 */
const signedMethods: ReadonlySet<string> = new Set(['GET', 'HEAD']);

/** Fields of the signature itself. */
const ownFields: ReadonlySet<string> = new Set([
  'authorization',
  'x-amz-content-sha256',
  'x-amz-date',
  'x-amz-security-token',
]);

/** Fields that are signed if a request has them, besides Host and all `x-amz-*`: those that decide which bytes come. */
const signedFields: ReadonlySet<string> = new Set([
  'content-md5',
  'content-type',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-range',
  'if-unmodified-since',
  'range',
]);

const emptyHash = createHash('sha256').digest('hex');

/** The same text stands for content that is not part of the signature. */
const unsignedContent = 'UNSIGNED-PAYLOAD';

/**
 * Creates a signer. Rejects where the package that makes signatures is not installed.
 *
 * The signature covers the method, the path, the query, Host, the fields of `signedFields` and all `x-amz-*`. Other fields are sent
 * unsigned, because servers in between change them (Via, Accept-Encoding …). The target is sent in the form that is signed: services
 * decode it and encode it again before they compare, and some spellings would come out differently.
 */
export async function createSigner(options: SignerOptions): Promise<Sign> {
  const signer = await loadSigner(options);
  return (request) => signRequest(request, signer, options);
}

/**
 * Wraps an origin: every request is signed when it is sent, also when it is sent again. The signature is known to no outer part. A
 * request that waits for a connection is signed before, so after more than 15 minutes in the queue the service refuses it.
 */
export function createSignedOrigin(origin: ConnectedOrigin, sign: Sign): ConnectedOrigin {
  return {
    async fetch(request) {
      const signed = await sign(request).catch((thrown: unknown) => {
        request.body?.close();
        throw new ProxyError('internal', { cause: thrown, detail: 'the request could not be signed' });
      });
      return await origin.fetch(signed);
    },
    retire: () => origin.retire(),
    close: () => origin.close(),
    get use() {
      return origin.use;
    },
  };
}

async function loadSigner({ credentials, region, service }: SignerOptions): Promise<SignatureV4> {
  const { SignatureV4: Signer } = await import('@smithy/signature-v4').catch((cause: unknown) => {
    const message =
      'origin.signing needs the package @smithy/signature-v4, which is not installed: npm install @smithy/signature-v4';
    throw new Error(message, { cause });
  });
  return new Signer({
    credentials,
    region,
    service,
    sha256: Sha256,
    // S3 signs the path as it is sent, all other services sign it encoded once more.
    uriEscapePath: service !== 's3',
  });
}

async function signRequest(
  request: OriginRequest,
  signer: SignatureV4,
  { isParameterSent, now }: SignerOptions,
): Promise<OriginRequest> {
  const path = signedPath(request.target);
  const parameters = parseQuery(request.target).filter(([name]) => isParameterSent(name));
  const query = parameters.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&');
  const sent = { ...request, target: query === '' ? path : `${path}?${query}` };
  const fields = request.fields.filter(([name]) => !ownFields.has(name));
  if (!signedMethods.has(request.method)) return { ...sent, fields };

  const headers = headersToSign(fields);
  const hasContent = request.body !== undefined && request.bodySizeBytes !== 0;
  headers.set('x-amz-content-sha256', hasContent ? unsignedContent : emptyHash);
  const signed = await signer.sign(
    {
      method: request.method,
      protocol: '',
      hostname: headers.get('host') ?? '',
      path,
      query: Object.fromEntries(
        Map.groupBy(parameters, ([name]) => name)
          .entries()
          .map(valuesOf),
      ),
      headers: Object.fromEntries(headers),
    },
    { signingDate: new Date(now()) },
  );
  const unsigned = fields.filter(([name]) => !headers.has(name));
  return { ...sent, fields: [...Object.entries(signed.headers), ...unsigned] };
}

function valuesOf([name, parameters]: [string, readonly (readonly [string, string])[]]): [string, string[]] {
  return [name, parameters.map(([, value]) => value)];
}

/** Returns the fields that are signed, by name. Several lines of one name become one, because readers combine them differently. */
function headersToSign(fields: Fields): Map<string, string> {
  const headers = new Map<string, string>();
  for (const [name, value] of fields) {
    const isSigned = name === 'host' || signedFields.has(name) || name.startsWith('x-amz-');
    // Servers hash the bytes, the signer hashes text: they agree in ASCII.
    if (isSigned && isAscii(fieldLines(fields, name).join(''))) {
      const before = headers.get(name);
      headers.set(name, before === undefined ? value : `${before}, ${value}`);
    }
  }
  return headers;
}

function isAscii(text: string): boolean {
  return /^[\t\x20-\x7e]*$/.test(text);
}

/**
 * Returns the path of a target with every character encoded that is neither unreserved (RFC 3986 §2.3) nor `/`, in capital
 * hexadecimal digits. An encoded slash stays as it is: the path keeps its segments.
 */
function signedPath(target: string): string {
  const [path = ''] = target.split('?', 1);
  return path.replace(/%[0-9a-f]{2}|[^A-Za-z0-9/._~-]/gi, (text) => {
    if (text.length === 1) return encode(text);
    const sign = String.fromCharCode(Number.parseInt(text.slice(1), 16));
    return /[A-Za-z0-9._~-]/.test(sign) ? sign : text.toUpperCase();
  });
}

function parseQuery(target: string): (readonly [name: string, value: string])[] {
  const at = target.indexOf('?');
  return at < 0 ? [] : [...new URLSearchParams(target.slice(at + 1))];
}

/** Encodes all but unreserved characters (RFC 3986 §2.3). */
function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** SHA-256, with a key as HMAC: the hash that the signer uses. */
class Sha256 {
  readonly #hash: ReturnType<typeof createHash> | ReturnType<typeof createHmac>;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', bytesOf(secret));
  }

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.#hash.digest());
  }
}

function bytesOf(source: string | ArrayBuffer | ArrayBufferView): Uint8Array {
  if (typeof source === 'string') return Buffer.from(source);
  return ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
}
