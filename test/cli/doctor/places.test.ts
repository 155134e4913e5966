import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { gatherListenRights, gatherPlaces } from '../../../src/cli/doctor/gather-places.ts';
import { judgePlaces, type ListenRights, type PlaceFacts, type PlaceOutcome } from '../../../src/cli/doctor/places.ts';
import type { ListenPlace } from '../../../src/config/address.ts';
import { startConfigured } from '../../support/processes/rangeway-process.ts';
import { examinedConfig, linesOf } from '../../support/values/examined-config.ts';

const rights: ListenRights = { userId: 1000, firstFree: 1024, umask: 0o022 };
const web: ListenPlace = { kind: 'tcp', host: '0.0.0.0', port: 80 };
const socket: ListenPlace = { kind: 'unix', path: '/run/rangeway/x.sock' };

describe('judgePlaces', () => {
  const nginx = { pid: 7, name: 'nginx', isRangeway: false, hasStore: false };
  const ours = { pid: 8, name: 'rangeway', isRangeway: true, hasStore: false };
  const its = { ...ours, hasStore: true };

  it.each<[place: ListenPlace, outcome: PlaceOutcome, want: string]>([
    [web, { kind: 'free' }, 'ok listen [listen[0] (0.0.0.0:80)] it is free'],
    [
      { kind: 'systemd', name: undefined },
      { kind: 'passed' },
      'ok listen [listen[0] (systemd)] systemd opens it at the start',
    ],
    [
      web,
      { kind: 'held', by: nginx },
      'problem listen [listen[0] (0.0.0.0:80)] nginx listens there, process 7 → stop it; or another port: listen[0] (--listen)',
    ],
    [
      web,
      { kind: 'held', by: undefined },
      "a process listens there that this user cannot see → sudo ss -ltnp 'sport = :80' shows it; or another port",
    ],
    [socket, { kind: 'held', by: undefined }, '→ sudo ss -lxp shows it; or another path: listen[0] (--listen)'],
    [
      web,
      { kind: 'held', by: ours },
      'problem listen [listen[0] (0.0.0.0:80)] another Rangeway listens there, process 8',
    ],
    [
      web,
      { kind: 'held', by: its },
      'ok listen [listen[0] (0.0.0.0:80)] the Rangeway of this configuration listens there, process 8',
    ],
    [
      web,
      { kind: 'denied', firstFree: 1024, nodePath: '/usr/bin/node' },
      'problem listen [listen[0] (0.0.0.0:80)] this user may not open ports below 1024 → the unit of packaging/systemd may; or sudo setcap cap_net_bind_service=+ep /usr/bin/node',
    ],
    [
      web,
      { kind: 'failed', code: 'EADDRNOTAVAIL', reason: 'why' },
      'why → an address of this machine (ip address), or 0.0.0.0 for all: listen[0] (--listen)',
    ],
    [web, { kind: 'failed', code: 'ENOTFOUND', reason: 'why' }, 'why → an address in place of the name'],
    [
      socket,
      { kind: 'failed', code: 'EACCES', reason: 'why' },
      'why → give the user of the server the right to write to /run/rangeway',
    ],
    [socket, { kind: 'failed', code: 'ENOENT', reason: 'why' }, 'why → mkdir /run/rangeway'],
    [{ kind: 'unix', path: '/x.sock' }, { kind: 'failed', code: 'EACCES', reason: 'why' }, 'right to write to /;'],
    [web, { kind: 'failed', code: 'EFAULT', reason: 'why' }, 'why → another place: listen[0] (--listen)'],
  ])('%j %j', (place, outcome, want) => {
    const facts: PlaceFacts = { option: 'listen[0]', place, mode: undefined, outcome };
    const [line, ...others] = linesOf(judgePlaces([facts], rights));
    expect(others).toEqual([]);
    expect(line).toContain(want);
  });

  it('a low port that only root may open', () => {
    const facts: PlaceFacts = { option: 'listen[0]', place: web, mode: undefined, outcome: { kind: 'free' } };
    const asRoot = (change: Partial<ListenRights>, place = web) =>
      linesOf(judgePlaces([{ ...facts, place }], { ...rights, userId: 0, ...change }))[0];
    expect(asRoot({})).toContain(
      'note listen [listen[0] (0.0.0.0:80)] it is free, but only root may open ports below 1024',
    );
    expect(asRoot({ firstFree: 80 })).toMatch(/^ok /);
    expect(asRoot({}, { ...web, port: 0 })).toMatch(/^ok /);
  });

  it.each<[mode: number | undefined, umask: number, want: string]>([
    [0o660, 0o022, 'ok listen [listen[0] (unix:/run/rangeway/x.sock)] it is free; its permissions will be 0660'],
    [
      undefined,
      0o022,
      'note listen [listen[0] (unix:/run/rangeway/x.sock)] it is free; the umask gives it the permissions 0755: this user only can connect',
    ],
    [undefined, 0o002, 'permissions 0775: this user and its group can connect'],
    [undefined, 0o000, 'permissions 0777: every user of this machine can connect'],
  ])('a socket with mode %s and umask %s', (mode, umask, want) => {
    const facts: PlaceFacts = { option: 'listen[0]', place: socket, mode, outcome: { kind: 'free' } };
    expect(linesOf(judgePlaces([facts], { ...rights, umask }))[0]).toContain(want);
  });
});

