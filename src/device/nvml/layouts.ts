import type { Known } from '../../units/known.js';
import type { NvmlFunction, NvmlLibrary } from './library.js';

/**
 * How NVML lays out what it writes. Every platform it runs on is little-endian with 8-byte
 * alignment, so plain offsets hold everywhere.
 */

/** Bytes at which the figures of a memory record lie. */
export interface MemoryLayout {
  readonly sizeBytes: number;
  /** Value that the caller writes into the first word; 0 if the record has no version. */
  readonly version: number;
  readonly total: number;
  readonly free: number;
  readonly used: number;
}

/**
 * Version 1. Its `used` also counts what the driver keeps for itself (several hundred MiB on a
 * large card), so it reads higher than version 2 and nvidia-smi do on the same card; only the
 * share that programs can get, `free`, is the same in both.
 */
export const memoryV1: MemoryLayout = { sizeBytes: 24, version: 0, total: 0, free: 8, used: 16 };

/** Version 2: `used` is what programs took; `reserved` (at 16) is the driver's own part. */
export const memoryV2: MemoryLayout = {
  sizeBytes: 40,
  version: 0x0200_0028,
  total: 8,
  free: 24,
  used: 32,
};

const twoTo32 = 4_294_967_296;

/**
 * An unsigned 64-bit count of bytes. All ones is NVML's word for "not available"; nothing real is
 * above 2^53. Two 32-bit halves, because a BigInt would be allocated on each reading.
 */
export function readBytes64(view: DataView, offset: number): Known<number> {
  const high = view.getUint32(offset + 4, true);
  return high < 0x20_0000 ? high * twoTo32 + view.getUint32(offset, true) : 'unknown';
}

/** A C string in a field of fixed size. */
export function readCString(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return Buffer.from(bytes.subarray(0, end === -1 ? bytes.length : end)).toString('utf8');
}

/** One way to ask a device for its memory, with the buffer it writes into. */
export interface MemoryCall {
  readonly call: NvmlFunction;
  readonly layout: MemoryLayout;
  readonly view: DataView;
  readonly address: number;
  /** Return code of the trial call: 0, or the reason for no answer. */
  readonly code: number;
}

/**
 * Chooses between the two memory functions by trying them: version 2, and version 1 where the
 * driver lacks or refuses version 2. Undefined when the library has neither.
 */
export function chooseMemoryCall(library: NvmlLibrary, handle: number): MemoryCall | undefined {
  const newer = tryCall(library, handle, 'nvmlDeviceGetMemoryInfo_v2', memoryV2);
  if (newer !== undefined && (newer.code === nvmlCodes.success || isFinal(newer.code))) {
    return newer;
  }
  return tryCall(library, handle, 'nvmlDeviceGetMemoryInfo', memoryV1) ?? newer;
}

function tryCall(
  library: NvmlLibrary,
  handle: number,
  symbol: 'nvmlDeviceGetMemoryInfo' | 'nvmlDeviceGetMemoryInfo_v2',
  layout: MemoryLayout,
): MemoryCall | undefined {
  const call = library.find(symbol);
  if (call === undefined) return undefined;
  const buffer = new ArrayBuffer(layout.sizeBytes);
  const view = new DataView(buffer);
  if (layout.version !== 0) view.setUint32(0, layout.version, true);
  const address = library.addressOf(buffer);
  return { call, layout, view, address, code: call(handle, address) };
}

/** Codes that version 1 would only repeat. */
function isFinal(code: number): boolean {
  return code === nvmlCodes.gpuIsLost || code === nvmlCodes.noPermission;
}

/** Return codes of NVML; only those we act on or name. */
export const nvmlCodes = {
  success: 0,
  uninitialized: 1,
  invalidArgument: 2,
  notSupported: 3,
  noPermission: 4,
  notFound: 6,
  insufficientSize: 7,
  driverNotLoaded: 9,
  functionNotFound: 13,
  gpuIsLost: 15,
  argumentVersionMismatch: 25,
  gpuNotFound: 28,
} as const;

const words: Readonly<Record<number, string>> = {
  1: 'the library is not initialized',
  2: 'it refused an argument',
  3: 'this GPU does not support it',
  4: 'this user may not see it',
  6: 'there is no such thing',
  7: 'the answer did not fit',
  9: 'the NVIDIA driver is not loaded',
  13: 'this driver lacks the function',
  15: 'the GPU is lost: it fell off the bus or needs a reset',
  16: 'the GPU needs a reset',
  17: 'the operating system refused it, or blocks the driver',
  18: 'the library and the loaded driver have different versions; a reboot helps after an update',
  25: 'it refused the version of an argument',
  28: 'there is no such GPU',
};

/** A return code in words, for notes and errors. */
export function describeNvmlCode(code: number): string {
  return `${words[code] ?? 'an error'} (NVML code ${code})`;
}

/** Codes of a reading which mean that the device is gone, not only one figure of it. */
export function meansLost(code: number, isMigInstance: boolean): boolean {
  switch (code) {
    case nvmlCodes.gpuIsLost:
    case nvmlCodes.gpuNotFound:
    case nvmlCodes.uninitialized:
    case nvmlCodes.driverNotLoaded:
      return true;
    // The handle of a MIG instance goes stale when the instance is destroyed.
    case nvmlCodes.invalidArgument:
    case nvmlCodes.notFound:
      return isMigInstance;
    default:
      return false;
  }
}
