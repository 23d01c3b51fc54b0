import { nvmlCodes } from './codes.js';
import { type MemoryLayout, memoryV1, memoryV2 } from './layouts.js';
import type { NvmlFunction, NvmlLibrary } from './library.js';

/** One way to ask a device for its memory, with the buffer it writes into. */
export interface MemoryCall {
  readonly call: NvmlFunction;
  readonly layout: MemoryLayout;
  readonly view: DataView;
  readonly address: number;
  /** What the trial call returned: 0, or why the device does not tell. */
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
