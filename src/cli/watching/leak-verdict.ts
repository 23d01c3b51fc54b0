import type { DeviceInfo } from '../../device/types.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Cause, DeviceState, Leak } from '../../watch/types.js';
import type { LeakName } from './leak-names.js';

/** The answer of `plimsoll leak`, as its JSON shows it. */
export interface LeakVerdict {
  readonly thresholdBytes: number;
  /**
   * True when a leak was found that grew by the threshold or more while it was watched; unknown
   * while memory grows in a way that may be a start, or too little was seen.
   */
  readonly found: Known<boolean>;
  /** How much longer to watch until it can be told; 0 when it is. */
  readonly watchSeconds: number;
  readonly devices: readonly DeviceLeak[];
}

export interface DeviceLeak extends DeviceInfo {
  readonly usedBytes: Known<number>;
  readonly leak: Leak;
  readonly overThreshold: boolean;
  readonly cause: Cause;
  readonly processLeaks: readonly ProcessLeak[];
}

export interface ProcessLeak extends Leak {
  readonly pid: number;
  readonly name: Known<string>;
  /** Who it is and what to do next; absent where that could not be read. */
  readonly who?: LeakName;
  readonly overThreshold: boolean;
}

/**
 * A leak counts when it is found in the statistics AND grew by at least the threshold: a sure leak
 * of a few bytes is not worth failing for, and a large growth that settles is no leak.
 */
export function leakVerdict(
  states: readonly DeviceState[],
  thresholdBytes: number,
  whoIs: (pid: number) => LeakName | undefined = () => undefined,
): LeakVerdict {
  const devices = states.map((state) => deviceLeak(state, thresholdBytes, whoIs));
  const found = anyFound(devices, thresholdBytes);
  const open = leaksOf(devices).filter((leak) => mayCount(leak, thresholdBytes));
  const watchSeconds = found === 'unknown' ? Math.max(...open.map((leak) => leak.watchSeconds)) : 0;
  return { thresholdBytes, found, watchSeconds, devices };
}

function deviceLeak(
  state: DeviceState,
  thresholdBytes: number,
  whoIs: (pid: number) => LeakName | undefined,
): DeviceLeak {
  const names = new Map(
    isKnown(state.processes) ? state.processes.map(({ pid, name }) => [pid, name]) : [],
  );
  return {
    ...state.info,
    usedBytes: state.latest.usedBytes,
    leak: state.leak,
    overThreshold: counts(state.leak, thresholdBytes),
    cause: state.cause,
    processLeaks: Array.from(state.processLeaks, ([pid, leak]) => ({
      pid,
      name: names.get(pid) ?? 'unknown',
      ...named(whoIs(pid)),
      ...leak,
      overThreshold: counts(leak, thresholdBytes),
    })),
  };
}

function named(who: LeakName | undefined): { who?: LeakName } {
  return who === undefined ? {} : { who };
}

function leaksOf(devices: readonly DeviceLeak[]): Leak[] {
  return devices.flatMap((device) => [device.leak, ...device.processLeaks]);
}

/** One that is found decides; without it, one that is unknown leaves the whole unknown. */
function anyFound(devices: readonly DeviceLeak[], thresholdBytes: number): Known<boolean> {
  const over = devices.some(
    (device) => device.overThreshold || device.processLeaks.some((leak) => leak.overThreshold),
  );
  if (over) return true;
  return leaksOf(devices).some((leak) => mayCount(leak, thresholdBytes)) ? 'unknown' : false;
}

/** Whether a growth that is not decided yet could still count by the time that it is. */
function mayCount(leak: Leak, thresholdBytes: number): boolean {
  if (leak.found !== 'unknown') return false;
  const { grownBytes, bytesPerSecond, watchSeconds } = leak;
  if (!isKnown(grownBytes) || !isKnown(bytesPerSecond)) return true;
  return grownBytes + bytesPerSecond * watchSeconds >= thresholdBytes;
}

function counts(leak: Leak, thresholdBytes: number): boolean {
  return leak.found === true && isKnown(leak.grownBytes) && leak.grownBytes >= thresholdBytes;
}

/** Decides when a leak is news: when it is first found, and each time it has doubled since. */
export class LeakNews {
  readonly #thresholdBytes: number;
  readonly #announcedBytes = new Map<string, number>();

  constructor(thresholdBytes: number) {
    this.#thresholdBytes = thresholdBytes;
  }

  /** `who` is one device, or one process on one. */
  take(who: string, leak: Leak): boolean {
    if (leak.found === false) this.#announcedBytes.delete(who);
    if (!counts(leak, this.#thresholdBytes) || !isKnown(leak.grownBytes)) return false;
    const announced = this.#announcedBytes.get(who);
    if (announced !== undefined && leak.grownBytes < 2 * announced) return false;
    this.#announcedBytes.set(who, leak.grownBytes);
    return true;
  }
}
