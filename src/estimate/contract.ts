/** How a model is run: everything beside the model itself that decides what memory it takes. */
export interface Workload {
  readonly mode: 'train' | 'infer';
  readonly batch: number;
  /** Tokens of a sequence; pixels of an image's edge where the model takes images. */
  readonly sequence?: number | undefined;
  /** Pixels of an image's edge, for a model that takes both images and text. */
  readonly image?: number | undefined;
  readonly precision: Precision;
  /** Of no meaning in inference. */
  readonly optimizer: Optimizer;
  readonly checkpointing: boolean;
  /** Rank of LoRA adapters on all linear layers; absent means that the model itself is trained. */
  readonly loraRank?: number | undefined;
  readonly quantization?: QuantizationPreset | undefined;
}

export const precisions = ['fp32', 'bf16', 'fp16', 'amp-bf16', 'amp-fp16'] as const;
export type Precision = (typeof precisions)[number];

export const optimizers = [
  'adamw',
  'adamw-fused',
  'sgd',
  'sgd-momentum',
  'adafactor',
  'adamw-8bit',
] as const;
export type Optimizer = (typeof optimizers)[number];

export const quantizationPresets = [
  'cpu',
  'fp16',
  'int8',
  'int4',
  'int4_double',
  'int4_offload',
] as const;
export type QuantizationPreset = (typeof quantizationPresets)[number];

/** What a part of the memory at the peak instant is for. */
export const parts = [
  'weights',
  'gradients',
  'optimizer',
  /** Kept for the backward pass, and the batch itself. */
  'activations',
  /** What an op or the optimizer's step needs only for a moment. */
  'temporary',
  'workspace',
  'kv-cache',
  'context',
  'fragmentation',
] as const;
export type Part = (typeof parts)[number];

/** Bytes that a workload needs on one GPU. All are integers; all are estimated. */
export interface Estimate {
  readonly method: 'trace' | 'formula' | 'table';
  readonly peak: {
    /** Live blocks as the caching allocator rounds them. */
    readonly allocatedBytes: number;
    /** Segments that the allocator holds from the driver. */
    readonly reservedBytes: number;
    /** Reserved, with the CUDA context and loaded kernels: what the device loses. */
    readonly deviceBytes: number;
    /** The smallest capacity of a device on which the run still succeeds. */
    readonly leastCapacityBytes: number;
  };
  /** Of reservedBytes. */
  readonly interval: {
    readonly lowBytes: number;
    readonly highBytes: number;
    readonly confidence: number;
  };
  /** At the peak instant; the parts add up to deviceBytes. */
  readonly breakdown: readonly { readonly part: Part; readonly bytes: number }[];
  /** What it rests on, what was left out, and why another method was not taken. */
  readonly notes: readonly string[];
}
