import { describe, expect, it } from 'vitest';
import { parseAllocConf } from '../../estimate/allocator/alloc-conf.js';
import { GiB, MiB } from '../../units/bytes.js';
import { environmentRules, environmentSettings, memoryFraction } from './rules.js';
import type { EnvironmentContext } from './types.js';

const production: EnvironmentContext = { mode: 'production', vendor: 'nvidia', cores: 32, gpus: 1 };
const debug: EnvironmentContext = { ...production, mode: 'debug' };

/** `NAME=value`, `-NAME` to unset, `?NAME=value` to consider. */
function brief(context: EnvironmentContext): string[] {
  return environmentSettings(context).map((one) => {
    if (one.action === 'unset') return `-${one.name}`;
    return `${one.action === 'set' ? '' : '?'}${one.name}=${one.value}`;
  });
}

describe('environmentSettings', () => {
  it('says what production needs', () => {
    expect(brief(production)).toEqual([
      'CUDA_LAUNCH_BLOCKING=0',
      'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True',
      '-PYTORCH_NO_CUDA_MEMORY_CACHING',
      'TORCH_SHOW_CPP_STACKTRACES=0',
      'CUDA_MODULE_LOADING=LAZY',
      'CUDA_DEVICE_ORDER=PCI_BUS_ID',
      'OMP_NUM_THREADS=32',
      'MKL_NUM_THREADS=32',
      'TOKENIZERS_PARALLELISM=false',
      'PYTHONFAULTHANDLER=1',
      '-NVIDIA_TF32_OVERRIDE',
    ]);
  });

  it('says what debugging needs, and what it may cost something to try', () => {
    expect(brief(debug)).toEqual([
      'CUDA_LAUNCH_BLOCKING=1',
      'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False',
      '?PYTORCH_NO_CUDA_MEMORY_CACHING=1',
      'TORCH_SHOW_CPP_STACKTRACES=1',
      'CUDA_DEVICE_ORDER=PCI_BUS_ID',
      'OMP_NUM_THREADS=32',
      'MKL_NUM_THREADS=32',
      'TOKENIZERS_PARALLELISM=false',
      'PYTHONFAULTHANDLER=1',
      '?NVIDIA_TF32_OVERRIDE=0',
      '?CUBLAS_WORKSPACE_CONFIG=:4096:8',
    ]);
  });

  it('shares the cores between the GPUs, and speaks of collectives only then', () => {
    const several = brief({ ...production, gpus: 5 });
    expect(several).toContain('OMP_NUM_THREADS=6');
    expect(several).toContain('NCCL_DEBUG=WARN');
    expect(several).toContain('TORCH_NCCL_ASYNC_ERROR_HANDLING=3');
    expect(brief({ ...debug, gpus: 2 })).toContain('TORCH_DISTRIBUTED_DEBUG=DETAIL');
    expect(brief({ ...production, cores: 2, gpus: 8 })).toContain('OMP_NUM_THREADS=1');
    expect(brief({ ...production, cores: 2, gpus: 0 })).toContain('OMP_NUM_THREADS=2');
  });

  it('leaves out what AMD has no use for', () => {
    const names = environmentSettings({ ...debug, vendor: 'amd' }).map(({ name }) => name);
    expect(names).toContain('AMD_SERIALIZE_KERNEL');
    expect(names.filter((name) => /^(CUDA|NVIDIA|CUBLAS|PYTORCH_CUDA)_/.test(name))).toEqual([]);
  });

  it('keeps the process to its budget, its context counted in', () => {
    const budget = { memoryBytes: 20 * GiB, capacityBytes: 80 * GiB, contextBytes: 768 * MiB };
    const value = brief({ ...production, budget }).find((line) => line.includes('ALLOC_CONF'));
    expect(value).toBe(
      'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,per_process_memory_fraction:0.2406',
    );
    expect(0.2406 * budget.capacityBytes + budget.contextBytes).toBeLessThanOrEqual(20 * GiB);
    expect(brief({ ...debug, vendor: 'amd', budget })).toContain(
      'PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.2406',
    );
  });

  it('gives one reason in one sentence each, and only values that need no quotes', () => {
    for (const context of [production, debug, { ...debug, gpus: 2 }]) {
      for (const setting of environmentSettings(context)) {
        expect(setting.reason).toMatch(/^[A-Z][^.\n]*(\.[^.\n]+)*\.$/);
        if (setting.action !== 'unset') expect(setting.value).toMatch(/^[\w:,.]+$/);
      }
    }
    expect(parseAllocConf('expandable_segments:True').settings.expandableSegments).toBe(true);
  });

  it('has each variable once', () => {
    const names = environmentRules.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });
});

describe('memoryFraction', () => {
  it('is none when the budget is the whole card', () => {
    const all = { memoryBytes: 80 * GiB, capacityBytes: 80 * GiB, contextBytes: 768 * MiB };
    expect(memoryFraction(all)).toBeUndefined();
    expect(memoryFraction({ ...all, memoryBytes: 81 * GiB })).toBeUndefined();
  });

  it('refuses a budget that the context alone would take', () => {
    const budget = { memoryBytes: 512 * MiB, capacityBytes: 80 * GiB, contextBytes: 758 * MiB };
    expect(() => memoryFraction(budget)).toThrow(
      expect.objectContaining({ code: 'memory-too-small', exitCode: 2 }),
    );
  });
});
