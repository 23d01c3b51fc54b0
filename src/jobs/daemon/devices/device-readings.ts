import type { Device, MemoryReading } from '../../../device/device.js';
import type { SharedDevice, SharedDiscovery, Timed } from '../../../device/shared-device.js';
import { type DeviceUse, DeviceUseFile } from '../../../device/use-file.js';
import type { Engine, RunUse } from '../../../engine/engine.js';
import type { Clock } from '../../../time/clock.js';
import { GiB } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';
import type { Alert, DeviceState } from '../../../watch/types.js';
import { type WatchOptions, watch } from '../../../watch/watch.js';
import type { Ledger } from '../../ledger.js';
import type { RunningJobs } from '../running/running-jobs.js';
import { Signal } from '../signal.js';

/** Between two looks at who holds what, while jobs run; the process table may be read for it. */
const useSeconds = 1;

export interface DeviceReadingsOptions {
  readonly home: string;
  readonly discovery: SharedDiscovery;
  readonly watch: Pick<
    WatchOptions,
    'intervalSeconds' | 'processIntervalSeconds' | 'thresholds' | 'deliver'
  >;
  readonly clock: Clock;
  readonly ledger: Ledger;
  readonly engine: Engine;
  /** Whether jobs may be placed on it. */
  readonly takes: (deviceId: string) => boolean;
  readonly running: RunningJobs;
}

/**
 * Reads devices, and gives the ledger what it sees. Each device is read once a tick, by the watch;
 * looks at who holds what take the same reading, and supervisors find it in a file.
 */
export class DeviceReadings {
  /** The bytes of each job, by device, were read. */
  readonly usageRead = new Signal<ReadonlyMap<string, ReadonlyMap<string, Known<number>>>>();
  /** The ledger has newer figures. */
  readonly ledgerUpdated = new Signal();
  readonly sampled = new Signal();
  readonly alerted = new Signal<Alert>();
  readonly #options: DeviceReadingsOptions;
  readonly #intervalSeconds: number;
  readonly #useFile: DeviceUseFile;
  readonly #closing = new AbortController();
  readonly #watch;
  readonly #consumed: Promise<void>;
  #looping: Promise<void> | undefined;
  #wake: AbortController | undefined;
  #nextSample: AbortController | undefined;
  /** A look takes no reading that began before this: a job started or ended then. */
  #notBefore = Number.NEGATIVE_INFINITY;

  constructor(options: DeviceReadingsOptions) {
    this.#options = options;
    this.#intervalSeconds = options.watch.intervalSeconds ?? useSeconds;
    this.#useFile = new DeviceUseFile(options.home);
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
    this.#notBefore = this.#options.clock.seconds();
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
    await this.#useFile.close();
  }

  async #consume(): Promise<void> {
    const { ledger, clock, takes } = this.#options;
    for await (const event of this.#watch) {
      if (this.#closing.signal.aborted) return;
      if (event.type === 'alert') this.alerted.emit(event.alert);
      if (event.type === 'vanished') ledger.lose(event.device.id);
      if (event.type !== 'sample') continue;
      const { device, totalBytes, usedBytes } = event.sample;
      if (takes(device.id)) {
        const isNew = !ledger.rooms().some(({ id }) => id === device.id);
        if (isNew && isKnown(totalBytes)) ledger.add({ id: device.id, capacityBytes: totalBytes });
        // Where jobs are, use is read together with who has it; else all of it counts as other processes.
        if (ledger.entries(device.id).length > 0) this.#nextSample?.abort();
        else if (!isNew || isKnown(totalBytes)) {
          ledger.observe(device.id, { atSeconds: clock.seconds(), usedBytes, jobs: new Map() });
          this.ledgerUpdated.emit();
        }
      }
      this.sampled.emit();
    }
  }

