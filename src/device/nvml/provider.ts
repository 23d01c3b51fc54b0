import type { Known } from '../../units/known.js';
import type { Device, DeviceProvider } from '../device.js';
import { machineRoots, type Roots } from '../kernel-files.js';
import { GpuNumbers } from '../select-devices.js';
import { NvmlDevice } from './device.js';
import {
  chooseMemoryCall,
  describeNvmlCode,
  type MemoryCall,
  meansLost,
  nvmlCodes,
  readCString,
} from './layouts.js';
import { libraryCandidates, loadNvml, type NvmlLibrary, type NvmlSymbol } from './library.js';
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
  /** State of the driver's files at initialization; undefined before it. */
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

/** NVML asks for 96 bytes at most for a name, a UUID or a version. */
const textBytes = 96;

/** Facts kept from one listing to the next. */
interface ListingMemory {
  readonly procRoot: string;
  readonly numbers: GpuNumbers;
  /** Devices seen before, by id and UUID: the same object is handed out again. */
  readonly known: Map<string, NvmlDevice>;
  /** Those that were seen and are gone. */
  readonly lost: Set<string>;
}

/** One walk over the GPUs and their MIG instances. */
class NvmlListing {
  readonly notes: string[] = [];
  readonly #library: NvmlLibrary;
  readonly #memory: ListingMemory;
  readonly #scratch = new ArrayBuffer(textBytes);
  readonly #view = new DataView(this.#scratch);
  readonly #address: number;
  readonly #driver: Known<string>;

  constructor(library: NvmlLibrary, memory: ListingMemory) {
    this.#library = library;
    this.#memory = memory;
    this.#address = library.addressOf(this.#scratch);
    this.#driver = this.#text('nvmlSystemGetDriverVersion');
  }

  devices(): readonly Device[] {
    const code = this.#call('nvmlDeviceGetCount_v2', this.#address);
    if (code !== nvmlCodes.success) {
      this.notes.push(`NVML does not count its GPUs: ${describeNvmlCode(code)}.`);
      return [];
    }
    const count = this.#view.getUint32(0, true);
    const devices: Device[] = [];
    for (let index = 0; index < count; index += 1) devices.push(...this.#gpu(index));
    return devices;
  }

  #gpu(index: number): readonly Device[] {
    const code = this.#call('nvmlDeviceGetHandleByIndex_v2', index, this.#address);
    if (code !== nvmlCodes.success) {
      this.notes.push(`NVIDIA GPU ${index} cannot be opened: ${describeNvmlCode(code)}.`);
      return [];
    }
    const handle = this.#pointer();
    const memory = chooseMemoryCall(this.#library, handle);
    // A lost GPU does not tell its UUID either, so it cannot be known again: no number for it.
    if (memory !== undefined && meansLost(memory.code, false)) {
      this.notes.push(`NVIDIA GPU ${index} is gone: ${describeNvmlCode(memory.code)}.`);
      return [];
    }
    const uuid = this.#text('nvmlDeviceGetUUID', handle);
    const number = this.#memory.numbers.numberOf(
      uuid === 'unknown' ? `nvidia ${index}` : uuid,
      index,
    );
    const id = `gpu:${number}`;
    return this.#isInMigMode(handle)
      ? this.#migInstances(id, handle)
      : this.#device(id, handle, memory);
  }

  #isInMigMode(handle: number): boolean {
    const code = this.#call('nvmlDeviceGetMigMode', handle, this.#address, this.#address + 8);
    return code === nvmlCodes.success && this.#view.getUint32(0, true) === 1;
  }

  #migInstances(parentId: string, parent: number): readonly Device[] {
    const code = this.#call('nvmlDeviceGetMaxMigDeviceCount', parent, this.#address);
    const most = code === nvmlCodes.success ? this.#view.getUint32(0, true) : 0;
    const devices: Device[] = [];
    for (let index = 0; index < most; index += 1) {
      // Instances are sparse: an index without one answers "not found".
      const found = this.#call('nvmlDeviceGetMigDeviceHandleByIndex', parent, index, this.#address);
      if (found !== nvmlCodes.success) continue;
      const handle = this.#pointer();
      const memory = chooseMemoryCall(this.#library, handle);
      if (memory !== undefined && meansLost(memory.code, true)) continue;
      devices.push(...this.#device(`${parentId}/mig:${index}`, handle, memory));
    }
    if (devices.length === 0) {
      this.notes.push(`${parentId} is in MIG mode, and no instance of it can be seen.`);
    }
    return devices;
  }

  #device(id: string, handle: number, memory: MemoryCall | undefined): readonly Device[] {
    const uuid = this.#text('nvmlDeviceGetUUID', handle);
    const key = `${id} ${uuid}`;
    const code = memory?.code ?? nvmlCodes.functionNotFound;
    if (code !== nvmlCodes.success) {
      this.notes.push(`The memory of ${id} cannot be read: ${describeNvmlCode(code)}.`);
    }
    this.#memory.lost.delete(key);
    const access = { library: this.#library, handle, memory };
    const known = this.#memory.known.get(key);
    if (known !== undefined) {
      known.renew(access);
      return [known];
    }
    const device = new NvmlDevice(
      {
        id,
        kind: 'gpu',
        name: this.#name(handle),
        source: 'nvml',
        provenance: 'measured',
        uuid,
        driver: this.#driver,
      },
      access,
      { procRoot: this.#memory.procRoot, onLost: () => this.#memory.lost.add(key) },
    );
    this.#memory.known.set(key, device);
    return [device];
  }

  #name(handle: number): string {
    const name = this.#text('nvmlDeviceGetName', handle);
    return name === 'unknown' ? 'NVIDIA GPU' : name;
  }

  #text(
    symbol: 'nvmlSystemGetDriverVersion' | 'nvmlDeviceGetName' | 'nvmlDeviceGetUUID',
    ...handle: readonly number[]
  ): Known<string> {
    const bytes = new Uint8Array(this.#scratch).fill(0);
    const code = this.#call(symbol, ...handle, this.#address, textBytes);
    const text = code === nvmlCodes.success ? readCString(bytes).trim() : '';
    return text === '' ? 'unknown' : text;
  }

  #pointer(): number {
    return this.#view.getUint32(0, true) + this.#view.getUint32(4, true) * 4_294_967_296;
  }

  #call(symbol: NvmlSymbol, ...args: readonly number[]): number {
    return this.#library.find(symbol)?.(...args) ?? nvmlCodes.functionNotFound;
  }
}
