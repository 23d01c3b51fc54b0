import { Failure } from '../failure.js';

/** Numbers that an array may hold, with the bytes of one; the names are NumPy's. */
export const itemBytes = {
  bool: 1,
  int8: 1,
  uint8: 1,
  int16: 2,
  uint16: 2,
  float16: 2,
  bfloat16: 2,
  int32: 4,
  uint32: 4,
  float32: 4,
  int64: 8,
  uint64: 8,
  float64: 8,
} as const;

export type DataTypeName = keyof typeof itemBytes;

/** JavaScript has no 16-bit floats everywhere: those come as their bits. */
const classes = {
  bool: Uint8Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  float32: Float32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  float64: Float64Array,
} as const;

export type TypedArray = InstanceType<(typeof classes)[DataTypeName]> | Uint8ClampedArray;

export function isDataType(name: unknown): name is DataTypeName {
  return typeof name === 'string' && Object.hasOwn(itemBytes, name);
}

function isTypedArray(value: unknown): value is TypedArray {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

/** The bytes of an array of this shape. */
export function rawBytesOf(array: { dtype: DataTypeName; shape: readonly number[] }): number {
  return array.shape.reduce((product, size) => product * size, itemBytes[array.dtype]);
}

/** Returns the data type of a typed array: `float32` for a Float32Array. */
function dataTypeOf(array: TypedArray): DataTypeName {
  if (array instanceof Uint8ClampedArray) return 'uint8';
  const name = Object.entries(classes).find(([, one]) => array instanceof one)?.[0];
  return isDataType(name) && name !== 'bool' ? name : 'uint8';
}

/** Numbers over bytes that begin at 0 of their memory. */
function arrayOver(bytes: Uint8Array<ArrayBuffer>, dtype: DataTypeName): TypedArray {
  const made = classes[dtype];
  return new made(bytes.buffer, bytes.byteOffset, bytes.length / itemBytes[dtype]);
}

/** The bytes of an array, not copied. */
function bytesUnder(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

/** Numbers with more or less than one dimension, or of a type that JavaScript has no array for. */
export interface ShapedArray {
  readonly shape: readonly number[];
  readonly data: TypedArray;
  /** Needed only for `float16`, `bfloat16` and `bool`; else it is that of `data`. */
  readonly dtype?: DataTypeName;
}

export type BufferPart = Uint8Array | ArrayBuffer | TypedArray | ShapedArray;

/** Bytes, numbers, or a dictionary of them. */
export type BufferValue = BufferPart | Readonly<Record<string, BufferPart>>;

/** A part as it is kept: bytes and what they mean. */
export interface Part {
  /** '' for a value that is one part. */
  readonly name: string;
  readonly kind: 'bytes' | 'array' | 'tensor';
  readonly dtype: DataTypeName;
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
}

/** A part whose bytes nothing else holds: they begin at 0 of their memory. */
export interface OwnPart extends Part {
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** The parts of a value; what a store cannot keep is refused. */
export function partsOf(value: unknown): { dictionary: boolean; parts: Part[] } {
  const single = partOf('', value);
  if (single !== undefined) return { dictionary: false, parts: [single] };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw notKept(value);
  const parts = Object.entries(value).map(([name, one]) => {
    const part = partOf(name, one);
    if (part === undefined) throw notKept(one, name);
    return part;
  });
  return { dictionary: true, parts };
}

function partOf(name: string, value: unknown): Part | undefined {
  if (value instanceof ArrayBuffer) return partOf(name, new Uint8Array(value));
  if (value instanceof Uint8Array) {
    return { name, kind: 'bytes', dtype: 'uint8', shape: [value.length], bytes: bytesUnder(value) };
  }
  if (isTypedArray(value)) return arrayPart(name, { shape: [value.length], data: value });
  return isShaped(value) ? arrayPart(name, value) : undefined;
}

function arrayPart(name: string, { shape, data, dtype = dataTypeOf(data) }: ShapedArray): Part {
  const whole = shape.every((size) => Number.isSafeInteger(size) && size >= 0);
  if (!whole || rawBytesOf({ dtype, shape }) !== data.byteLength) {
    throw new Failure({
      kind: 'input',
      code: 'bad-shape',
      fact: `A shape of [${shape.join(', ')}] ${dtype} does not have the ${data.byteLength} bytes of its data.`,
      next: 'Pass the shape of the data.',
    });
  }
  return { name, kind: 'array', dtype, shape, bytes: bytesUnder(data) };
}

function isShaped(value: unknown): value is ShapedArray {
  if (typeof value !== 'object' || value === null) return false;
  return (
    'shape' in value && 'data' in value && Array.isArray(value.shape) && isTypedArray(value.data)
  );
}

/** Returns the value as it was put. */
export function valueOf(dictionary: boolean, parts: readonly OwnPart[]): BufferValue {
  const [first] = parts;
  if (!dictionary && first !== undefined) return valueOfPart(first);
  return Object.fromEntries(parts.map((part) => [part.name, valueOfPart(part)]));
}

const plainTypes = /^(u?int(8|16|32|64)|float(32|64))$/;

function valueOfPart({ kind, dtype, shape, bytes }: OwnPart): BufferPart {
  if (kind === 'bytes') return bytes;
  const data = arrayOver(bytes, dtype);
  // A Uint8Array stands for bytes; an array of them keeps its shape to stay one.
  const plain = shape.length === 1 && plainTypes.test(dtype) && dtype !== 'uint8';
  return plain ? data : { shape, data, dtype };
}

function notKept(value: unknown, name = ''): Failure {
  const kind = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`;
  return new Failure({
    kind: 'input',
    code: 'bad-buffer',
    fact: `A store keeps bytes and numbers, not ${kind}${name === '' ? '' : ` (${name})`}.`,
    next: 'Pass a Uint8Array, a typed array, { shape, data }, or an object of those.',
  });
}
