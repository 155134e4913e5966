import { describe, expect, it } from 'vitest';
import { readHangup } from '../../src/cli/io.ts';

describe('readHangup', () => {
  it.each<[what: string, hadTerminal: boolean, hasTerminal: boolean, want: 'reload' | 'stop']>([
    ['a service', false, false, 'reload'],
    ['in a terminal, from another one', true, true, 'reload'],
    ['the terminal is gone', true, false, 'stop'],
    ['a terminal that was not there before', false, true, 'reload'],
  ])('%s', (_what, hadTerminal, hasTerminal, want) => {
    expect(readHangup(hadTerminal, hasTerminal)).toBe(want);
  });
});
