import { type Clock, systemClock } from '../time/clock.js';
import { amdgpuProvider } from './amdgpu/provider.js';
import { eitherProvider } from './either-provider.js';
import { GpuNumbers } from './gpu-numbers.js';
import { hostProvider } from './host/provider.js';
import { nvidiaSmiProvider } from './nvidia-smi/provider.js';
import { nvmlProvider } from './nvml/provider.js';
import { readRecordedTrace } from './recorded-trace.js';
import { machineRoots, type Roots } from './roots.js';
import { simulatedProvider } from './simulated/provider.js';
import { parseScenario } from './simulated/scenarios.js';
import type { Device, DeviceProvider } from './types.js';

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
  /** Where PATH is looked up. */
  readonly env?: NodeJS.ProcessEnv;
  /** In place of all that this machine is searched with. */
  readonly providers?: readonly DeviceProvider[];
}

/** The devices of this machine, kept up to date by `rescan`. */
export interface Discovery {
  readonly devices: readonly Device[];
  /** What could not be seen, and why, in sentences. */
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
