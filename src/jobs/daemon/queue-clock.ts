import type { Clock } from '../../time/clock.js';
import type { ClockMark } from '../store/records.js';

/**
 * The time by which jobs wait. It begins as milliseconds since 1970 and then only counts what has
 * passed: a clock that is set, by a person or over the network, moves no turn and ends no waiting.
 * A restart of the daemon changes nothing as long as the machine runs. Over a restart of the machine
 * only its own clock can tell how long it was off: that is counted, from the last mark on.
 */
export class QueueClock {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #startSeconds: number;

  constructor(clock: Clock, kept: ClockMark | undefined) {
    this.#clock = clock;
    this.#startSeconds = clock.seconds();
    this.#startMs = resumedMs(kept, { ...uptimeOf(clock), epochMs: clock.epochMs() });
  }

  nowMs(): number {
    return Math.round(this.#startMs + (this.#clock.seconds() - this.#startSeconds) * 1000);
  }

  /** A moment of the queue as a date for people. */
  toEpochMs(queueMs: number): number {
    return this.#clock.epochMs() + queueMs - this.nowMs();
  }

  mark(): ClockMark {
    const { nowMs, epochMs } = { nowMs: this.nowMs(), epochMs: this.#clock.epochMs() };
    return { ...uptimeOf(this.#clock), queueMs: nowMs, epochMs };
  }
}

function uptimeOf(clock: Clock): Pick<ClockMark, 'boot' | 'upMs'> {
  const { boot, seconds } = clock.uptime?.() ?? { boot: '', seconds: 0 };
  return { boot, upMs: Math.round(seconds * 1000) };
}

/** Where the queue's time goes on. */
export function resumedMs(kept: ClockMark | undefined, now: Omit<ClockMark, 'queueMs'>): number {
  if (kept === undefined) return now.epochMs;
  const isSameBoot = now.boot !== '' && now.boot === kept.boot && now.upMs >= kept.upMs;
  const passedMs = isSameBoot ? now.upMs - kept.upMs : now.epochMs - kept.epochMs;
  return kept.queueMs + Math.max(0, passedMs);
}
