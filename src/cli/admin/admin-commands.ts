/** The commands for a running Rangeway, and their flags. */

import { type Command, InvalidArgumentError } from 'commander';
import { collectHeader } from '../explain/header-flag.ts';
import type { CliIo } from '../io.ts';
import type { AdminFlags } from './admin-server.ts';
import type { LsFlags } from './ls.ts';
import type { PurgeFlags } from './purge.ts';
import type { WarmFlags } from './warm.ts';

type End = (code: number) => void;

/** Adds them. Only who uses one pays for loading it. */
export function addAdminCommands(program: Command, io: CliIo, end: End): void {
  addLs(program, io, end);
  addPurge(program, io, end);
  addWarm(program, io, end);
  addReload(program, io, end);
}

function addLs(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('ls')
      .description('list what a running Rangeway has stored')
      .argument('[url]', 'only what is stored for URLs that begin like this')
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
      .argument('[url...]', 'what is stored for these URLs')
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
      .argument('<url...>', 'the URLs as clients ask for them; - reads them from standard input, one a line')
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

function withAdminFlags(command: Command): Command {
  return command
    .option(
      '--admin <place>',
      'where its admin listener is: a URL, [host:]port or unix:PATH (default: $RANGEWAY_ADMIN, or 127.0.0.1:9180)',
    )
    .option('--token <source>', 'where its token is: env:NAME or file:PATH (default: $RANGEWAY_ADMIN_TOKEN)');
}

function parseLimit(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('Expected a number such as 100.');
  return Number(text);
}
