/** Which requests are explained. */

import { describe, expect, it } from 'vitest';
import { selectExplained } from '../../src/guard/explain.ts';
import type { ProxyRequest } from '../../src/http/message.ts';
import { fieldsOf } from '../support/fields-of.ts';

function requestWith(lines: readonly string[], address = '127.0.0.1'): ProxyRequest {
  return {
    method: 'GET',
    scheme: 'http',
    authority: 'a.test',
    target: '/',
    version: '1.1',
    fields: fieldsOf(...lines),
    body: undefined,
    bodySizeBytes: undefined,
    peer: { address, port: 40_000 },
    receivedAt: 0,
    signal: new AbortController().signal,
    sendInterim: () => undefined,
  };
}

const isTrusted = (address: string) => address === '127.0.0.1';
const asking = ['Host: a.test', 'Connection: Rangeway-Explain', 'Rangeway-Explain: ?1'];

describe('selectExplained', () => {
  it('takes the field out of a request that is to be explained, and nothing else', () => {
    const request = requestWith([...asking, 'Range: bytes=0-9', 'Cookie: a=1']);
    const explained = selectExplained(request, isTrusted);
    const { sendInterim: _sendInterim, signal, ...head } = request;
    expect({ ...explained }).toEqual({
      ...head,
      fields: fieldsOf('Host: a.test', 'Connection: Rangeway-Explain', 'Range: bytes=0-9', 'Cookie: a=1'),
    });
    expect(explained?.signal).toBe(signal);
  });

  it('keeps what a request has by its class', () => {
    const { signal: plainSignal, ...head } = requestWith(asking);
    const interim: number[] = [];
    class Received {
      get signal(): AbortSignal {
        return plainSignal;
      }
      sendInterim({ status }: { status: number }): void {
        interim.push(status);
      }
    }
    const { sendInterim: _, ...data } = head;
    const request: ProxyRequest = Object.assign(new Received(), data);
    const explained = selectExplained(request, isTrusted);
    expect(explained?.signal).toBe(plainSignal);
    explained?.sendInterim({ status: 103, fields: [] });
    expect(interim).toEqual([103]);
  });

  it.each([
    ['Connection names it among others', ['Connection: close, rangeway-explain', 'Rangeway-Explain: ?1'], true],
    [
      'Connection names it in another line',
      ['Connection: close', 'Connection: Rangeway-Explain', 'Rangeway-Explain: ?1'],
      true,
    ],
    ['it is not there', ['Connection: Rangeway-Explain'], false],
    ['Connection does not name it', ['Connection: close', 'Rangeway-Explain: ?1'], false],
    ['there is no Connection', ['Rangeway-Explain: ?1'], false],
    ['Connection names something longer', ['Connection: Rangeway-Explain-Too', 'Rangeway-Explain: ?1'], false],
    ['it is false', ['Connection: Rangeway-Explain', 'Rangeway-Explain: ?0'], false],
    ['it is no boolean', ['Connection: Rangeway-Explain', 'Rangeway-Explain: 1'], false],
    ['it is there twice', [...asking, 'Rangeway-Explain: ?1'], false],
    ['there is a Via', [...asking, 'Via: 1.1 front'], false],
    ['there is a Forwarded', [...asking, 'Forwarded: for=192.0.2.7'], false],
    ['there is an X-Forwarded-For', [...asking, 'X-Forwarded-For: 192.0.2.7'], false],
    ['there is an X-Forwarded-Proto', [...asking, 'X-Forwarded-Proto: https'], false],
    ['there is an X_Forwarded_For', [...asking, 'X_Forwarded_For: 192.0.2.7'], false],
    ['there is an X-Real-IP', [...asking, 'X-Real-IP: 192.0.2.7'], false],
    ['there is a CDN-Loop', [...asking, 'CDN-Loop: cdn'], false],
  ])('%s', (_name, lines, want) => {
    expect(selectExplained(requestWith(lines), isTrusted) !== undefined).toBe(want);
  });

  it.each([
    ['?1', 'GET'],
    ['?1;method=HEAD', 'HEAD'],
    ['?1; method=M-SEARCH', 'M-SEARCH'],
    ['?1;method=', undefined],
    ['?1;method="HEAD"', undefined],
    ['?1;method=a b', undefined],
    ['?1;method', undefined],
    ['?1;other=1', undefined],
    ['?1, ?1', undefined],
  ])('%s is about %s', (value, method) => {
    const request = requestWith(['Connection: Rangeway-Explain', `Rangeway-Explain: ${value}`]);
    expect(selectExplained(request, isTrusted)?.method).toBe(method);
  });

  it('explains nothing to a peer that is not trusted', () => {
    expect(selectExplained(requestWith(asking, '192.0.2.7'), isTrusted)).toBeUndefined();
  });
});
