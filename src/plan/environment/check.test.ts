import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GiB } from '../../units/bytes.js';
import { checkEnvironment } from './check.js';
import { environmentRules, environmentSettings } from './rules.js';
import type { EnvironmentContext } from './types.js';

const production: EnvironmentContext = { mode: 'production', vendor: 'nvidia', cores: 8, gpus: 1 };
const debug: EnvironmentContext = { ...production, mode: 'debug' };
const allocConf = 'PYTORCH_CUDA_ALLOC_CONF';

/** What `plimsoll env` itself would set. */
function recommended(context: EnvironmentContext): Record<string, string> {
  return Object.fromEntries(
    environmentSettings(context).flatMap((one) =>
      one.action === 'set' ? [[one.name, one.value]] : [],
    ),
  );
}

function found(environment: Record<string, string>, context = production): string[] {
  return checkEnvironment(environment, context).map(
    ({ name, kind, severity }) => `${severity} ${kind} ${name}`,
  );
}

describe('checkEnvironment', () => {
  it.each([
    ['production', production],
    ['debug', debug],
    ['production on several GPUs', { ...production, gpus: 4 }],
    ['debug on several GPUs', { ...debug, gpus: 4 }],
    ['production on AMD', { ...production, vendor: 'amd' as const }],
  ])('is content with its own advice for %s', (_, context) => {
    expect(found(recommended(context), context)).toEqual([]);
  });

  it('finds debug settings that slipped into production, and says how to be rid of them', () => {
    const environment = recommended({ ...debug, gpus: 2 });
    environment['NVIDIA_TF32_OVERRIDE'] = '0';
    environment['PYTORCH_NO_CUDA_MEMORY_CACHING'] = '0';
    const findings = checkEnvironment(environment, production).filter(
      ({ severity }) => severity === 'required',
    );
    expect(findings.map(({ name, kind, fix }) => [name, kind, fix])).toEqual([
      ['CUDA_LAUNCH_BLOCKING', 'debug-setting', "export CUDA_LAUNCH_BLOCKING='0'"],
      ['PYTORCH_NO_CUDA_MEMORY_CACHING', 'debug-setting', 'unset PYTORCH_NO_CUDA_MEMORY_CACHING'],
      ['TORCH_SHOW_CPP_STACKTRACES', 'debug-setting', "export TORCH_SHOW_CPP_STACKTRACES='0'"],
      ['TORCH_DISTRIBUTED_DEBUG', 'debug-setting', "export TORCH_DISTRIBUTED_DEBUG='OFF'"],
      ['NCCL_DEBUG', 'debug-setting', "export NCCL_DEBUG='WARN'"],
      ['NVIDIA_TF32_OVERRIDE', 'debug-setting', 'unset NVIDIA_TF32_OVERRIDE'],
    ]);
  });

  it('takes an empty environment for one that could be better, not for a broken one', () => {
    expect(found({})).toEqual([
      'advice missing PYTORCH_CUDA_ALLOC_CONF',
      'advice missing CUDA_DEVICE_ORDER',
      'advice missing OMP_NUM_THREADS',
      'advice missing MKL_NUM_THREADS',
      'advice missing TOKENIZERS_PARALLELISM',
      'advice missing PYTHONFAULTHANDLER',
    ]);
  });

  it('holds debug mode to what makes it one', () => {
    expect(found({}, debug)[0]).toBe('required missing CUDA_LAUNCH_BLOCKING');
    expect(found({ CUDA_LAUNCH_BLOCKING: '0' }, debug)[0]).toBe(
      'required differs CUDA_LAUNCH_BLOCKING',
    );
    expect(found({}, { ...debug, vendor: 'amd' })[0]).toBe('required missing AMD_SERIALIZE_KERNEL');
    expect(found({ AMD_SERIALIZE_KERNEL: '2' }, { ...production, vendor: 'amd' })[0]).toBe(
      'required debug-setting AMD_SERIALIZE_KERNEL',
    );
  });

  it('reads values as those do who go by them', () => {
    const environment = recommended(production);
    environment['TOKENIZERS_PARALLELISM'] = '0';
    environment['CUDA_MODULE_LOADING'] = 'lazy';
    environment['PYTHONFAULTHANDLER'] = 'yes';
    environment['CUDA_LAUNCH_BLOCKING'] = '';
    expect(found(environment)).toEqual([]);
    expect(found({ ...environment, CUDA_MODULE_LOADING: 'EAGER' })).toEqual([
      'advice differs CUDA_MODULE_LOADING',
    ]);
    expect(found({ ...environment, NCCL_ASYNC_ERROR_HANDLING: '1' })).toEqual([
      'advice old-name NCCL_ASYNC_ERROR_HANDLING',
    ]);
  });

  it('keeps what must change in front', () => {
    const severities = checkEnvironment({ NVIDIA_TF32_OVERRIDE: '1' }, production).map(
      ({ severity }) => severity,
    );
    expect(severities).toEqual(severities.toSorted().toReversed());
    expect(severities[0]).toBe('required');
  });
});

