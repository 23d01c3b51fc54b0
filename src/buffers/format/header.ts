import { parseObject } from '../../files/own-file.js';
import { isDataType, itemBytes, rawBytesOf } from './data-types.js';
import type { Plane } from './pack.js';
import type { Part } from './value.js';

/** A plane of which the bytes lie elsewhere. */
export interface HeaderPlane {
  readonly codec: Plane['codec'];
  readonly bytes: number;
  readonly crc: number;
}

export interface HeaderPart extends Omit<Part, 'bytes'> {
  readonly planes: readonly HeaderPlane[];
}

/** NumPy has no more dimensions either. */
const maxDimensions = 64;
const kinds = ['bytes', 'array', 'tensor'] as const;
const codecs = ['none', 'deflate'] as const;

/** The header of a record; undefined where one field of it cannot be. */
export function readHeader(
  text: string,
): { key: string; dictionary: boolean; parts: HeaderPart[] } | undefined {
  const { key, dictionary, parts } = parseObject(text) ?? {};
  if (typeof key !== 'string' || typeof dictionary !== 'boolean' || !Array.isArray(parts)) {
    return undefined;
  }
  const read = parts.map(readPart).filter((part) => part !== undefined);
  const complete = read.length === parts.length && (dictionary || read.length === 1);
  return complete ? { key, dictionary, parts: read } : undefined;
}

function readPart(found: unknown): HeaderPart | undefined {
  const { name, kind, dtype, shape, planes }: Record<string, unknown> = { ...Object(found) };
  const known = kinds.find((one) => one === kind);
  if (typeof name !== 'string' || known === undefined || !isDataType(dtype)) return undefined;
  if (!Array.isArray(shape) || shape.length > maxDimensions || !shape.every(isCount)) {
    return undefined;
  }
  const rawBytes = rawBytesOf({ dtype, shape });
  const read = Array.isArray(planes) ? planes.map(readPlane) : [];
  const whole = read.filter((plane) => plane !== undefined);
  const widths = [1, itemBytes[dtype]];
  if (!isCount(rawBytes) || whole.length !== read.length || !widths.includes(read.length)) {
    return undefined;
  }
  // One that is kept as it is has exactly the bytes that the shape says.
  const fits = whole.every(
    ({ codec, bytes }) => codec !== 'none' || bytes === rawBytes / read.length,
  );
  return fits ? { name, kind: known, dtype, shape, planes: whole } : undefined;
}

function readPlane(found: unknown): HeaderPlane | undefined {
  const [codec, bytes, crc]: unknown[] = Array.isArray(found) ? found : [];
  const known = codecs.find((one) => one === codec);
  return known !== undefined && isCount(bytes) && isCount(crc)
    ? { codec: known, bytes, crc }
    : undefined;
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}
