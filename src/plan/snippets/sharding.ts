import type { ShardingOption } from '../sharding/choose-sharding.js';

/** What to paste for a method that shares a training out: Python, and the line that starts it. */
export function shardingSnippet({ parallel, checkpointing, batch }: ShardingOption): string {
  const lines = parallel.way === 'ddp' ? ddpLines() : fsdpLines(parallel.reshard !== false);
  const checkpoints = checkpointing ? ['model.gradient_checkpointing_enable()'] : [];
  const start = startLine(parallel.gpus);
  return [...checkpoints, ...lines, `# ${batch} samples a GPU in each pass`, `# ${start}`].join(
    '\n',
  );
}

/** Machines of eight GPUs, as most are. */
export function machinesOf(gpus: number): number {
  return Math.ceil(gpus / 8);
}

/** The line that starts a rank on each GPU. */
export function startLine(gpus: number): string {
  const nodes = machinesOf(gpus);
  return nodes === 1
    ? `torchrun --nproc-per-node ${gpus} train.py`
    : `torchrun --nnodes ${nodes} --nproc-per-node 8 train.py  # on each machine`;
}

function ddpLines(): string[] {
  return [
    'model = torch.nn.parallel.DistributedDataParallel(model)',
    'with torch.autocast("cuda", dtype=torch.bfloat16):',
    '    loss = model(**batch).loss',
  ];
}

function fsdpLines(reshard: boolean): string[] {
  const more = reshard ? '' : ', reshard_after_forward=False';
  return [
    'from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard',
    'policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)',
    'for layer in model.model.layers:',
    `    fully_shard(layer, mp_policy=policy${more})`,
    `fully_shard(model, mp_policy=policy${more})`,
  ];
}
