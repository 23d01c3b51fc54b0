import type { Discovery } from '../../../device/discover.js';
import type { Device } from '../../../device/types.js';
import type { Engine, RunUse } from '../../../engine/types.js';
import type { Clock } from '../../../time/clock.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { Alert, DeviceState } from '../../../watch/types.js';
import { type WatchOptions, watch } from '../../../watch/watch.js';
import type { Ledger } from '../../ledger.js';
import { jobsOnGpu } from './device-use.js';
import { readDevice } from './read-device.js';

/** Between two looks at who holds what, while jobs run; the process table may be read for it. */
const useSeconds = 1;

export interface DeviceReadingsOptions {
  readonly discovery: Discovery;
  readonly watch: Pick<
    WatchOptions,
    'intervalSeconds' | 'processIntervalSeconds' | 'thresholds' | 'deliver'
  >;
  readonly clock: Clock;
  readonly ledger: Ledger;
  readonly engine: Engine;
  /** Whether jobs may be placed on it. */
  readonly takes: (deviceId: string) => boolean;
  /** The job of a run that goes on. */
  readonly jobOf: (runId: string) => string | undefined;
  readonly runOf: (jobId: string) => string | undefined;
  /** What each job holds, by device, was read. */
  readonly onUse: (use: ReadonlyMap<string, ReadonlyMap<string, Known<number>>>) => void;
  /** The ledger learnt something. */
  readonly onReading: () => void;
  readonly onSample: () => void;
  readonly onAlert: (alert: Alert) => void;
}

/** Reads devices, and tells the ledger what it sees. */
export class DeviceReadings {
  readonly #options: DeviceReadingsOptions;
  readonly #closing = new AbortController();
  readonly #watch;
  readonly #consumed: Promise<void>;
  #looping: Promise<void> | undefined;
  #wake: AbortController | undefined;

  constructor(options: DeviceReadingsOptions) {
    this.#options = options;
    this.#watch = watch({
      ...options.watch,
      discovery: options.discovery,
      clock: options.clock,
      signal: this.#closing.signal,
    });
    this.#consumed = this.#consume();
  }

  states(): readonly DeviceState[] {
    return this.#watch.states();
  }

  notes(): readonly string[] {
    return this.#watch.notes();
  }

  /** A job began or ended: looks at once, and on while there is something to see. */
  lookNow(): void {
    this.#wake?.abort();
    this.#looping ??= this.#loop().finally(() => {
      this.#looping = undefined;
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#wake?.abort();
    await this.#consumed;
    await this.#looping;
  }

  async #consume(): Promise<void> {
    const { ledger, clock, takes } = this.#options;
    for await (const event of this.#watch) {
      if (this.#closing.signal.aborted) return;
      if (event.type === 'alert') this.#options.onAlert(event.alert);
      if (event.type === 'vanished') ledger.lose(event.device.id);
      if (event.type !== 'sample') continue;
      const { device, totalBytes, usedBytes } = event.sample;
      if (takes(device.id)) {
        const isNew = !ledger.rooms().some(({ id }) => id === device.id);
        if (isNew && isKnown(totalBytes)) ledger.add({ id: device.id, capacityBytes: totalBytes });
        // Where jobs are, use is read together with who has it; else all of it is foreign.
        if ((!isNew || isKnown(totalBytes)) && ledger.entries(device.id).length === 0) {
          ledger.observe(device.id, { atSeconds: clock.seconds(), usedBytes, jobs: new Map() });
          this.#options.onReading();
        }
      }
      this.#options.onSample();
    }
  }

  async #loop(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#closing.signal.aborted && this.#busy().length > 0) {
      this.#wake = new AbortController();
      await this.#look();
      await clock.waitUntil(clock.seconds() + useSeconds, this.#wake.signal);
    }
  }

  #busy(): readonly Device[] {
    const { discovery, ledger } = this.#options;
    return discovery.devices.filter(({ info }) => ledger.entries(info.id).length > 0);
  }

  async #look(): Promise<void> {
    const { engine, ledger, clock } = this.#options;
    const seen = new Map<string, Map<string, Known<number>>>();
    const use = engine.use();
    for (const device of this.#busy()) {
      const { id, kind, provenance } = device.info;
      const isSimulated = provenance === 'simulated';
      // Before it is read: a job that ends meanwhile is not yet seen to be gone.
      const atSeconds = clock.seconds();
      const processes =
        kind === 'host' ? [] : await device.processes().catch(() => 'unknown' as const);
      const reading = await readDevice(device);
      if (reading === undefined || this.#closing.signal.aborted) continue;
      const { usedBytes } = reading;
      const jobs =
        kind === 'host'
          ? this.#jobsOnHost(use)
          : jobsOnGpu({ usedBytes, processes, use, isSimulated, jobOf: this.#options.jobOf });
      ledger.observe(id, { atSeconds, usedBytes, jobs });
      for (const { jobId, isReturning } of ledger.entries(id)) {
        if (isReturning) continue;
        const bytes = isKnown(jobs) ? (jobs.get(jobId) ?? 0) : 'unknown';
        const devices = seen.get(jobId);
        if (devices === undefined) seen.set(jobId, new Map([[id, bytes]]));
        else devices.set(id, bytes);
      }
    }
    if (this.#closing.signal.aborted) return;
    this.#options.onUse(seen);
    this.#options.onReading();
  }

  #jobsOnHost(use: RunUse): ReadonlyMap<string, number> {
    const { ledger, runOf } = this.#options;
    return new Map(
      ledger.entries('host').flatMap(({ jobId }) => {
        const runId = runOf(jobId);
        return runId === undefined ? [] : [[jobId, use.hostBytes(runId)] as const];
      }),
    );
  }
}
