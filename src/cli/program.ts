/** Defines all commands and their flags. Each command is imported when it runs. */

import { randomBytes } from 'node:crypto';
import { Command, CommanderError, Help, InvalidArgumentError, Option } from 'commander';
import { parseDuration, parseSize } from '../config/amounts.ts';
import { nearestName } from '../config/nearest-name.ts';
import type { RenditionChoice } from '../media/targets.ts';
import { version } from '../setup/package-files.ts';
import type { DashboardFlags } from './admin/dashboard.ts';
import { collectHeader, type ExplainFlags, parseRangeFlag, parseUrl, withScheme } from './admin/flags.ts';
import type { HealthFlags } from './admin/health.ts';
import type { LsFlags } from './admin/ls.ts';
import type { PurgeFlags } from './admin/purge.ts';
import type { ReloadFlags } from './admin/reload.ts';
import type { DemoOptions } from './demo/demo.ts';
import { type CliIo, exitCode } from './io.ts';
import type { ProbeFlags } from './probe/probe.ts';
import type { ServeFlags } from './serve-config.ts';
import { addSetupCommands } from './setup-commands.ts';
import type { SignFlags } from './sign.ts';
import type { TopFlags } from './top/top.ts';
import { parseRate } from './warm/pace.ts';
import type { WarmFlags } from './warm/warm.ts';

const usage = `[serve] <origin> [options]
       rangeway --config FILE [options]
       rangeway check FILE...
       rangeway schema
       rangeway probe ORIGIN [PATH] [options]
       rangeway top | ls | purge | warm | reload | explain | dashboard | health [options]
       rangeway hash-password [NAME]
       rangeway sign URL --secret SOURCE [options]
       rangeway demo [options]
       rangeway init [FILE] [options]
       rangeway doctor [ORIGIN] [options]
       rangeway completion bash | zsh | fish`;

const HOUR_MS = 3_600_000;

const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'];

const examples = `
Examples:
  rangeway http://127.0.0.1:3000                     serve it on http://127.0.0.1:8080
  rangeway https://example.org --listen 0.0.0.0:80   serve it to all who can reach this machine
  rangeway --config rangeway.json`;

/** Creates the program, with its output on `io`. Commands pass their exit code to `end`. Misuse, help and version throw CommanderError. */
export function createProgram(io: CliIo, end: (code: number) => void): Command {
  const program = new Command('rangeway')
    .usage(usage)
    .description('A reverse caching proxy that puts HTTP byte ranges in front of any origin.')
    .version(version, '-v, --version', 'print the version')
    .addOption(new Option('-V', 'print the version').hideHelp())
    .on('option:V', () => {
      io.stdout.write(`${version}\n`);
      throw new CommanderError(0, 'commander.version', version);
    })
    .helpOption('-h, --help', 'print this help')
    .helpCommand('help [command]', 'print this help, or that of a command')
    .addHelpText('after', examples)
    .showHelpAfterError('(rangeway --help tells more)')
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'rangeway: ')),
    });
  const serving = addServe(program, io, end);
  addCheck(program, io, end);
  addSchema(program, io, end);
  addProbe(program, io, end);
  addAdminCommands(program, io, end);
  addHashPassword(program, io, end);
  addSign(program, io, end);
  addDemo(program, io, end);
  addSetupCommands(program, serving, io, end);
  addWorker(program, io, end);
  for (const command of program.commands) {
    if (command !== serving) command.showHelpAfterError(`(rangeway ${command.name()} --help tells more)`);
  }
  // `serve` is the default command, so the help of the program lists its flags.
  return program.configureHelp({
    visibleOptions: (command) => [...serving.options, ...new Help().visibleOptions(command)],
  });
}