  async #loop(): Promise<void> {
    const { clock } = this.#options;
    while (!this.#closing.signal.aborted && this.#busy().length > 0) {
      const wake = new AbortController();
      this.#wake = wake;
      const lookedAt = clock.seconds();
      await this.#look();
      await this.#untilDue(lookedAt, wake.signal);
    }
  }

  /** The first sample after the time is up. A device that is lost has none: then a little later. */
  async #untilDue(lookedAt: number, wake: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    const isSlow = this.#intervalSeconds > useSeconds;
    const early = isSlow ? 0 : this.#intervalSeconds / 2;
    await clock.waitUntil(lookedAt + useSeconds - early, wake);
    if (isSlow || wake.aborted) return;
    this.#nextSample = new AbortController();
    const either = AbortSignal.any([wake, this.#nextSample.signal]);
    await clock.waitUntil(lookedAt + 2 * useSeconds, either);
    this.#nextSample = undefined;
  }

  #busy(): readonly SharedDevice[] {
    const { discovery, ledger } = this.#options;
    return discovery.devices.filter(({ info }) => ledger.entries(info.id).length > 0);
  }

  async #look(): Promise<void> {
    const { engine, ledger, clock, running } = this.#options;
    const seen = new Map<string, Map<string, Known<number>>>();
    const shared = new Map<string, DeviceUse>();
    const use = engine.use();
    // The sampler may be late by a part of its interval.
    const fresh = clock.seconds() - Math.min(useSeconds, this.#intervalSeconds * 1.5);
    const notBefore = Math.max(this.#notBefore, fresh);
    for (const device of this.#busy()) {
      const { id, kind, provenance } = device.info;
      const isSimulated = provenance === 'simulated';
      const list = kind === 'host' ? undefined : await readList(device, notBefore);
      const reading = await readLatest(device, notBefore);
      if (reading === undefined || this.#closing.signal.aborted) continue;
      // A job that ends after a reading began is not yet seen to be gone.
      const atSeconds = Math.min(
        reading.beganAtSeconds,
        list?.beganAtSeconds ?? Number.POSITIVE_INFINITY,
      );
      const { usedBytes } = reading.value;
      const processes = list?.value ?? [];
      if (kind !== 'host') shared.set(id, processes);
      const jobOf = (runId: string) => running.ofRun(runId)?.id;
      const jobs =
        kind === 'host'
          ? this.#jobsOnHost(use)
          : jobsOnGpu({ usedBytes, processes, use, isSimulated, jobOf });
      ledger.observe(id, { atSeconds, usedBytes, jobs });
      for (const { jobId, isReleasing } of ledger.entries(id)) {
        if (isReleasing) continue;
        const bytes = isKnown(jobs) ? (jobs.get(jobId) ?? 0) : 'unknown';
        const devices = seen.get(jobId);
        if (devices === undefined) seen.set(jobId, new Map([[id, bytes]]));
        else devices.set(id, bytes);
      }
    }
    if (this.#closing.signal.aborted) return;
    if (shared.size > 0) this.#useFile.write(shared, clock.epochMs());
    this.usageRead.emit(seen);
    this.ledgerUpdated.emit();
  }

  #jobsOnHost(use: RunUse): ReadonlyMap<string, number> {
    const { ledger, running } = this.#options;
    return new Map(
      ledger.entries('host').flatMap(({ jobId }) => {
        const runId = running.get(jobId)?.runId;
        return runId === undefined ? [] : [[jobId, use.hostBytes(runId)] as const];
      }),
    );
  }
}

/** Undefined where the device is gone, or its driver has trouble: the next may succeed. */
async function readLatest(
  device: SharedDevice,
  notBefore: number,
): Promise<Timed<MemoryReading> | undefined> {
  try {
    return await device.latest(notBefore);
  } catch {
    return undefined;
  }
}

async function readList(device: SharedDevice, notBefore: number): Promise<Timed<DeviceUse>> {
  const { beganAtSeconds, value } = device.latestProcesses(notBefore);
  return { beganAtSeconds, value: await value.catch(() => 'unknown' as const) };
}

/**
 * Upper bound of the bytes that a driver keeps for itself. If more is used by no listed process,
 * the list is incomplete: in a container a driver may show none.
 */
const hiddenBytes = GiB;

/** Returns the bytes of each job on a GPU; `unknown` if its processes cannot be told apart. */
export function jobsOnGpu(options: {
  readonly usedBytes: Known<number>;
  readonly processes: DeviceUse;
  readonly use: RunUse;
  /** Its own processes exist nowhere, and no job can hold any of it. */
  readonly isSimulated: boolean;
  /** The job of a run; undefined where it is none of ours. */
  readonly jobOf: (runId: string) => string | undefined;
}): Known<ReadonlyMap<string, number>> {
  const { usedBytes, processes, use, isSimulated, jobOf } = options;
  if (!isKnown(processes)) return 'unknown';
  const held = new Map<string, number>();
  let listed = 0;
  for (const { pid, usedBytes: bytes } of processes) {
    if (!isSimulated && !use.knows(pid)) return 'unknown';
    const runId = use.runOf(pid);
    const job = runId === undefined ? undefined : jobOf(runId);
    if (isKnown(bytes)) listed += bytes;
    if (job === undefined) continue;
    if (!isKnown(bytes)) return 'unknown';
    held.set(job, (held.get(job) ?? 0) + bytes);
  }
  const isHidden = isKnown(usedBytes) && usedBytes - listed > hiddenBytes;
  return isHidden && !isSimulated ? 'unknown' : held;
}

/** One reading; undefined where the device is gone, or its driver has trouble: the next may succeed. */
export async function readDevice(device: Device): Promise<MemoryReading | undefined> {
  try {
    return await device.read();
  } catch {
    return undefined;
  }
}
