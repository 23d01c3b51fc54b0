import type { Known } from '../../units/known.js';
import type { GpuNumbers } from '../gpu-numbers.js';
import type { Device } from '../types.js';
import { describeNvmlCode, meansLost, nvmlCodes } from './codes.js';
import { NvmlDevice } from './device.js';
import { readCString } from './layouts.js';
import type { NvmlLibrary, NvmlSymbol } from './library.js';
import { chooseMemoryCall, type MemoryCall } from './memory-call.js';

/** NVML asks for 96 bytes at most for a name, a UUID or a version. */
const textBytes = 96;

/** What outlives one listing. */
export interface ListingMemory {
  readonly procRoot: string;
  readonly numbers: GpuNumbers;
  /** Devices seen before, by id and UUID: the same object is handed out again. */
  readonly known: Map<string, NvmlDevice>;
  /** Those that were seen and are gone. */
  readonly lost: Set<string>;
}

/** One walk over the GPUs and their MIG instances. */
export class NvmlListing {
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
