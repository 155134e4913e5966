/** Writes the text of a commented configuration file. */

import { isNamelessOrigin } from '../../config/address.ts';

/** What a configuration says, as it is written in the file. */
export interface ChosenConfig {
  /** The name of the file, for the commands in its comments. */
  readonly file: string;
  readonly origin: string;
  readonly insecureTls: boolean;
  /** `auto`, `origin`, `keep` or a name; undefined for the default. */
  readonly originHost: string | undefined;
  readonly listen: string;
  readonly store:
    | {
        readonly type: 'disk';
        /** Undefined for the default directory, which `defaultDir` names. */
        readonly dir: string | undefined;
        readonly defaultDir: string;
        readonly maxSize: string;
        readonly memory: string;
      }
    | { readonly type: 'memory'; readonly maxSize: string }
    | { readonly type: 'redis'; readonly url: string; readonly memory: string };
  /** Undefined for the default: one process. */
  readonly workers: number | 'auto' | undefined;
  /** `socket`: only the socket in the store's directory. */
  readonly admin: 'socket' | 'off' | { readonly listen: string; readonly token: string | undefined };
  /** What is known of the origin, in lines; empty where it was not asked. */
  readonly probed: readonly string[];
  /** Whether the origin lacks a lifetime. */
  readonly lacksLifetime: boolean;
}

/** Returns the text: JSON with comments. Comments end at their lines, whatever is in the lines of `probed`. */
export function formatConfigText(chosen: ChosenConfig): string {
  const { file } = chosen;
  const name = quoteForShell(file);
  const commands = [
    ['rangeway check', name, 'finds mistakes in it'],
    ['rangeway doctor -c', name, 'checks this machine for it'],
    ['rangeway -c', name, 'serves'],
    ['rangeway reload -c', name, 'has the running server read it again'],
  ].map(([command, argument, effect]) => [`${command} ${argument}`, effect] as const);
  const width = Math.max(...commands.map(([command]) => command.length));
  const members = [
    schemaMember,
    listenMember(chosen),
    storeMember(chosen),
    ...workersMember(chosen),
    adminMember(chosen),
    routesMember(chosen),
  ];
  const lines = [
    '// A configuration of Rangeway, made by "rangeway init". It is JSON with comments.',
    '//',
    ...commands.map(([command, effect]) => comment(`  ${command.padEnd(width)}   ${effect}`)),
    '//',
    '// Every option with its default: config.example.json. What they do: README.md and docs/.',
    '{',
    ...joinMembers(members).map(indent),
    '}',
  ];
  return `${lines.join('\n')}\n`;
}

/** Writes a comment, which ends at the end of its line. */
function comment(text: string): string {
  return `// ${text.replaceAll(/[\r\n]+/g, ' ')}`;
}

/** Lines of comments, and the lines of a member, or of a member that is commented out. */
interface Member {
  readonly comments: readonly string[];
  readonly lines: readonly string[];
  readonly isOut?: boolean;
}

/** A member that is commented out has its comma, so that it can be used as it is. */
function joinMembers(members: readonly Member[], between: readonly string[] = ['']): string[] {
  const last = members.findLastIndex(({ isOut }) => isOut !== true);
  return members.flatMap(({ comments, lines, isOut = false }, at) => {
    const ended = lines.map((line, index) => (index === lines.length - 1 && (isOut || at < last) ? `${line},` : line));
    const text = [...comments.map(comment), ...(isOut ? ended.map(comment) : ended)];
    return at === 0 ? text : [...between, ...text];
  });
}

function indent(line: string): string {
  return line === '' ? '' : `  ${line}`;
}

function member(name: string, value: unknown): string[] {
  return [`${JSON.stringify(name)}: ${JSON.stringify(value)}`];
}

const schemaMember: Member = {
  comments: ['With this your editor knows all options: rangeway schema > rangeway.schema.json'],
  lines: member('$schema', './rangeway.schema.json'),
  isOut: true,
};

function listenMember({ listen }: ChosenConfig): Member {
  return {
    comments: [
      'Where clients connect: [host:]port. Only this machine reaches 127.0.0.1; 0.0.0.0 is for all who reach it.',
    ],
    lines: member('listen', listen),
  };
}

