import { z } from '@hono/zod-openapi';
import { estimateMethods } from '../../estimate/estimate.js';
import { modelSizes, modelTypes } from '../../estimate/model-source.js';
import { fsdpStrategies, parallelWays, plainPrecisions } from '../../estimate/parallel.js';
import { engines } from '../../estimate/serving/serve-estimate.js';
import { keptResults, optimizers, precisions, quantizationPresets } from '../../estimate/types.js';
import { cacheTypeNames } from '../../plan/answers/serving/serving-request.js';
import { offloads, zeroStages } from '../../plan/fit/types.js';
import { version } from './common.js';

/** More than any batch, sequence or image there is. */
const maxCount = 1_000_000_000;
const pathCharacters = 4096;
const maxGpus = 65_536;

const count = z.int().min(1).max(maxCount);

const workloadFields = {
  model: z.string().min(1).max(pathCharacters).optional().openapi({
    description:
      'A name such as llama-3-8b; or a config.json, a folder, a .safetensors or .gguf file, by its absolute path on the machine of the server; or torchvision:NAME.',
  }),
  script: z.string().min(1).max(pathCharacters).optional().openapi({
    description: 'Instead of a model: a Python file that defines workload(**args).',
  }),
  args: z
    .record(z.string().min(1).max(200), z.string().max(pathCharacters))
    .optional()
    .openapi({ description: 'What workload() of the script is given.' }),
  type: z.enum(modelTypes).optional().openapi({
    description: 'A rough kind of model, where there is no model to read.',
  }),
  size: z.enum(modelSizes).optional(),
  parameters: z.int().min(1).max(1e14).optional().openapi({
    description: 'Instead of a model: how many parameters it has.',
  }),
  mode: z.enum(['train', 'infer', 'generate', 'serve']).optional(),
  batch: count.optional().openapi({ description: 'Samples in a batch.' }),
  seq: count.optional().openapi({ description: 'Tokens in a sequence.' }),
  image: count.optional().openapi({ description: "Pixels of an image's edge." }),
  targetSeq: count.optional().openapi({
    description: 'Tokens of the labels, for an encoder with a decoder; half of seq if left out.',
  }),
  keep: z.enum(keptResults).optional().openapi({
    description:
      'What the loop holds until the next step: the loss, or the outputs of the model too.',
  }),
  precision: z.enum(precisions).optional(),
  optimizer: z.enum(optimizers).optional(),
  accumulation: count.optional().openapi({
    description: 'Batches whose gradients are added up before a step; a plan chooses it.',
  }),
  checkpointing: z.boolean().optional(),
  lora: count.optional().openapi({ description: 'Rank of LoRA adapters on all linear layers.' }),
  quantization: z.enum(quantizationPresets).optional(),
  gpu: z.string().min(1).max(200).optional().openapi({ description: 'A card, such as h100.' }),
  method: z.enum(estimateMethods).optional(),
  gpus: z.int().min(1).max(maxGpus).optional().openapi({ description: 'GPUs that share the job.' }),
  parallel: z
    .string()
    .min(1)
    .max(20)
    .optional()
    .openapi({
      description: `How they share it, for an estimate: ${parallelWays.join(', ')}.`,
    }),
  tp: z
    .int()
    .min(1)
    .max(maxGpus)
    .optional()
    .openapi({ description: 'GPUs that share each layer.' }),
  nodes: z.int().min(1).max(maxGpus).optional().openapi({ description: 'Machines.' }),
  gatherPrecision: z.enum(plainPrecisions).optional().openapi({
    description: 'Of FSDP: the type in which parameters are gathered.',
  }),
  reducePrecision: z.enum(plainPrecisions).optional().openapi({
    description: 'Of FSDP: the type in which gradients are reduced.',
  }),
  reshard: z.boolean().optional().openapi({
    description: 'Of FSDP: false keeps gathered parameters until backward.',
  }),
  fsdpStrategy: z.enum(fsdpStrategies).optional(),
  origParams: z.boolean().optional().openapi({ description: 'Of FSDP1: use_orig_params.' }),
  bucketMb: count.optional().openapi({ description: 'Of DDP: 25 if left out.' }),
  bucketView: z.boolean().optional().openapi({ description: 'Of DDP: gradient_as_bucket_view.' }),
  offload: z.enum(offloads).optional().openapi({ description: 'What may lie on the host.' }),
  prompt: count.optional().openapi({ description: 'Of "generate": tokens of the prompt.' }),
  new: count.optional().openapi({ description: 'Of "generate": new tokens.' }),
  beams: count.optional().openapi({ description: 'Of "generate": 1 if left out.' }),
  engine: z.enum(engines).optional().openapi({ description: 'Of "serve".' }),
  maxModelLen: count.optional().openapi({
    description: 'Of "serve": tokens of the longest request, its answer included.',
  }),
  gpuMemoryUtilization: z.number().gt(0).max(1).optional().openapi({
    description: 'Of "serve": the share of the card that vLLM takes; 0.9 if left out.',
  }),
  kvPrecision: z.enum(cacheTypeNames).optional().openapi({
    description: 'Of "serve": data type of the KV cache.',
  }),
};

