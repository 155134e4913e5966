import { describe, expect, it } from 'vitest';
import type { Field, Fields } from '../../src/http/fields.ts';
import {
  canUseNotModified,
  evaluatePreconditions,
  type PreconditionOutcome,
  type SelectedResponse,
} from '../../src/semantics/precondition.ts';

const now = Date.UTC(2026, 6, 1, 12, 0, 0);
const before = 'Wed, 01 Jul 2026 08:59:59 GMT';
const modified = 'Wed, 01 Jul 2026 09:00:00 GMT';
const after = 'Wed, 01 Jul 2026 09:00:01 GMT';
const generated = 'Wed, 01 Jul 2026 10:00:00 GMT';
const malformed = 'a while ago';

/** A stored 200 with a strong tag and a Last-Modified that is a strong validator, too. */
const stored: SelectedResponse = {
  status: 200,
  fields: [
    ['date', generated],
    ['etag', '"v1"'],
    ['last-modified', modified],
  ],
  responseAt: Date.UTC(2026, 6, 1, 10, 0, 0),
};

const withFields = (...fields: Field[]): SelectedResponse => ({ ...stored, fields });

type RequestFields = Readonly<Record<string, string>>;
type Outcome = 'apply' | 'ignore' | 'not-modified' | 'precondition-failed';

function evaluate(method: string, request: RequestFields, response: SelectedResponse): Outcome {
  const fields: Fields = Object.entries(request);
  const outcome: PreconditionOutcome = evaluatePreconditions({ method, fields }, response, now);
  return outcome.kind === 'proceed' ? outcome.range : outcome.kind;
}

const range = 'bytes=0-1';

describe('Range, RFC 9110 §14.2', () => {
  const rows: readonly (readonly [method: string, status: number, request: RequestFields, wanted: Outcome])[] = [
    ['GET', 200, { range }, 'apply'],
    ['GET', 200, {}, 'ignore'],
    ['HEAD', 200, { range }, 'ignore'],
    ['POST', 200, { range }, 'ignore'],
    ['get', 200, { range }, 'ignore'],
    ['OPTIONS', 200, { range }, 'ignore'],
    ['GET', 203, { range }, 'ignore'],
    ['GET', 204, { range }, 'ignore'],
    ['GET', 206, { range }, 'ignore'],
    ['GET', 301, { range }, 'ignore'],
    ['GET', 404, { range }, 'ignore'],
    ['GET', 500, { range }, 'ignore'],
    // The syntax of the range is not checked here.
    ['GET', 200, { range: 'garbage' }, 'apply'],
  ];
  it.each(rows)('%s of a %i with %j: %s', (method, status, request, wanted) => {
    expect(evaluate(method, request, { ...stored, status })).toBe(wanted);
  });
});

describe('If-Match, RFC 9110 §13.1.1', () => {
  const rows: readonly (readonly [value: string, wanted: Outcome])[] = [
    ['"v1"', 'apply'],
    ['*', 'apply'],
    ['"v0", "v1"', 'apply'],
    ['"v0"', 'precondition-failed'],
    ['W/"v1"', 'precondition-failed'],
    ['"V1"', 'precondition-failed'],
    ['', 'precondition-failed'],
    ['v1', 'precondition-failed'],
    ['"v1", v2', 'precondition-failed'],
  ];
  it.each(rows)('%j: %s', (value, wanted) => {
    expect(evaluate('GET', { 'if-match': value, range }, stored)).toBe(wanted);
  });

  it('never matches a weak tag', () => {
    const response = withFields(['etag', 'W/"v1"']);
    expect(evaluate('GET', { 'if-match': 'W/"v1"' }, response)).toBe('precondition-failed');
    expect(evaluate('GET', { 'if-match': '"v1"' }, response)).toBe('precondition-failed');
    expect(evaluate('GET', { 'if-match': '*' }, response)).toBe('ignore');
  });

  it('fails any list of tags where there is no tag', () => {
    expect(evaluate('GET', { 'if-match': '"v1"' }, withFields())).toBe('precondition-failed');
  });
});

