import type { Sharding, ShardingOption } from '../../plan/sharding/choose-sharding.js';
import { formatBytes } from '../../units/bytes.js';

/** A training that several GPUs share. */
export interface SharedOut extends Sharding {
  readonly gpus: number;
  /** Whether the number of GPUs is an answer, and not what was asked for. */
  readonly needed: boolean;
  /** What to paste. */
  readonly snippet?: string;
}

const fits = { surely: 'fits', tightly: 'may fit', no: 'too large' } as const;

/** How several GPUs share a training: what was tried, the fastest that fits, and what to paste. */
export function shardingText({ gpus, needed, chosen, tried, snippet }: SharedOut): string {
  const head = headOf(gpus, needed, chosen !== undefined);
  const verdict = chosen === undefined ? ['Nothing of this fits.'] : [`Take ${nameOf(chosen)}.`];
  const paste = snippet === undefined ? [] : ['', snippet];
  return ['', head, ...tried.map(line), ...verdict, ...paste].join('\n');
}

function headOf(gpus: number, needed: boolean, enough: boolean): string {
  if (!needed) return `On ${gpus} GPUs, by trace, the fastest first:`;
  return enough
    ? `To train the whole model ${gpus} such GPUs are needed. By trace, the fastest first:`
    : `To train the whole model ${gpus} such GPUs are not enough. By trace, each needs:`;
}

function line(option: ShardingOption): string {
  const bytes = option.peak === undefined ? '' : formatBytes(option.peak.leastCapacityBytes);
  const [name, fit] = [nameOf(option).padEnd(34), fits[option.fit].padEnd(10)];
  return `  ${name} ${fit} ${bytes.padStart(9)}  ${option.givesUp}`;
}

function nameOf({ parallel, checkpointing }: ShardingOption): string {
  const kept = parallel.reshard === false ? ' --no-reshard' : '';
  return `${parallel.way}${kept}${checkpointing ? ' --checkpointing' : ''}`;
}
