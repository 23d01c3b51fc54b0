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

export function isTypedArray(value: unknown): value is TypedArray {
  return ArrayBuffer.isView(value) && !(value instanceof DataView);
}

/** The bytes of an array of this shape. */
export function rawBytesOf(array: { dtype: DataTypeName; shape: readonly number[] }): number {
  return array.shape.reduce((product, size) => product * size, itemBytes[array.dtype]);
}

/** What a typed array holds: `float32` of a Float32Array. */
export function dataTypeOf(array: TypedArray): DataTypeName {
  if (array instanceof Uint8ClampedArray) return 'uint8';
  const name = Object.entries(classes).find(([, one]) => array instanceof one)?.[0];
  return isDataType(name) && name !== 'bool' ? name : 'uint8';
}

/** Numbers over bytes that begin at 0 of their memory. */
export function arrayOver(bytes: Uint8Array<ArrayBuffer>, dtype: DataTypeName): TypedArray {
  const made = classes[dtype];
  return new made(bytes.buffer, bytes.byteOffset, bytes.length / itemBytes[dtype]);
}

/** The bytes of an array, not copied. */
export function bytesUnder(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}
