import { describe, expect, it } from 'vitest';
import { SpeedMeter, timeLeftMs, timeLeftText } from '../../dashboard/src/model/speed.ts';

describe('the speed of a fill', () => {
  it('is the mean since its start, until it has been watched for a while', () => {
    const meter = new SpeedMeter({ startedAt: 0 });
    expect(meter.add(10_000, 50_000)).toBe(5000);
    expect(meter.add(11_000, 60_000)).toBeCloseTo(60_000 / 11, 5);
    // From here on its own readings count.
    expect(meter.add(12_000, 70_000)).toBe(10_000);
  });

  it('is that of the last eight seconds', () => {
    const meter = new SpeedMeter({ startedAt: 0 });
    let bytes = 0;
    for (let second = 0; second <= 30; second += 1) {
      meter.add(second * 1000, bytes);
      bytes += second < 20 ? 1000 : 3000;
    }
    expect(meter.add(31_000, bytes)).toBe(3000);
  });

  it('is 0 while nothing arrives', () => {
    const meter = new SpeedMeter({ startedAt: 0 });
    for (let second = 1; second <= 20; second += 1) meter.add(second * 1000, 5000);
    expect(meter.add(21_000, 5000)).toBe(0);
  });

  it('is not known at the instant of its start', () => {
    expect(new SpeedMeter({ startedAt: 1000 }).add(1000, 0)).toBeUndefined();
  });

  it('does not change by a reading that is there twice', () => {
    const meter = new SpeedMeter({ startedAt: 0 });
    for (const second of [1, 2, 3, 4]) meter.add(second * 1000, second * 1000);
    expect(meter.add(4000, 4000)).toBe(1000);
  });
});

describe('the time left', () => {
  it.each([
    [1000, 500, 100, 5000],
    [1000, 1000, 100, 0],
    [1000, 1200, 100, 0],
    [undefined, 500, 100, undefined],
    [1000, 500, 0, undefined],
    [1000, 500, undefined, undefined],
  ])('%s bytes, %s received, %s per second: %s ms', (sizeBytes, receivedBytes, speed, ms) => {
    expect(timeLeftMs({ sizeBytes, receivedBytes }, speed)).toBe(ms);
  });

  it.each([
    [0, 'a moment'],
    [1499, 'a moment'],
    [12_300, '12 s'],
    [89_000, '89 s'],
    [120_000, '2 min'],
    [89 * 60_000, '89 min'],
    [3 * 3_600_000, '3 h'],
    [72 * 3_600_000, '3 d'],
  ])('%i ms: %s', (ms, text) => expect(timeLeftText(ms)).toBe(text));
});
