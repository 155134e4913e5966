import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ChosenConfig, formatConfigText, quoteForShell } from '../../../src/cli/init/config-text.ts';
import { checkConfig, parseConfigText } from '../../../src/config/load.ts';

const chosen: ChosenConfig = {
  file: 'rangeway.jsonc',
  origin: 'http://127.0.0.1:3000',
  insecureTls: false,
  originHost: undefined,
  listen: '127.0.0.1:8080',
  store: { type: 'disk', dir: undefined, defaultDir: '~/.cache', maxSize: '10GB', memory: '128MB' },
  workers: undefined,
  admin: 'socket',
  probed: [],
  lacksLifetime: false,
};

/** Returns the value of a text. Throws where it is no valid configuration. */
function checkedValue(text: string): unknown {
  const parsed = parseConfigText(text);
  const checked = parsed.kind === 'ok' ? checkConfig(parsed.value, '.') : parsed;
  if (parsed.kind === 'invalid' || checked.kind === 'invalid') throw new Error(`${JSON.stringify(checked)}\n${text}`);
  return parsed.value;
}

/** Uses all members that are commented out. */
function withAllMembers(text: string): string {
  return text.replaceAll(/^( *)\/\/ (?=(?: {2})?"[$\w]+": |\})/gm, '$1');
}

const base = { listen: '127.0.0.1:8080', store: { maxSizeBytes: '10GB', memoryBytes: '128MB' } };
const routes = [{ origin: 'http://127.0.0.1:3000' }];

describe('formatConfigText', () => {
  it.each<[change: Partial<ChosenConfig>, want: object]>([
    [{}, { ...base, routes }],
    [
      { store: { type: 'disk', dir: './store', defaultDir: '', maxSize: '1GB', memory: '1MB' } },
      { ...base, store: { dir: './store', maxSizeBytes: '1GB', memoryBytes: '1MB' }, routes },
    ],
    [
      { store: { type: 'memory', maxSize: '1GB' } },
      { ...base, store: { type: 'memory', maxSizeBytes: '1GB' }, routes },
    ],
    [{ workers: 'auto' }, { ...base, workers: 'auto', routes }],
    [{ workers: 2 }, { ...base, workers: 2, routes }],
    [{ admin: 'off' }, { ...base, admin: 'off', routes }],
    [
      { admin: { listen: '9180', token: 'env:TOKEN' } },
      { ...base, admin: { listen: '9180', token: 'env:TOKEN' }, routes },
    ],
    [{ admin: { listen: 'unix:/run/x', token: undefined } }, { ...base, admin: { listen: 'unix:/run/x' }, routes }],
    [
      { origin: 'https://127.0.0.1', insecureTls: true, originHost: 'keep' },
      { ...base, routes: [{ origin: { url: 'https://127.0.0.1', host: 'keep', insecureTls: true } }] },
    ],
    [
      { lacksLifetime: true, probed: ['it was asked', '  ranges   none'] },
      { ...base, routes },
    ],
  ])('%j', (change, want) => {
    const text = formatConfigText({ ...chosen, ...change });
    expect(checkedValue(text)).toEqual(want);
    // Each member that is commented out can be used as it is.
    const all = checkedValue(withAllMembers(text));
    const workers = change.store?.type === 'memory' ? [] : ['workers'];
    expect(Object.keys(all as object)).toEqual(['$schema', 'listen', 'store', ...workers, 'admin', 'routes']);
  });

  it('has comments of its own, and commands for the file', () => {
    const text = formatConfigText({
      ...chosen,
      file: "it's.json",
      lacksLifetime: true,
      probed: ['known:', '  ranges   none'],
    });
    expect(text.split('\n').slice(2, 6)).toEqual([
      "//   rangeway check 'it'\\''s.json'       finds mistakes in it",
      "//   rangeway doctor -c 'it'\\''s.json'   checks this machine for it",
      "//   rangeway -c 'it'\\''s.json'          serves",
      "//   rangeway reload -c 'it'\\''s.json'   has the running server read it again",
    ]);
    expect(text).toContain(
      '      // known:\n      //   ranges   none\n      // The Host that it sees: that of the client ("host": "keep", "origin" or a name).\n      "origin": "http://127.0.0.1:3000"\n',
    );
    expect(text).toContain('      // "cache": {"defaultTtlSeconds":60},\n');
    expect(text.endsWith('  ]\n}\n')).toBe(true);
  });

  it('says the same whatever stands in its comments', () => {
    const odd = fc.array(fc.constantFrom('\n', '\r', '*/', '//', '"', '}', 'a', '\u2028', '\\'), { maxLength: 8 });
    const line = odd.map((signs) => signs.join(''));
    fc.assert(
      fc.property(line, fc.array(line, { maxLength: 3 }), (file, probed) => {
        expect(checkedValue(formatConfigText({ ...chosen, file, probed }))).toEqual({ ...base, routes });
      }),
    );
  });
});

it.each<[text: string, want: string]>([
  ['/etc/rangeway/r.json', '/etc/rangeway/r.json'],
  ['a b', "'a b'"],
  ["it's", "'it'\\''s'"],
  ['$HOME', "'$HOME'"],
  ['', "''"],
])('quoteForShell %j', (text, want) => expect(quoteForShell(text)).toBe(want));
