import { describe, expect, it } from 'vitest';
import {
  createRangeAbility,
  type RangeFault,
  type RangeMode,
  type RangeSupport,
} from '../../src/origin/range-ability.ts';

/** An observation at `/a`, or at the named path, or milliseconds that pass. */
type Kind = 'parts' | 'whole' | 'unnamed' | 'lie' | 'odd' | 'refused';
type Step = Kind | `${Kind} ${string}` | number;

/** An observation at three paths. */
const everywhere = (kind: Kind): readonly Step[] => [`${kind} /x`, `${kind} /y`, `${kind} /z`];

function learn(mode: RangeMode, steps: readonly Step[]) {
  let now = 1_000_000;
  const reports: string[] = [];
  const ability = createRangeAbility({
    mode,
    now: () => now,
    forgetAfterMs: 100,
    onDistrust: (reason, scope) => void reports.push(`${scope}: ${reason}`),
  });
  for (const [index, step] of steps.entries()) {
    if (typeof step === 'number') {
      now += step;
      continue;
    }
    const [kind, path = '/a'] = step.split(' ');
    const support = ability.of(path);
    if (kind === 'parts') support.noteParts();
    else if (kind === 'whole') support.noteWhole();
    else if (kind === 'unnamed') support.noteUncombinable();
    else if (kind === 'refused') support.refuse('its 200 holds a part', 'odd');
    else support.distrust(`${kind} ${index}`, kind === 'lie' ? 'lie' : 'odd');
  }
  const factsOf = (path: string) => {
    const support = ability.of(path);
    return {
      mayAsk: support.mayRequestPart,
      mayAskMore: support.mayRequestFurtherPart,
      isKnown: support.isKnown,
      mayAskTail: support.mayRequestTail,
      isDistrusted: support.isDistrusted,
      fault: support.refusal?.fault,
    };
  };
  return { known: ability.known, own: factsOf('/a'), other: factsOf('/b'), reports };
}

describe('the knowledge of an origin in one word', () => {
  it.each<[RangeMode, readonly Step[], 'unknown' | 'yes' | 'no']>([
    ['auto', [], 'unknown'],
    ['auto', ['parts'], 'yes'],
    ['auto', ['whole'], 'no'],
    ['auto', ['whole', 100], 'unknown'],
    ['auto', ['parts', 'whole'], 'yes'],
    ['auto', ['unnamed'], 'unknown'],
    ['auto', everywhere('unnamed'), 'no'],
    ['auto', ['lie'], 'unknown'],
    ['auto', ['parts', 'lie'], 'yes'],
    ['auto', everywhere('lie'), 'no'],
    ['auto', ['parts', ...everywhere('lie'), 100], 'unknown'],
    ['never', ['parts'], 'no'],
    ['always', [], 'yes'],
    ['always', everywhere('lie'), 'yes'],
  ])('%s, %j: %s', (mode, steps, known) => expect(learn(mode, steps).known).toBe(known));
});