function storeMember({ store }: ChosenConfig): Member {
  if (store.type === 'memory') {
    const size: Member = {
      comments: ['The most that is stored. It is empty after a restart.'],
      lines: member('maxSizeBytes', store.maxSize),
    };
    const members = [{ comments: [], lines: member('type', 'memory') }, size];
    return { comments: ['Where responses are stored.'], lines: object('store', joinMembers(members, [])) };
  }
  const memory: Member = {
    comments: ['Memory for what is requested all the time.'],
    lines: member('memoryBytes', store.memory),
  };
  if (store.type === 'redis') {
    const url: Member = {
      comments: ['How much it keeps is its own setting: maxmemory. A password: "password": "env:NAME" or "file:PATH".'],
      lines: member('url', store.url),
    };
    const local: Member = {
      comments: ['A disk of this machine in between: what was read from the engine is not read from there again.'],
      lines: object('local', objectLines({ dir: '/var/cache/rangeway', maxSizeBytes: '10GB' })),
      isOut: true,
    };
    const members = [{ comments: [], lines: member('type', 'redis') }, url, memory, local];
    return {
      comments: ['Where responses are stored: in Redis or Valkey, with memory in front.'],
      lines: object('store', joinMembers(members, [])),
    };
  }
  const dir: Member =
    store.dir === undefined
      ? { comments: [`Without it: ${store.defaultDir}`], lines: member('dir', '/var/cache/rangeway'), isOut: true }
      : { comments: [], lines: member('dir', store.dir) };
  const members: Member[] = [
    dir,
    {
      comments: ['The most that is stored. Beyond it, what is not in use is evicted.'],
      lines: member('maxSizeBytes', store.maxSize),
    },
    memory,
  ];
  return {
    comments: ['Where responses are stored: on disk, with memory in front.'],
    lines: object('store', joinMembers(members, [])),
  };
}

/** A store in memory is for one process. */
function workersMember({ workers, store }: ChosenConfig): Member[] {
  if (store.type === 'memory' && workers === undefined) return [];
  return [
    {
      comments: ['How many processes serve; "auto" is one for each core.'],
      lines: member('workers', workers ?? 'auto'),
      isOut: workers === undefined,
    },
  ];
}

function adminMember({ admin, store }: ChosenConfig): Member {
  const socket = `Health, metrics and the API of ls, purge, warm and reload are on a socket in ${store.type === 'disk' ? "the store's directory" : 'the directory for run-time files'},`;
  if (admin === 'socket') {
    const comments = [socket, 'which only the user that runs the server can use. A port in addition:'];
    const value = { listen: '127.0.0.1:9180', token: 'file:./admin-token' };
    return { comments, lines: object('admin', objectLines(value)), isOut: true };
  }
  if (admin === 'off') return { comments: ['No health, metrics and API at all.'], lines: member('admin', 'off') };
  const comments = [socket, 'and here for those who know the token.'];
  const value = { listen: admin.listen, ...(admin.token === undefined ? {} : { token: admin.token }) };
  return { comments, lines: object('admin', objectLines(value)) };
}

/** Says which Host the origin sees. */
function describeHost(origin: string, host = 'auto'): string {
  const isClients = host === 'keep' || (host === 'auto' && isNamelessOrigin(origin));
  const seen = isClients ? 'that of the client' : host === 'auto' || host === 'origin' ? 'its own name' : host;
  return `The Host that it sees: ${seen} ("host": "keep", "origin" or a name).`;
}

function routesMember({ origin, insecureTls, originHost, probed, lacksLifetime }: ChosenConfig): Member {
  const options = {
    url: origin,
    ...(originHost === undefined ? {} : { host: originHost }),
    ...(insecureTls ? { insecureTls } : {}),
  };
  const lone: Member = {
    comments: [...probed, describeHost(origin, originHost)],
    lines: Object.keys(options).length === 1 ? member('origin', origin) : object('origin', objectLines(options)),
  };
  const lifetime: Member = {
    comments: ['How long a response is fresh where the origin states no lifetime, in seconds:'],
    lines: member('cache', { defaultTtlSeconds: 60 }),
    isOut: true,
  };
  const route = joinMembers(lacksLifetime ? [lifetime, lone] : [lone]);
  return {
    comments: [
      'Which requests go to which origin. A route may have "match": { "hosts": […], "pathPrefix": "/media" }.',
    ],
    lines: ['"routes": [', ...['{', ...route.map(indent), '}'].map(indent), ']'],
  };
}

function object(name: string, lines: readonly string[]): string[] {
  return [`${JSON.stringify(name)}: {`, ...lines.map(indent), '}'];
}

function objectLines(value: object): string[] {
  return joinMembers(
    Object.entries(value).map(([name, each]) => ({ comments: [], lines: member(name, each) })),
    [],
  );
}

/** Quotes a name that a shell would read as more than one word, or otherwise. */
export function quoteForShell(text: string): string {
  return /^[\w./:@%+,~-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
