/**
 * A private bucket: a server that verifies AWS Signature Version 4 by its specification, with node:crypto alone, and serves objects
 * as S3 does. It shares no code with the signer.
 */

import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { testCertificate } from '../values/tls-certificate.ts';

type Received = IncomingMessage | Http2ServerRequest;
type Reply = ServerResponse | Http2ServerResponse;

/** A key of the bucket. */
export interface BucketKey {
  readonly id: string;
  readonly secret: string;
  readonly token?: string;
}

/** A request that the bucket has got. */
export interface BucketRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly httpVersion: string;
  /** `ok`, or the code of S3 for what is wrong with the signature. */
  readonly verdict: string;
  /** The key and the signed fields that the signature names; empty without a signature. */
  readonly keyId: string;
  readonly signedFields: readonly string[];
}

/** The options of a bucket. */
export interface BucketOptions {
  /** Asked at each request. */
  readonly keys: () => readonly BucketKey[];
  readonly region: string;
  /** Bodies by path, decoded. */
  readonly objects: Readonly<Record<string, Uint8Array>>;
  /** TLS, with HTTP/2 and HTTP/1.1. */
  readonly isSecure?: boolean;
  /** Answers a request whose signature is right in another way, and returns true. */
  readonly intervene?: (request: BucketRequest, reply: ServerResponse) => boolean;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

/** A running bucket. Disposing closes it and its connections. */
export interface Bucket extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly requests: readonly BucketRequest[];
}

/** Opens a bucket on a free port, or on a given one. */
export async function openBucket(options: BucketOptions, port = 0): Promise<Bucket> {
  const requests: BucketRequest[] = [];
  const serve = async (received: Received, reply: Reply): Promise<void> => {
    const { method = '', url = '', headers, httpVersion } = received;
    const body = await buffer(received).catch(() => Buffer.of());
    const judged = judge(received, body, options);
    const request = { method, url, headers, httpVersion, ...judged };
    requests.push(request);
    // The two types of responses differ in their overloads only.
    const response = reply as ServerResponse;
    if (request.verdict !== 'ok') refuse(response, 403, request.verdict);
    else if (options.intervene?.(request, response) !== true) answer(request, response, options);
  };
  const listener = (received: Received, reply: Reply) => void serve(received, reply);
  const server =
    options.isSecure === true
      ? createSecureServer({ ...testCertificate, allowHTTP1: true }, listener)
      : createServer(listener);
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  const { port: opened } = server.address() as AddressInfo;
  return {
    url: `${options.isSecure === true ? 'https' : 'http'}://127.0.0.1:${opened}`,
    port: opened,
    requests,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

function refuse(response: ServerResponse, status: number, code: string): void {
  const body = `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code></Error>\n`;
  response.writeHead(status, { 'content-type': 'application/xml', 'content-length': body.length }).end(body);
}

type Judgement = Pick<BucketRequest, 'verdict' | 'keyId' | 'signedFields'>;

const authorizationPattern =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})$/;

