/** `rangeway purge`: makes a running Rangeway remove stored responses, or end their lifetime (`--soft`). */

import { type CliIo, exitCode, fail } from '../io.ts';
import { printableJson, replaceTerminalControls } from '../text-sections.ts';
import { askAdmin, chooseAdminServer, failWith } from './admin-server.ts';
import { type AdminFlags, type AdminServer, withScheme } from './flags.ts';

/** The flags of the command. */
export interface PurgeFlags extends AdminFlags {
  /** Whether the URLs are prefixes. */
  readonly prefix?: boolean | undefined;
  readonly host?: string | undefined;
  readonly tag?: string | undefined;
  readonly group?: string | undefined;
  /** The origin of the group, such as `https://example.org`. */
  readonly origin?: string | undefined;
  readonly all?: boolean | undefined;
  readonly soft?: boolean | undefined;
  readonly json?: boolean | undefined;
}

/** One purge. `search` holds members of the API request; `name` is printed. */
interface Order {
  readonly search: Readonly<Record<string, string | true>>;
  readonly name: string;
}

type Orders =
  | { readonly kind: 'ok'; readonly orders: readonly Order[] }
  | { readonly kind: 'refused'; readonly reason: string };

const TIMEOUT_MS = 120_000;

/** Purges by the URLs and flags; resolves with the exit code. */
export async function purgeUrls(urls: readonly string[], flags: PurgeFlags, io: CliIo): Promise<number> {
  const read = readOrders(urls, flags);
  if (read.kind === 'refused') return fail(io, read.reason, exitCode.misused);
  const server = await chooseAdminServer(flags, io, urls);
  if (server.kind === 'none') return server.exitCode;
  for (const order of read.orders) {
    const code = await purgeOne(order, flags, server, io);
    if (code !== exitCode.done) return code;
  }
  return exitCode.done;
}

async function purgeOne(order: Order, flags: PurgeFlags, server: AdminServer, io: CliIo): Promise<number> {
  const mode = flags.soft === true ? 'soft' : 'hard';
  const body = { ...order.search, mode };
  const reply = await askAdmin(server, {
    method: 'POST',
    path: '/api/v1/purge',
    body,
    wants: 'entries',
    timeoutMs: TIMEOUT_MS,
  });
  if (reply.kind !== 'answered') return failWith(io, reply);
  const { entries } = reply.value as { readonly entries: number };
  if (flags.json === true) {
    io.stdout.write(`${printableJson({ ...body, entries })}\n`);
    return exitCode.done;
  }
  const result = entries === 0 ? 'nothing was stored' : `${entries} ${mode === 'soft' ? 'expired' : 'removed'}`;
  io.stdout.write(replaceTerminalControls(`${order.name}: ${result}\n`));
  return exitCode.done;
}

/** Accepts exactly one way to select entries: purging too much cannot be undone. */
function readOrders(urls: readonly string[], flags: PurgeFlags): Orders {
  const { prefix, host, tag, group, origin, all } = flags;
  const selectors = [
    ...(urls.length > 0 ? ['URLs'] : []),
    ...(host === undefined ? [] : ['--host']),
    ...(tag === undefined ? [] : ['--tag']),
    ...(group === undefined ? [] : ['--group']),
    ...(all === true ? ['--all'] : []),
  ];
  if (selectors.length > 1) return refuse(`${selectors.join(' and ')} exclude each other: say one of them at a time`);
  if (selectors.length === 0) return refuse('say what: URLs, or --host, --tag, --group with --origin, or --all');
  if (prefix === true && urls.length === 0) return refuse('--prefix goes with URLs');
  if ((group === undefined) !== (origin === undefined)) return refuse('--group and --origin go together');
  if (all === true) return { kind: 'ok', orders: [{ search: { all: true }, name: 'everything' }] };
  if (host !== undefined) return { kind: 'ok', orders: [{ search: { host }, name: host }] };
  if (tag !== undefined) return { kind: 'ok', orders: [{ search: { tag }, name: `tag ${tag}` }] };
  if (group !== undefined && origin !== undefined) {
    return { kind: 'ok', orders: [{ search: { group, origin }, name: `group ${group} of ${origin}` }] };
  }
  return readUrls(urls, prefix === true ? 'prefix' : 'url');
}

function readUrls(urls: readonly string[], kind: 'url' | 'prefix'): Orders {
  const orders: Order[] = [];
  for (const text of urls) {
    const url = withScheme(text);
    if (url === undefined)
      return refuse(`expected a URL such as http://127.0.0.1:8080/film.mp4, or a path, found ${text}`);
    orders.push({ search: { [kind]: url }, name: kind === 'prefix' ? `${url}…` : url });
  }
  return { kind: 'ok', orders };
}

function refuse(reason: string): Orders {
  return { kind: 'refused', reason };
}
