/**
 * Limits of a foreign file. Without them, a few bytes that claim a billion of something would take
 * the memory or the time of the reader.
 */
export const limits = {
  /** The largest published config lists 21,841 class names twice, in under 2 MB. */
  configBytes: 4 * 1024 * 1024,
  /** That config has some 90,000 values; as keys of an object each costs about 200 bytes. */
  configValues: 120_000,
  /** Configs nest three deep: a tower, its rotary settings, their list. */
  configDepth: 32,
  /** Torch itself counts many sizes in 32 bits. */
  dimension: 2 ** 31 - 1,
  /**
   * Of one model, all its stages and towers together. The deepest transformers published have 1,000
   * layers; every op of every layer is gone through, some 10 ms a layer.
   */
  layers: 2000,
  /** Stages, convolutions, layers that differ: lists by layer, so no longer than the layers. */
  listLength: 2000,
  /** Speech models published have 7; a file of 2,000 would pass any length of sound. */
  convolutions: 64,
  /** The largest published mixture has 512 a layer, Switch Transformers up to 2,048. */
  experts: 16_384,
  /** The reference reader of safetensors refuses longer headers. */
  safetensorsHeaderBytes: 100_000_000,
  /** A model of 384 experts with its scales has 140,000 tensors over all its files. */
  tensors: 200_000,
  /** Tensor names are paths of modules; ggml allows 63 bytes, Python projects some more. */
  nameBytes: 1024,
  /** All names together: 200,000 of 70 characters. They are kept, to find one that is there twice. */
  namesLength: 14_000_000,
  /** Layers repeat, so a model has some hundred; names without numbers of their own have more. */
  weightGroups: 20_000,
  /** Shapes and types of what goes by one name in all layers: a few, where layers differ. */
  alikeGroups: 1000,
  /** Torch refuses more than 64. */
  dimensions: 64,
  /** The largest published models come in some 200 files. */
  shards: 2_000,
  /** 140,000 tensors of 100 bytes each, twice over. */
  indexBytes: 32 * 1024 * 1024,
  /** Files have some 50 keys; those of merged models a few hundred. */
  ggufKeys: 10_000,
  /** Text that is kept: names and architectures. Longer values are passed over, not loaded. */
  ggufKeptTextBytes: 256,
  /** Every element of every list: vocabularies of 260,000 tokens, three lists each, and merges. */
  ggufListElements: 4_000_000,
  /** No published file nests lists at all. */
  ggufListDepth: 4,
  /** By ggml's own definition. */
  ggufDimensions: 4,
} as const;
