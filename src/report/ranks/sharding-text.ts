import type { Sharding, ShardingOption } from '../../plan/sharding/sharding-option.js';
import { formatBytes } from '../../units/bytes.js';

/** A training that several GPUs share. */
export interface SharedOut extends Sharding {
  readonly gpus: number;
  /** Whether the number of GPUs is an answer, and not what was asked for. */
  readonly needed: boolean;
  /** What changes of what was asked for. */
  readonly changes?: string;
  /** What to paste. */
  readonly snippet?: string;
}

const fits = { surely: 'fits', tightly: 'may fit', no: 'too large' } as const;

/** How several GPUs share a training: what was tried, the fastest that fits, and what to paste. */
export function shardingText(shared: SharedOut): string {
  const { gpus, needed, chosen, changes, tried, snippet } = shared;
  const head = headOf(gpus, needed, chosen !== undefined);
  const verdict =
    chosen === undefined
      ? ['Nothing of this fits.']
      : [`Take ${nameOf(chosen)}${passesOf(chosen)}.`];
  const paste = snippet === undefined ? [] : ['', snippet];
  const changed = changes === undefined ? [] : [changes];
  return ['', head, ...tried.map(line), ...verdict, ...changed, ...paste].join('\n');
}

function headOf(gpus: number, needed: boolean, enough: boolean): string {
  if (!needed) return `On ${gpus} GPUs, by trace, the fastest first (with the CUDA context):`;
  return enough
    ? `To train the whole model ${gpus} such GPUs are needed. By trace, the fastest first (with the CUDA context):`
    : `To train the whole model ${gpus} such GPUs are not enough. By trace, each needs (with the CUDA context):`;
}

function line(option: ShardingOption): string {
  const bytes = option.peak === undefined ? '' : formatBytes(option.peak.leastCapacityBytes);
  const [name, fit] = [nameOf(option).padEnd(34), fits[option.fit].padEnd(10)];
  const passes =
    option.accumulation === 1 ? '' : `, ${option.accumulation} passes of ${option.batch} a step`;
  return `  ${name} ${fit} ${bytes.padStart(9)}  ${option.givesUp}${passes}`;
}

function nameOf({ parallel, checkpointing }: ShardingOption): string {
  const kept = parallel.reshard === false ? ' --no-reshard' : '';
  return `${parallel.way}${kept}${checkpointing ? ' --checkpointing' : ''}`;
}

function passesOf({ batch, accumulation }: ShardingOption): string {
  return accumulation === 1
    ? ''
    : `, with ${accumulation} passes of ${batch} on each GPU in a step`;
}