/** As `WorkloadRequest` has it. */
export const workloadRequestSchema = z.strictObject(workloadFields).openapi('WorkloadRequest', {
  description: 'A model and how it is run; what is left out is open, or has its usual value.',
});

/** What `POST /plan` takes beside the workload. */
export const planRequestSchema = z
  .strictObject({
    ...workloadFields,
    memoryBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional().openapi({
      description: 'What each GPU offers, the CUDA context included.',
    }),
    allocatorMemoryBytes: z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional().openapi({
      description: "In its place: what PyTorch's allocator alone may hold of each GPU.",
    }),
    zero: z.literal(zeroStages).optional().openapi({ description: 'Stage of ZeRO over the GPUs.' }),
    maxBatch: z.boolean().optional().openapi({
      description: 'Keeps all other settings, and answers the largest batch.',
    }),
  })
  .openapi('PlanRequest');

const peak = z.object({
  allocatedBytes: z.int(),
  reservedBytes: z.int(),
  deviceBytes: z.int(),
  leastCapacityBytes: z.int(),
});

/** What `plimsoll estimate --json` answers; more may stand beside it. */
export const estimateSchema = z
  .looseObject({
    ...version,
    method: z.string(),
    peak,
    interval: z.object({ lowBytes: z.int(), highBytes: z.int(), confidence: z.number() }),
    breakdown: z.array(z.looseObject({ part: z.string(), bytes: z.int() })),
    spill: z
      .array(
        z.object({
          memoryBytes: z.int(),
          slowdown: z.object({ low: z.number(), expected: z.number(), high: z.number() }),
        }),
      )
      .optional()
      .openapi({ description: 'How long a step takes in less memory, as a multiple.' }),
    gpu: z
      .object({
        name: z.string(),
        capacityBytes: z.int(),
        context: z
          .looseObject({ bytes: z.int(), lowBytes: z.int(), highBytes: z.int() })
          .openapi({ description: 'What a process takes beside its allocator.' }),
      })
      .openapi({ description: 'The card that it is for.' }),
    notes: z.array(z.string()),
  })
  .openapi('Estimate', { description: 'All figures are estimated.' });

/** By the names of a request; what the request has, and what is open, is absent. */
export const assumptionsSchema = z
  .object({ ...version, assumptions: z.object(workloadFields) })
  .openapi('Assumptions');

export const namesSchema = z
  .object({
    ...version,
    models: z.array(z.string()).openapi({ description: 'The models of the catalogue.' }),
    gpus: z.array(z.object({ name: z.string(), capacityBytes: z.int() })),
    gpu: z.object({ name: z.string(), isHere: z.boolean() }).openapi({
      description: 'The card of a request that names none, and whether this machine has it.',
    }),
  })
  .openapi('Names');

/** What `plimsoll plan --json` answers; more may stand beside it. */
export const planSchema = z
  .looseObject({
    ...version,
    fits: z.boolean(),
    settings: z.looseObject({}).nullable().optional(),
    estimate: z.looseObject({}).nullable().optional(),
    alternatives: z.array(z.looseObject({})).optional(),
    notes: z.array(z.string()).optional(),
  })
  .openapi('Plan');
