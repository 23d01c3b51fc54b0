/**
 * How much room elements take. A type packs `elements` of them into `bytes`: one into a few bytes
 * for plain types, a whole block for quantized ones, so that sizes stay whole numbers.
 */
export interface DataType {
  readonly bytes: number;
  readonly elements: number;
}

const plain = (bytes: number): DataType => ({ bytes, elements: 1 });
const block = (bytes: number, elements: number): DataType => ({ bytes, elements });

/** Types of safetensors files, by the name used there. */
export const safetensorsTypes: Readonly<Record<string, DataType>> = {
  BOOL: plain(1),
  F4: block(1, 2),
  F6_E2M3: block(3, 4),
  F6_E3M2: block(3, 4),
  U8: plain(1),
  I8: plain(1),
  F8_E5M2: plain(1),
  F8_E4M3: plain(1),
  F8_E5M2FNUZ: plain(1),
  F8_E4M3FNUZ: plain(1),
  F8_E8M0: plain(1),
  I16: plain(2),
  U16: plain(2),
  F16: plain(2),
  BF16: plain(2),
  I32: plain(4),
  U32: plain(4),
  F32: plain(4),
  C64: plain(8),
  F64: plain(8),
  I64: plain(8),
  U64: plain(8),
};

/** Types of ggml, by their number in GGUF files; numbers left out were withdrawn. */
export const ggmlTypes: ReadonlyMap<number, DataType & { readonly name: string }> = new Map(
  (
    [
      [0, 'F32', 4, 1],
      [1, 'F16', 2, 1],
      [2, 'Q4_0', 18, 32],
      [3, 'Q4_1', 20, 32],
      [6, 'Q5_0', 22, 32],
      [7, 'Q5_1', 24, 32],
      [8, 'Q8_0', 34, 32],
      [9, 'Q8_1', 36, 32],
      [10, 'Q2_K', 84, 256],
      [11, 'Q3_K', 110, 256],
      [12, 'Q4_K', 144, 256],
      [13, 'Q5_K', 176, 256],
      [14, 'Q6_K', 210, 256],
      [15, 'Q8_K', 292, 256],
      [16, 'IQ2_XXS', 66, 256],
      [17, 'IQ2_XS', 74, 256],
      [18, 'IQ3_XXS', 98, 256],
      [19, 'IQ1_S', 50, 256],
      [20, 'IQ4_NL', 18, 32],
      [21, 'IQ3_S', 110, 256],
      [22, 'IQ2_S', 82, 256],
      [23, 'IQ4_XS', 136, 256],
      [24, 'I8', 1, 1],
      [25, 'I16', 2, 1],
      [26, 'I32', 4, 1],
      [27, 'I64', 8, 1],
      [28, 'F64', 8, 1],
      [29, 'IQ1_M', 56, 256],
      [30, 'BF16', 2, 1],
      [34, 'TQ1_0', 54, 256],
      [35, 'TQ2_0', 66, 256],
      [39, 'MXFP4', 17, 32],
    ] as const
  ).map(([number, name, bytes, elements]) => [number, { name, bytes, elements }]),
);

/**
 * Bytes of so many elements; undefined where they do not fill whole blocks, or pass what a number
 * holds exactly.
 *
 * @example
 * bytesOf(4096, { bytes: 18, elements: 32 }); // 2304
 */
export function bytesOf(elements: number, type: DataType): number | undefined {
  if (elements % type.elements !== 0) return undefined;
  const bytes = (elements / type.elements) * type.bytes;
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/**
 * Bytes of a quantized parameter with its share of the scales, as bitsandbytes packs the matrices of
 * linear layers. LLM.int8() keeps one fp32 scale for each row of a matrix; rows of models that one
 * quantizes hold 1024 weights or more.
 */
export const int8Bytes = 1 + 4 / 1024;
/** 4 bits, and one fp32 scale for each block of 64. */
export const nf4Bytes = 0.5 + 4 / 64;
/** The scales are 8 bits themselves, with one fp32 scale for each 256 of them. */
export const doubleNf4Bytes = 0.5 + 1 / 64 + 4 / (64 * 256);
