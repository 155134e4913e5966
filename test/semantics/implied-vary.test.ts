import { describe, expect, it } from 'vitest';
import { echoesOrigin, impliedVary, originEcho, withoutOriginEcho } from '../../src/semantics/vary.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

const page = 'Origin: https://a.test';
const echo = 'Access-Control-Allow-Origin: https://a.test';

describe('impliedVary', () => {
  it.each<[request: readonly string[], response: readonly string[], want: readonly string[]]>([
    [[], [], []],
    [[page], [], []],
    [[page], [echo], ['origin']],
    [[page], ['Access-Control-Allow-Origin: *'], []],
    [[page], ['Access-Control-Allow-Origin: https://b.test'], []],
    [[], [echo], []],
    [['Origin: null'], ['Access-Control-Allow-Origin: null'], ['origin']],
    [[], ['Content-Encoding: gzip'], ['accept-encoding']],
    [[], ['Content-Encoding: identity'], []],
    [[], ['Content-Encoding: Identity'], []],
    [[], ['Content-Encoding:'], []],
    [[], ['Content-Encoding: gzip', 'Content-Encoding: br'], ['accept-encoding']],
    [[page], [echo, 'Content-Encoding: br'], ['accept-encoding', 'origin']],
  ])('%j answered with %j: %j', (request, response, want) => {
    expect(impliedVary(fieldsOf(...request), fieldsOf(...response))).toEqual(want);
  });
});

describe('the echo of Origin in a response, Fetch §3.3.3', () => {
  const corsFields = [echo, 'Access-Control-Allow-Credentials: true'];
  const others = ['Access-Control-Expose-Headers: ETag', 'ETag: "1"'];
  it.each<[origin: string, isEcho: boolean]>([
    [page, true],
    ['Origin: https://b.test', false],
    ['X: 1', false],
  ])('to a request with %s is removed: %s', (origin, isEcho) => {
    const request = fieldsOf(origin);
    const response = fieldsOf(...corsFields, ...others);
    expect(echoesOrigin(request, response)).toBe(isEcho);
    expect(withoutOriginEcho(request, response)).toEqual(isEcho ? fieldsOf(...others) : response);
    expect(originEcho(request, response)).toEqual(isEcho ? fieldsOf(...corsFields) : []);
  });
});
