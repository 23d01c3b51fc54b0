import { GpuNumbers } from '../gpu-numbers.js';
import { machineRoots, type Roots } from '../roots.js';
import type { Device, DeviceProvider } from '../types.js';
import { describeNvmlCode, nvmlCodes } from './codes.js';
import type { NvmlDevice } from './device.js';
import { libraryCandidates, loadNvml, type NvmlLibrary } from './library.js';
import { NvmlListing } from './listing.js';
import { drmCards, hasNvidiaCard, nvidiaFiles } from './nvidia-files.js';

export interface NvmlOptions {
  /** The library to load; when given, no other place is tried. */
  readonly libraryPath?: string;
  readonly roots?: Roots;
  readonly numbers?: GpuNumbers;
}

/**
 * NVIDIA GPUs through the driver's own library.
 *
 * @example
 * const provider = nvmlProvider();
 * const { devices, notes } = await provider.list();
 * provider.close();
 */
export function nvmlProvider(options: NvmlOptions = {}): DeviceProvider {
  return new NvmlProvider(options);
}

class NvmlProvider implements DeviceProvider {
  readonly source = 'nvml';
  readonly #options: NvmlOptions;
  readonly #roots: Roots;
  readonly #numbers: GpuNumbers;
  readonly #known = new Map<string, NvmlDevice>();
  readonly #lost = new Set<string>();
  #library: NvmlLibrary | undefined;
  /** What the driver's files looked like at initialization; undefined while not initialized. */
  #initializedAt: string | undefined;

  constructor(options: NvmlOptions) {
    this.#options = options;
    this.#roots = options.roots ?? machineRoots;
    this.#numbers = options.numbers ?? new GpuNumbers();
  }

  fingerprint(): Promise<string> {
    return Promise.resolve([this.#files(), ...[...this.#lost].toSorted()].join('\n'));
  }

  async list(): Promise<{ devices: readonly Device[]; notes: readonly string[] }> {
    const why = await this.#open();
    if (why !== undefined || this.#library === undefined) {
      this.#retireAllBut([]);
      return { devices: [], notes: why === undefined || why === '' ? [] : [why] };
    }
    const listing = new NvmlListing(this.#library, {
      procRoot: this.#roots.proc,
      numbers: this.#numbers,
      known: this.#known,
      lost: this.#lost,
    });
    const devices = listing.devices();
    this.#retireAllBut(devices);
    return { devices, notes: listing.notes };
  }

  close(): void {
    if (this.#initializedAt === undefined) return;
    this.#initializedAt = undefined;
    this.#retireAllBut([]);
    this.#library?.find('nvmlShutdown')?.();
  }

  /** Loads and initializes what is not yet; answers why that failed ('' where it needs no note). */
  async #open(): Promise<string | undefined> {
    const files = this.#files();
    if (this.#library === undefined) {
      const { libraryPath } = this.#options;
      // Loading koffi and searching for the library costs some 15 ms: not on a machine without a
      // trace of NVIDIA.
      if (libraryPath === undefined && !this.#mayHaveGpu()) return '';
      const candidates = libraryCandidates(process.platform, process.env);
      const loaded = await loadNvml(libraryPath === undefined ? candidates : [libraryPath]);
      if ('why' in loaded) {
        const expected = libraryPath !== undefined || process.platform === 'linux';
        return expected ? `NVML cannot be used: ${loaded.why}.` : '';
      }
      this.#library = loaded;
    }
    // A driver or GPU that came later is only seen after a fresh initialization.
    if (this.#initializedAt !== undefined && this.#initializedAt !== files) this.close();
    if (this.#initializedAt === undefined) {
      const code = this.#library.find('nvmlInit_v2')?.() ?? nvmlCodes.functionNotFound;
      if (code !== nvmlCodes.success) {
        return `NVML (${this.#library.path}) does not start: ${describeNvmlCode(code)}.`;
      }
      this.#initializedAt = files;
    }
    return undefined;
  }

  #retireAllBut(devices: readonly Device[]): void {
    for (const device of this.#known.values()) if (!devices.includes(device)) device.retire();
  }

  #mayHaveGpu(): boolean {
    if (process.platform === 'win32') return true;
    return nvidiaFiles(this.#roots).length > 0 || hasNvidiaCard(this.#roots);
  }

  #files(): string {
    return [...nvidiaFiles(this.#roots), ...drmCards(this.#roots)].join('\n');
  }
}
