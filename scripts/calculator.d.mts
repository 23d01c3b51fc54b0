/** Writes the calculator into a folder; answers the bytes of its page, packed and not. */
export function makeCalculator(
  folder: string,
): Promise<{ readonly bytes: number; readonly gzip: number; readonly brotli: number }>;
