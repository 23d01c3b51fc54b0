/**
 * Whether an error says that memory ran out: a buffer that could not be made, or a library that
 * says so. Give your own test where yours says it otherwise.
 *
 * @example
 * isOutOfMemoryError(new RangeError('Array buffer allocation failed')); // true
 */
export function isOutOfMemoryError(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (
    error instanceof RangeError &&
    /allocation failed|invalid (?:typed )?array (?:buffer )?length/i.test(error.message)
  ) {
    return true;
  }
  const code = 'code' in error ? String(error.code) : '';
  return (
    ['ERR_MEMORY_ALLOCATION_FAILED', 'ERR_WORKER_OUT_OF_MEMORY', 'ENOMEM'].includes(code) ||
    error.name === 'OutOfMemoryError' ||
    /\bout of memory\b|failed to allocate memory|\bbad_alloc\b/i.test(error.message)
  );
}
