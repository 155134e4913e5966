/** The commands that administer a running server: their calls of the admin listener, their output and their exit codes. */

import { describe, expect, it } from 'vitest';
import { type EntryStatus, OperationFault } from '../../../src/admin/operations.ts';
import { openCommandGround } from '../../support/proxies/admin-commands-ground.ts';
import { someDetails, someEntry } from '../../support/proxies/fake-operations.ts';

const film = 'http://files.example/film.mp4';

describe('rangeway purge', () => {
  it.each<[argv: readonly string[], search: object, mode: string, stdout: string]>([
    [[film], { kind: 'url', url: film }, 'hard', `${film}: 2 removed\n`],
    [['files.example/film.mp4'], { kind: 'url', url: film }, 'hard', `${film}: 2 removed\n`],
    [['/film.mp4'], { kind: 'url', url: '/film.mp4' }, 'hard', '/film.mp4: 2 removed\n'],
    [
      ['--prefix', 'http://files.example/fi', '--soft'],
      { kind: 'prefix', url: 'http://files.example/fi' },
      'soft',
      'http://files.example/fi…: 2 expired\n',
    ],
    [['--host', 'files.example'], { kind: 'host', host: 'files.example' }, 'hard', 'files.example: 2 removed\n'],
    [['--tag', 'film'], { kind: 'tag', tag: 'film' }, 'hard', 'tag film: 2 removed\n'],
    [
      ['--group', 'g', '--origin', 'https://a.example', '--soft'],
      { kind: 'group', group: 'g', origin: 'https://a.example' },
      'soft',
      'group g of https://a.example: 2 expired\n',
    ],
    [['--all'], { kind: 'all' }, 'hard', 'everything: 2 removed\n'],
  ])('%j', async (argv, search, mode, stdout) => {
    await using ground = await openCommandGround();
    expect(await ground.run('purge', ...argv)).toEqual({ code: 0, stdout, stderr: '' });
    expect(ground.calls).toEqual([['purge', { search, mode }]]);
  });

  it('reports that nothing was stored', async () => {
    await using ground = await openCommandGround({ purge: async () => ({ entries: 0 }) });
    expect(await ground.run('purge', film)).toEqual({ code: 0, stdout: `${film}: nothing was stored\n`, stderr: '' });
  });

  it('purges URLs in order, and stops at the first failure', async () => {
    let count = 0;
    const purge = async () => {
      count += 1;
      if (count === 2) throw new OperationFault('unavailable', 'The server is starting.');
      return { entries: 1 };
    };
    await using ground = await openCommandGround({ purge });
    expect(await ground.run('purge', `${film}?1`, `${film}?2`, `${film}?3`)).toEqual({
      code: 1,
      stdout: `${film}?1: 1 removed\n`,
      stderr: 'rangeway: The server is starting.\n',
    });
    expect(count).toBe(2);
  });

  it.each<[want: string, ...argv: string[]]>([
    ['say what: URLs, or --host, --tag, --group with --origin, or --all'],
    ['URLs and --all exclude each other', film, '--all'],
    ['--host and --tag exclude each other', '--host', 'a', '--tag', 'b'],
    ['say what', '--prefix'],
    ['--prefix goes with URLs', '--prefix', '--host', 'a'],
    ['--group and --origin go together', '--group', 'a'],
    ['--group and --origin go together', film, '--origin', 'http://a'],
    ['expected a URL such as http://127.0.0.1:8080/film.mp4, or a path, found ftp://x', film, 'ftp://x'],
    ["unknown option '--everything'", '--everything'],
  ])('misused: %s', async (want, ...argv) => {
    await using ground = await openCommandGround();
    const { code, stdout, stderr } = await ground.run('purge', ...argv);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(want);
    expect(ground.calls, 'nothing was purged').toEqual([]);
  });
});

describe('rangeway reload', () => {
  it('exits with 0 when the new configuration is in use, over a Unix socket too', async () => {
    await using ground = await openCommandGround({}, 'owner');
    expect(await ground.run('reload')).toEqual({
      code: 0,
      stdout: 'the configuration was read again and is in use\n',
      stderr: '',
    });
    expect(ground.calls).toEqual([['reload']]);
  });

  it.each<[what: string, fault: Error, code: number, stderr: string]>([
    [
      'every problem on its own line',
      new OperationFault('invalid', 'a.json: lisen: unknown option\na.json: routes: is required'),
      2,
      'a.json: lisen: unknown option\na.json: routes: is required\n',
    ],
    [
      'that there is no file to read again',
      new OperationFault('unavailable', 'There is no file to read again.'),
      1,
      'rangeway: There is no file to read again.\n',
    ],
    ['a failure', new Error('secret reason'), 1, 'rangeway: It failed; the log tells why.\n'],
  ])('reports %s', async (_what, fault, code, stderr) => {
    await using ground = await openCommandGround({ reload: () => Promise.reject(fault) });
    expect(await ground.run('reload')).toEqual({ code, stdout: '', stderr });
  });
});

