/** Calls of the admin API. */

import type {
  Activity,
  EntryDetails,
  EntryPage,
  ExplainReply,
  PurgeReport,
  RecordedDecision,
  WarmReport,
} from './api-types.ts';

/** Why a call failed: the server refused it (with the status and a sentence for people), or it could not be reached (`status` 0). */
export class ApiFailure extends Error {
  readonly status: number;

  constructor(status: number, detail: string) {
    super(detail);
    this.name = 'ApiFailure';
    this.status = status;
  }
}

/** Whether the browser is logged in, and whether the server has a token to log in with. */
export interface SessionState {
  readonly loggedIn: boolean;
  readonly hasToken: boolean;
}

/** The members of an object that select entries, as the API takes them. */
export type Search = Readonly<Record<string, string>>;

/** What a page of entries is asked for. */
export interface EntryQuery {
  readonly search: Search;
  readonly sort: string;
  readonly order: string;
  readonly limit: number;
  readonly after?: string | undefined;
}

/** A request to explain. */
export interface ExplainQuestion {
  readonly url: string;
  readonly method: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly client?: string;
}

interface Message {
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  readonly signal?: AbortSignal | undefined;
}

/** The admin API. Every call rejects with `ApiFailure`, or with an `AbortError` when its signal is aborted. */
export class Api {
  readonly #onExpired: () => void;

  /** `onExpired` is called when a call is refused because the browser is not logged in any more. */
  constructor(onExpired: () => void) {
    this.#onExpired = onExpired;
  }

  readSession(): Promise<SessionState> {
    return send('GET', 'session');
  }

  logIn(secret: { readonly token: string } | { readonly code: string }): Promise<void> {
    return send('POST', 'session', { body: secret });
  }

  logOut(): Promise<void> {
    return this.#call('DELETE', 'session', { body: {} });
  }

  readActivity(): Promise<Activity> {
    return this.#call('GET', 'activity');
  }

  listEntries({ search, sort, order, limit, after }: EntryQuery, signal?: AbortSignal): Promise<EntryPage> {
    const query = { ...search, sort, order, limit: String(limit), ...(after === undefined ? {} : { after }) };
    return this.#call('GET', 'entries', { query, signal });
  }

  inspectEntry(key: string, generation: string, signal?: AbortSignal): Promise<EntryDetails> {
    return this.#call('GET', `entries/${encodeURIComponent(generation)}`, { query: { key }, signal });
  }

  async listDecisions(of: Search, limit: number, signal?: AbortSignal): Promise<readonly RecordedDecision[]> {
    const query = { ...of, limit: String(limit) };
    const { decisions } = await this.#call<{ decisions: readonly RecordedDecision[] }>('GET', 'decisions', {
      query,
      signal,
    });
    return decisions;
  }

  purge(order: { readonly [name: string]: string | true }): Promise<PurgeReport> {
    return this.#call('POST', 'purge', { body: order });
  }

  async warm(urls: readonly string[], fields: ExplainQuestion['fields']): Promise<readonly WarmReport[]> {
    const body = { urls, ...(fields.length === 0 ? {} : { fields }) };
    const { results } = await this.#call<{ results: readonly WarmReport[] }>('POST', 'warm', { body });
    return results;
  }

  cancelFill(id: string): Promise<void> {
    return this.#call('DELETE', `fills/${encodeURIComponent(id)}`, { body: {} });
  }

  explain(question: ExplainQuestion, signal?: AbortSignal): Promise<ExplainReply> {
    return this.#call('POST', 'explain', { body: question, signal });
  }

  async #call<T>(method: string, path: string, message: Message = {}): Promise<T> {
    try {
      return await send<T>(method, path, message);
    } catch (thrown) {
      if (thrown instanceof ApiFailure && thrown.status === 401) this.#onExpired();
      throw thrown;
    }
  }
}

/** The address of an endpoint, relative to the page. */
export function endpoint(path: string): string {
  return `api/v1/${path}`;
}

async function send<T>(method: string, path: string, { query, body, signal }: Message = {}): Promise<T> {
  const parameters = new URLSearchParams(query).toString();
  const headers: Record<string, string> = { accept: 'application/json' };
  if (body !== undefined) headers['content-type'] = 'application/json';
  // A page of another site cannot send this field: see the server's check of requests that use a cookie.
  if (method !== 'GET') headers['x-rangeway-request'] = '1';
  const request: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
  if (body !== undefined) request.body = JSON.stringify(body);
  if (signal !== undefined) request.signal = signal;
  const response = await reach(`${endpoint(path)}${parameters === '' ? '' : `?${parameters}`}`, request);
  if (response.status === 204) return undefined as T;
  const value: unknown = await response.json().catch(() => undefined);
  if (response.ok && value !== undefined) return value as T;
  const { detail = `The server answered with status ${response.status}.` } = (value ?? {}) as { detail?: string };
  throw new ApiFailure(response.status, detail);
}

async function reach(url: string, request: RequestInit): Promise<Response> {
  try {
    return await fetch(url, request);
  } catch (thrown) {
    if (thrown instanceof DOMException && thrown.name === 'AbortError') throw thrown;
    throw new ApiFailure(0, 'The server does not answer.');
  }
}