describe('the configuration of the allocator', () => {
  const rest = recommended(production);
  const check = (value: string, context = production) =>
    checkEnvironment({ ...rest, [allocConf]: value }, context);

  it('may be given under either name', () => {
    const { [allocConf]: value, ...others } = rest;
    expect(found({ ...others, PYTORCH_ALLOC_CONF: value ?? '' })).toEqual([]);
  });

  it('is a conflict under two names', () => {
    const both = { ...rest, PYTORCH_ALLOC_CONF: 'max_split_size_mb:128' };
    expect(found(both)).toEqual(['required conflict PYTORCH_ALLOC_CONF']);
    const same = { ...rest, PYTORCH_ALLOC_CONF: rest[allocConf] ?? '' };
    expect(found(same)).toEqual(['advice conflict PYTORCH_ALLOC_CONF']);
  });

  it.each(['expandable_segments', 'expandable_segments:yes', 'max_split_size_mb:1', 'nonsense:1'])(
    'is malformed as %s',
    (value) => {
      const [finding, ...others] = check(value);
      expect(others).toEqual([]);
      expect(finding).toMatchObject({ kind: 'malformed', severity: 'required', value });
      expect(finding?.reason).not.toContain('cannot be used');
    },
  );

  it.each([
    'backend:cudaMallocAsync',
    'expandable_segments:True,per_process_memory_fraction:0.5,large_segment_size_mb:64',
    'expandable_segments:True, roundup_power2_divisions:[256:1,512:2,>:4]',
    'per_process_memory_fraction:.5,expandable_segments:True',
  ])('is accepted as %s', (value) => {
    expect(check(value)).toEqual([]);
  });

  it('keeps what else it says when something is to be added', () => {
    expect(check('max_split_size_mb:128,expandable_segments:False')[0]).toMatchObject({
      kind: 'differs',
      severity: 'advice',
      fix: `export ${allocConf}='max_split_size_mb:128,expandable_segments:True'`,
    });
    const budget = { memoryBytes: 20 * GiB, capacityBytes: 80 * GiB, contextBytes: 0 };
    const [finding] = check('expandable_segments:True', { ...production, budget });
    expect(finding?.fix).toBe(
      `export ${allocConf}='expandable_segments:True,per_process_memory_fraction:0.25'`,
    );
    const tighter = 'expandable_segments:True,per_process_memory_fraction:0.2';
    expect(check(tighter, { ...production, budget })).toEqual([]);
  });

  it('is looked at without harm, whatever it says', () => {
    const names = [...environmentRules.map(({ name }) => name), 'PYTORCH_ALLOC_CONF'];
    const piece = fc.constantFrom('expandable_segments', 'backend', ':', ',', '[', ']', '0.5', '1');
    const text = fc.oneof(
      fc.string(),
      fc.array(piece).map((pieces) => pieces.join('')),
    );
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), text), (environment) => {
        for (const context of [production, debug]) {
          for (const { fix, reason } of checkEnvironment(environment, context)) {
            expect(fix).toMatch(/^(export|unset) [A-Z0-9_]+/);
            expect(reason).not.toBe('');
          }
        }
      }),
    );
  });
});
