/** Requests with AWS Signature Version 4: the examples of the documentation of S3, and what a request is signed with. */

import { describe, expect, it, vi } from 'vitest';
import type { BodyStream } from '../../src/http/message.ts';
import type { ProxyError } from '../../src/http/proxy-error.ts';
import type { OriginRequest } from '../../src/origin/origin.ts';
import { createSignedOrigin, createSigner, type SignerOptions } from '../../src/origin/signed-origin.ts';
import { originRequest } from '../support/origins/origin-request.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const exampleAt = Date.parse('2013-05-24T00:00:00Z');
const options: SignerOptions = {
  credentials: { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY' },
  region: 'us-east-1',
  service: 's3',
  isParameterSent: () => true,
  now: () => exampleAt,
};

async function signed(
  changes: Partial<OriginRequest>,
  more: Partial<SignerOptions> = {},
): Promise<{ target: string; fields: Record<string, string> }> {
  const sign = await createSigner({ ...options, ...more });
  const { target, fields } = await sign(originRequest(changes));
  return { target, fields: Object.fromEntries(fields) };
}

const exampleHost = ['host', 'examplebucket.s3.amazonaws.com'] as const;

describe('a signed request', () => {
  // https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html#sig-v4-examples-using-authorization-header
  it.each<[target: string, fields: readonly string[], signedFields: string, signature: string]>([
    [
      '/test.txt',
      ['Range: bytes=0-9'],
      'host;range;x-amz-content-sha256;x-amz-date',
      'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
    ],
    [
      '/?lifecycle',
      [],
      'host;x-amz-content-sha256;x-amz-date',
      'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
    ],
    [
      '/?max-keys=2&prefix=J',
      [],
      'host;x-amz-content-sha256;x-amz-date',
      '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
    ],
  ])('has the signature that S3 documents for %s', async (target, lines, signedFields, signature) => {
    const { fields } = await signed({ target, fields: [exampleHost, ...fieldsOf(...lines)] });
    expect(fields['authorization']).toBe(
      `AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=${signedFields}, Signature=${signature}`,
    );
    expect(fields).toMatchObject({
      'x-amz-date': '20130524T000000Z',
      'x-amz-content-sha256': 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    });
  });

  it.each<[target: string, sent: string]>([
    ['/a%20b', '/a%20b'],
    ['/a+b', '/a%2Bb'],
    ["/(a)'b!*,;=@:$&", '/%28a%29%27b%21%2A%2C%3B%3D%40%3A%24%26'],
    ['/%7euser/%41', '/~user/A'],
    ['/caf%c3%a9', '/caf%C3%A9'],
    ['/a%2fb', '/a%2Fb'],
    ['/a//b/', '/a//b/'],
    ['/?a=1&b=x%20y+z&a=%2F', '/?a=1&b=x%20y%20z&a=%2F'],
    ['/?versionId', '/?versionId='],
  ])('is sent for %s as %s, which is what is signed', async (target, sent) => {
    expect((await signed({ target })).target).toBe(sent);
  });

  it('has the parameters of the query that are sent, and no others', async () => {
    const isParameterSent = (name: string) => name === 'versionId';
    const target = '/a?list-type=2&versionId=3&response-content-type=text/html&X-Amz-Signature=0';
    expect((await signed({ target }, { isParameterSent })).target).toBe('/a?versionId=3');
  });

  it('covers conditions, ranges and x-amz fields, and not what proxies change', async () => {
    const lines = ['Via: 1.1 a', 'If-Range: "1"', 'Range: bytes=1-', 'X-Amz-Request-Payer: requester', 'Accept: */*'];
    const { fields } = await signed({ fields: [exampleHost, ...fieldsOf(...lines).map(lowerCase)] });
    expect(fields['authorization']).toContain(
      'SignedHeaders=host;if-range;range;x-amz-content-sha256;x-amz-date;x-amz-request-payer,',
    );
    expect(fields).toMatchObject({ via: '1.1 a', accept: '*/*', 'x-amz-request-payer': 'requester' });
  });

  it('sends several lines of a signed field as one', async () => {
    const { fields } = await signed({ fields: [exampleHost, ['if-none-match', '"1"'], ['if-none-match', '"2"']] });
    expect(fields['if-none-match']).toBe('"1", "2"');
    expect(fields['authorization']).toContain('SignedHeaders=host;if-none-match;');
  });

  it('leaves a condition unsigned whose value is not ASCII', async () => {
    const { fields } = await signed({ fields: [exampleHost, ['if-none-match', '"\u00e9"']] });
    expect(fields['if-none-match']).toBe('"\u00e9"');
    expect(fields['authorization']).toContain('SignedHeaders=host;x-amz-content-sha256;x-amz-date,');
  });

  it('does not cover content, which is not read before it is sent', async () => {
    const body = { async *[Symbol.asyncIterator]() {}, trailers: () => [], close: () => {} } as unknown as BodyStream;
    expect((await signed({ body, bodySizeBytes: 3 })).fields['x-amz-content-sha256']).toBe('UNSIGNED-PAYLOAD');
    expect((await signed({ body, bodySizeBytes: 0 })).fields['x-amz-content-sha256']).toMatch(/^e3b0c442/);
  });

  it('replaces fields of a signature that the request had', async () => {
    const given = ['authorization', 'x-amz-date', 'x-amz-security-token', 'x-amz-content-sha256'];
    const sign = await createSigner(options);
    const { fields } = await sign(
      originRequest({ fields: [exampleHost, ...given.map((name) => [name, 'x'] as const)] }),
    );
    expect(fields.filter(([, value]) => value === 'x')).toEqual([]);
    expect(fields.map(([name]) => name).toSorted()).toEqual([
      'authorization',
      'host',
      'x-amz-content-sha256',
      'x-amz-date',
    ]);
  });

  it('has the token of a temporary key, and signs it', async () => {
    const credentials = { ...options.credentials, sessionToken: 'a+token/of=some' };
    const { fields } = await signed({ fields: [exampleHost] }, { credentials });
    expect(fields['x-amz-security-token']).toBe('a+token/of=some');
    expect(fields['authorization']).toContain(';x-amz-date;x-amz-security-token,');
  });

  it('has the time at which it is sent', async () => {
    let at = exampleAt;
    const sign = await createSigner({ ...options, now: () => at });
    const timeOf = async () => Object.fromEntries((await sign(originRequest())).fields)['x-amz-date'];
    expect(await timeOf()).toBe('20130524T000000Z');
    at += 24 * 3600 * 1000 + 61_000;
    expect(await timeOf()).toBe('20130525T000101Z');
  });

  it('encodes the path once more for other services', async () => {
    const target = '/a%20b';
    const forS3 = await signed({ target });
    const forOther = await signed({ target }, { service: 'execute-api' });
    expect(forOther.target).toBe('/a%20b');
    expect(forOther.fields['authorization']).toContain('/execute-api/aws4_request');
    expect(forOther.fields['authorization']).not.toBe(forS3.fields['authorization']);
  });

  it.each(['PUT', 'DELETE', 'POST', 'OPTIONS'])('is none for %s, which loses its credentials', async (method) => {
    const fields = [exampleHost, ['authorization', 'x'] as const];
    expect((await signed({ method, fields })).fields).toEqual(Object.fromEntries([exampleHost]));
  });
});

function lowerCase([name, value]: readonly [string, string]): readonly [string, string] {
  return [name.toLowerCase(), value];
}

describe('createSigner', () => {
  it('says which package is missing', async () => {
    vi.doMock('@smithy/signature-v4', () => {
      throw new Error('Cannot find package');
    });
    try {
      await expect(createSigner(options)).rejects.toThrow(
        'origin.signing needs the package @smithy/signature-v4, which is not installed: npm install',
      );
    } finally {
      vi.doUnmock('@smithy/signature-v4');
    }
  });
});

describe('createSignedOrigin', () => {
  it('fails without the reason where a request cannot be signed, and sends nothing', async () => {
    let sent = 0;
    const inner = {
      fetch: () => Promise.reject(new Error(`sent ${++sent}`)),
      retire: () => {},
      close: async () => {},
    };
    const origin = createSignedOrigin(inner, () => Promise.reject(new Error('no key')));
    const thrown: ProxyError = await origin.fetch(originRequest()).catch((error) => error);
    expect([thrown.code, thrown.detail, sent]).toEqual(['internal', 'the request could not be signed', 0]);
  });
});