function addServe(program: Command, io: CliIo, end: (code: number) => void): Command {
  const command = program.command('serve', { isDefault: true });
  return command
    .description('serve an origin, or the routes of a configuration file')
    .argument('[origin]', 'the URL of the origin, such as http://127.0.0.1:3000')
    .option('-l, --listen <[host:]port>', 'where to listen (default: 127.0.0.1:8080)')
    .option('-c, --config <file>', 'a configuration file; flags take precedence over it')
    .option(
      '--store <disk|memory|URL>',
      'where responses are kept: a URL is one of Redis or Valkey, such as redis://127.0.0.1:6379 (default: disk)',
    )
    .option(
      '--dir <directory>',
      'the directory of the disk store (default: rangeway/<host>-<port> in ~/.cache; a temporary one for port 0)',
    )
    .option('--max-size <size>', 'how much is kept, such as 50GB (default: 10GB on disk, 256MB in memory)')
    .option('--memory <size>', 'the memory tier in front of the disk (default: 128MB)')
    .option(
      '--default-ttl <time>',
      'how long a response is fresh where the origin states no lifetime, such as 60s',
      parseTime,
    )
    .option(
      '--origin-host <auto|origin|keep|NAME>',
      "the Host that the origin sees: its own, the client's, or a name (default: auto: the client's if the URL has an address or localhost)",
    )
    .option(
      '--insecure-tls',
      'accept any certificate from the origin, such as a self-signed one: then nothing proves that it is the origin',
    )
    .option('--workers <N|auto>', 'how many processes serve; auto for one per core (default: 1)')
    .option(
      '--admin <[host:]port|unix:PATH|off>',
      "where health, metrics and the API are served besides the Unix socket in the store's directory; off: nowhere at all",
    )
    .option('--admin-token <source>', 'where the token of the API is: env:NAME or file:PATH, never the token itself')
    .addOption(new Option('--log-level <level>', 'the minimum level that is logged (default: info)').choices(logLevels))
    .option('--log-format <auto|pretty|json>', 'the format of the log (default: auto: pretty on a terminal)')
    .allowExcessArguments()
    .action(async (origin: string | undefined, flags: ServeFlags) => {
      const complaint = complainAbout(origin, command.args, flags, program);
      if (complaint !== undefined) command.error(`error: ${complaint}`);
      const { serve } = await import('./serve.ts');
      end(await serve(origin, flags, io));
    });
}

function addCheck(program: Command, io: CliIo, end: (code: number) => void): void {
  program
    .command('check')
    .description('check configuration files and print everything that is wrong with them')
    .argument('<file...>', 'configuration files')
    .option('--json', 'print for each file one line of JSON')
    .action(async (files: string[], flags: { json?: boolean }) => {
      const { check } = await import('./check.ts');
      end(await check(files, io, flags));
    });
}

function addSchema(program: Command, io: CliIo, end: (code: number) => void): void {
  program
    .command('schema')
    .description('print the JSON Schema of configuration files, for "$schema" and your editor')
    .action(async () => {
      const { formatJsonSchema } = await import('../config/json-schema.ts');
      io.stdout.write(formatJsonSchema());
      end(exitCode.done);
    });
}

function addProbe(program: Command, io: CliIo, end: (code: number) => void): void {
  program
    .command('probe')
    .description('print what an origin lacks, and what Rangeway would do about it; sends the origin a few requests')
    .argument('<origin-url>', 'the URL of the origin, or of a resource there')
    .argument('[path]', 'the path to ask for, such as /film.mp4')
    .option("-H, --header <'Name: value'>", 'a field of the requests; may be given more than once', collectHeader)
    .option('-k, --insecure', 'accept any certificate')
    .option('--json', 'print the findings as JSON')
    .action(async (origin: string, path: string | undefined, flags: ProbeFlags) => {
      const { probe } = await import('./probe/probe.ts');
      end(await probe(origin, path, flags, io, Date.now));
    });
}

function addHashPassword(program: Command, io: CliIo, end: (code: number) => void): void {
  program
    .command('hash-password')
    .description('print the line that "access.basic" needs; the password is asked for, or read from a pipe')
    .argument('[name]', 'the name that the password belongs to; without it the hash alone is printed')
    .option('--json', 'print the name and the hash as JSON')
    .action(async (name: string | undefined, { json }: { json?: boolean }) => {
      const { hashPassword } = await import('./hash-password.ts');
      end(await hashPassword(name, io, { json, input: process.stdin, random: randomBytes }));
    });
}

function addSign(program: Command, io: CliIo, end: (code: number) => void): void {
  program
    .command('sign')
    .description('print a signed URL that gives access for some time, on a route with "access.signedUrls"')
    .argument('<url>', 'the URL as clients see it, such as https://media.example.org/film.mp4', parseTarget)
    .requiredOption('--secret <source>', 'the keys, as in the configuration: file:PATH or env:NAME of lines id:secret')
    .option('--key-id <id>', 'which of the keys signs (needed where there are several)')
    .option('--expires-in <time>', 'how long the URL is valid, such as 90s or 7d (default: 1h)', parseTime)
    .option('--json', 'print the URL, its key and its expiry as JSON')
    .action(async (url: URL, flags: Omit<SignFlags, 'expiresIn'>) => {
      const { sign } = await import('./sign.ts');
      end(await sign(url, { expiresIn: HOUR_MS, ...flags }, io, Date.now()));
    });
}

function addDemo(program: Command, io: CliIo, end: (code: number) => void): void {
  program
    .command('demo')
    .description('start a legacy origin and a proxy in front of it, and show what to try')
    .option(
      '-l, --listen <[host:]port>',
      'where the proxy listens (default: 127.0.0.1, the first free port from 8080 on)',
    )
    .option('--origin-only', 'start only the origin, by default on 127.0.0.1:3000')
    .action(async (options: DemoOptions) => {
      const { runDemo } = await import('./demo/demo.ts');
      end(await runDemo(options, io));
    });
}

