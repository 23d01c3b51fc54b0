/** What NVML's functions return; only those we act on or name. */
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
