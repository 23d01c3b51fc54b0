import { Failure } from '../failure.js';
import { type Clock, systemClock } from '../time/clock.js';
import { checkOptions, fileName, list, object, text, whole } from '../units/arguments.js';
import { GiB, MiB } from '../units/bytes.js';
import { amdgpuProvider } from './amdgpu/provider.js';
import type { AllocatorReading, Device, DeviceProvider, MemoryReading } from './device.js';
import { hostProvider } from './host/provider.js';
import { machineRoots, type Roots } from './kernel-files.js';
import { nvidiaSmiProvider } from './nvidia-smi/provider.js';
import { nvmlProvider } from './nvml/provider.js';
import { type RecordedTrace, readRecordedTrace, type TraceRow } from './recorded-trace.js';
import { GpuNumbers } from './select-devices.js';

/** GPUs to make up: from a scenario by name, or from a recorded trace by path. */
export interface SimulateOptions {
  readonly scenario?: string;
  readonly trace?: string;
  readonly gpus?: number;
  readonly totalBytes?: number;
  readonly seed?: number;
}

export interface DiscoverOptions {
  /** NVML's library; when given, no other place is tried. */
  readonly libraryPath?: string;
  /** Show simulated GPUs, and the real host, in place of what the machine has. */
  readonly simulate?: SimulateOptions;
  readonly clock?: Clock;
  readonly roots?: Roots;
  /** Environment whose PATH is searched. */
  readonly env?: NodeJS.ProcessEnv;
  /** In place of all that this machine is searched with. */
  readonly providers?: readonly DeviceProvider[];
}

/** The devices of this machine, kept up to date by `rescan`. */
export interface Discovery {
  readonly devices: readonly Device[];
  /** Facts that could not be read, each with its reason, as sentences. */
  readonly notes: readonly string[];
  /** Looks again; costs next to nothing while nothing changed. */
  rescan(): Promise<{ appeared: readonly Device[]; vanished: readonly Device[] }>;
  close(): void;
}

/**
 * Finds every device: NVIDIA GPUs, AMD GPUs, the host. What cannot be seen becomes a note; only a
 * simulation that cannot be made throws.
 *
 * @example
 * const discovery = await discoverDevices();
 * for (const device of discovery.devices) console.log(device.info.id, await device.read());
 * discovery.close();
 */
export async function discoverDevices(options: DiscoverOptions = {}): Promise<Discovery> {
  checkOptions('discoverDevices', options, {
    libraryPath: fileName,
    simulate: object,
    clock: object,
    roots: object,
    env: object,
    providers: list,
  });
  checkOptions('simulate', options.simulate ?? {}, {
    scenario: text,
    trace: fileName,
    gpus: whole(1),
    totalBytes: whole(1),
    seed: whole(0),
  });
  const discovery = new ProviderDiscovery(options.providers ?? (await providersFor(options)));
  await discovery.rescan();
  return discovery;
}

async function providersFor(options: DiscoverOptions): Promise<readonly DeviceProvider[]> {
  const { roots = machineRoots, clock = systemClock, libraryPath, simulate } = options;
  const env = options.env ?? process.env;
  const host = hostProvider({ roots, clock });
  if (simulate !== undefined) {
    const { trace, scenario = 'steady', ...rest } = simulate;
    const play = trace === undefined ? parseScenario(scenario) : await readRecordedTrace(trace);
    return [simulatedProvider({ play, clock, ...rest }), host];
  }
  const numbers = new GpuNumbers();
  const library = libraryPath === undefined ? {} : { libraryPath };
  return [
    eitherProvider(
      nvmlProvider({ roots, numbers, ...library }),
      nvidiaSmiProvider({ roots, numbers, env }),
    ),
    amdgpuProvider({ roots, numbers }),
    host,
  ];
}

interface ProviderState {
  readonly provider: DeviceProvider;
  fingerprint: string | undefined;
  devices: readonly Device[];
  notes: readonly string[];
}

