import type { Parallel, Ranks } from './parallel.js';

/** How a model is run: everything beside the model itself that decides what memory it takes. */
export interface Workload {
  readonly mode: 'train' | 'infer';
  readonly batch: number;
  /** Tokens of a sequence; pixels of an image's edge where the model takes images. */
  readonly sequence?: number | undefined;
  /** Pixels of an image's edge, for a model that takes both images and text. */
  readonly image?: number | undefined;
  /** Tokens of the labels, where an encoder and a decoder take sequences of their own. */
  readonly targetSequence?: number | undefined;
  /** What the loop holds until the next step: the loss alone, or the model's outputs with it. */
  readonly keep?: Kept | undefined;
  readonly precision: Precision;
  /** Batches whose gradients are added up before the optimizer steps; 1 where it is left out. */
  readonly accumulation?: number | undefined;
  /** Of no meaning in inference. */
  readonly optimizer: Optimizer;
  readonly checkpointing: boolean;
  /** Rank of LoRA adapters on all linear layers; absent means that the model itself is trained. */
  readonly loraRank?: number | undefined;
  readonly quantization?: QuantizationPreset | undefined;
  /** How it is spread over GPUs; absent means one GPU. */
  readonly parallel?: Parallel | undefined;
}

export const keptResults = ['loss', 'outputs'] as const;
export type Kept = (typeof keptResults)[number];

export const precisions = ['fp32', 'bf16', 'fp16', 'amp-bf16', 'amp-fp16'] as const;
export type Precision = (typeof precisions)[number];

export const optimizers = [
  'adamw',
  'adamw-fused',
  'adamw-8bit',
  'adam',
  'adam-fused',
  'adamax',
  'nadam',
  'radam',
  'rmsprop',
  'adagrad',
  'adadelta',
  'adafactor',
  'sgd',
  'sgd-momentum',
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
  /** Parameters gathered from all ranks, for as long as they are used. */
  'gathered',
  /** Gradients on their way to the rank that keeps them. */
  'reduce',
  /** What DDP or ZeRO collects gradients in. */
  'buckets',
  /** Buffers of NCCL, outside of PyTorch's allocator. */
  'communication',
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
  readonly breakdown: readonly PartBytes[];
  /** Of a job that is spread over GPUs: the figures are those of one rank. */
  readonly ranks?: Ranks;
  /** Of a program that was traced as it is: what each of its phases takes, in their order. */
  readonly phases?: readonly PhasePeak[];
  /** What other settings would save; absent where not asked for. */
  readonly savings?: readonly Saving[];
  /** How long a step takes in less memory, by memory that gives way; absent where nothing tells. */
  readonly spill?: readonly SpillPoint[];
  /** What it rests on, what was left out, and why another method was not taken. */
  readonly notes: readonly string[];
}

/** A step in less memory than it needs, as a multiple of its own time; estimated. */
export interface SpillPoint {
  /** On the device, the CUDA context included. */
  readonly memoryBytes: number;
  readonly slowdown: { readonly low: number; readonly expected: number; readonly high: number };
}

/** A phase of a program: building, first steps, steady steps, evaluation, saving, generating. */
export interface PhasePeak {
  readonly phase: string;
  /** The highest within the phase. */
  readonly allocatedBytes: number;
  readonly reservedBytes: number;
  /** Whether this phase is the first to reserve the most. */
  readonly makesPeak: boolean;
}

export interface PartBytes {
  readonly part: Part;
  readonly bytes: number;
  /** Whose it is, the largest first; they add up to `bytes`. Absent where that is not known. */
  readonly modules?: readonly ModuleBytes[];
}

/** Modules that are alike, as `model.layers.*.mlp`; an empty name is what lies outside of all. */
export interface ModuleBytes {
  readonly module: string;
  /** How many modules the name stands for. */
  readonly count: number;
  readonly bytes: number;
}

/** What one change of the settings would save. */
export interface Saving {
  /** For people, as `half the batch (4)`. */
  readonly change: string;
  /** What to set instead. */
  readonly settings: Partial<Workload>;
  /** Of peak.leastCapacityBytes, which decides whether a job fits; above 0. */
  readonly savesBytes: number;
  /** The smallest capacity that then is enough. */
  readonly leastCapacityBytes: number;
  /** `trace`: traced as well; `formula`: the difference that the formula sees. */
  readonly basis: 'trace' | 'formula';
}
