import { parseBytes } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';

/**
 * A size as programs print it in their errors: `96.00 MiB`, `512. MiB`, `1.03GiB`, `8589934592`.
 *
 * @example
 * amount('96.00 MiB'); // 100663296
 */
export function amount(text: string | undefined): Known<number> {
  const match = /^(\d{1,15}(?:\.\d{1,6})?)\.?\s*([KMGT]?)(i?)(?:B|bytes?)?$/i.exec(
    text?.trim() ?? '',
  );
  if (match === null) return 'unknown';
  // These programs mean 1024 also where they write GB.
  const unit = match[2] === '' ? 'B' : `${match[2]}iB`;
  return parseBytes(`${match[1]}${unit}`);
}

const elementBytes: Readonly<Record<string, number>> = {
  double: 8,
  int64: 8,
  complex64: 8,
  float: 4,
  int32: 4,
  half: 2,
  bfloat16: 2,
  int16: 2,
  int8: 1,
  uint8: 1,
  bool: 1,
};

/** The bytes of a tensor by its shape and type, as TensorFlow names them. */
export function tensorBytes(shape: string | undefined, type: string | undefined): Known<number> {
  const size = elementBytes[type ?? ''];
  if (shape === undefined || size === undefined) return 'unknown';
  const bytes = shape.split(',').reduce((product, edge) => product * Number(edge), size);
  return Number.isSafeInteger(bytes) ? bytes : 'unknown';
}
