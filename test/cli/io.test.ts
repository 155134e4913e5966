import { describe, expect, it } from 'vitest';
import { decideHangup } from '../../src/cli/io.ts';

describe('readHangup', () => {
  it.each<[what: string, hadTerminal: boolean, hasTerminal: boolean, want: 'reload' | 'stop']>([
    ['a service without a terminal', false, false, 'reload'],
    ['in a terminal, SIGHUP from elsewhere', true, true, 'reload'],
    ['the terminal was closed', true, false, 'stop'],
    ['a terminal that was not standard output before', false, true, 'reload'],
  ])('%s', (_what, hadTerminal, hasTerminal, want) => {
    expect(decideHangup(hadTerminal, hasTerminal)).toBe(want);
  });
});
