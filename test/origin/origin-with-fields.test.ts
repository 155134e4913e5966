import { describe, expect, it } from 'vitest';
import { createOriginWithFields, type Origin, type OriginRequest } from '../../src/origin/origin.ts';
import { originRequest } from '../support/origins/origin-request.ts';
import { fieldsOf } from '../support/values/fields-of.ts';

function recordingOrigin() {
  const asked: OriginRequest[] = [];
  let isClosed = false;
  const origin: Origin = {
    fetch: (request) => {
      asked.push(request);
      return Promise.reject(new Error('no answer'));
    },
    close: async () => {
      isClosed = true;
    },
  };
  return { origin, asked, isClosed: () => isClosed };
}

describe('createOriginWithFields', () => {
  it('adds the fields after those of each request, and changes nothing else', async () => {
    const { origin, asked, isClosed } = recordingOrigin();
    const extended = createOriginWithFields(origin, fieldsOf('Authorization: a', 'X-A: 1'));
    const request = originRequest({ fields: fieldsOf('Host: h', 'X-A: 0') });
    await expect(extended.fetch(request)).rejects.toThrow('no answer');
    expect(asked).toEqual([{ ...request, fields: fieldsOf('Host: h', 'X-A: 0', 'Authorization: a', 'X-A: 1') }]);
    expect(request.fields).toHaveLength(2);
    await extended.close();
    expect(isClosed()).toBe(true);
  });

  it('returns the origin itself where there are no fields', () => {
    const { origin } = recordingOrigin();
    expect(createOriginWithFields(origin, [])).toBe(origin);
  });
});
