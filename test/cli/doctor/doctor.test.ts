/** The command `rangeway doctor`: its output, its exit codes, and the executable. */

import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { type Diagnosis, diagnosesJson, formatDiagnoses } from '../../../src/cli/doctor/diagnosis.ts';
import { type DoctorFlags, doctor, type Examined, type Facts } from '../../../src/cli/doctor/doctor.ts';
import { run } from '../../../src/cli/main.ts';
import { startRangeway } from '../../support/processes/rangeway-process.ts';
import { createFakeCliIo } from '../../support/proxies/fake-cli-io.ts';

const dir = mkdtempSync(join(tmpdir(), 'rangeway-doctor-test-'));
afterAll(() => rmSync(dir, { recursive: true }));

const facts: Facts = {
  machine: {
    platform: 'linux',
    nodeVersion: '26.10.0',
    nodePath: '/usr/bin/node',
    nodeOptions: [],
    isSingleExecutable: false,
    now: Date.parse('2026-12-01'),
    cores: 2,
    memoryBytes: 8e9,
    memoryLimitBytes: undefined,
    availableBytes: 6e9,
    descriptors: undefined,
    backlog: undefined,
    userId: 1000,
    doesSendfileWork: true,
    systemd: 'absent',
  },
  store: undefined,
  rights: { userId: 1000, firstFree: 1024, umask: 0o022 },
  places: [],
  certificates: [],
  files: { config: undefined, secrets: [], faults: [] },
  origins: [],
};

async function diagnosed(change: Partial<Facts>, origin: string | undefined, flags: DoctorFlags = {}) {
  const io = createFakeCliIo();
  const examined: Examined[] = [];
  const code = await doctor(origin, flags, io, async (given) => {
    examined.push(given);
    return { ...facts, ...change };
  });
  return { code, ...io.written, examined };
}

const origin = 'http://127.0.0.1:3000';
const held: Partial<Facts> = {
  places: [
    {
      option: 'listen[0]',
      place: { kind: 'tcp', host: '::', port: 80 },
      mode: undefined,
      outcome: { kind: 'held', by: undefined },
    },
  ],
};

describe('doctor', () => {
  it('exits with 0 where there is no problem', async () => {
    const { code, stdout, stderr } = await diagnosed({ origins: undefined }, origin);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(
      /^this machine, in front of http:\/\/127\.0\.0\.1:3000\n\nok {7}node {9}\/usr\/bin\/node: Node 26/,
    );
    expect(stdout).toMatch(/\n\nno problems, no warnings, 1 note\n$/);
  });

  it('exits with 1 where there is one', async () => {
    const { code, stdout } = await diagnosed(held, origin);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^problem {2}listen {7}listen\[0\] \(\[::\]:80\): /m);
    expect(stdout).toMatch(/\n1 problem, no warnings, no notes\n$/);
  });

  it('prints JSON', async () => {
    const { code, stdout } = await diagnosed(held, origin, { json: true });
    expect(code).toBe(1);
    const { version, checked, findings } = JSON.parse(stdout);
    expect({ version, checked }).toEqual({ version: 1, checked: `this machine, in front of ${origin}` });
    expect(findings.at(-1)).toEqual({
      level: 'problem',
      topic: 'listen',
      where: 'listen[0] ([::]:80)',
      what: 'a process listens there that this user cannot see',
      advice: "sudo ss -ltnp 'sport = :80' shows it; or another port: listen[0] (--listen)",
    });
  });

  it('passes on the configuration, with the directory of its store', async () => {
    const file = join(dir, 'r.json');
    writeFileSync(file, `{ // comment\n "listen": "9999", "routes": [{ "origin": "${origin}" }] }`);
    const { examined, stdout } = await diagnosed({}, undefined, { config: file, workers: '2' });
    expect(stdout).toMatch(new RegExp(`^${file}\n`));
    expect(examined).toMatchObject([
      { file, hasOrigins: true, config: { workers: 2, store: { dir: '/nowhere/.cache/rangeway/127.0.0.1-9999' } } },
    ]);
  });

  it('needs neither an origin nor a file', async () => {
    const { examined, stdout } = await diagnosed({}, undefined);
    expect(stdout).toMatch(/^this machine, with the default options\n/);
    expect(examined).toMatchObject([{ file: undefined, hasOrigins: false }]);
  });

  it.each<[want: string, ...argv: string[]]>([
    ['<origin>: expected the URL of an origin', 'example.org'],
    ['/nowhere.json: cannot be read: ENOENT', '-c', '/nowhere.json'],
    ["unknown option '--jso'\n(Did you mean --json?)", '--jso'],
    ['too many arguments', origin, origin],
    ['--memory: must be at least 1MB', origin, '--memory', '10KB'],
  ])('misuse: %s', async (want, ...argv) => {
    const io = createFakeCliIo();
    expect(await run(['doctor', ...argv], io)).toBe(2);
    expect(io.written.stdout).toBe('');
    expect(io.written.stderr).toContain(want);
  });
});

