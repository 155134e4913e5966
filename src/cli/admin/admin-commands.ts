/** The commands for a running Rangeway, and their flags. */

import { type Command, InvalidArgumentError } from 'commander';
import { type ExplainFlags, parseRangeFlag } from '../explain/explain-flags.ts';
import { collectHeader } from '../explain/header-flag.ts';
import type { CliIo } from '../io.ts';
import type { AdminFlags } from './admin-server.ts';
import type { LsFlags } from './ls.ts';
import type { PurgeFlags } from './purge.ts';
import { withScheme } from './stored-url.ts';
import type { WarmFlags } from './warm.ts';

type End = (code: number) => void;

/** Adds them. A command is loaded when it is used. */
export function addAdminCommands(program: Command, io: CliIo, end: End): void {
  addLs(program, io, end);
  addPurge(program, io, end);
  addWarm(program, io, end);
  addReload(program, io, end);
  addExplain(program, io, end);
}

function addLs(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('ls')
      .description('list what a running Rangeway has stored')
      .argument('[url]', 'only what is stored for URLs that begin like this; a path alone where there is one route')
      .option('--host <host>', 'only what is stored for this host')
      .option('--tag <tag>', 'only what has this tag')
      .option('--limit <n>', 'the most entries to print (default: 1000)', parseLimit)
      .option('--json', 'print one entry a line, as Rangeway tells it'),
  ).action(async (url: string | undefined, flags: LsFlags) => {
    const { ls } = await import('./ls.ts');
    end(await ls(url, flags, io, Date.now));
  });
}

function addPurge(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('purge')
      .description('remove what a running Rangeway has stored; when this returns, no new request gets it')
      .argument('[url...]', 'what is stored for these URLs; paths alone where there is one route')
      .option('--prefix', 'what is stored for all URLs that begin like these')
      .option('--host <host>', 'what is stored for this host')
      .option('--tag <tag>', 'what has this tag of Cache-Tag or Surrogate-Key')
      .option('--group <group>', 'what is in this group of Cache-Groups, with --origin')
      .option('--origin <origin>', 'whose group it is, such as https://example.org')
      .option('--all', 'everything')
      .option(
        '--soft',
        'end its lifetime: it is validated before it is used again, and may be served if the origin fails',
      ),
  ).action(async (urls: string[], flags: PurgeFlags) => {
    const { purge } = await import('./purge.ts');
    end(await purge(urls, flags, io));
  });
}

function addWarm(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('warm')
      .description('have a running Rangeway fetch URLs before somebody asks for them')
      .argument(
        '<url...>',
        'the URLs as clients ask for them, or paths where there is one route; - reads standard input, one a line',
      )
      .option("-H, --header <'Name: value'>", 'a field of the requests; may be given more than once', collectHeader),
  ).action(async (urls: string[], flags: WarmFlags) => {
    const { warm } = await import('./warm.ts');
    end(await warm(urls, flags, io, process.stdin));
  });
}

function addReload(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('reload')
      .description('have a running Rangeway read its configuration again; what is under way goes on'),
  ).action(async (flags: AdminFlags) => {
    const { reload } = await import('./reload.ts');
    end(await reload(flags, io));
  });
}

export function withAdminFlags(command: Command): Command {
  return command
    .option(
      '--admin <place>',
      'where its admin listener is: a URL, [host:]port or unix:PATH (default: $RANGEWAY_ADMIN, or the one that runs here)',
    )
    .option('-c, --config <file>', 'the server with this configuration file, in place of --admin')
    .option('--dir <path>', 'the server with its store in this directory, in place of --admin')
    .option('--token <source>', 'where its token is: env:NAME or file:PATH (default: $RANGEWAY_ADMIN_TOKEN)');
}

function addExplain(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('explain')
      .description('tell what a running Rangeway would do with a request, and why; nothing is asked of the origin')
      .argument(
        '<url>',
        'the URL as clients ask for it, such as http://127.0.0.1:8080/film.mp4, or a path where there is one route',
        parseResource,
      )
      .option('-r, --range <range>', 'the range that is asked for, such as 0-99 or -100', parseRangeFlag)
      .option("-H, --header <'Name: value'>", 'a field of the request; may be given more than once', collectHeader)
      .option('-X, --request <method>', 'the method of the request (default: GET)', parseMethod)
      .option('--client <address>', 'the address of the client that would ask (default: 127.0.0.1)')
      .option('--json', 'print what Rangeway says as it says it'),
  ).action(async (url: string, flags: ExplainFlags) => {
    const { explain } = await import('../explain/explain.ts');
    end(await explain(url, flags, io));
  });
}

function parseResource(text: string): string {
  const url = withScheme(text);
  if (url !== undefined) return url;
  throw new InvalidArgumentError('Expected a URL such as http://127.0.0.1:8080/film.mp4, or a path.');
}

function parseMethod(text: string): string {
  if (!/^[A-Za-z][!#$%&'*+.^_`|~\w-]*$/.test(text)) throw new InvalidArgumentError('Expected a method such as HEAD.');
  return text;
}

function parseLimit(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('Expected a number such as 100.');
  return Number(text);
}
