import { describe, expect, it } from 'vitest';
import { collectionsToInvalidate, targetsToInvalidate } from '../../src/semantics/invalidation.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

interface Case {
  readonly method?: string;
  readonly status?: number;
  readonly target?: string;
  readonly authority?: string;
  readonly lines?: readonly string[];
  /** The lines of the request. */
  readonly sent?: readonly string[];
}

function targets({
  method = 'POST',
  status = 200,
  target = '/a',
  authority = 'example.org',
  lines = [],
  sent = [],
}: Case) {
  const response = { status, fields: fieldsOf(...lines) };
  return targetsToInvalidate({ method, scheme: 'http', authority, target, fields: fieldsOf(...sent), response });
}

describe('collectionsToInvalidate, RFC 4918 §9', () => {
  const rows: readonly (readonly [
    method: string,
    target: string,
    sent: readonly string[],
    expected: readonly string[],
  ])[] = [
    ['DELETE', '/c/', [], ['/c/']],
    ['DELETE', '/c/?a=b/', [], ['/c/']],
    ['DELETE', '/', [], ['/']],
    // A file, as most that are deleted; a Depth says that it is a collection.
    ['DELETE', '/c', [], []],
    ['DELETE', '/c', ['Depth: infinity'], ['/c/']],
    ['DELETE', '/c', ['Translate: f'], ['/c/']],
    ['DELETE', '/c', ['If: (<urn:uuid:1>)'], ['/c/']],
    ['MOVE', '/c', ['Destination: /d'], ['/c/', '/d/']],
    ['MOVE', '/c/', ['Destination: http://example.org/d/'], ['/c/', '/d/']],
    ['MOVE', '/c/', ['Destination: http://example.com/d/'], ['/c/']],
    ['COPY', '/c/', ['Destination: /d/?x'], ['/d/']],
    ['PUT', '/c/', ['Destination: /d/', 'Depth: 0'], []],
    ['POST', '/c/', [], []],
    ['PROPFIND', '/c/', ['Depth: 1'], []],
  ];
  it.each(rows)('%s %s with %j changes all below %j', (method, target, sent, expected) => {
    const request = { method, scheme: 'http' as const, authority: 'example.org', target, fields: fieldsOf(...sent) };
    expect(collectionsToInvalidate({ ...request, response: { status: 204, fields: [] } })).toEqual(expected);
  });

  it('are those of a DELETE without a slash that is answered with 207, because some of them stay', () => {
    const request = { method: 'DELETE', scheme: 'http' as const, authority: 'example.org', target: '/c', fields: [] };
    expect(collectionsToInvalidate({ ...request, response: { status: 207, fields: [] } })).toEqual(['/c/']);
  });

  it.each([
    [200, ['Content-Length: 0'], true],
    [200, ['Content-Length: 17'], false],
    [200, [], false],
    [201, ['Content-Length: 17'], true],
    [202, [], false],
    [204, [], true],
    [207, ['Content-Length: 17'], true],
    [302, [], false],
    [404, [], false],
  ])('status %i with %j: %j', (status, lines, isChange) => {
    const request = { method: 'MOVE', scheme: 'http' as const, authority: 'example.org', target: '/c/', fields: [] };
    const response = { status, fields: fieldsOf(...lines) };
    expect(collectionsToInvalidate({ ...request, response })).toEqual(isChange ? ['/c/'] : []);
  });
});

describe('targetsToInvalidate, RFC 9111 §4.4', () => {
  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'M-SEARCH', 'get'])('%s is unsafe', (method) => {
    expect(targets({ method })).toEqual(['/a']);
  });

  it.each(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY', 'REPORT', 'SEARCH'])('%s is safe', (method) => {
    expect(targets({ method, lines: ['Location: /b'] })).toEqual([]);
  });

  it.each([
    ['MOVE', 'http://example.org/b%20c', ['/a', '/b%20c']],
    ['COPY', '/b', ['/a', '/b']],
    ['COPY', 'http://example.com/b', ['/a']],
    ['PUT', '/b', ['/a']],
  ])('%s writes to its Destination %s (RFC 4918 §10.3)', (method, destination, expected) => {
    expect(targets({ method, sent: [`Destination: ${destination}`], status: 201 })).toEqual(expected);
  });

  it.each([
    [103, []],
    [200, ['/a']],
    [204, ['/a']],
    [302, ['/a']],
    [399, ['/a']],
    [400, []],
    [404, []],
    [500, []],
    [503, []],
  ])('status %i', (status, expected) => {
    expect(targets({ status })).toEqual(expected);
  });

  const rows: readonly (readonly [lines: readonly string[], others: readonly string[]])[] = [
    [[], []],
    [['Location: /b'], ['/b']],
    [['Content-Location: /b?c=d'], ['/b?c=d']],
    [
      ['Location: /b', 'Content-Location: /c'],
      ['/b', '/c'],
    ],
    [['Location: /b', 'Content-Location: /b'], ['/b']],
    [['Location: /a'], []],
    [['Location: b/c#d'], ['/b/c']],
    [['Location: ?x'], ['/a?x']],
    [['Location: http://example.org/b'], ['/b']],
    [['Location: http://EXAMPLE.org:80/b'], ['/b']],
    [['Location: //example.org/b'], ['/b']],
    // URIs of another origin are ignored.
    [['Location: https://example.org/b'], []],
    [['Location: http://example.org:8080/b'], []],
    [['Location: http://example.com/b'], []],
    [['Location: //example.com/b'], []],
    [['Location: ftp://example.org/b'], []],
    [['Location: http://example.org@example.com/b'], []],
    [['Location: http://'], []],
  ];
  it.each(rows)('%j', (lines, others) => {
    expect(targets({ status: 201, lines })).toEqual(['/a', ...others]);
  });

  it('returns the target as it was received', () => {
    expect(targets({ target: '/a/%2e%2E/b?x=%41#' })).toEqual(['/a/%2e%2E/b?x=%41#']);
  });

  it('returns only the target where the authority is invalid', () => {
    expect(targets({ authority: '', lines: ['Location: /b'] })).toEqual(['/a']);
  });
});