class ProviderDiscovery implements Discovery {
  readonly #states: readonly ProviderState[];
  #scan: Promise<{ appeared: readonly Device[]; vanished: readonly Device[] }> | undefined;
  #isClosed = false;

  constructor(providers: readonly DeviceProvider[]) {
    this.#states = providers.map((provider) => ({
      provider,
      fingerprint: undefined,
      devices: [],
      notes: [],
    }));
  }

  get devices(): readonly Device[] {
    return this.#states.flatMap((state) => state.devices);
  }

  get notes(): readonly string[] {
    return this.#states.flatMap((state) => state.notes);
  }

  /** Callers that come while a scan runs get its answer: two at once would confuse providers. */
  rescan(): Promise<{ appeared: readonly Device[]; vanished: readonly Device[] }> {
    this.#scan ??= this.#rescan().finally(() => {
      this.#scan = undefined;
    });
    return this.#scan;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const { provider } of this.#states) provider.close();
  }

  async #rescan(): Promise<{ appeared: readonly Device[]; vanished: readonly Device[] }> {
    if (this.#isClosed) return { appeared: [], vanished: [] };
    const before = new Set(this.devices);
    for (const state of this.#states) await refresh(state);
    const after = new Set(this.devices);
    return {
      appeared: [...after].filter((device) => !before.has(device)),
      vanished: [...before].filter((device) => !after.has(device)),
    };
  }
}

/** One provider that breaks must not hide the others. */
async function refresh(state: ProviderState): Promise<void> {
  try {
    const fingerprint = await state.provider.fingerprint();
    if (fingerprint === state.fingerprint) return;
    const { devices, notes } = await state.provider.list();
    state.devices = devices;
    state.notes = notes;
    // The one from before the listing: what changes in between is found by the next scan.
    state.fingerprint = fingerprint;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    state.devices = [];
    state.notes = [`Devices of ${state.provider.source} cannot be listed: ${why}.`];
    state.fingerprint = undefined;
  }
}

/** The readings of one simulated GPU at an instant; all bytes are integers. */
interface SimulatedInstant {
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
  readonly usedBytes: number;
  /** The most the allocator may reserve: the device less the driver's own part. */
  readonly limitBytes: number;
  readonly utilizationPercent: number;
}

/** The share of the allocator's limit that is live `seconds` after the start, before noise. */
type Shape = (seconds: number) => number;

/** Work comes in steps: activations build up and are freed, twice a second. */
const step: Shape = (seconds) => Math.abs(((seconds * 2) % 1) - 0.5) * 2;

const shapes = {
  steady: (t) => 0.42 + 0.1 * step(t),
  /** Out of memory after some two minutes. */
  leak: (t) => 0.34 + 0.08 * step(t) + t / 220,
  /** A minute of peace first. */
  'late-leak': (t) => 0.38 + 0.1 * step(t) + Math.max(0, t - 60) / 110,
  /** A cache that fills and is dropped every 20 s. */
  sawtooth: (t) => 0.2 + 0.5 * ((t % 20) / 20),
  /** Rises quickly and settles. */
  warmup: (t) => 0.15 + 0.55 * (1 - Math.exp(-t / 15)),
  /** An evaluation of 2 s, every 15 s. */
  spikes: (t) => 0.32 + 0.05 * step(t) + (t % 15 >= 13 ? 0.4 : 0),
  /** A larger batch every 20 s. */
  growth: (t) => 0.2 + 0.03 * step(t) + 0.08 * Math.floor(t / 20),
  /** Doubles every 30 s. */
  exponential: (t) => 0.1 * 2 ** (t / 30),
  full: () => 1,
} satisfies Record<string, Shape>;

export type ScenarioName = keyof typeof shapes;

export const scenarioNames: readonly ScenarioName[] = [
  'steady',
  'leak',
  'late-leak',
  'sawtooth',
  'warmup',
  'spikes',
  'growth',
  'exponential',
  'full',
];