describe('If-Unmodified-Since, RFC 9110 §13.1.4', () => {
  const rows: readonly (readonly [request: RequestFields, wanted: Outcome])[] = [
    [{ 'if-unmodified-since': before }, 'precondition-failed'],
    [{ 'if-unmodified-since': modified }, 'apply'],
    [{ 'if-unmodified-since': after }, 'apply'],
    [{ 'if-unmodified-since': malformed }, 'apply'],
    [{ 'if-unmodified-since': `${before}, ${before}` }, 'apply'],
    // Ignored beside If-Match, whether If-Match holds or not.
    [{ 'if-unmodified-since': before, 'if-match': '"v1"' }, 'apply'],
    [{ 'if-unmodified-since': after, 'if-match': '"v0"' }, 'precondition-failed'],
  ];
  it.each(rows)('%j: %s', (request, wanted) => {
    expect(evaluate('GET', { ...request, range }, stored)).toBe(wanted);
  });

  it('is ignored where there is no modification date', () => {
    expect(evaluate('GET', { 'if-unmodified-since': before }, withFields(['date', generated]))).toBe('ignore');
    expect(evaluate('GET', { 'if-unmodified-since': before }, withFields(['last-modified', malformed]))).toBe('ignore');
  });
});

describe('If-None-Match, RFC 9110 §13.1.2', () => {
  const rows: readonly (readonly [method: string, request: RequestFields, wanted: Outcome])[] = [
    ['GET', { 'if-none-match': '"v1"' }, 'not-modified'],
    ['GET', { 'if-none-match': 'W/"v1"' }, 'not-modified'],
    ['GET', { 'if-none-match': '"v0", W/"v1"' }, 'not-modified'],
    ['GET', { 'if-none-match': '*' }, 'not-modified'],
    ['HEAD', { 'if-none-match': '"v1"' }, 'not-modified'],
    ['PUT', { 'if-none-match': '*' }, 'precondition-failed'],
    ['DELETE', { 'if-none-match': '"v1"' }, 'precondition-failed'],
    ['GET', { 'if-none-match': '"v0"' }, 'apply'],
    ['GET', { 'if-none-match': '"V1"' }, 'apply'],
    ['GET', { 'if-none-match': '' }, 'apply'],
    ['GET', { 'if-none-match': 'v1' }, 'apply'],
    // If-Modified-Since is ignored beside If-None-Match, also beside a malformed one.
    ['GET', { 'if-none-match': '"v0"', 'if-modified-since': after }, 'apply'],
    ['GET', { 'if-none-match': 'v1', 'if-modified-since': after }, 'apply'],
    ['GET', { 'if-none-match': '"v1"', 'if-modified-since': before }, 'not-modified'],
  ];
  it.each(rows)('%s with %j: %s', (method, request, wanted) => {
    expect(evaluate(method, { ...request, range }, stored)).toBe(wanted);
  });

  it('is evaluated before Range', () => {
    expect(evaluate('GET', { 'if-none-match': '"v1"', range: 'bytes=999999-' }, stored)).toBe('not-modified');
  });

  it('matches a stored tag weakly', () => {
    expect(evaluate('GET', { 'if-none-match': '"v1"' }, withFields(['etag', 'W/"v1"']))).toBe('not-modified');
  });

  it('matches the tag that Rangeway made, where the origin sent none', () => {
    const own: SelectedResponse = { ...withFields(['date', generated]), ownEntityTag: '"own"' };
    expect(evaluate('GET', { 'if-none-match': '"own"' }, own)).toBe('not-modified');
    expect(evaluate('GET', { 'if-match': '"own"', range }, own)).toBe('apply');
    expect(evaluate('GET', { 'if-range': '"own"', range }, own)).toBe('apply');
  });

  it('matches both tags where the origin sent a weak one, and allows ranges by the own tag only', () => {
    const both: SelectedResponse = { ...withFields(['etag', 'W/"v1"']), ownEntityTag: '"own"' };
    for (const tag of ['"own"', 'W/"v1"', '"v1"']) {
      expect(evaluate('GET', { 'if-none-match': tag }, both)).toBe('not-modified');
    }
    expect(evaluate('GET', { 'if-range': '"own"', range }, both)).toBe('apply');
    expect(evaluate('GET', { 'if-range': 'W/"v1"', range }, both)).toBe('ignore');
    expect(evaluate('GET', { 'if-match': '"v1"' }, both)).toBe('precondition-failed');
  });

  it('matches no malformed tag', () => {
    expect(evaluate('GET', { 'if-none-match': 'v1' }, withFields(['etag', 'v1']))).toBe('ignore');
  });
});