describe('rangeway health', () => {
  const workers: [] = [];

  it('exits with 0 while the server serves, over a Unix socket too', async () => {
    await using ground = await openCommandGround({}, 'owner');
    expect(await ground.run('health')).toEqual({ code: 0, stdout: 'ready\n', stderr: '' });
    expect(ground.calls).toEqual([['readReadiness']]);
  });

  it('exits with 1 and the reason while it does not', async () => {
    const reason = 'The server is stopping.';
    const readReadiness = async () => ({ isReady: false, reason, workers, addresses: [] });
    await using ground = await openCommandGround({ readReadiness });
    expect(await ground.run('health')).toEqual({ code: 1, stdout: '', stderr: `rangeway: not ready: ${reason}\n` });
  });

  it.each([
    [{ isReady: true, reason: undefined }, 0, { isReady: true }],
    [{ isReady: false, reason: 'The server is stopping.' }, 1, { isReady: false, reason: 'The server is stopping.' }],
  ])('prints JSON: %j', async (readiness, code, want) => {
    const readReadiness = async () => ({ ...readiness, workers, addresses: [] });
    await using ground = await openCommandGround({ readReadiness });
    const run = await ground.run('health', '--json');
    expect({ ...run, stdout: JSON.parse(run.stdout) }).toEqual({ code, stdout: want, stderr: '' });
  });

  it('exits with 1 where no server answers', async () => {
    const ground = await openCommandGround();
    await ground[Symbol.asyncDispose]();
    const { code, stderr } = await ground.run('health');
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/^rangeway: [^\n]+\n$/) });
  });
});

describe('rangeway warm', () => {
  it('prints the outcome of each URL, and the sum', async () => {
    await using ground = await openCommandGround();
    const { code, stdout, stderr } = await ground.run('warm', film, 'files.example/b');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.split('\n').sort()).toEqual([
      '',
      '2 URLs, 20 B',
      '200  10 B     http://files.example/b  rangeway; fwd=miss',
      `200  10 B     ${film}  rangeway; fwd=miss`,
    ]);
    expect(ground.calls).toHaveLength(2);
  });

  it('sends the fields of -H', async () => {
    await using ground = await openCommandGround();
    const { code } = await ground.run('warm', film, '-H', 'Accept-Encoding: gzip', '-H', 'accept-language: de');
    expect(code).toBe(0);
    const fields = [
      ['Accept-Encoding', 'gzip'],
      ['accept-language', 'de'],
    ];
    expect(ground.calls).toEqual([['warm', { urls: [film], fields }]]);
  });

  it('exits with 1 where a URL has failed, and goes on with the others', async () => {
    await using ground = await openCommandGround({
      warm: async ({ urls }) =>
        urls.map((url) => ({
          url,
          status: url.endsWith('404') ? 404 : url.endsWith('0') ? 0 : 200,
          cacheStatus: undefined,
          bytes: 5,
          error: url.endsWith('0') ? 'the origin cannot be reached' : undefined,
        })),
    });
    const { code, stdout, stderr } = await ground.run('warm', 'http://a/404', 'http://a/0', 'http://a/1');
    expect({ code, stdout }).toEqual({ code: 1, stdout: '200  5 B      http://a/1\n1 URL, 5 B; 2 failed\n' });
    expect(stderr.trimEnd().split('\n').sort()).toEqual([
      'rangeway: http://a/0: the origin cannot be reached',
      'rangeway: http://a/404: the answer was 404',
    ]);
  });

  it.each<[want: string, ...argv: string[]]>([
    ['say what: URLs, - for those of standard input, --from, --sitemap or --manifest'],
    ['Expected a rate such as 20/s or 100/min.', 'http://a/', '--rate', '0'],
    ['Expected a size such as 10MB.', 'http://a/', '--bandwidth', 'fast'],
    ['Expected a number from 1 to 99.', 'http://a/', '--jobs', '100'],
    ['Expected all, best, lowest, or a height such as 720p.', '--manifest', 'http://a/', '--rendition', '720'],
    [
      '--manifest: expected a URL such as http://127.0.0.1:8080/master.m3u8, found ftp://a/x',
      '--manifest',
      'ftp://a/x',
    ],
    ['expected URLs such as http://127.0.0.1:8080/film.mp4, paths, or -, found ftp://x', 'ftp://x'],
    ['found -', 'http://a/', '-'],
    ["Expected 'Name: value'.", 'http://a/', '-H', 'x'],
  ])('misused: %s', async (want, ...argv) => {
    await using ground = await openCommandGround();
    const { code, stderr } = await ground.run('warm', ...argv);
    expect(code).toBe(2);
    expect(stderr).toContain(want);
    expect(ground.calls).toEqual([]);
  });
});

