/** TLS: ALPN, certificates, versions and ciphers, and handshakes that fail. */

import { once } from 'node:events';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { connect as connectHttp2 } from 'node:http2';
import { type AddressInfo, connect as connectTcp, createServer as createTcpServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type ConnectionLimits, createConnectionLimits } from '../../src/listener/accept/connection-limits.ts';
import { type CertificateFiles, openCertificates } from '../../src/listener/accept/tls.ts';
import type { ListenerLimits } from '../../src/listener/listener.ts';
import type { ServerEvent } from '../../src/telemetry/events.ts';
import { drip } from '../support/clocks/drip.ts';
import { untilClosed } from '../support/clocks/until-closed.ts';
import { openListener, type TestListener, testNow, textResponse } from '../support/proxies/open-listener.ts';
import {
  exactCertificate,
  expiredCertificate,
  testAuthority,
  writeTestCertificate,
} from '../support/values/tls-certificate.ts';

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-tls-'));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

interface TlsListenerOptions {
  readonly files?: readonly CertificateFiles[];
  readonly minVersion?: '1.2' | '1.3';
  readonly http2?: boolean;
  readonly checkMs?: number;
  readonly connections?: ConnectionLimits;
  readonly limits?: Partial<ListenerLimits>;
}

/** Opens a listener with TLS. `reported` has the events of its certificates. */
async function openTlsListener(options: TlsListenerOptions = {}): Promise<TestListener> {
  const {
    files = [await writeTestCertificate(dir)],
    minVersion = '1.2',
    http2 = true,
    checkMs,
    connections,
    limits = {},
  } = options;
  const reported: ServerEvent[] = [];
  const certificates = await openCertificates({
    files,
    minVersion,
    emit: (event) => reported.push(event),
    now: () => testNow,
    checkMs,
  });
  const listener = await openListener(() => textResponse('secret'), { certificates, http2, limits, connections });
  return Object.assign(listener, { reported });
}

/** Makes a handshake. Rejects with the error where it fails. */
async function handshake(port: number, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const socket = connect({ port, host: '127.0.0.1', servername: 'localhost', rejectUnauthorized: false, ...options });
  await once(socket, 'secureConnect');
  socket.on('error', () => {});
  return socket;
}

const get = 'GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n';

const refused = (error: string) => expect.objectContaining({ kind: 'refusal', peer: '127.0.0.1', error });

describe('the protocol', () => {
  it.each<[offered: string[] | undefined, http2: boolean, chosen: string | false]>([
    [['h2', 'http/1.1'], true, 'h2'],
    [['http/1.1', 'h2'], true, 'h2'],
    [['http/1.1'], true, 'http/1.1'],
    [['spdy/3', 'http/1.1'], true, 'http/1.1'],
    [undefined, true, false],
    [['h2', 'http/1.1'], false, 'http/1.1'],
    [undefined, false, false],
  ])('for a client that offers %j, with HTTP/2 enabled: %j', async (ALPNProtocols, http2, chosen) => {
    await using listener = await openTlsListener({ http2 });
    const client = await handshake(listener.port, ALPNProtocols === undefined ? {} : { ALPNProtocols });
    expect(client.alpnProtocol).toBe(chosen);
    if (chosen !== 'h2') {
      client.end(get);
      expect(await text(client)).toMatch(/^HTTP\/1\.1 200 OK\r\n.*secret$/s);
    }
    client.destroy();
  });

  it.each<[offered: string[], http2: boolean]>([
    [['spdy/3'], true],
    [['http/1.0', 'h3'], true],
    [['h2'], false],
  ])(
    'for a client that offers only %j, with HTTP/2 enabled: %j, is none, and the client gets an alert',
    async (ALPNProtocols, http2) => {
      await using listener = await openTlsListener({ http2 });
      await expect(handshake(listener.port, { ALPNProtocols })).rejects.toMatchObject({
        code: 'ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL',
      });
      await expect.poll(() => listener.events).toEqual([refused('tls_handshake_failed')]);
    },
  );

  it('is HTTP/2 for a client of HTTP/2', async () => {
    await using listener = await openTlsListener();
    const session = connectHttp2(`https://127.0.0.1:${listener.port}`, { ca: testAuthority, servername: 'localhost' });
    const stream = session.request({ ':path': '/h2' });
    const [fields] = (await once(stream, 'response')) as [Record<string, unknown>];
    expect(fields[':status']).toBe(200);
    expect(await text(stream)).toBe('secret');
    expect(listener.requests[0]).toMatchObject({
      scheme: 'https',
      version: '2',
      target: '/h2',
      peer: { address: '127.0.0.1' },
    });
    await new Promise<void>((resolve) => session.close(resolve));
  });
});

