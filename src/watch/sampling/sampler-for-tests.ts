import type { Device, MemoryReading } from '../../device/device.js';
import { createVirtualClock, type VirtualClock } from '../../time/clock.js';
import { fakeDevice, memory } from '../fake-device-for-tests.js';
import { type Intervals, resolveIntervals } from './intervals.js';
import { runSampler, type SamplerOptions } from './sampler.js';

/** A sampler that runs in virtual time, and what it told. */
export interface SamplerRun {
  readonly clock: VirtualClock;
  /** `kind id what@seconds`, in order. */
  readonly log: string[];
  readonly done: Promise<void>;
  stop(): void;
  times(kind: string, id?: string): number[];
}

export function startSampler(
  devices: readonly Device[],
  intervals: Partial<Intervals> = {},
  more: Partial<SamplerOptions> = {},
): SamplerRun {
  const clock = createVirtualClock();
  const controller = new AbortController();
  const seen: { kind: string; id: string; what: string; at: number }[] = [];
  const log: string[] = [];
  const record = (kind: string, device: Device, what: unknown = ''): void => {
    const at = clock.seconds();
    seen.push({ kind, id: device.info.id, what: String(what), at });
    log.push(`${kind} ${device.info.id} ${String(what)}@${at}`);
  };
  const done = runSampler({
    devices,
    intervals: resolveIntervals({ intervalSeconds: 1, ...intervals }),
    clock,
    signal: controller.signal,
    events: {
      sample: (device) => record('sample', device),
      processes: (device) => record('processes', device),
      late: (device, missed) => record('late', device, missed),
      appeared: (device) => record('appeared', device),
      vanished: (device, reason) => record('vanished', device, reason),
      note: (text) => log.push(text),
    },
    ...more,
  });
  return {
    clock,
    log,
    done,
    stop: () => controller.abort(),
    times: (kind, id = 'gpu:0') =>
      seen.filter((event) => event.kind === kind && event.id === id).map(({ at }) => at),
  };
}

/** Answers after `seconds`, by the clock that `run` has. */
export function slowDevice(
  id: string,
  run: () => SamplerRun,
  seconds: (call: number) => number,
): Device {
  let call = 0;
  return fakeDevice({
    id,
    async read(): Promise<MemoryReading> {
      const { clock } = run();
      await clock.waitUntil(clock.seconds() + seconds(call++));
      return memory(1);
    },
  });
}