/** Adds the hidden command by which a server starts its workers. */
function addWorker(program: Command, io: CliIo, end: (code: number) => void): void {
  program.command('worker', { hidden: true }).action(async () => {
    const { worker } = await import('./worker.ts');
    end(await worker(io));
  });
}

/** Returns what is wrong with the arguments of `serve`. As the default command it gets a mistyped command name as its origin. */
function complainAbout(
  origin: string | undefined,
  args: readonly string[],
  flags: ServeFlags,
  program: Command,
): string | undefined {
  if (origin === undefined) {
    return flags.config === undefined ? 'give the URL of an origin, or a file with --config' : undefined;
  }
  const names = new Help().visibleCommands(program).map((command) => command.name());
  const meant = /^[\w-]+$/.test(origin) ? nearestName(origin, names) : undefined;
  if (meant !== undefined) return `unknown command "${origin}"; did you mean "${meant}"?`;
  return args.length > 1 ? `one origin is served, not ${args.length}: several need a file with routes` : undefined;
}

function parseTime(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError('Expected a time such as 60s, 5m or 500ms.');
  return ms;
}

function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

function parseRendition(text: string): RenditionChoice {
  if (text === 'all' || text === 'best' || text === 'lowest') return text;
  const [, height] = /^([1-9]\d{1,4})p$/.exec(text) ?? [];
  if (height === undefined) throw new InvalidArgumentError('Expected all, best, lowest, or a height such as 720p.');
  return { height: Number(height) };
}

function parseRateFlag(text: string): number {
  const rate = parseRate(text);
  if (rate === undefined) throw new InvalidArgumentError('Expected a rate such as 20/s or 100/min.');
  return rate;
}

function parseBandwidth(text: string): number {
  const bytes = parseSize(text.replace(/\/s$/, ''));
  if (bytes === undefined || bytes === 0) throw new InvalidArgumentError('Expected a size such as 10MB.');
  return bytes;
}

function parseJobs(text: string): number {
  if (!/^[1-9]\d?$/.test(text)) throw new InvalidArgumentError('Expected a number from 1 to 99.');
  return Number(text);
}

function parseInterval(text: string): number {
  const ms = parseTime(text);
  if (ms < 100 || ms > HOUR_MS) throw new InvalidArgumentError('Expected a time from 100ms to 1h.');
  return ms;
}

function parseTarget(text: string): URL {
  const url = parseUrl(text);
  if (url === undefined) throw new InvalidArgumentError('Expected a URL such as http://127.0.0.1:8080/film.mp4.');
  return url;
}

type End = (code: number) => void;

function addAdminCommands(program: Command, io: CliIo, end: End): void {
  addTop(program, io, end);
  addLs(program, io, end);
  addPurge(program, io, end);
  addWarm(program, io, end);
  addReload(program, io, end);
  addExplain(program, io, end);
  addHealth(program, io, end);
  addDashboard(program, io, end);
}

function addTop(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('top')
      .description('watch a running Rangeway: requests, hits, latency, fills, origins; ? lists the keys')
      .option('--interval <time>', 'how often it is read, such as 5s (default: 1s)', parseInterval)
      .option('-n, --count <n>', 'end after so many readings', parseCount)
      .option('--json', 'print each reading as one line of JSON'),
  ).action(async (flags: TopFlags) => {
    const { top } = await import('./top/top.ts');
    end(await top(flags, io, { input: process.stdin, output: process.stdout }));
  });
}

function addLs(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('ls')
      .description('list what a running Rangeway has stored')
      .argument('[url]', 'only entries whose URL begins like this; a path is enough where there is one route')
      .option('--host <host>', 'only entries of this host')
      .option('--tag <tag>', 'only entries with this tag')
      .option('--coverage', 'draw which parts are stored (default: on a terminal)')
      .option('--no-coverage', 'print the share only')
      .option('--limit <n>', 'the most entries to print (default: 1000)', parseCount)
      .option('--json', 'print each entry as one line of JSON'),
  ).action(async (url: string | undefined, flags: LsFlags) => {
    const { ls } = await import('./admin/ls.ts');
    end(await ls(url, flags, io, Date.now));
  });
}

