import { describe, expect, it } from 'vitest';
import { createVirtualClock } from '../../time/virtual-clock.js';
import { QueueClock, resumedMs } from './queue-clock.js';

const day = 86_400_000;
const kept = { boot: 'a', upMs: 5000, queueMs: 1_000_000, epochMs: 2_000_000 };

describe('the time of the queue', () => {
  it('begins as the date, and counts what passes, however the date is set', async () => {
    const clock = createVirtualClock({ epochMs: 1_000_000 });
    const queue = new QueueClock(clock, undefined);
    expect(queue.nowMs()).toBe(1_000_000);
    clock.jump(86_400);
    await clock.advance(10);
    expect(queue.nowMs()).toBe(1_010_000);
    expect(queue.toEpochMs(1_015_000)).toBe(1_015_000 + day);
    clock.jump(-2 * 86_400);
    expect(queue.nowMs()).toBe(1_010_000);
  });

  it('goes on in the next daemon by how long the machine has been running', () => {
    const later = { boot: 'a', upMs: 9000, epochMs: 2_000_000 + day };
    expect(resumedMs(kept, later)).toBe(1_004_000);
    expect(resumedMs(kept, { ...later, epochMs: 0 })).toBe(1_004_000);
  });

  it('goes on by the date after the machine was off, and never goes back', () => {
    const other = { boot: 'b', upMs: 100, epochMs: 2_060_000 };
    expect(resumedMs(kept, other)).toBe(1_060_000);
    expect(resumedMs(kept, { ...other, epochMs: 1 })).toBe(1_000_000);
    // A system that names no boot.
    expect(resumedMs({ ...kept, boot: '' }, { ...other, boot: '' })).toBe(1_060_000);
    // The same boot, as a container of another time namespace sees it.
    expect(resumedMs(kept, { ...other, boot: 'a' })).toBe(1_060_000);
  });
});
