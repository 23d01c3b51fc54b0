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