describe('the output', () => {
  const findings: readonly Diagnosis[] = [
    { level: 'ok', topic: 'node', what: 'note the warning' },
    { level: 'note', topic: 'cores', what: 'two' },
    { level: 'warning', topic: 'memory', where: 'store.memoryBytes', what: 'three', advice: 'do it' },
    { level: 'problem', topic: 'descriptors', what: `four \u001b[2J ${'word '.repeat(30)}` },
  ];

  it('is plain, with controls replaced and long lines broken', () => {
    expect(formatDiagnoses('a\u0007', findings, false)).toBe(
      `${[
        'a\ufffd',
        '',
        'ok       node         note the warning',
        'note     cores        two',
        'warning  memory       store.memoryBytes: three',
        '                      → do it',
        `problem  descriptors  four \ufffd[2J ${'word '.repeat(13).trimEnd()}`,
        `                        ${'word '.repeat(15).trimEnd()}`,
        '                        word word',
        '',
        '1 problem, 1 warning, 1 note',
      ].join('\n')}\n`,
    );
  });

  it('has colours for the levels only, on a terminal', () => {
    const text = formatDiagnoses('a', findings, true).replaceAll('\u001b', '^');
    expect(text.match(/\^\[3\dm.*?\^\[39m/g)).toEqual([
      '^[32mok^[39m',
      '^[36mnote^[39m',
      '^[33mwarning^[39m',
      '^[31mproblem^[39m',
    ]);
  });

  it('is JSON that a terminal can print', () => {
    const text = diagnosesJson('a', findings);
    expect(text).not.toContain('\u001b');
    expect(JSON.parse(text).findings).toEqual(findings);
  });
});

describe('the executable', () => {
  it('examines this machine, an origin that runs, and a port that is held', async () => {
    const servers = ['origin', 'other'].map(() => createServer((_request, response) => response.end('body')));
    const [origin = '', other = ''] = await Promise.all(
      servers.map(async (server) => {
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        return `127.0.0.1:${(server.address() as AddressInfo).port}`;
      }),
    );
    const examine = async (listen: string) => {
      const flags = ['--listen', listen, '--dir', join(dir, 'store'), '--json'];
      await using started = startRangeway(['doctor', `http://${origin}`, ...flags]);
      const code = await started.ended();
      const { findings } = JSON.parse(started.output()) as { findings: Diagnosis[] };
      const topic = (name: string) => findings.find((finding) => finding.topic === name);
      return { code, node: topic('node'), store: topic('store'), listen: topic('listen'), origin: topic('origin') };
    };
    try {
      expect(await examine('127.0.0.1:0')).toEqual({
        code: 0,
        node: expect.objectContaining({ where: process.execPath }),
        store: expect.objectContaining({ where: join(dir, 'store'), level: expect.not.stringMatching('problem') }),
        listen: expect.objectContaining({ level: 'ok', what: 'it is free' }),
        origin: expect.objectContaining({ level: 'ok', what: expect.stringContaining('200 for / in') }),
      });
      expect(await examine(other)).toMatchObject({
        code: 1,
        listen: { level: 'problem', what: expect.stringContaining('listens there') },
      });
    } finally {
      for (const server of servers) server.close();
    }
  });
});