/** Checks a scenario's name. */
export function parseScenario(name: string): ScenarioName {
  const found = scenarioNames.find((candidate) => candidate === name);
  if (found !== undefined) return found;
  throw new Failure({
    kind: 'input',
    code: 'unknown-scenario',
    fact: `There is no scenario "${name}".`,
    next: `Choose one of ${scenarioNames.join(', ')}, or name a trace file.`,
  });
}

/** Caching allocators hold on to what they had; ours lets go of what it did not need this long. */
const cacheSeconds = 30;
const cacheGridSeconds = 0.25;

/** A driver's own part: 4 % of a small device, 600 MiB of a large one. */
function contextBytes(totalBytes: number): number {
  return Math.min(600 * MiB, Math.floor(totalBytes * 0.04));
}

/**
 * Returns a scenario's readings at a time. The same arguments always give the same answer.
 *
 * @example
 * simulateInstant('leak', { seconds: 10, totalBytes: 24 * GiB, seed: 1 }).allocatedBytes;
 */
export function simulateInstant(
  scenario: ScenarioName,
  { seconds, totalBytes, seed }: { seconds: number; totalBytes: number; seed: number },
): SimulatedInstant {
  const limitBytes = totalBytes - contextBytes(totalBytes);
  const live = (at: number): number => {
    const share = shapes[scenario](Math.max(0, at)) + (noise(seed, at) - 0.5) * 0.01;
    return Math.floor(Math.min(1, Math.max(0, share)) * limitBytes);
  };
  const allocatedBytes = live(seconds);
  let held = allocatedBytes;
  const first = Math.max(0, Math.ceil((seconds - cacheSeconds) / cacheGridSeconds));
  for (let tick = first; tick * cacheGridSeconds <= seconds; tick += 1) {
    held = Math.max(held, live(tick * cacheGridSeconds));
  }
  // The allocator takes memory from the driver in pieces of 2 MiB.
  const reservedBytes = Math.min(limitBytes, Math.ceil(held / (2 * MiB)) * 2 * MiB);
  return {
    allocatedBytes,
    reservedBytes,
    usedBytes: reservedBytes + totalBytes - limitBytes,
    limitBytes,
    utilizationPercent: 70 + Math.floor(noise(seed + 1, seconds) * 30),
  };
}

/** A number from 0 to 1 that looks random and depends on the seed and the tenth of a second. */
function noise(seed: number, seconds: number): number {
  let bits = Math.imul(Math.floor(seconds * 10) + 1, 0x9e37_79b1) ^ Math.imul(seed, 0x85eb_ca6b);
  bits = Math.imul(bits ^ (bits >>> 15), 0x2c1b_3c6d);
  bits = Math.imul(bits ^ (bits >>> 12), 0x297a_2d39);
  return ((bits ^ (bits >>> 15)) >>> 0) / 2 ** 32;
}

export interface SimulatedOptions {
  /** A scenario by name, or a recorded trace played back from its first second. */
  readonly play: ScenarioName | RecordedTrace;
  readonly gpus?: number;
  /** Capacity of each GPU of a scenario, 24 GiB unless told; a trace brings its own. */
  readonly totalBytes?: number;
  /** GPU n of a scenario runs with `seed + n`. */
  readonly seed?: number;
  readonly clock?: Clock;
}

/** Above any id that Linux gives out, so that it is never taken for a real process. */
const firstPid = 4_194_305;

/**
 * GPUs that are not there, for trying things out and for tests. Time starts with the provider.
 *
 * @example
 * const { devices } = await simulatedProvider({ play: 'leak', gpus: 2 }).list();
 */
