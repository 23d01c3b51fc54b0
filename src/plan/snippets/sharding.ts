import type { Parallel, PlainPrecision } from '../../estimate/parallel.js';
import type { Precision } from '../../estimate/types.js';
import type { ShardingOption } from '../sharding/sharding-option.js';
import { loadedIn } from './trainer.js';

/** Returns the lines for a sharding method: Python, and the command that starts it. */
export function shardingSnippet(option: ShardingOption): string {
  const { parallel, precision, optimizer, checkpointing } = option;
  const lines = parallel.way === 'ddp' ? ddpLines(precision) : fsdpLines(parallel);
  const checkpoints = checkpointing ? ['model.gradient_checkpointing_enable()'] : [];
  const start = startLine(parallel.gpus);
  return [
    `# ${start}`,
    ...loadedIn(precision),
    ...beginning,
    ...checkpoints,
    ...lines,
    ...(precision === 'amp-fp16' ? ['# float16 needs a torch.amp.GradScaler("cuda")'] : []),
    `# then the optimizer (${optimizer}), and ${passWords(option)}`,
  ].join('\n');
}

/** How much each GPU takes, and how often before a step. */
export function passWords({ batch, accumulation }: ShardingOption): string {
  const pass = `${batch} ${batch === 1 ? 'sample' : 'samples'} a GPU in each pass`;
  return accumulation === 1
    ? pass
    : `${pass}, ${accumulation} passes before each step (loss / ${accumulation})`;
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

/** The usual port of a first machine. */
export const port = 29_500;

/** The line that starts a rank on each GPU. */
export function startLine(gpus: number): string {
  const nodes = machinesOf(gpus);
  return nodes === 1
    ? `torchrun --nproc-per-node ${gpus} train.py`
    : `torchrun --nnodes ${nodes} --nproc-per-node ${gpus / nodes} --rdzv-backend c10d --rdzv-id plimsoll --rdzv-endpoint HOST:${port} train.py  # on each machine; HOST is one of them`;
}

const typeNames: Readonly<Record<PlainPrecision, string>> = {
  fp32: 'torch.float32',
  bf16: 'torch.bfloat16',
  fp16: 'torch.float16',
};

const beginning: readonly string[] = [
  'import os',
  'import torch',
  'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
  'torch.distributed.init_process_group("nccl")',
];

function ddpLines(precision: Precision): readonly string[] {
  const forward = 'loss = model(**batch).loss';
  const type =
    precision.startsWith('amp-') && typeNames[precision === 'amp-fp16' ? 'fp16' : 'bf16'];
  return [
    'model = torch.nn.parallel.DistributedDataParallel(model.to("cuda"))',
    ...(type === false
      ? []
      : [
          '# forward of each pass:',
          `with torch.autocast("cuda", dtype=${type}):`,
          `    ${forward}`,
        ]),
  ];
}

/** The outermost stack of layers, whatever it is called in the model. */
function fsdpLines({ reshard, gatherPrecision, reducePrecision }: Parallel): readonly string[] {
  const types = [
    ...(gatherPrecision === undefined ? [] : [`param_dtype=${typeNames[gatherPrecision]}`]),
    ...(reducePrecision === undefined ? [] : [`reduce_dtype=${typeNames[reducePrecision]}`]),
  ].join(', ');
  const more = [
    ...(types === '' ? [] : [', mp_policy=policy']),
    ...(reshard === false ? [', reshard_after_forward=False'] : []),
  ].join('');
  return [
    `from torch.distributed.fsdp import ${types === '' ? '' : 'MixedPrecisionPolicy, '}fully_shard`,
    ...(types === '' ? [] : [`policy = MixedPrecisionPolicy(${types})`]),
    '# the layers of the model; an encoder and a decoder have a list each',
    'layers = next(m for m in model.modules() if isinstance(m, torch.nn.ModuleList))',
    'for layer in layers:',
    `    fully_shard(layer${more})`,
    `fully_shard(model${more})`,
  ];
}