describe('the certificate', () => {
  it.each<[name: string | undefined, subject: string]>([
    ['localhost', 'localhost'],
    ['LOCALHOST', 'localhost'],
    ['exact.example.org', 'exact'],
    ['EXACT.Example.org', 'exact'],
    ['other.example.org', 'localhost'],
    ['xn--bcher-kva.example', 'exact'],
    ['two.labels.example.org', 'localhost'],
    ['example.org', 'localhost'],
    ['unknown.example', 'localhost'],
    [undefined, 'localhost'],
  ])('for the name %s is that of %s', async (servername, subject) => {
    const files = [await writeTestCertificate(dir), await writeTestCertificate(dir, 'exact', exactCertificate)];
    await using listener = await openTlsListener({ files });
    const client = await handshake(listener.port, servername === undefined ? { servername: '' } : { servername });
    expect(client.getPeerCertificate().subject.CN).toBe(subject);
    client.destroy();
  });

  it('is verified by its authority', async () => {
    await using listener = await openTlsListener();
    const client = await handshake(listener.port, { ca: testAuthority, rejectUnauthorized: true });
    expect(client.authorized).toBe(true);
    client.destroy();
  });
});

describe('a TLS connection', () => {
  it.each<[what: string, options: ConnectionOptions, minVersion: '1.2' | '1.3', protocol: string | undefined]>([
    ['the best version', {}, '1.2', 'TLSv1.3'],
    ['TLS 1.2, if the client has no better', { maxVersion: 'TLSv1.2' }, '1.2', 'TLSv1.2'],
    ['only TLS 1.3, if the options say so', {}, '1.3', 'TLSv1.3'],
    ['no TLS 1.2, if the options say so', { maxVersion: 'TLSv1.2' }, '1.3', undefined],
    ['no TLS 1.1', { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }, '1.2', undefined],
    [
      'no CBC',
      { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA' },
      '1.2',
      undefined,
    ],
    [
      'no key exchange without forward secrecy',
      { maxVersion: 'TLSv1.2', ciphers: 'AES128-GCM-SHA256' },
      '1.2',
      undefined,
    ],
  ])('uses %s', async (_what, options, minVersion, protocol) => {
    await using listener = await openTlsListener({ minVersion });
    if (protocol === undefined) {
      await expect(handshake(listener.port, options)).rejects.toThrow(/alert|handshake|disconnected/i);
      await expect.poll(() => listener.events).toEqual([refused('tls_handshake_failed')]);
      return;
    }
    const client = await handshake(listener.port, options);
    expect(client.getProtocol()).toBe(protocol);
    client.destroy();
  });

  it("uses the first cipher in the server's order", async () => {
    await using listener = await openTlsListener();
    const ciphers = 'ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256';
    const client = await handshake(listener.port, { maxVersion: 'TLSv1.2', ciphers });
    expect(client.getCipher().name).toBe('ECDHE-ECDSA-AES128-GCM-SHA256');
    client.destroy();
  });

  it('is not renegotiated', async () => {
    await using listener = await openTlsListener({ http2: false });
    const client = await handshake(listener.port, { maxVersion: 'TLSv1.2' });
    const { promise, resolve } = Promise.withResolvers<Error | null>();
    client.renegotiate({ rejectUnauthorized: false }, resolve);
    client.once('error', resolve);
    client.once('close', () => resolve(new Error('closed')));
    expect(await promise).toBeInstanceOf(Error);
    client.destroy();
  });

  it.each(['TLSv1.2', 'TLSv1.3'] as const)('can be resumed: %s', async (maxVersion) => {
    await using listener = await openTlsListener({ http2: false });
    const first = await handshake(listener.port, { maxVersion });
    let session = first.getSession();
    first.on('session', (ticket) => {
      session = ticket;
    });
    first.end(get);
    await text(first);
    const second = await handshake(listener.port, { maxVersion, session });
    expect(second.isSessionReused()).toBe(true);
    second.destroy();
  });
});

describe('files that change', () => {
  const subjectAt = async (port: number): Promise<string> => {
    const client = await handshake(port);
    const { CN } = client.getPeerCertificate().subject;
    client.destroy();
    return String(CN);
  };
  const reportedBy = (listener: TestListener) => (listener as TestListener & { reported: ServerEvent[] }).reported;
  const checkMs = 10;

  it('are soon used for new connections, while old connections go on', async () => {
    const files = await writeTestCertificate(dir);
    await using listener = await openTlsListener({ files: [files], http2: false, checkMs });
    const old = await handshake(listener.port);
    const fresh = await writeTestCertificate(dir, 'fresh', exactCertificate);
    await rename(fresh.certFile, files.certFile);
    await rename(fresh.keyFile, files.keyFile);
    await expect.poll(() => subjectAt(listener.port)).toBe('exact');
    const message = `the certificate in ${files.certFile} has changed and is in use`;
    expect(reportedBy(listener)).toContainEqual({ kind: 'listener', level: 'info', message });
    expect(old.getPeerCertificate().subject.CN).toBe('localhost');
    old.end(get);
    expect(await text(old)).toContain('secret');
  });

  it('may be behind a symbolic link that changes', async () => {
    await mkdir(join(dir, 'v1'));
    await mkdir(join(dir, 'v2'));
    await writeTestCertificate(join(dir, 'v1'), 'tls');
    await writeTestCertificate(join(dir, 'v2'), 'tls', exactCertificate);
    await symlink('v1', join(dir, 'data'));
    const files = { certFile: join(dir, 'data/tls.pem'), keyFile: join(dir, 'data/tls.key') };
    await using listener = await openTlsListener({ files: [files], checkMs });
    expect(await subjectAt(listener.port)).toBe('localhost');
    await symlink('v2', join(dir, 'data.new'));
    await rename(join(dir, 'data.new'), join(dir, 'data'));
    await expect.poll(() => subjectAt(listener.port)).toBe('exact');
  });

  it('bring their own names with them', async () => {
    const files = [await writeTestCertificate(dir), await writeTestCertificate(dir, 'other')];
    await using listener = await openTlsListener({ files, checkMs });
    await writeTestCertificate(dir, 'other', exactCertificate);
    const subject = async () => {
      const client = await handshake(listener.port, { servername: 'exact.example.org' });
      const { CN } = client.getPeerCertificate().subject;
      client.destroy();
      return CN;
    };
    await expect.poll(subject).toBe('exact');
    expect(await subjectAt(listener.port)).toBe('localhost');
  });

  it.each<[what: string, change: (files: CertificateFiles) => Promise<void>, complaint: RegExp]>([
    ['broken', ({ certFile }) => writeFile(certFile, 'broken'), /server\.pem: it holds no certificate in PEM; the/],
    ['gone', ({ certFile }) => rm(certFile), /server\.pem: ENOENT.*; the certificate in use stays$/],
    [
      'of two pairs',
      ({ keyFile }) => writeFile(keyFile, exactCertificate.key),
      /the key in .*server\.key is not the one/,
    ],
  ])('are not used while they are %s, and are used once they are valid', async (_what, change, complaint) => {
    const files = await writeTestCertificate(dir);
    await using listener = await openTlsListener({ files: [files], checkMs });
    await change(files);
    const errors = () => reportedBy(listener).filter((event) => event.kind === 'listener' && event.level === 'error');
    await expect.poll(errors).toEqual([expect.objectContaining({ message: expect.stringMatching(complaint) })]);
    expect(await subjectAt(listener.port)).toBe('localhost');
    await writeTestCertificate(dir, 'server', exactCertificate);
    await expect.poll(() => subjectAt(listener.port)).toBe('exact');
    expect(errors()).toHaveLength(1);
  });

  it('cause a warning where they have expired', async () => {
    const files = [await writeTestCertificate(dir, 'old', expiredCertificate)];
    await using listener = await openTlsListener({ files });
    const message = `the certificate in ${files[0]?.certFile} has expired (2021-01-01T00:00:00.000Z)`;
    expect(reportedBy(listener)).toEqual([{ kind: 'listener', level: 'warn', message }]);
    expect(await subjectAt(listener.port)).toBe('expired');
  });
});

describe('a connection that does not become a TLS connection', () => {
  const limits = { headersTimeoutMs: 150 };

  async function open(port: number): Promise<Socket> {
    const socket = connectTcp({ port, host: '127.0.0.1' });
    socket.on('error', () => {});
    await once(socket, 'connect');
    return socket;
  }

  it('because no byte arrives is closed without a refusal', async () => {
    await using listener = await openTlsListener({ limits });
    const client = await open(listener.port);
    expect(await text(client)).toBe('');
    expect(listener.events).toEqual([]);
  });

  it('because its bytes arrive too slowly is closed', async () => {
    await using listener = await openTlsListener({ limits });
    const client = await open(listener.port);
    // A record that never ends, a byte at a time.
    client.write('\x16\x03\x01\x02\x00\x01\x00\x01', 'latin1');
    using _drip = drip(() => client.write('\x00', 'latin1'));
    await untilClosed(client.resume());
    await expect.poll(() => listener.events).toEqual([refused('tls_handshake_failed')]);
  });

  it.each<[what: string, bytes: string, code: string]>([
    ['plain HTTP', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n', 'ERR_SSL_HTTP_REQUEST'],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', ''],
    ['garbage', '\xff'.repeat(100), ''],
    ['half a ClientHello, and the end', '\x16\x03\x01\x02\x00\x01', ''],
  ])('because of %s is closed', async (_what, bytes, code) => {
    await using listener = await openTlsListener();
    const client = await open(listener.port);
    client.end(bytes, 'latin1');
    await untilClosed(client.resume());
    await expect.poll(() => listener.events).toEqual([refused('tls_handshake_failed')]);
    expect(listener.events[0]).toMatchObject({ detail: expect.stringContaining(code) });
    expect(await listener.listener.close(10_000)).toEqual({ cut: 0 });
  });

  it.each(['end', 'destroy', 'resetAndDestroy'] as const)(
    'because its client leaves (%s) leaves nothing behind',
    async (leave) => {
      const connections = createConnectionLimits({ connections: 1, connectionsPerClient: 0, isExempt: () => false });
      await using listener = await openTlsListener({ connections });
      const hello = await clientHello();
      for (const sent of [0, 1, 5, 100, hello.length]) {
        const client = await open(listener.port);
        await new Promise<void>((resolve) => client.write(hello.subarray(0, sent), () => resolve()));
        client[leave]();
        // The place is free again when the connection is gone.
        await expect
          .poll(() => connections.enter(), { interval: 5 })
          .toSatisfy((free) => {
            free?.leave();
            return free !== undefined;
          });
      }
    },
  );

  /** Returns the ClientHello of a client. */
  async function clientHello(): Promise<Buffer> {
    const server = createTcpServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const client = connect({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' });
    client.on('error', () => {});
    const [socket] = (await once(server, 'connection')) as [Socket];
    const [hello] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    server.close();
    return hello;
  }

  it('is logged ten times at most in ten seconds, and then counted', async () => {
    await using listener = await openTlsListener();
    const count = 25;
    await Promise.all(
      Array.from({ length: count }, async () => {
        const client = await open(listener.port);
        client.end('no TLS at all\r\n\r\n');
        await untilClosed(client.resume());
      }),
    );
    await listener.listener.close(10_000);
    expect(listener.events).toHaveLength(11);
    expect(listener.events.at(-1)).toMatchObject({ detail: `${count - 10} more connections, in 10 seconds` });
  });
});

describe('closing', () => {
  /** Opens a relay between client and listener that holds the bytes of the listener until `release`. */
  async function openRelay(port: number) {
    const answered = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const server = createTcpServer({ allowHalfOpen: true }, (client) => {
      const toListener = connectTcp({ port, host: '127.0.0.1', allowHalfOpen: true });
      client.pipe(toListener);
      toListener.once('readable', () => {
        answered.resolve();
        void released.promise.then(() => toListener.pipe(client));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port: relayPort } = server.address() as AddressInfo;
    return { server, port: relayPort, answered: answered.promise, release: released.resolve };
  }

  it('lets a handshake and the request after it finish, and does not wait for unused connections', async () => {
    await using listener = await openTlsListener({ http2: false });
    const relay = await openRelay(listener.port);
    const unused = connectTcp({ port: listener.port, host: '127.0.0.1' });
    await once(unused, 'connect');
    const client = connect({ port: relay.port, host: '127.0.0.1', servername: 'localhost', ca: testAuthority });
    client.write(get);
    await relay.answered;
    const closed = listener.listener.close(10_000);
    expect(await text(unused)).toBe('');
    relay.release();
    expect(await text(client)).toMatch(/^HTTP\/1\.1 200 OK\r\n.*secret$/s);
    expect(await closed).toEqual({ cut: 0 });
    relay.server.close();
  });
});