describe('If-Modified-Since, RFC 9110 §13.1.3', () => {
  const rows: readonly (readonly [method: string, value: string, wanted: Outcome])[] = [
    ['GET', before, 'apply'],
    ['GET', modified, 'not-modified'],
    ['GET', after, 'not-modified'],
    ['HEAD', modified, 'not-modified'],
    ['GET', 'Wednesday, 01-Jul-26 09:00:00 GMT', 'not-modified'],
    ['GET', 'Wed Jul  1 09:00:00 2026', 'not-modified'],
    ['GET', malformed, 'apply'],
    ['GET', `${after}, ${after}`, 'apply'],
    ['POST', after, 'ignore'],
  ];
  it.each(rows)('%s with %j: %s', (method, value, wanted) => {
    expect(evaluate(method, { 'if-modified-since': value, range }, stored)).toBe(wanted);
  });

  const undated: readonly (readonly [fields: Fields, value: string, wanted: Outcome])[] = [
    // RFC 9111 §4.3.2: without Last-Modified the Date counts, and without Date the time of receipt.
    [[['date', generated]], generated, 'not-modified'],
    [[['date', generated]], after, 'ignore'],
    [[], generated, 'not-modified'],
    [[], 'Wed, 01 Jul 2026 09:59:59 GMT', 'ignore'],
    // An invalid Last-Modified is not replaced by Date.
    [
      [
        ['last-modified', malformed],
        ['date', generated],
      ],
      generated,
      'ignore',
    ],
  ];
  it.each(undated)('of a response with %j: %j: %s', (fields, value, wanted) => {
    expect(evaluate('GET', { 'if-modified-since': value }, withFields(...fields))).toBe(wanted);
  });
});

describe('explainsNotModified, RFC 9110 §15.4.5', () => {
  const rows: readonly (readonly [request: RequestFields, notModified: RequestFields, isExplained: boolean])[] = [
    [{}, {}, false],
    [{ 'if-match': '"v1"', 'if-range': '"v1"' }, { etag: '"v1"' }, false],
    [{ 'if-none-match': '"v1"' }, {}, true],
    [{ 'if-none-match': '"v0", "v1"' }, { etag: 'W/"v1"' }, true],
    [{ 'if-none-match': '*' }, { etag: '"v2"' }, true],
    [{ 'if-none-match': '"v1"' }, { etag: '"v2"' }, false],
    [{ 'if-none-match': '"v1"' }, { etag: 'v1' }, false],
    [{ 'if-none-match': 'v1' }, {}, false],
    [{ 'if-none-match': '"v1"', 'if-modified-since': after }, { etag: '"v2"', 'last-modified': modified }, false],
    [{ 'if-modified-since': modified }, {}, true],
    [{ 'if-modified-since': modified }, { 'last-modified': modified }, true],
    [{ 'if-modified-since': modified }, { 'last-modified': after }, false],
    [{ 'if-modified-since': malformed }, {}, false],
  ];
  it.each(rows)('a request with %j explains a 304 with %j: %s', (request, notModified, isExplained) => {
    expect(canUseNotModified(Object.entries(request), Object.entries(notModified), now)).toBe(isExplained);
  });
});

describe('If-Range, RFC 9110 §13.1.5', () => {
  const rows: readonly (readonly [value: string, wanted: Outcome])[] = [
    ['"v1"', 'apply'],
    ['"v0"', 'ignore'],
    ['"V1"', 'ignore'],
    ['W/"v1"', 'ignore'],
    ['"v1", "v2"', 'ignore'],
    ['*', 'ignore'],
    ['v1', 'ignore'],
    ['', 'ignore'],
    [modified, 'apply'],
    ['Wednesday, 01-Jul-26 09:00:00 GMT', 'apply'],
    // The date must be the same, not later or earlier.
    [before, 'ignore'],
    [after, 'ignore'],
    [generated, 'ignore'],
    [malformed, 'ignore'],
    [`${modified} "v1"`, 'ignore'],
  ];
  it.each(rows)('%j: %s', (value, wanted) => {
    expect(evaluate('GET', { 'if-range': value, range }, stored)).toBe(wanted);
  });

  it('is ignored without Range, and for other methods than GET', () => {
    expect(evaluate('GET', { 'if-range': '"v0"' }, stored)).toBe('ignore');
    expect(evaluate('HEAD', { 'if-range': '"v1"', range }, stored)).toBe('ignore');
  });

  it('never holds with a weak tag on either side', () => {
    const response = withFields(['etag', 'W/"v1"']);
    expect(evaluate('GET', { 'if-range': '"v1"', range }, response)).toBe('ignore');
    expect(evaluate('GET', { 'if-range': 'W/"v1"', range }, response)).toBe('ignore');
  });

  const dates: readonly (readonly [date: string, wanted: Outcome])[] = [
    [modified, 'ignore'],
    [after, 'apply'],
    [generated, 'apply'],
  ];
  it.each(dates)('by date, of a response with Date %s: %s (§8.8.2.2)', (date, wanted) => {
    const response = withFields(['last-modified', modified], ['date', date]);
    expect(evaluate('GET', { 'if-range': modified, range }, response)).toBe(wanted);
  });

  it('by date does not hold where there is no modification date', () => {
    expect(evaluate('GET', { 'if-range': generated, range }, withFields(['date', generated]))).toBe('ignore');
  });
});