export function simulatedProvider(options: SimulatedOptions): DeviceProvider {
  const { play, gpus = 1, totalBytes = 24 * GiB, seed = 1, clock = systemClock } = options;
  const start = clock.seconds();
  const label = typeof play === 'string' ? `scenario ${play}` : 'recorded trace';
  const devices = Array.from({ length: gpus }, (_, index): Device => {
    const readAt =
      typeof play === 'string'
        ? (seconds: number) => readScenario(play, { seconds, totalBytes, seed: seed + index })
        : traceReader(play);
    const read = (): MemoryReading => readAt(Math.max(0, clock.seconds() - start));
    return {
      info: {
        id: `gpu:${index}`,
        kind: 'gpu',
        name: `simulated GPU (${label})`,
        source: 'simulated',
        provenance: 'simulated',
        uuid: `SIMULATED-${index}`,
        driver: 'unknown',
      },
      read,
      processes: () => {
        const { allocator, usedBytes } = read();
        const held = allocator?.reservedBytes ?? usedBytes;
        return Promise.resolve([{ pid: firstPid + index, name: 'simulated', usedBytes: held }]);
      },
    };
  });
  return {
    source: 'simulated',
    list: () => Promise.resolve({ devices, notes: [] }),
    fingerprint: () => Promise.resolve(`${label} ${gpus}`),
    close() {},
  };
}

function readScenario(
  scenario: ScenarioName,
  at: { seconds: number; totalBytes: number; seed: number },
): MemoryReading {
  const { allocatedBytes, reservedBytes, limitBytes, usedBytes, utilizationPercent } =
    simulateInstant(scenario, at);
  const allocator: AllocatorReading = { allocatedBytes, reservedBytes, limitBytes };
  const freeBytes = at.totalBytes - usedBytes;
  return { totalBytes: at.totalBytes, usedBytes, freeBytes, utilizationPercent, allocator };
}

function traceReader(trace: RecordedTrace): (seconds: number) => MemoryReading {
  const totalBytes = traceTotalBytes(trace);
  return (seconds) => {
    const row = rowAt(trace.rows, seconds);
    if (row === undefined) {
      return {
        totalBytes,
        usedBytes: 'unknown',
        freeBytes: 'unknown',
        utilizationPercent: 'unknown',
      };
    }
    const usedBytes = usedOf(row);
    const allocator = allocatorOf(trace, row);
    return {
      totalBytes,
      usedBytes,
      freeBytes: totalBytes - usedBytes,
      utilizationPercent: 'unknown',
      ...(allocator === undefined ? {} : { allocator }),
    };
  };
}

/** The row that holds at a time: the last one not after it, or the first before the beginning. */
function rowAt(rows: readonly TraceRow[], seconds: number): TraceRow | undefined {
  let low = 0;
  let high = rows.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((rows[middle]?.seconds ?? 0) <= seconds) low = middle;
    else high = middle - 1;
  }
  return rows[low];
}

/**
 * The capacity of the device a trace was recorded on. The recorded capacity may be an allocator's
 * own cap, with the driver's part of the device beside it.
 */
function traceTotalBytes(trace: RecordedTrace): number {
  return trace.rows.reduce((most, row) => Math.max(most, usedOf(row)), trace.capacityBytes);
}

/** The device's use; where only an allocator was recorded, what that held. */
function usedOf({ deviceUsedBytes, reservedBytes, allocatedBytes }: TraceRow): number {
  if (deviceUsedBytes !== 'unknown') return deviceUsedBytes;
  if (reservedBytes !== 'unknown') return reservedBytes;
  return allocatedBytes === 'unknown' ? 0 : allocatedBytes;
}

/** Returns the allocator's report, if the trace has it. */
function allocatorOf(trace: RecordedTrace, row: TraceRow): AllocatorReading | undefined {
  const { allocatedBytes, reservedBytes } = row;
  if (allocatedBytes === 'unknown' || reservedBytes === 'unknown') return undefined;
  return { allocatedBytes, reservedBytes, limitBytes: trace.capacityBytes };
}

/**
 * Two ways to the same devices: the second is only asked where the first finds none. A machine
 * is read through one of them at a time, so no device shows twice.
 */
export function eitherProvider(first: DeviceProvider, second: DeviceProvider): DeviceProvider {
  return {
    source: first.source,
    async list() {
      const better = await first.list();
      if (better.devices.length > 0) return better;
      const other = await second.list();
      return { devices: other.devices, notes: [...better.notes, ...other.notes] };
    },
    async fingerprint() {
      return `${await first.fingerprint()}\n${await second.fingerprint()}`;
    },
    close() {
      first.close();
      second.close();
    },
  };
}
