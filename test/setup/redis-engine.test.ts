/** Connections to a real engine as the configuration states them: TLS, client certificates, users and passwords. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { judgeEngine } from '../../src/cli/doctor/engine.ts';
import { gatherEngine } from '../../src/cli/doctor/gather-engine.ts';
import { checkConfig } from '../../src/config/load.ts';
import type { RedisStoreConfig } from '../../src/config/schema.ts';
import { openRedisEngine } from '../../src/setup/redis-engine.ts';
import { monotonicClock, randomId } from '../../src/setup/system.ts';
import { openRedisStore } from '../../src/store/redis/redis-store.ts';
import { realClock } from '../support/clocks/real-clock.ts';
import { describeWithEngine, type RedisTlsServer, startRedisTlsServer } from '../support/engines/redis-server.ts';
import { readKey, storeTagged } from '../support/stores/stored-sample.ts';
import { linesOf } from '../support/values/examined-config.ts';
import { patternBytes } from '../support/values/pattern-body.ts';
import {
  exactCertificate,
  testAuthority,
  testCertificate,
  testClientCertificate,
  writeTestCertificate,
} from '../support/values/tls-certificate.ts';

/** The rights that docs/redis-store.md recommends, for the default prefix. */
const rights =
  '~rangeway:* +@read +@write +@scripting +@connection +info +time +cluster|slots +cluster|shards +client'.split(' ');

const password = 'p4ss:w0rd/';

let dir: string;
/** Options of `store` with the authority, and with a client certificate. */
let trusting: object;
let withCertificate: object;
let wrongAuthority: object;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'rangeway-engine-tls-'));
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(dir, name), text);
    return join(dir, name);
  };
  await writeTestCertificate(dir, 'server', testCertificate);
  await file('clients.pem', testClientCertificate.cert);
  await file('password', `${password}\n`);
  trusting = { caFile: await file('authority.pem', testAuthority) };
  withCertificate = { ...trusting, ...(await writeTestCertificate(dir, 'client', testClientCertificate)) };
  wrongAuthority = { caFile: (await writeTestCertificate(dir, 'other', exactCertificate)).certFile };
});
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Starts an engine that only a user with a password may use. */
async function startTls(...options: string[]): Promise<RedisTlsServer> {
  const files = ['--tls-cert-file', join(dir, 'server.pem'), '--tls-key-file', join(dir, 'server.key')];
  const users = ['--user', 'default', 'off', '--user', 'rangeway', 'on', `>${password}`, ...rights];
  return await startRedisTlsServer([...files, '--tls-ca-cert-file', join(dir, 'clients.pem'), ...options, ...users]);
}

function storeOf(server: RedisTlsServer, options: object): RedisStoreConfig {
  const store = {
    type: 'redis',
    url: `rediss://127.0.0.1:${server.tlsPort}`,
    username: 'rangeway',
    password: 'file:password',
    ...options,
  };
  const checked = checkConfig({ store, routes: [{ origin: 'http://origin.test' }] }, dir);
  if (checked.kind !== 'ok') throw new Error(JSON.stringify(checked));
  return checked.config.store as RedisStoreConfig;
}

/** Stores an entry over the connection, finds and removes it, and follows the log of a fleet. Returns its bytes as found. */
async function use(config: RedisStoreConfig): Promise<Buffer | undefined> {
  const { client, keys } = await openRedisEngine(config, () => {});
  const store = openRedisStore({
    client,
    keys,
    blockSizeBytes: 1024,
    maxEntryBytes: 100_000,
    keepMs: 60_000,
    now: Date.now,
    clock: realClock,
    randomId,
    emit: () => {},
  });
  onTestFinished(() => store.close());
  await storeTagged(store, { key: 'page', sizeBytes: 5000, seed: 1 }, ['tag']);
  const found = await readKey(store, 'page');
  expect(await store.removeTagged('tag')).toEqual(['page']);
  const appended = client.untilAppended(keys.fleet.log, '0-0', 5000);
  await client.send(keys.fleet.log, ['XADD', keys.fleet.log, '*', 'news', 'one']);
  await appended;
  return found;
}

/** Returns the problems that `rangeway doctor` finds, and checks that it does not tell the password. */
async function problemsOf(config: RedisStoreConfig): Promise<readonly string[]> {
  const lines = linesOf(judgeEngine(await gatherEngine(config, monotonicClock.now)));
  expect(lines.join('\n')).not.toContain(password);
  return lines.filter((line) => line.startsWith('problem'));
}

describeWithEngine('an engine over TLS', () => {
  it('that asks for no client certificate is used by a user with a password', async () => {
    await using server = await startTls('--tls-auth-clients', 'no');
    const config = storeOf(server, trusting);
    expect(await use(config)).toEqual(Buffer.from(patternBytes(0, 5000, 1)));
    expect(await problemsOf(config)).toEqual([]);
  });

  it('that requires a client certificate is used with one', async () => {
    await using server = await startTls('--tls-auth-clients', 'yes');
    const config = storeOf(server, withCertificate);
    expect(await use(config)).toEqual(Buffer.from(patternBytes(0, 5000, 1)));
    expect(await problemsOf(config)).toEqual([]);
  });

  it('is refused with a sentence that says why', async () => {
    await using server = await startTls('--tls-auth-clients', 'yes');
    const other = { certFile: 'other.pem', keyFile: 'other.key' };
    const cases: readonly [object, string][] = [
      [{ ...withCertificate, ...wrongAuthority }, 'its certificate is not signed by an authority that is trusted here'],
      [trusting, 'it requires a client certificate'],
      [{ ...trusting, ...other }, 'it does not accept the client certificate'],
      [
        { ...withCertificate, url: `rediss://127.0.0.1:${server.port}`, connectTimeoutSeconds: 0.5 },
        'it has not answered within 0.5 s; perhaps it does not speak TLS on this port',
      ],
      [{ ...withCertificate, password: 'file:authority.pem' }, 'it does not know this user and password'],
      [{ ...withCertificate, username: 'stranger' }, 'it does not know this user and password'],
      [{ ...withCertificate, username: undefined, password: undefined }, 'it asks for a password'],
    ];
    for (const [options, reason] of cases) {
      const [problem = '', ...more] = await problemsOf(storeOf(server, options));
      expect(problem).toContain(`no engine answers: ${reason}`);
      expect(more).toEqual([]);
    }
  });
});
