/** The options of `plimsoll estimate` and `plimsoll plan`, by the same names. */
export interface WorkloadRequest {
  /** A name, a config.json, a folder, .safetensors, .gguf, or torchvision:NAME; paths are absolute. */
  readonly model?: string | undefined;
  readonly script?: string | undefined;
  readonly args?: Readonly<Record<string, string>> | undefined;
  readonly type?: string | undefined;
  readonly size?: string | undefined;
  /** Instead of a model: how many parameters it has. */
  readonly parameters?: number | undefined;
  readonly mode?: string | undefined;
  readonly batch?: number | undefined;
  readonly seq?: number | undefined;
  readonly image?: number | undefined;
  readonly targetSeq?: number | undefined;
  readonly keep?: string | undefined;
  readonly precision?: string | undefined;
  readonly optimizer?: string | undefined;
  /** Batches whose gradients are added up before the optimizer steps; not for a plan. */
  readonly accumulation?: number | undefined;
  readonly checkpointing?: boolean | undefined;
  readonly lora?: number | undefined;
  readonly quantization?: string | undefined;
  readonly gpu?: string | undefined;
  readonly method?: string | undefined;
  /** How many GPUs share the job, and how: see `parallelFields`. */
  readonly gpus?: number | undefined;
  readonly parallel?: string | undefined;
  readonly tp?: number | undefined;
  readonly nodes?: number | undefined;
  readonly gatherPrecision?: string | undefined;
  readonly reducePrecision?: string | undefined;
  readonly reshard?: boolean | undefined;
  readonly fsdpStrategy?: string | undefined;
  readonly origParams?: boolean | undefined;
  readonly bucketMb?: number | undefined;
  readonly bucketView?: boolean | undefined;
  readonly offload?: string | undefined;
  /** With the mode `generate`: tokens of the prompt, new tokens, beams. */
  readonly prompt?: number | undefined;
  readonly new?: number | undefined;
  readonly beams?: number | undefined;
  /** With the mode `serve`. */
  readonly engine?: string | undefined;
  readonly maxModelLen?: number | undefined;
  readonly gpuMemoryUtilization?: number | undefined;
  readonly kvPrecision?: string | undefined;
}

/** Fields of `plimsoll plan` beside those; absent ones are open. */
export interface PlanAnswerRequest extends WorkloadRequest {
  /** Memory of the device, the CUDA context included; the card decides if absent. */
  readonly memoryBytes?: number | undefined;
  /** In its place: what PyTorch's allocator alone may hold. */
  readonly allocatorMemoryBytes?: number | undefined;
  /** Keeps all settings, and answers the largest batch. */
  readonly maxBatch?: boolean | undefined;
  readonly zero?: number | undefined;
}

/** The value of each field that was left out, by the names of a request; what is open is absent. */
export type Assumptions = Partial<WorkloadRequest>;

/** Names that a request may use. */
export interface KnownNames {
  readonly models: readonly string[];
  readonly gpus: readonly { readonly name: string; readonly capacityBytes: number }[];
  /** The card of a request that names none, and whether this machine has it. */
  readonly gpu: { readonly name: string; readonly isHere: boolean };
}
