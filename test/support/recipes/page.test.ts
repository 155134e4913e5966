import { describe, expect, it } from 'vitest';
import { isShown, readBlocks } from './page.ts';

const fence = '```';

describe('readBlocks', () => {
  it('reads files, commands and shown outputs, by section', () => {
    const page = `# Films

${fence}text
client --> rangeway
${fence}

## Write

\`rangeway.json\`:

${fence}json
{ "routes": [] }
${fence}

Serve the films, with \`server.mjs\`, which you have:

${fence}sh
# in a terminal of its own
node server.mjs

curl -s \\
  http://127.0.0.1:8080/
${fence}

## Check

${fence}console
$ curl -sI http://127.0.0.1:8080/
HTTP/1.1 200 OK

$ curl -s \\
    http://127.0.0.1:8080/ -o file
${fence}
`;
    expect(readBlocks(page)).toEqual([
      { kind: 'file', section: 'Write', name: 'rangeway.json', language: 'json', text: '{ "routes": [] }\n' },
      { kind: 'shell', section: 'Write', commands: ['node server.mjs', 'curl -s \\\n  http://127.0.0.1:8080/'] },
      {
        kind: 'console',
        section: 'Check',
        commands: [
          { command: 'curl -sI http://127.0.0.1:8080/', shown: ['HTTP/1.1 200 OK', ''] },
          { command: 'curl -s \\\n    http://127.0.0.1:8080/ -o file', shown: [] },
        ],
      },
    ]);
  });

  it('refuses a block that nothing would run', () => {
    expect(() => readBlocks(`Some lines:\n\n${fence}json\n{}\n${fence}\n`)).toThrow(/name of its file/);
    expect(() => readBlocks(`${fence}console\nHTTP/1.1 200 OK\n${fence}\n`)).toThrow(/begin with a command/);
  });
});

describe('isShown', () => {
  it.each([
    { shown: ['206 100'], output: '206 100\n', is: true },
    { shown: ['206 100'], output: '206 100', is: true },
    { shown: ['HTTP/1.1 200 OK', ''], output: 'HTTP/1.1 200 OK\r\n\r\n', is: true },
    { shown: ['206 100'], output: '206 1000\n', is: false },
    { shown: ['206 100'], output: '206 100\n206 100\n', is: false },
    { shown: ['a.c'], output: 'abc\n', is: false },
    { shown: [], output: '', is: true },
    { shown: [], output: 'a warning\n', is: false },
    { shown: ['ETag: "…"'], output: 'ETag: "v1"\n', is: true },
    { shown: ['ETag: "…"'], output: 'ETag: "v1"\nAge: 1"\n', is: false },
    { shown: ['first', '…', 'last'], output: 'first\nsecond\nthird\nlast\n', is: true },
    { shown: ['first', '…', 'last'], output: 'first\nlast\n', is: true },
    { shown: ['first', '…', 'last'], output: 'first\nlast\nmore\n', is: false },
  ])('$shown of $output: $is', ({ shown, output, is }) => {
    expect(isShown(shown, output)).toBe(is);
  });
});