describe('gatherPlaces', () => {
  const dir = mkdtempSync(join(tmpdir(), 'rangeway-doctor-places-'));
  afterAll(() => rmSync(dir, { recursive: true }));
  const servers: Server[] = [];
  afterEach(() => {
    for (const server of servers.splice(0)) server.close();
  });

  async function holdPort(): Promise<number> {
    const server = createServer();
    servers.push(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }

  const outcomes = async (options: object, dir?: string) => {
    const facts = await gatherPlaces(examinedConfig(options), { dir, enginePorts: [] });
    return facts.map(({ option, outcome }) => [option, outcome]);
  };

  it('finds free places, and leaves nothing behind', async () => {
    const listen = ['127.0.0.1:0', `unix:${dir}/a.sock`, 'systemd'];
    expect(await outcomes({ listen, admin: { listen: `unix:${dir}/admin.sock` } })).toEqual([
      ['listen[0]', { kind: 'free' }],
      ['listen[1]', { kind: 'free' }],
      ['listen[2]', { kind: 'passed' }],
      ['admin.listen', { kind: 'free' }],
    ]);
    expect(readdirSync(dir)).toEqual([]);
  });

  it('finds the process that holds a port or a socket', async () => {
    const port = await holdPort();
    const held = createServer().listen(`${dir}/held.sock`);
    servers.push(held);
    await once(held, 'listening');
    const by =
      process.platform === 'linux'
        ? { pid: process.pid, name: expect.any(String), isRangeway: false, hasStore: false }
        : undefined;
    expect(await outcomes({ listen: [`127.0.0.1:${port}`, `unix:${dir}/held.sock`] })).toEqual([
      ['listen[0]', { kind: 'held', by }],
      ['listen[1]', { kind: 'held', by }],
    ]);
  });

  it('knows a Rangeway, and whether its store is that of the configuration', async () => {
    const config = { listen: '127.0.0.1:0', store: { dir: './store' }, routes: [{ origin: 'http://127.0.0.1:9' }] };
    await using proxy = await startConfigured(dir, config);
    for (const [storeDir, hasStore] of [
      [join(dir, 'store'), true],
      [join(dir, 'other'), false],
      [undefined, false],
    ] as const) {
      const [[, outcome] = []] = await outcomes({ listen: new URL(proxy.url).host }, storeDir);
      const known = { pid: proxy.pid, name: expect.any(String), isRangeway: true, hasStore };
      expect(outcome).toEqual({ kind: 'held', by: process.platform === 'linux' ? known : undefined });
    }
  });

  it('says why a place cannot be used', async () => {
    writeFileSync(join(dir, 'file'), '');
    const listen = ['192.0.2.1:8080', `unix:${dir}/absent/x.sock`, `unix:${dir}/file`, 'rangeway.invalid:8080'];
    expect(await outcomes({ listen })).toEqual([
      ['listen[0]', { kind: 'failed', code: 'EADDRNOTAVAIL', reason: expect.stringContaining('EADDRNOTAVAIL') }],
      [
        'listen[1]',
        {
          kind: 'failed',
          code: expect.any(String),
          reason: expect.stringContaining(`there is no directory ${dir}/absent`),
        },
      ],
      [
        'listen[2]',
        { kind: 'failed', code: 'EADDRINUSE', reason: expect.stringContaining('the path exists and is not a socket') },
      ],
      [
        'listen[3]',
        { kind: 'failed', code: expect.stringMatching(/^(?:ENOTFOUND|EAI_AGAIN)$/), reason: expect.any(String) },
      ],
    ]);
  });

  it('reads the rights of this user', () => {
    const { umask, ...others } = gatherListenRights();
    expect(umask).toBe(process.umask());
    expect(others.userId).toBe(process.getuid?.());
    expect(others.firstFree).toBeGreaterThanOrEqual(0);
  });
});
