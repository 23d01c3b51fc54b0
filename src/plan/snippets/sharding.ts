import type { ShardingOption } from '../sharding/choose-sharding.js';

/** What to paste for a method that shares a training out: Python, and the line that starts it. */
export function shardingSnippet({ parallel, checkpointing, batch }: ShardingOption): string {
  const lines = parallel.way === 'ddp' ? ddpLines : fsdpLines(parallel.reshard !== false);
  const checkpoints = checkpointing ? ['model.gradient_checkpointing_enable()'] : [];
  const start = startLine(parallel.gpus);
  return [
    `# ${start}`,
    ...beginning,
    ...checkpoints,
    ...lines,
    `# then the optimizer, and ${batch} samples a GPU in each pass`,
  ].join('\n');
}

/** GPUs of a machine, as most have them. */
const gpusOfMachine = 8;

/**
 * The fewest machines of at most eight GPUs that each have as many.
 *
 * @example
 * machinesOf(12); // 2: with 6 each
 */
export function machinesOf(gpus: number): number {
  let machines = Math.ceil(gpus / gpusOfMachine);
  while (gpus % machines !== 0) machines += 1;
  return machines;
}

/** The line that starts a rank on each GPU. */
export function startLine(gpus: number): string {
  const nodes = machinesOf(gpus);
  return nodes === 1
    ? `torchrun --nproc-per-node ${gpus} train.py`
    : `torchrun --nnodes ${nodes} --nproc-per-node ${gpus / nodes} --rdzv-endpoint HOST:29500 train.py  # on each machine; HOST is one of them`;
}

const beginning: readonly string[] = [
  'import os',
  'import torch',
  'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
  'torch.distributed.init_process_group("nccl")',
];

const ddpLines: readonly string[] = [
  'model = torch.nn.parallel.DistributedDataParallel(model.to("cuda"))',
  '# forward of each pass:',
  'with torch.autocast("cuda", dtype=torch.bfloat16):',
  '    loss = model(**batch).loss',
];

/** The outermost stack of layers, whatever it is called in the model. */
function fsdpLines(reshard: boolean): readonly string[] {
  const more = reshard ? '' : ', reshard_after_forward=False';
  return [
    'from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard',
    'policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)',
    '# the layers of the model; an encoder and a decoder have a list each',
    'layers = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))',
    'for layer in layers:',
    `    fully_shard(layer, mp_policy=policy${more})`,
    `fully_shard(model, mp_policy=policy${more})`,
  ];
}
