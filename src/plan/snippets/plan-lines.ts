import type { PlanSettings } from '../fit/types.js';
import type { FromPretrainedArguments } from '../quantization/bits-and-bytes.js';
import type { ShardingOption } from '../sharding/sharding-option.js';
import { lightningPrecisions, mixedPrecisionOf, planSnippet } from './plan-snippet.js';
import type { Framework } from './recognise.js';
import { machinesOf, passWords, port, shardingSnippet, startLine } from './sharding.js';
import { loadedIn, optimizerOf, pythonCall } from './trainer.js';

/** A plan, with the method by which several GPUs share the training. */
interface WrittenPlan {
  readonly fits: boolean;
  readonly settings: PlanSettings;
  readonly sharding?: { readonly needed: boolean; readonly chosen?: ShardingOption };
}

/** The lines to paste, and whether they share the training over several GPUs. */
export interface PlanLines {
  readonly text: string;
  readonly isShared: boolean;
  /** Settings that the lines cannot express, and the place to set them. */
  readonly beside?: string;
}

/**
 * A plan as a framework takes it: how several GPUs share the training where they were asked for, or where
 * one is not enough; else its settings.
 *
 * @example
 * planLines('deepspeed', plan).beside; // where to switch checkpointing on
 */
export function planLines(
  framework: Framework,
  { fits, settings, sharding }: WrittenPlan,
  loading?: FromPretrainedArguments,
): PlanLines {
  const chosen = sharding?.needed && fits ? undefined : sharding?.chosen;
  const shared = chosen && shardingFormat(framework, chosen);
  const { checkpointing } = shared === undefined ? settings : (chosen ?? settings);
  return {
    text: shared ?? planSnippet(framework, settings, loading),
    isShared: shared !== undefined,
    ...(framework === 'deepspeed' && checkpointing && { beside: checkpointingElsewhere }),
  };
}

/** DeepSpeed's own setting reaches only models that call its functions for it. */
const checkpointingElsewhere =
  "The plan recomputes activations, which DeepSpeed's file cannot switch on for models of transformers: call model.gradient_checkpointing_enable() before deepspeed.initialize, or set gradient_checkpointing=True in TrainingArguments.";

/**
 * The method that shares a training out, as a framework takes it. Undefined for adapters, which are no
 * question of sharing.
 *
 * @example
 * shardingFormat('accelerate', chosen); // the YAML file of accelerate launch --config_file
 */
export function shardingFormat(framework: Framework, option: ShardingOption): string | undefined {
  switch (framework) {
    case 'trainer':
      return trainer(option);
    case 'accelerate':
      return accelerateFile(option);
    case 'deepspeed':
      return JSON.stringify(deepspeedFile(option), undefined, 2);
    case 'lightning':
      return lightning(option);
    case 'torchrun':
      return shardingSnippet(option);
    case 'peft':
    default:
      return undefined;
  }
}

function trainer(option: ShardingOption): string {
  const { parallel, precision, checkpointing, batch, accumulation } = option;
  const sharded = parallel.way !== 'ddp';
  const { name, without } = optimizerOf(option.optimizer);
  const [call = '', ...given] = pythonCall('args = TrainingArguments', ['"out"'], {
    per_device_train_batch_size: batch,
    gradient_accumulation_steps: accumulation > 1 ? accumulation : undefined,
    bf16: precision === 'amp-bf16' ? true : undefined,
    fp16: precision === 'amp-fp16' ? true : undefined,
    optim: name,
    // With FSDP each layer is recomputed after it was gathered once, which only FSDP's own setting does.
    gradient_checkpointing: !sharded && checkpointing ? true : undefined,
    fsdp: sharded ? true : undefined,
  });
  const config = [
    '"version": 2',
    `"reshard_after_forward": ${python(reshards(option))}`,
    `"activation_checkpointing": ${python(checkpointing)}`,
  ];
  if (sharded) given.splice(-1, 0, `    fsdp_config={${config.join(', ')}},`);
  return [
    ...loadedIn(precision),
    ...without,
    'from transformers import TrainingArguments',
    '',
    ...(sharded ? ['# Before transformers 5: fsdp="full_shard auto_wrap"'] : []),
    call,
    ...given,
    `# ${startLine(parallel.gpus)}`,
  ].join('\n');
}