function addPurge(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('purge')
      .description('remove what a running Rangeway has stored; when this returns, no new request gets it')
      .argument('[url...]', 'the entries of these URLs; paths are enough where there is one route')
      .option('--prefix', 'the entries of all URLs that begin like these')
      .option('--host <host>', 'the entries of this host')
      .option('--tag <tag>', 'the entries with this tag (Cache-Tag or Surrogate-Key)')
      .option('--group <group>', 'the entries in this group (Cache-Groups); needs --origin')
      .option('--origin <origin>', 'the origin of the group, such as https://example.org')
      .option('--all', 'everything')
      .option(
        '--soft',
        'only end their lifetime: they are validated before they are used again, and may be served if the origin fails',
      )
      .option('--json', 'print each result as one line of JSON'),
  ).action(async (urls: string[], flags: PurgeFlags) => {
    const { purgeUrls: purge } = await import('./admin/purge.ts');
    end(await purge(urls, flags, io));
  });
}

function addWarm(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('warm')
      .description('make a running Rangeway fetch URLs before clients ask for them')
      .argument(
        '[url...]',
        'the URLs as clients ask for them, or paths where there is one route; - reads standard input, one a line',
      )
      .option('--from <file>', 'a file with URLs, one a line; - is standard input')
      .option('--sitemap <url|file>', 'the URLs of a sitemap, also of an index; may be given more than once', collect)
      .option(
        '--manifest <url>',
        'an HLS playlist or a DASH manifest, with its segments; may be given more than once',
        collect,
      )
      .option(
        '--rendition <all|best|lowest|720p>',
        'which streams of it, also by height (default: all)',
        parseRendition,
      )
      .option("-H, --header <'Name: value'>", 'a field of the requests; may be given more than once', collectHeader)
      .option('--rate <n/s>', 'how many requests at most, such as 20/s or 100/min', parseRateFlag)
      .option('--bandwidth <size>', 'how many bytes a second on average, such as 10MB', parseBandwidth)
      .option('-j, --jobs <n>', 'how many URLs are fetched at a time (default: 4)', parseJobs)
      .option('--resume <file>', 'note there what is done, and go on after it if the file is there already')
      .option('--json', 'print each outcome as one line of JSON, and the sum at the end'),
  ).action(async (urls: string[], flags: WarmFlags) => {
    const { warm } = await import('./warm/warm.ts');
    end(await warm(urls, flags, io, process.stdin));
  });
}

function addReload(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('reload')
      .description('make a running Rangeway read its configuration again; requests under way go on')
      .option('--json', 'print the result as JSON'),
  ).action(async (flags: ReloadFlags) => {
    const { reload } = await import('./admin/reload.ts');
    end(await reload(flags, io));
  });
}

function addHealth(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('health')
      .description('tell by the exit code whether a running Rangeway is ready: 0 if it serves, 1 if it does not')
      .option('--json', 'print the result as JSON'),
  ).action(async (flags: HealthFlags) => {
    const { health } = await import('./admin/health.ts');
    end(await health(flags, io));
  });
}

function addDashboard(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('dashboard')
      .description('print a link that logs a browser in to the dashboard of a running Rangeway, once')
      .option('--open', 'open it in the browser of this system')
      .option('--json', 'print the link and its end as JSON'),
  ).action(async (flags: DashboardFlags) => {
    const { dashboard, openSystemBrowser } = await import('./admin/dashboard.ts');
    end(await dashboard(flags, io, openSystemBrowser));
  });
}

function withAdminFlags(command: Command): Command {
  return command
    .option(
      '--admin <place>',
      'its admin listener: a URL, [host:]port or unix:PATH (default: $RANGEWAY_ADMIN, or that of the server that runs here)',
    )
    .option('-c, --config <file>', 'the server with this configuration file, in place of --admin')
    .option('--dir <directory>', 'the server with its store in this directory, in place of --admin')
    .option('--token <source>', 'where its token is: env:NAME or file:PATH (default: $RANGEWAY_ADMIN_TOKEN)');
}

function addExplain(program: Command, io: CliIo, end: End): void {
  withAdminFlags(
    program
      .command('explain')
      .description('print what a running Rangeway would do with a request, and why; the origin is not asked')
      .argument(
        '<url>',
        'the URL as clients ask for it, such as http://127.0.0.1:8080/film.mp4, or a path where there is one route',
        parseResource,
      )
      .option('-r, --range <range>', 'the range of the request, such as 0-99 or -100', parseRangeFlag)
      .option("-H, --header <'Name: value'>", 'a field of the request; may be given more than once', collectHeader)
      .option('-X, --request <method>', 'the method of the request (default: GET)', parseMethod)
      .option('--client <address>', 'the client address to assume (default: 127.0.0.1)')
      .option('--json', 'print the explanation as JSON'),
  ).action(async (url: string, flags: ExplainFlags) => {
    const { explain } = await import('./admin/explain.ts');
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

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('Expected a number such as 100.');
  return Number(text);
}
