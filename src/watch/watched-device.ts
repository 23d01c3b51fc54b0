import type { DeviceInfo, ProcessReading } from '../device/device.js';
import { MiB } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';
import type { Alerts } from './alerts/alerts.js';
import type { Diagnosis } from './diagnosis/diagnose.js';
import { createHistory } from './history/history.js';
import type { ThinningSizes } from './history/thinning.js';
import type {
  Alert,
  Cause,
  DeviceState,
  Forecast,
  History,
  Leak,
  MemoryPoint,
  Sample,
} from './types.js';

/** What the diagnosis is fed; nothing while the figures are unknown. */
export function memoryPointOf(sample: Sample): MemoryPoint | undefined {
  const { allocator, usedBytes, totalBytes, atSeconds } = sample;
  if (allocator) {
    return {
      seconds: atSeconds,
      limitBytes: allocator.limitBytes,
      heldBytes: allocator.reservedBytes,
      liveBytes: allocator.allocatedBytes,
    };
  }
  if (!isKnown(usedBytes) || !isKnown(totalBytes)) return undefined;
  return { seconds: atSeconds, limitBytes: totalBytes, heldBytes: usedBytes };
}

/**
 * A host has hundreds of small processes, and following one costs as much as following a device. A
 * leak is asked for from 100 MiB on, so it is seen in time.
 */
const followedFromBytes = 32 * MiB;

function largeProcesses(processes: readonly ProcessReading[]): readonly ProcessReading[] {
  return processes.filter(({ usedBytes }) => !isKnown(usedBytes) || usedBytes >= followedFromBytes);
}

interface Conclusions {
  readonly forecast: Forecast;
  readonly leak: Leak;
  readonly processLeaks: ReadonlyMap<number, Leak>;
  /** Worked out when first asked for: of all of them it costs the most and is asked for least. */
  cause: Cause | undefined;
}

/**
 * The state of a device that is watched, as a view: reading it copies nothing, and what is costly
 * to conclude is concluded when asked for, once for each new forecast of the diagnosis.
 */
export class WatchedDevice implements DeviceState {
  readonly history: History;
  readonly #alerts: Alerts;
  readonly #createDiagnosis: () => Diagnosis;
  #diagnosis: Diagnosis;
  #conclusions: Conclusions | undefined;
  #info: DeviceInfo;
  #latest: Sample;
  #processes: Known<readonly ProcessReading[]> = 'unknown';
  #present = true;

  constructor(
    first: Sample,
    parts: {
      readonly alerts: Alerts;
      readonly createDiagnosis: () => Diagnosis;
      readonly historySizes?: ThinningSizes | undefined;
    },
  ) {
    this.history = createHistory(parts.historySizes);
    this.#alerts = parts.alerts;
    this.#createDiagnosis = parts.createDiagnosis;
    this.#diagnosis = parts.createDiagnosis();
    this.#info = first.device;
    this.#latest = first;
    this.take(first);
  }

  take(sample: Sample): void {
    this.#latest = sample;
    this.history.add(sample);
    const point = memoryPointOf(sample);
    if (point) this.#diagnosis.add(point);
  }

  takeProcesses(atSeconds: number, processes: Known<readonly ProcessReading[]>): void {
    this.#processes = processes;
    if (isKnown(processes)) this.#diagnosis.addProcesses(atSeconds, largeProcesses(processes));
  }

  vanish(): void {
    this.#present = false;
  }

  /** Its history goes on; what was concluded of the time before says nothing of the time after. */
  comeBack(info: DeviceInfo): void {
    this.#info = info;
    this.#present = true;
    this.#processes = 'unknown';
    this.#diagnosis = this.#createDiagnosis();
    this.#conclusions = undefined;
  }

  get info(): DeviceInfo {
    return this.#info;
  }

  get present(): boolean {
    return this.#present;
  }

  get latest(): Sample {
    return this.#latest;
  }

  get processes(): Known<readonly ProcessReading[]> {
    return this.#processes;
  }

  get forecast(): Forecast {
    return this.#concluded().forecast;
  }

  get leak(): Leak {
    return this.#concluded().leak;
  }

  get processLeaks(): ReadonlyMap<number, Leak> {
    return this.#concluded().processLeaks;
  }

  get cause(): Cause {
    const concluded = this.#concluded();
    concluded.cause ??= this.#diagnosis.cause();
    return concluded.cause;
  }

  get alerts(): readonly Alert[] {
    return this.#alerts.active(this.#info.id);
  }

  /** All of them from the same instant, so that they do not contradict one another. */
  #concluded(): Conclusions {
    const forecast = this.#diagnosis.forecast();
    const known = this.#conclusions;
    if (known?.forecast === forecast) return known;
    this.#conclusions = {
      forecast,
      leak: this.#diagnosis.leak(),
      processLeaks: this.#diagnosis.processLeaks(),
      cause: undefined,
    };
    return this.#conclusions;
  }
}
