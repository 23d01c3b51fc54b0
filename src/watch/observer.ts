import type { DeviceInfo, MemoryReading } from '../device/types.js';
import type { Alerts, Instant } from './alerts/alerts.js';
import type { Diagnosis } from './diagnosis/diagnose.js';
import type { ThinningSizes } from './history/thinning.js';
import { deviceKey } from './sampling/roster.js';
import type { SamplerEvents } from './sampling/sampler.js';
import type { Alert, DeviceState, Sample, WatchEvent } from './types.js';
import { WatchedDevice } from './watched-device.js';

export interface ObserverOptions {
  readonly now: () => Instant;
  readonly alerts: Alerts;
  readonly createDiagnosis: () => Diagnosis;
  readonly historySizes?: ThinningSizes | undefined;
  readonly emit: (event: WatchEvent) => void;
  readonly deliver: (alert: Alert) => void;
  readonly note: (text: string) => void;
}

/** Makes of what the sampler sees: the state of each device, events, and alerts. */
export interface Observer {
  readonly events: SamplerEvents;
  states(): readonly DeviceState[];
}

/** Turns each sample into the state of its device: history, forecast, leaks, cause, alerts. */
export function createObserver(options: ObserverOptions): Observer {
  const { now, alerts, emit } = options;
  const states = new Map<string, WatchedDevice>();
  const stateOf = (info: DeviceInfo): WatchedDevice | undefined => states.get(deviceKey(info));

  function emitAlerts(news: readonly Alert[]): void {
    for (const alert of news) {
      emit({ type: 'alert', alert });
      options.deliver(alert);
    }
  }

  /** A device has a state from its first sample on. */
  function begin(sample: Sample): WatchedDevice {
    const state = new WatchedDevice(sample, options);
    states.set(deviceKey(sample.device), state);
    const { processes } = sample;
    if (processes) state.takeProcesses(sample.atSeconds, processes);
    return state;
  }

  return {
    states: () => [...states.values()],
    events: {
      sample({ info }, reading, processes) {
        const at = now();
        const sample = sampleOf(info, reading, at, processes);
        const known = stateOf(info);
        known?.take(sample);
        const state = known ?? begin(sample);
        emit({ type: 'sample', sample, state });
        emitAlerts(alerts.update(state, at));
      },
      processes({ info }, processes) {
        stateOf(info)?.takeProcesses(now().atSeconds, processes);
      },
      late({ info }, missed) {
        emit({ type: 'late', device: info, missed, ...now() });
      },
      appeared({ info }) {
        stateOf(info)?.comeBack(info);
        emit({ type: 'appeared', device: info, ...now() });
      },
      vanished({ info }, reason) {
        const at = now();
        const state = stateOf(info);
        state?.vanish();
        emit({ type: 'vanished', device: info, reason, ...at });
        if (state) emitAlerts(alerts.forget(state, at));
      },
      note: options.note,
    },
  };
}

/** Made ten times a second and more, so field by field: spreading objects takes five times as long. */
function sampleOf(
  device: DeviceInfo,
  reading: MemoryReading,
  { atSeconds, epochMs }: Instant,
  processes: Sample['processes'],
): Sample {
  const { totalBytes, usedBytes, freeBytes, utilizationPercent, allocator, host } = reading;
  const sample: { -readonly [Key in keyof Sample]: Sample[Key] } = {
    device,
    atSeconds,
    epochMs,
    totalBytes,
    usedBytes,
    freeBytes,
    utilizationPercent,
  };
  if (allocator) sample.allocator = allocator;
  if (host) sample.host = host;
  if (processes) sample.processes = processes;
  return sample;
}
