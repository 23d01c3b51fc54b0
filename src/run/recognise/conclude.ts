import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import type { EnforcedLimit, OutOfMemory } from '../types.js';

/** How a program ended: by itself, or by a signal, which a shell tells as 128 and its number. */
const killedExitCode = 137;

/** All that could be seen of an attempt's end. */
export interface Evidence {
  readonly exitCode: Known<number>;
  /** Processes that the kernel killed inside the limit we set. */
  readonly killsInLimit: Known<number>;
  /** Whether the kernel killed one of this program's processes for want of memory elsewhere. */
  readonly killedByKernel: Known<boolean>;
  readonly limit: EnforcedLimit;
  /** What the SDK reported of an out-of-memory that it could not recover from. */
  readonly reported: OutOfMemory | undefined;
  /** What was read in the program's output. */
  readonly read: OutOfMemory | undefined;
  /** What was read there and may have another cause. */
  readonly suspected?: OutOfMemory | undefined;
  /** Whether the program came near its limit. */
  readonly memoryWasShort?: boolean;
}

/** A program whose peak passed this share of its limit was short of memory. */
const shortShare = 0.9;

/**
 * Whether a peak came near a limit.
 *
 * @example
 * wasShort(950, 1000); // true
 */
export function wasShort(peakBytes: Known<number>, limitBytes: number | undefined): boolean {
  return isKnown(peakBytes) && limitBytes !== undefined && peakBytes >= limitBytes * shortShare;
}

/**
 * Whether an attempt ended for want of memory. A manual `kill -9` is none: only a counter of the
 * kernel makes a killed process one.
 *
 * @example
 * concludeOutOfMemory({ ...evidence, exitCode: 137, killsInLimit: 1 })?.kind; // 'killed-at-limit'
 */
export function concludeOutOfMemory(evidence: Evidence): OutOfMemory | null {
  const { exitCode, killsInLimit, limit, reported, read } = evidence;
  if (exitCode === 0) return null;
  if (reported !== undefined) return reported;
  if (isKnown(killsInLimit) && killsInLimit > 0) return killedAtLimit(limit, killsInLimit);
  if (exitCode === killedExitCode && evidence.killedByKernel === true) {
    return {
      kind: 'killed-by-kernel',
      askedBytes: 'unknown',
      freeBytes: 'unknown',
      totalBytes: 'unknown',
      message: 'The kernel killed it because the memory of the machine, or of its group, was full.',
    };
  }
  return read ?? (evidence.memoryWasShort === true ? evidence.suspected : undefined) ?? null;
}

function killedAtLimit(limit: EnforcedLimit, kills: number): OutOfMemory {
  const totalBytes = limit.bytes === 'none' ? 'unknown' : limit.bytes;
  const who = kills === 1 ? 'a process' : `${kills} processes`;
  return {
    kind: 'killed-at-limit',
    askedBytes: 'unknown',
    freeBytes: 0,
    totalBytes,
    message: `The kernel killed ${who} at the limit of ${formatBytes(totalBytes)}.`,
  };
}