describe('whether parts may be requested, where the whole is of use and where it is not, and whether parts are known', () => {
  it.each<[RangeMode, readonly Step[], boolean, boolean, boolean]>([
    ['auto', [], true, true, false],
    ['auto', ['parts'], true, true, true],
    ['auto', ['whole'], true, false, false],
    ['auto', ['whole', 99], true, false, false],
    ['auto', ['whole', 100], true, true, false],
    ['auto', ['whole', 50, 'whole', 99], true, false, false],
    ['auto', ['whole', 'parts'], true, true, true],
    // One resource that arrives whole says nothing about an origin that sends parts of others.
    ['auto', ['parts', 'whole'], true, true, true],
    ['auto', ['unnamed'], false, false, false],
    ['auto', ['parts', 'unnamed'], false, false, false],
    ['auto', ['unnamed', 99], false, false, false],
    ['auto', ['unnamed', 100], true, true, false],
    ['auto', ['lie'], false, false, false],
    ['auto', ['odd'], false, false, false],
    ['auto', ['parts', 'refused'], false, false, false],
    ['auto', ['parts', 'refused', 100], true, true, true],
    ['always', ['refused'], false, false, false],
    ['auto', ['lie', 100], true, true, false],
    ['auto', ['odd', 100], true, true, false],
    ['auto', ['parts', 'lie'], false, false, false],
    // The response to an earlier request arrives late.
    ['auto', ['lie', 'parts'], false, false, false],
    ['auto', ['lie', 'parts', 100], true, true, false],
    ['never', [], false, false, false],
    ['never', ['parts'], false, false, false],
    ['never', ['whole', 100], false, false, false],
    ['always', [], true, true, true],
    ['always', ['whole'], true, true, true],
    ['always', ['unnamed'], false, false, false],
    ['always', ['lie'], false, false, false],
    ['always', everywhere('lie'), true, true, true],
    ['always', ['parts'], true, true, true],
  ])('%s after %o at this URL: %s, %s, %s', (mode, steps, mayAsk, mayAskMore, isKnown) => {
    expect(learn(mode, steps).own).toMatchObject({ mayAsk, mayAskMore, isKnown });
  });
});

describe('what other URLs of an origin show about a URL', () => {
  it.each<[readonly Step[], boolean, boolean, RangeFault | undefined]>([
    [['lie'], true, false, undefined],
    [['parts', 'lie'], true, true, undefined],
    [['odd /x', 'odd /y', 'odd /z', 'odd'], true, false, undefined],
    [['parts', ...everywhere('odd')], true, true, undefined],
    [['parts', ...everywhere('refused'), 'refused'], true, true, undefined],
    [['lie /x', 'lie /x', 'lie /y', 'lie /y'], true, false, undefined],
    [['lie /x?1', 'lie /x?2', 'lie /x?3', 'lie /y?4'], true, false, undefined],
    [everywhere('lie'), false, false, 'lie'],
    [['parts', ...everywhere('lie')], false, false, 'lie'],
    [[...everywhere('lie'), 99], false, false, 'lie'],
    [[...everywhere('lie'), 100], true, false, undefined],
    [[...everywhere('lie'), 'parts /q', 100], true, false, undefined],
    [[...everywhere('lie'), 100, 'parts /q'], true, true, undefined],
    [['lie /x', 'lie /y', 100, 'lie /z'], true, false, undefined],
    [['unnamed'], true, false, undefined],
    [everywhere('unnamed'), false, false, 'uncombinable'],
    [['parts', ...everywhere('unnamed')], true, true, undefined],
  ])('after %o: may be asked %s, known %s, fault %s', (steps, mayAsk, isKnown, fault) => {
    expect(learn('auto', steps).other).toMatchObject({ mayAsk, isKnown, fault, isDistrusted: fault === 'lie' });
  });
});

describe("whether the client's suffix range is passed on", () => {
  it.each<[RangeMode, readonly Step[], boolean, boolean]>([
    ['auto', [], true, true],
    ['auto', ['parts'], false, false],
    ['auto', ['whole'], true, true],
    ['auto', ['unnamed'], true, true],
    ['auto', ['parts /q', 'unnamed'], true, false],
    ['auto', everywhere('unnamed'), true, true],
    ['auto', [...everywhere('unnamed'), 100, 'parts'], false, false],
    ['auto', ['lie'], false, true],
    ['auto', everywhere('lie'), false, false],
    ['auto', ['lie', 100], true, true],
    ['auto', ['unnamed', 'lie'], false, true],
    ['never', [], false, false],
    ['never', ['unnamed'], false, false],
    ['always', [], false, false],
    ['always', ['unnamed'], false, false],
  ])('%s after %o: %s; of another URL: %s', (mode, steps, mayAskTail, ofOther) => {
    const { own, other } = learn(mode, steps);
    expect([own.mayAskTail, other.mayAskTail]).toEqual([mayAskTail, ofOther]);
  });
});