function accelerateFile(option: ShardingOption): string {
  const { parallel, precision, optimizer, checkpointing, accumulation } = option;
  const machines = machinesOf(parallel.gpus);
  const sharded = parallel.way !== 'ddp';
  const fsdp = [
    'fsdp_config:',
    '  fsdp_version: 2',
    '  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP',
    `  fsdp_reshard_after_forward: ${reshards(option)}`,
    `  fsdp_activation_checkpointing: ${checkpointing}`,
    '  fsdp_cpu_ram_efficient_loading: true',
    '  fsdp_state_dict_type: SHARDED_STATE_DICT',
  ];
  return [
    '# accelerate launch --config_file plimsoll.yaml train.py',
    `# ${passWords(option)}; optimizer: ${optimizer}`,
    ...(accumulation > 1
      ? [`# in the program: Accelerator(gradient_accumulation_steps=${accumulation})`]
      : []),
    ...loadedIn(precision),
    'compute_environment: LOCAL_MACHINE',
    `distributed_type: ${sharded ? 'FSDP' : 'MULTI_GPU'}`,
    `mixed_precision: '${mixedPrecisionOf(precision)}'`,
    `num_machines: ${machines}`,
    `num_processes: ${parallel.gpus}`,
    ...(machines > 1 ? severalMachines(machines) : ['machine_rank: 0']),
    'main_training_function: main',
    ...(sharded ? fsdp : []),
  ].join('\n');
}

/** accelerate asks for the address of the first one, and for the number of each. */
function severalMachines(machines: number): readonly string[] {
  const others = machines === 2 ? '1 on the other machine' : `1 to ${machines - 1} on the others`;
  return [
    `machine_rank: 0  # ${others}`,
    'main_process_ip: HOST  # the machine with rank 0',
    `main_process_port: ${port}`,
    'same_network: true',
    'rdzv_backend: static',
  ];
}

/** Stage 3 shares parameters out as well, as FSDP does; stage 2 keeps them whole on each GPU. */
function deepspeedFile(option: ShardingOption): object {
  const { parallel, precision, batch, accumulation } = option;
  const stage = parallel.way === 'ddp' ? 0 : reshards(option) ? 3 : 2;
  return {
    train_batch_size: batch * accumulation * parallel.gpus,
    train_micro_batch_size_per_gpu: batch,
    gradient_accumulation_steps: accumulation,
    ...(precision.endsWith('bf16') && { bf16: { enabled: true } }),
    ...(precision.endsWith('fp16') && { fp16: { enabled: true } }),
    zero_optimization: { stage },
  };
}

function lightning(option: ShardingOption): string {
  const { parallel, precision, optimizer, checkpointing, batch, accumulation } = option;
  const strategy = parallel.way === 'ddp' ? '"ddp"' : 'strategy';
  const machines = machinesOf(parallel.gpus);
  const name = reshards(option) ? 'FULL_SHARD' : 'SHARD_GRAD_OP';
  const made =
    parallel.way === 'ddp'
      ? []
      : [
          'from lightning.pytorch.strategies import FSDPStrategy',
          '',
          "# Lightning's FSDPStrategy is FSDP1; Layer is the class of your layers.",
          `strategy = FSDPStrategy(sharding_strategy="${name}", auto_wrap_policy={Layer})`,
        ];
  return [
    'import lightning as L',
    ...made,
    '',
    `batch_size = ${batch}  # of your DataLoader, for each GPU; optimizer: ${optimizer}`,
    'trainer = L.Trainer(',
    `    devices=${parallel.gpus / machines},`,
    `    num_nodes=${machines},`,
    `    precision="${lightningPrecisions[precision]}",`,
    `    strategy=${strategy},`,
    ...(accumulation > 1 ? [`    accumulate_grad_batches=${accumulation},`] : []),
    ')',
    ...(checkpointing ? ['# and before training: model.gradient_checkpointing_enable()'] : []),
  ].join('\n');
}

function reshards({ parallel }: ShardingOption): boolean {
  return parallel.reshard !== false;
}

function python(value: boolean): string {
  return value ? 'True' : 'False';
}