describe('the order of evaluation, RFC 9110 §13.2', () => {
  type Truth = boolean | undefined;
  const truths: readonly Truth[] = [undefined, true, false];

  interface Case {
    readonly method: string;
    readonly status: number;
    readonly hasRange: boolean;
    readonly ifMatch: Truth;
    readonly ifUnmodifiedSince: Truth;
    readonly ifNoneMatch: Truth;
    readonly ifModifiedSince: Truth;
    readonly ifRange: Truth;
  }

  const choices: { readonly [Name in keyof Case]: readonly Case[Name][] } = {
    method: ['GET', 'HEAD', 'PUT', 'OPTIONS'],
    status: [199, 200, 204, 300, 404, 412],
    hasRange: [true, false],
    ifMatch: truths,
    ifUnmodifiedSince: truths,
    ifNoneMatch: truths,
    ifModifiedSince: truths,
    ifRange: truths,
  };

  function allCases(): Case[] {
    const add = (cases: object[], [name, values]: [string, readonly unknown[]]): object[] =>
      cases.flatMap((one) => values.map((value) => ({ ...one, [name]: value })));
    return Object.entries(choices).reduce(add, [{}]) as Case[];
  }

  /** Returns request fields whose conditions are true or false for the stored response, as the case says. */
  function fieldsIn(one: Case): RequestFields {
    const field = (name: string, truth: Truth, whenTrue: string, whenFalse: string): RequestFields =>
      truth === undefined ? {} : { [name]: truth ? whenTrue : whenFalse };
    return {
      ...field('if-match', one.ifMatch, '"v1"', '"v0"'),
      ...field('if-unmodified-since', one.ifUnmodifiedSince, after, before),
      ...field('if-none-match', one.ifNoneMatch, '"v0"', '"v1"'),
      ...field('if-modified-since', one.ifModifiedSince, before, after),
      ...field('if-range', one.ifRange, '"v1"', '"v0"'),
      ...(one.hasRange ? { range } : {}),
    };
  }

  /** Follows the steps of §13.2.2 word by word, with the exceptions of §13.2.1. The first step that applies decides. */
  function wantedIn(one: Case): Outcome {
    const isRead = one.method === 'GET' || one.method === 'HEAD';
    const steps: readonly (readonly [applies: boolean, outcome: Outcome])[] = [
      [one.status < 200 || one.status > 299, 'ignore'],
      [one.method === 'OPTIONS', 'ignore'],
      [one.ifMatch === false, 'precondition-failed'],
      [one.ifMatch === undefined && one.ifUnmodifiedSince === false, 'precondition-failed'],
      [isRead && one.ifNoneMatch === false, 'not-modified'],
      [one.ifNoneMatch === false, 'precondition-failed'],
      [isRead && one.ifNoneMatch === undefined && one.ifModifiedSince === false, 'not-modified'],
      [one.method !== 'GET' || one.status !== 200 || !one.hasRange, 'ignore'],
      [one.ifRange === false, 'ignore'],
    ];
    return steps.find(([applies]) => applies)?.[1] ?? 'apply';
  }

  it('is kept in every combination of conditions', () => {
    const cases = allCases();
    expect(cases.length).toBe(4 * 6 * 2 * 3 ** 5);
    for (const one of cases) {
      const got = evaluate(one.method, fieldsIn(one), { ...stored, status: one.status });
      if (got !== wantedIn(one)) expect({ ...one, got }).toEqual({ ...one, got: wantedIn(one) });
    }
  });
});