describe('distrust', () => {
  it.each<[readonly Step[], readonly string[]]>([
    [['whole'], []],
    [['lie'], ['url: lie 0']],
    [['odd'], ['url: odd 0']],
    [['refused'], []],
    [['lie', 'lie', 'odd /b'], ['url: lie 0']],
    [
      ['lie', 100, 'lie'],
      ['url: lie 0', 'url: lie 2'],
    ],
    [
      [...everywhere('lie'), 'lie /b'],
      ['url: lie 0', 'origin: lie 2'],
    ],
  ])('after %o is reported, but not again and again: %o', (steps, reports) => {
    expect(learn('auto', steps).reports).toEqual(reports);
  });

  it('is remembered for a bounded number of URLs', () => {
    const steps = Array.from({ length: 2_000 }, (_, index): Step => `odd /${index}`);
    expect(learn('auto', ['odd', ...steps]).own.mayAsk).toBe(true);
    expect(learn('auto', ['odd', ...steps.slice(1)]).own.mayAsk).toBe(false);
  });
});

describe('whether an open range may be fetched by several requests', () => {
  type Note = (support: RangeSupport) => void;
  const parts: Note = (support) => support.noteParts();
  const joined: Note = (support) => {
    support.noteParts();
    support.noteJoined();
  };
  const refusedPart: Note = (support) => support.noteAskedOnce();
  const changed: Note = (support) => support.noteUnjoinable(true);
  const replaced: Note = (support) => support.noteUnjoinable(false);

  it.each<[string, RangeMode, readonly [Note, string][], boolean, boolean]>([
    ['nothing', 'auto', [], false, true],
    ['a part', 'auto', [[parts, '/x']], false, true],
    ['parts that were joined', 'auto', [[joined, '/x']], true, true],
    ['nothing', 'always', [], true, true],
    ['nothing', 'never', [[joined, '/x']], false, false],
    [
      'a refused part of this URL',
      'auto',
      [
        [joined, '/x'],
        [refusedPart, '/a'],
      ],
      false,
      true,
    ],
    [
      'a refused part of another URL',
      'auto',
      [
        [joined, '/x'],
        [refusedPart, '/x'],
      ],
      true,
      true,
    ],
    [
      'refused parts at two paths',
      'auto',
      [
        [joined, '/x'],
        [refusedPart, '/x'],
        [refusedPart, '/y'],
      ],
      false,
      true,
    ],
    [
      'refused parts at one path',
      'auto',
      [
        [joined, '/x'],
        [refusedPart, '/x?1'],
        [refusedPart, '/x?2'],
      ],
      true,
      true,
    ],
    [
      'a changed validator of this URL',
      'auto',
      [
        [joined, '/x'],
        [changed, '/a'],
      ],
      false,
      false,
    ],
    [
      'a changed validator of another URL',
      'auto',
      [
        [joined, '/x'],
        [changed, '/x'],
      ],
      true,
      true,
    ],
    [
      'changed validators at two paths',
      'auto',
      [
        [joined, '/x'],
        [changed, '/x'],
        [changed, '/y'],
      ],
      false,
      false,
    ],
    [
      'new versions at two paths',
      'auto',
      [
        [joined, '/x'],
        [replaced, '/x'],
        [replaced, '/y'],
      ],
      false,
      true,
    ],
  ])('after %s, under %s: %o', (_name, mode, notes, mayJoinParts, mayRequestPart) => {
    const ability = createRangeAbility({ mode, now: () => 0, forgetAfterMs: 100, onDistrust: () => {} });
    for (const [note, path] of notes) note(ability.of(path));
    const { mayJoinParts: mayJoin, mayRequestPart: mayRequest } = ability.of('/a');
    expect([mayJoin, mayRequest]).toEqual([mayJoinParts, mayRequestPart]);
  });
});