describe('rangeway ls', () => {
  const entry = (number: number, more: Partial<EntryStatus> = {}): EntryStatus => ({
    ...someEntry,
    uri: `http://files.example/${number}`,
    generation: `g${number}`,
    responseAt: Date.now() - 90_000,
    ...more,
  });

  it('prints a table with the present share of each entry', async () => {
    await using ground = await openCommandGround({
      listEntries: async () => ({
        entries: [
          entry(1, { sizeBytes: 1_500_000, isComplete: true, tags: [] }),
          entry(2, { isInvalid: true }),
          entry(3, { sizeBytes: 0, isComplete: true, status: 404, tags: [], pinnedUntil: 1 }),
          entry(4, { sizeBytes: 524_289, tags: [], uri: 'http://a/\u001b[2J\nb' }),
        ],
        next: undefined,
      }),
    });
    const { code, stdout, stderr } = await ground.run('ls');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout.replaceAll(/1 min 3\d s/g, '1 min 30 s')).toBe(
      [
        'SIZE      PRESENT   STATUS   AGE           URI',
        '1.5 MB    all       200      1 min 30 s    http://files.example/1',
        '5 GB      <1%       200      1 min 30 s    http://files.example/2  (to be validated, tags film group:x)',
        '0 B       all       404      1 min 30 s    http://files.example/3  (replaced)',
        '524 KB    99%       200      1 min 30 s    http://a/\ufffd[2J b',
        '',
      ].join('\n'),
    );
  });

  it('prints an entry that is removed meanwhile with what the list told', async () => {
    await using ground = await openCommandGround({
      listEntries: async () => ({ entries: [entry(1)], next: undefined }),
      inspectEntry: () => Promise.reject(new OperationFault('not_found', 'There is no such entry.')),
    });
    const { code, stdout, stderr } = await ground.run('ls', '--coverage');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/5 GB\s.*\d+%\s+200/);
  });

  it.each<[argv: readonly string[], search: object]>([
    [[], { kind: 'all' }],
    [['files.example/fi'], { kind: 'prefix', url: 'http://files.example/fi' }],
    [['--host', 'files.example'], { kind: 'host', host: 'files.example' }],
    [['--tag', 'a b'], { kind: 'tag', tag: 'a b' }],
  ])('%j', async (argv, search) => {
    await using ground = await openCommandGround({ listEntries: async () => ({ entries: [], next: undefined }) });
    expect(await ground.run('ls', ...argv)).toEqual({
      code: 0,
      stdout: '',
      stderr: 'rangeway: nothing is stored there\n',
    });
    expect(ground.calls).toEqual([['listEntries', search, 500, undefined, undefined]]);
  });

  it('reads page after page, up to the limit', async () => {
    const pages = [
      { entries: [entry(1), entry(2)], next: 'second' },
      { entries: [entry(3)], next: 'third' },
      { entries: [entry(4)], next: undefined },
    ];
    let at = 0;
    await using ground = await openCommandGround({
      listEntries: async () => pages[at++] ?? { entries: [], next: undefined },
    });
    const { code, stdout, stderr } = await ground.run('ls', '--json');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as EntryStatus).generation)).toEqual(['g1', 'g2', 'g3', 'g4']);
    expect(ground.calls.map(([, , limit, after]) => [limit, after])).toEqual([
      [500, undefined],
      [500, 'second'],
      [500, 'third'],
    ]);

    at = 0;
    ground.calls.length = 0;
    const limited = await ground.run('ls', '--json', '--limit', '3');
    expect(limited.stdout.trimEnd().split('\n')).toHaveLength(3);
    expect(limited.stderr).toBe('rangeway: there are more than 3; --limit tells how many are printed\n');
    expect(ground.calls.map(([, , limit]) => limit)).toEqual([3, 1]);
  });

  it('requests an entry by its generation and key, whatever characters they have', async () => {
    const key = 'http://origin.test\nhttp://files.example/a?b&c=%20ü';
    await using ground = await openCommandGround({
      listEntries: async () => ({ entries: [entry(1, { key, generation: 'a/b c' })], next: undefined }),
      inspectEntry: async () => someDetails,
    });
    await ground.run('ls', '--coverage');
    expect(ground.calls.at(-1)).toEqual(['inspectEntry', key, 'a/b c']);
  });

  it.each<[want: string, ...argv: string[]]>([
    ['a URL, --host and --tag exclude each other', film, '--tag', 'a'],
    ['expected the beginning of URLs such as http://127.0.0.1:8080/films/, found ftp://x', 'ftp://x'],
    ['Expected a number such as 100.', '--limit', '0'],
  ])('misused: %s', async (want, ...argv) => {
    await using ground = await openCommandGround();
    const { code, stdout, stderr } = await ground.run('ls', ...argv);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(want);
    expect(ground.calls).toEqual([]);
  });
});
