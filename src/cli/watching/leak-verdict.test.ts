import { describe, expect, it } from 'vitest';
import { fakeLeak, fakeState } from '../../report/state-for-tests.js';
import { MiB } from '../../units/bytes.js';
import type { Leak } from '../../watch/types.js';
import { LeakNews, leakVerdict } from './leak-verdict.js';

const leaking = (grownBytes: Leak['grownBytes']) =>
  fakeLeak({ found: true, grownBytes, bytesPerSecond: MiB });
const verdict = (...leaks: Leak[]) =>
  leakVerdict(
    leaks.map((leak) => fakeState({ leak })),
    100 * MiB,
  ).found;

describe('leakVerdict', () => {
  it('counts a leak that is found and large enough, nothing less', () => {
    expect(verdict(leaking(100 * MiB))).toBe(true);
    expect(verdict(leaking(99 * MiB))).toBe(false);
    expect(verdict(leaking('unknown'))).toBe(false);
    expect(verdict(fakeLeak({ found: false, grownBytes: 500 * MiB }))).toBe(false);
  });

  it('is unknown while anything is, unless a leak was found', () => {
    const unknown = fakeLeak({
      found: 'unknown',
      bytesPerSecond: 'unknown',
      grownBytes: 'unknown',
    });
    expect(verdict(unknown, unknown)).toBe('unknown');
    expect(verdict(unknown, fakeLeak())).toBe('unknown');
    expect(verdict(unknown, leaking(200 * MiB))).toBe(true);
  });

  it('is unknown while one process grows, and says how long to watch', () => {
    const of = (grownBytes: number) => {
      const rate = { bytesPerSecond: MiB, grownBytes, watchSeconds: 12 };
      const grows = fakeLeak({ found: 'unknown', ...rate });
      return leakVerdict([fakeState({ processLeaks: new Map([[7, grows]]) })], 100 * MiB);
    };
    expect(of(90 * MiB)).toMatchObject({ found: 'unknown', watchSeconds: 12 });
    // It cannot reach what counts by the time that it is decided.
    expect(of(80 * MiB)).toMatchObject({ found: false, watchSeconds: 0 });
  });

  it('counts a leak in one process, with its name', () => {
    const state = fakeState({
      processes: [{ pid: 7, name: 'python', usedBytes: MiB }],
      processLeaks: new Map([[7, leaking(200 * MiB)]]),
    });
    const { found, devices } = leakVerdict([state], 100 * MiB);
    expect(found).toBe(true);
    expect(devices[0]?.processLeaks[0]).toMatchObject({
      pid: 7,
      name: 'python',
      overThreshold: true,
    });
  });
});

describe('LeakNews', () => {
  it('tells a leak when it is found and each time it has doubled', () => {
    const news = new LeakNews(100 * MiB);
    const announced = [50, 100, 150, 199, 200, 399, 400].map((grown) =>
      news.take('gpu:0', leaking(grown * MiB)),
    );
    expect(announced).toEqual([false, true, false, false, true, false, true]);
  });

  it('tells it again after it was over', () => {
    const news = new LeakNews(100 * MiB);
    expect(news.take('gpu:0', leaking(100 * MiB))).toBe(true);
    expect(news.take('gpu:0', fakeLeak())).toBe(false);
    expect(news.take('gpu:0', leaking(110 * MiB))).toBe(true);
    expect(news.take('gpu:1', leaking(110 * MiB))).toBe(true);
  });
});