/** https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */
function judge(received: Received, body: Uint8Array, { keys, region, now = Date.now }: BucketOptions): Judgement {
  const { method = '', url = '', headers } = received;
  const unsigned = { keyId: '', signedFields: [] };
  const authorization = headers.authorization ?? '';
  if (authorization === '') return { verdict: 'AccessDenied', ...unsigned };
  const match = authorizationPattern.exec(authorization);
  if (match === null) return { verdict: 'AuthorizationHeaderMalformed', ...unsigned };
  const [, keyId = '', day = '', signedRegion = '', service = '', names = '', signature = ''] = match;
  const signedFields = names.split(';');
  const judged = (verdict: string): Judgement => ({ verdict, keyId, signedFields });

  const fieldOf = (name: string): string => {
    const host = 'authority' in received && received.authority !== '' ? received.authority : headers.host;
    return String((name === 'host' ? host : headers[name]) ?? '');
  };
  const key = keys().find(({ id }) => id === keyId);
  if (key === undefined) return judged('InvalidAccessKeyId');
  if (fieldOf('x-amz-security-token') !== (key.token ?? '')) return judged('InvalidToken');
  if (signedRegion !== region || service !== 's3') return judged('AuthorizationHeaderMalformed');
  const time = fieldOf('x-amz-date');
  const at = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!time.startsWith(day) || !(Math.abs(at - now()) <= 15 * 60 * 1000)) return judged('RequestTimeTooSkewed');
  const mustBeSigned = ['host', ...Object.keys(headers).filter((name) => name.startsWith('x-amz-'))];
  if (!mustBeSigned.every((name) => signedFields.includes(name))) return judged('AccessDenied');
  const hash = fieldOf('x-amz-content-sha256');
  if (hash !== sha256(body)) return judged('XAmzContentSHA256Mismatch');

  const [path = '', ...query] = url.split('?');
  const canonical = [
    method,
    path
      .split('/')
      .map((segment) => encodeStrictly(decodeURIComponent(segment)))
      .join('/'),
    canonicalQuery(query.join('?')),
    ...signedFields.map((name) => `${name}:${fieldOf(name).trim().replace(/ +/g, ' ')}`),
    '',
    names,
    hash,
  ].join('\n');
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n');
  const signingKey = [day, region, 's3', 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${key.secret}`);
  return judged(hmac(signingKey, text).toString('hex') === signature ? 'ok' : 'SignatureDoesNotMatch');
}

function canonicalQuery(query: string): string {
  if (query === '') return '';
  const decode = (text: string) => decodeURIComponent(text.replaceAll('+', ' '));
  return query
    .split('&')
    .map((pair) => {
      const [name = '', ...value] = pair.split('=');
      return `${encodeStrictly(decode(name))}=${encodeStrictly(decode(value.join('=')))}`;
    })
    .toSorted()
    .join('&');
}

function encodeStrictly(text: string): string {
  return [...Buffer.from(text)]
    .map((byte) => {
      const sign = String.fromCharCode(byte);
      return /[A-Za-z0-9._~-]/.test(sign) ? sign : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
    })
    .join('');
}

function sha256(data: string | Uint8Array): string {
  return createHash('sha256').update(data).digest('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

/** Answers as S3 does: objects with ranges, a list, and a type that the query chooses. */
function answer({ method, url, headers }: BucketRequest, response: ServerResponse, { objects }: BucketOptions): void {
  const { pathname, searchParams } = new URL(url, 'http://bucket.test');
  if (searchParams.has('list-type')) {
    response.writeHead(200, { 'content-type': 'application/xml' }).end(Object.keys(objects).join('\n'));
    return;
  }
  const body = objects[decodeURIComponent(pathname)];
  if (body === undefined) {
    refuse(response, 404, 'NoSuchKey');
    return;
  }
  const etag = `"${createHash('md5').update(body).digest('hex')}"`;
  const common = {
    etag,
    'last-modified': 'Thu, 01 Jan 2026 00:00:00 GMT',
    'accept-ranges': 'bytes',
    'content-type': searchParams.get('response-content-type') ?? 'video/mp4',
    'x-amz-request-id': 'TX0000',
  };
  if (headers['if-none-match'] === etag) {
    response.writeHead(304, common).end();
    return;
  }
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(String(headers['range'] ?? '')) ?? [];
  const isPart = first !== undefined && (headers['if-range'] === undefined || headers['if-range'] === etag);
  const start = isPart ? Number(first) : 0;
  const end = isPart && last !== '' ? Math.min(Number(last) + 1, body.length) : body.length;
  const range = isPart ? { 'content-range': `bytes ${start}-${end - 1}/${body.length}` } : {};
  response.writeHead(isPart ? 206 : 200, { ...common, ...range, 'content-length': end - start });
  response.end(method === 'HEAD' ? undefined : body.subarray(start, end));
}
