import { Failure } from '../../failure.js';
import { formatBytes } from '../../units/bytes.js';
import { capitalized } from '../../units/sentence.js';
import type { EnvironmentContext, MemoryBudget } from './types.js';

/**
 * What `PYTORCH_CUDA_ALLOC_CONF` should say; undefined where PyTorch's own defaults are best. AMD
 * gets no expandable segments: they are new there, and jobs were seen to hang.
 */
export function allocConfValue({ mode, vendor, budget }: EnvironmentContext): string | undefined {
  const expandable = `expandable_segments:${mode === 'production' ? 'True' : 'False'}`;
  const fraction = budget === undefined ? undefined : memoryFraction(budget);
  const options = [
    ...(vendor === 'nvidia' ? [expandable] : []),
    ...(fraction === undefined ? [] : [`per_process_memory_fraction:${fraction}`]),
  ];
  return options.length === 0 ? undefined : options.join(',');
}

export function allocConfReason({ mode, vendor, budget }: EnvironmentContext): string {
  const segments =
    mode === 'production'
      ? 'Segments grow in place instead of being cut from fixed blocks, so sizes that change from step to step leave fewer holes'
      : "PyTorch's own default, in which a segment is one allocation of the driver, as snapshots and sanitizers show it";
  const fraction = 'the fraction, which PyTorch 2.11 takes, keeps the process to its budget';
  const limited = budget !== undefined && memoryFraction(budget) !== undefined;
  if (vendor === 'amd') return `${capitalized(fraction)}.`;
  return `${segments}${limited ? `; ${fraction}` : ''}.`;
}

/**
 * The share of the capacity that PyTorch's allocator may take so that the whole process keeps to the
 * budget; undefined when the budget is all there is. Rounded down, to four digits.
 *
 * @example
 * memoryFraction({ memoryBytes: 20e9, capacityBytes: 80e9, contextBytes: 0 }); // 0.25
 */
export function memoryFraction(budget: MemoryBudget): number | undefined {
  const { memoryBytes, capacityBytes, contextBytes } = budget;
  if (memoryBytes >= capacityBytes) return undefined;
  const fraction = Math.floor(((memoryBytes - contextBytes) / capacityBytes) * 1e4) / 1e4;
  if (fraction > 0) return fraction;
  throw new Failure({
    kind: 'input',
    code: 'memory-too-small',
    fact: `A budget of ${formatBytes(memoryBytes)} leaves nothing: the CUDA context alone takes about ${formatBytes(contextBytes)} (estimated).`,
    next: 'Give it more memory.',
  });
}
