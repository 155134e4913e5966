import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { checkConfig } from '../src/config/load.ts';
import { itWith, runProgram } from './support/processes/programs.ts';
import { projectDirectory, startLine } from './support/processes/rangeway-process.ts';

const dir = mkdtempSync(join(tmpdir(), 'rangeway-readme-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const readme = readFileSync(join(projectDirectory, 'README.md'), 'utf8');

/** Returns the contents of the fenced blocks of a language, in order. */
function blocks(language: string): string[] {
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)\\n\`\`\`$`, 'gms'))].map(([, text = '']) => text);
}

const [demo = '', ask = '', inFrontOfYours = '', install = '', check = '', operate = '', ...otherLines] = blocks('sh');
const [shown = ''] = blocks('http');

/** Fields whose values depend on time or machine. The README may leave them out. */
const changing = /^(date|via|age|connection|keep-alive):/i;

describe('the commands of the README', () => {
  it('are those that this file tests', () => {
    expect(demo).toBe('npm ci && npm run demo');
    expect(ask).toMatch(/^curl .* http:\/\/127\.0\.0\.1:8080\/\S+$/);
    expect(inFrontOfYours).toMatch(/^npm start -- http:\/\/127\.0\.0\.1:3000 --listen 8080$/);
    expect(install).toMatch(/^npm ci && npm pack\nnpm install --global \.\/rangeway-\S+\.tgz\nrangeway -v$/);
    expect(check).toBe('npm start -- check config.example.json');
    expect(operate).toMatch(/^npm start -- http:\S+ --workers auto\nnpm start -- ls$/);
    expect(otherLines).toEqual([]);
  });

  itWith(['npm', 'curl'], 'npm run demo, and the output of curl', async () => {
    await using started = startLine('npm run demo');
    const [, url = ''] = await started.waitFor(/Rangeway\s+(http:\S+)\s[\s\S]*Ctrl-C/);
    const line = ask.replace('http://127.0.0.1:8080', url);

    const first = await runProgram('sh', ['-c', line], dir);
    expect(headLines(first.stdout.toString('latin1'))).toEqual(headLines(shown));

    const [, promised = ''] = /The second time it says `([^`]*)`/.exec(readme) ?? [];
    expect(promised).toMatch(/^Cache-Status: .*hit$/);
    // The last block may not be written yet, which a person would not be fast enough to notice.
    const again = async () => (await runProgram('sh', ['-c', line], dir)).stdout.toString('latin1');
    await expect.poll(again).toContain(`\n${promised}`);

    await started.stop('SIGINT');
    expect(started.output()).toMatch(/\nStopped.*\n$/);
  });

  itWith(['npm'], 'npm start in front of your own server', async () => {
    await using started = startLine(inFrontOfYours.replace(/8080$/, '0'), { XDG_CACHE_HOME: dir });
    const [, url = ''] = await started.waitFor(/ready on (http:[^\s",]+),/);
    // No origin listens there.
    expect((await fetch(url)).status).toBe(502);
  });

  itWith(['npm'], 'npm start ends the server when npm gets SIGTERM', async () => {
    await using started = startLine(`exec ${inFrontOfYours.replace(/8080$/, '0')}`, { XDG_CACHE_HOME: dir });
    await started.waitFor(/ready on http:/);
    // Signals npm alone, as a service manager or a container does.
    process.kill(started.pid, 'SIGTERM');
    expect(await started.ended(), started.output()).toBe(0);
    expect(started.output()).toContain('"stage":"stopped"');
  });

  itWith(['npm'], 'npm start with workers, and npm start -- ls', async () => {
    const [serve = '', list = ''] = operate.replace(' --workers', ' --listen 127.0.0.1:0 --workers').split('\n');
    const alone = { TMPDIR: dir, XDG_CACHE_HOME: dir, XDG_RUNTIME_DIR: dir };
    await using started = startLine(serve, alone);
    await started.waitFor(/ready on http:\S+,.* administered on unix:/);
    await using listed = startLine(list, alone);
    expect(await listed.ended(), listed.output()).toBe(0);
    expect(listed.output()).toMatch(/nothing is stored|SIZE/i);
  });

  itWith(['npm'], 'npm start -- check', async () => {
    await using started = startLine(check);
    expect(await started.ended(), started.output()).toBe(0);
  });
});

/** Returns the status line and the fields that do not change. */
function headLines(head: string): string[] {
  return head
    .trim()
    .split(/\r?\n/)
    .filter((line) => !changing.test(line));
}

describe('the other blocks of the README', () => {
  it.each(blocks('json'))('the configuration is valid: %s', (text) => {
    expect(checkConfig(JSON.parse(text), '.')).toMatchObject({ kind: 'ok' });
  });

  it('the installed package has the current version', () => {
    const { version } = JSON.parse(readDocument('package.json')) as { version: string };
    expect(install).toContain(`rangeway-${version}.tgz`);
  });

  it('the smallest configuration has only an origin', () => {
    const [smallest = ''] = blocks('json');
    expect(JSON.parse(smallest)).toEqual({ routes: [{ origin: expect.any(String) }] });
  });

  itWith([], 'the program that embeds it runs', async () => {
    const [program = '', ...others] = blocks('js');
    expect(others).toEqual([]);
    const file = join(dir, 'embed.mjs');
    const entry = pathToFileURL(join(projectDirectory, 'src/index.ts')).href;
    const here = program.replace("from 'rangeway'", `from '${entry}'`).replace("listen: '8080'", "listen: '0'");
    expect(here).not.toMatch(/'rangeway'|8080/);
    writeFileSync(file, here);
    await using started = startLine(`exec "${process.execPath}" "${file}"`);
    // The program prints the kind of each event: `life` when the server is ready.
    await started.waitFor(/^life$/m);
    await started.waitFor(/^http:\S+$/m);
    process.kill(started.pid, 'SIGTERM');
    expect(await started.ended(), started.output()).toBe(0);
  });
});

describe('the documents', () => {
  const documents = ['.', 'src', 'test', 'docs', 'assets', 'bench', 'dashboard'].flatMap((place) => markdownIn(place));

  it('are found', () => expect(documents.length).toBeGreaterThan(4));

  it('README.md is short enough to be read', () => expect(readme.split('\n').length).toBeLessThan(240));

  it.each(documents)('%s links to files that exist', (name) => {
    const links = [...readDocument(name).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
    const local = links.filter((target) => !/^[a-z][a-z+.-]*:/i.test(target));
    expect(local.filter((target) => !exists(join(dirname(name), target.replace(/#.*$/, ''))))).toEqual([]);
  });

  it.each(documents)('%s names scripts that package.json has', (name) => {
    const { scripts } = JSON.parse(readDocument('package.json')) as { scripts: Record<string, string> };
    const named = [...readDocument(name).matchAll(/npm run ([\w:-]+)/g)].map(([, script = '']) => script);
    expect(named.filter((script) => scripts[script] === undefined)).toEqual([]);
  });
});

/** Returns our Markdown files in a folder: at the top level without subfolders, elsewhere with them. */
function markdownIn(place: string): string[] {
  if (!exists(place)) return [];
  return readdirSync(join(projectDirectory, place), { recursive: place !== '.' })
    .map((name) => join(place, String(name)))
    .filter((name) => name.endsWith('.md') && !name.split(sep).includes('node_modules'));
}

function readDocument(name: string): string {
  return readFileSync(join(projectDirectory, name), 'utf8');
}

function exists(name: string): boolean {
  return statSync(join(projectDirectory, name), { throwIfNoEntry: false }) !== undefined;
}
