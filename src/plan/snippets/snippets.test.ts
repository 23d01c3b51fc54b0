import { spawnSync } from 'node:child_process';
import * as fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { hasTorch, needsTorch, tracingPython } from '../../../test/support/needs.js';
import { optimizers, precisions } from '../../estimate/types.js';
import { type PlanSettings, zeroStages } from '../fit/types.js';
import { bitsAndBytesArguments } from '../quantization/bits-and-bytes.js';
import type { ShardingOption } from '../sharding/sharding-option.js';
import { planLines, shardingFormat } from './plan-lines.js';
import { hasAdaptersApart, planSnippet } from './plan-snippet.js';
import { frameworks, recogniseFramework } from './recognise.js';

const settings: PlanSettings = {
  batch: 4,
  accumulation: 8,
  checkpointing: true,
  precision: 'amp-bf16',
  quantization: 'none',
  offload: 'none',
  optimizer: 'adamw-fused',
  lora: 'none',
  gpus: 1,
  zero: 0,
};

/** Every combination that a plan may come to. */
const anySettings: fc.Arbitrary<PlanSettings> = fc.record({
  batch: fc.integer({ min: 1, max: 512 }),
  accumulation: fc.integer({ min: 1, max: 64 }),
  checkpointing: fc.boolean(),
  precision: fc.constantFrom(...precisions),
  quantization: fc.constant('none' as const),
  offload: fc.constantFrom('none' as const, 'optimizer'),
  optimizer: fc.constantFrom(...optimizers),
  lora: fc.constantFrom(8, 16, 64),
  gpus: fc.integer({ min: 1, max: 8 }),
  zero: fc.constantFrom(...zeroStages),
});

function inPython(program: string, input = ''): string {
  const { stdout, stderr, status } = spawnSync(
    hasTorch ? tracingPython : 'python3',
    ['-W', 'ignore', '-c', program],
    {
      input,
      encoding: 'utf8',
      env: { ...process.env, HF_HUB_OFFLINE: '1', CUDA_VISIBLE_DEVICES: '' },
    },
  );
  if (status !== 0) throw new Error(stderr.slice(-2000));
  return stdout;
}

describe('lines to paste', () => {
  it('are Python that parses, whatever the plan is', () => {
    const made: string[] = [];
    fc.assert(
      fc.property(anySettings, (given) => {
        for (const framework of ['trainer', 'lightning', 'accelerate', 'peft'] as const) {
          made.push(planSnippet(framework, given));
        }
      }),
    );
    const loading = bitsAndBytesArguments('int4', { gpuBytes: [24 * 1024 ** 3], hostBytes: 0 });
    made.push(planSnippet('peft', { ...settings, lora: 16 }, loading));
    const parse =
      'import ast, json, sys; [ast.parse(one) for one in json.load(sys.stdin)]; print("ok")';
    expect(inPython(parse, JSON.stringify(made))).toBe('ok\n');
  });

  it('hold the batch and the accumulation of the plan', () => {
    expect(planSnippet('trainer', settings)).toContain('per_device_train_batch_size=4');
    expect(planSnippet('trainer', settings)).toContain('gradient_accumulation_steps=8');
    expect(planSnippet('lightning', settings)).toContain('accumulate_grad_batches=8');
    expect(planSnippet('lightning', { ...settings, gpus: 2, zero: 3 })).toContain(
      'strategy="deepspeed_stage_3"',
    );
    expect(planSnippet('torchrun', { ...settings, gpus: 2 })).toContain(
      'torchrun --standalone --nproc-per-node=2 train.py --batch-size 4 --accumulation 8',
    );
  });

  it('begin with the adapters that a plan needs to fit', () => {
    const adapted = { ...settings, lora: 16 };
    const peft = planSnippet('peft', adapted);
    for (const framework of ['trainer', 'lightning', 'accelerate'] as const) {
      const lines = `${peft}\n\n${planSnippet(framework, settings)}`;
      expect(planSnippet(framework, adapted)).toBe(lines);
      expect(hasAdaptersApart(framework, adapted)).toBe(false);
    }
    for (const framework of ['deepspeed', 'torchrun'] as const) {
      expect(hasAdaptersApart(framework, adapted)).toBe(true);
      expect(hasAdaptersApart(framework, settings)).toBe(false);
    }
  });

  it('are JSON for DeepSpeed, whose batches agree as it asks', () => {
    fc.assert(
      fc.property(anySettings, (given) => {
        const config = JSON.parse(planSnippet('deepspeed', given));
        expect(config.train_batch_size).toBe(
          config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * given.gpus,
        );
        expect([0, 1, 2, 3]).toContain(config.zero_optimization.stage);
        expect(config.bf16?.enabled === true && config.fp16?.enabled === true).toBe(false);
      }),
    );
  });

  it('are refused where the plan has no place for them', () => {
    expect(() => planSnippet('peft', settings)).toThrow(/no adapters/);
    for (const framework of frameworks) {
      expect(() => planSnippet(framework, { ...settings, optimizer: 'none' })).toThrow(/inference/);
    }
  });
});

describe('lines to paste, run with the libraries', { ...needsTorch, tags: 'rest' }, () => {
  let printed: string[] = [];
  beforeAll(() => {
    const model = 'import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(4, 4))';
    const parts = [
      planSnippet('trainer', { ...settings, precision: 'fp32' }),
      'print(args.per_device_train_batch_size, args.gradient_accumulation_steps, args.optim)',
      planSnippet('accelerate', settings),
      'print(accelerator.gradient_accumulation_steps, accelerator.mixed_precision)',
      model,
      planSnippet('peft', { ...settings, lora: 8 }).replace('    task_type="CAUSAL_LM",\n', ''),
      'print(config.r, config.lora_alpha, type(model).__name__)',
    ];
    printed = inPython(parts.join('\n')).trim().split('\n');
  }, 600_000);

  it('make TrainingArguments, an Accelerator and a model with adapters', () => {
    expect(printed).toEqual([
      expect.stringMatching(/^4 8 .*adamw_torch_fused$/i),
      '8 bf16',
      '8 16 PeftModel',
    ]);
  });
});

const shared: ShardingOption = {
  parallel: {
    way: 'fsdp2',
    gpus: 16,
    reshard: false,
    gatherPrecision: 'bf16',
    reducePrecision: 'fp32',
  },
  precision: 'amp-bf16',
  optimizer: 'adamw-fused',
  checkpointing: true,
  batch: 2,
  accumulation: 1,
  fit: 'surely',
  givesUp: 'parameters are gathered once a pass',
};
const copies: ShardingOption = { ...shared, parallel: { way: 'ddp', gpus: 4 } };

/** The settings that accelerate launch would pass to a program started with this file. */
const launched = `
import json, sys, tempfile
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env

told = []
for text in json.load(sys.stdin)["files"]:
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        options = launch_command_parser().parse_args(["--config_file", file.name, "train.py"])
        options, *_ = _validate_launch_command(options)
        variables = prepare_multi_gpu_env(options)
        first = options.rdzv_endpoint or options.master_addr if options.num_machines > 1 else None
        told.append([options.num_processes, options.num_machines, first, variables])
names = ["ACCELERATE_USE_FSDP", "FSDP_VERSION", "FSDP_RESHARD_AFTER_FORWARD",
         "FSDP_ACTIVATION_CHECKPOINTING", "ACCELERATE_MIXED_PRECISION"]
for processes, machines, first, variables in told:
    print(processes, machines, first, *(variables.get(name) for name in names))
`;

describe('what several GPUs share', () => {
  it('is JSON for DeepSpeed: stage 3 shares parameters, 2 keeps them, 0 is copies', () => {
    const stages = [{ ...shared, parallel: { way: 'fsdp2', gpus: 16 } as const }, shared, copies];
    const files = stages.map((one) => JSON.parse(shardingFormat('deepspeed', one) ?? ''));
    expect(files.map((file) => file.zero_optimization.stage)).toEqual([3, 2, 0]);
    expect(files[0]).toMatchObject({ train_batch_size: 32, train_micro_batch_size_per_gpu: 2 });
  });

  it('has as many passes before a step as keep the effective batch', () => {
    const passes = { ...shared, accumulation: 3 };
    expect(JSON.parse(shardingFormat('deepspeed', passes) ?? '')).toMatchObject({
      train_batch_size: 96,
      train_micro_batch_size_per_gpu: 2,
      gradient_accumulation_steps: 3,
    });
    expect(shardingFormat('trainer', passes)).toContain('gradient_accumulation_steps=3,');
    expect(shardingFormat('accelerate', passes)).toContain('gradient_accumulation_steps=3)');
    expect(shardingFormat('lightning', passes)).toContain('accumulate_grad_batches=3,');
    expect(shardingFormat('torchrun', passes)).toContain('3 passes before each step');
  });

  it('says beside the file of DeepSpeed where checkpointing is switched on', () => {
    const plan = { fits: true, settings, sharding: { needed: false, chosen: shared } };
    expect(planLines('deepspeed', plan).beside).toContain('gradient_checkpointing=True');
    expect(planLines('trainer', plan)).not.toHaveProperty('beside');
    const kept = { ...shared, checkpointing: false };
    const without = { ...plan, sharding: { needed: false, chosen: kept } };
    expect(planLines('deepspeed', without)).not.toHaveProperty('beside');
    const alone = { fits: true, settings: { ...settings, checkpointing: true } };
    expect(planLines('deepspeed', alone).beside).toContain('gradient_checkpointing_enable()');
  });

  it('is written where GPUs were asked for, or where one is not enough', () => {
    const of = (fits: boolean, needed: boolean) =>
      planLines('torchrun', { fits, settings, sharding: { needed, chosen: shared } }).isShared;
    expect([of(true, false), of(true, true), of(false, true)]).toEqual([true, false, true]);
  });

  it('is code for torchrun and Lightning, and nothing for adapters', () => {
    expect(shardingFormat('torchrun', shared)).toContain('fully_shard(layer, mp_policy=policy, re');
    expect(shardingFormat('lightning', shared)).toMatch(/num_nodes=2,[^]*strategy=strategy,/);
    expect(shardingFormat('lightning', copies)).toContain('strategy="ddp"');
    expect(shardingFormat('peft', shared)).toBeUndefined();
    const uneven = { ...shared, parallel: { way: 'fsdp2', gpus: 12 } } as const;
    expect(shardingFormat('lightning', uneven)).toMatch(/devices=6,\n +num_nodes=2,/);
    expect(shardingFormat('accelerate', uneven)).toMatch(/num_machines: 2\nnum_processes: 12/);
  });

  it('says the precision and the optimizer of the plan', () => {
    const whole = {
      ...shared,
      parallel: { way: 'fsdp2', gpus: 4 },
      precision: 'fp32',
      optimizer: 'sgd',
    } as const;
    const half = { ...copies, precision: 'amp-fp16', optimizer: 'sgd-momentum' } as const;
    expect(shardingFormat('trainer', whole)).toMatch(/^(?!.*bf16)[^]*optim="sgd",/);
    expect(shardingFormat('trainer', half)).toMatch(/no name for sgd-momentum[^]*fp16=True,/);
    expect(shardingFormat('accelerate', whole)).toMatch(
      /optimizer: sgd\n[^]*mixed_precision: 'no'/,
    );
    expect(shardingFormat('accelerate', half)).toContain("mixed_precision: 'fp16'");
    expect(JSON.parse(shardingFormat('deepspeed', whole) ?? '')).not.toHaveProperty('bf16');
    expect(JSON.parse(shardingFormat('deepspeed', half) ?? '')).toHaveProperty('fp16');
    expect(shardingFormat('lightning', whole)).toContain('precision="32-true"');
    expect(shardingFormat('lightning', half)).toContain('precision="16-mixed"');
    expect(shardingFormat('torchrun', whole)).toMatch(/fully_shard\(model\)\n.*optimizer \(sgd\)/);
    expect(shardingFormat('torchrun', half)).toMatch(/dtype=torch\.float16[^]*GradScaler/);
  });

  it('starts several machines so that they find each other', () => {
    // Without a backend torchrun takes each machine for the first one.
    expect(shardingFormat('torchrun', shared)).toMatch(
      /--nnodes 2 .*--rdzv-backend c10d .*--rdzv-endpoint HOST:29500/,
    );
    expect(shardingFormat('accelerate', shared)).toMatch(
      /machine_rank: 0 {2}# 1 on the other machine\nmain_process_ip: HOST/,
    );
    expect(shardingFormat('accelerate', copies)).not.toContain('main_process_ip');
  });

  it('is code for torchrun that shards each layer of a model, whatever it is called', {
    ...needsTorch,
    tags: 'rest',
  }, () => {
    const one = { ...shared, parallel: { ...shared.parallel, gpus: 1 } };
    const code = (shardingFormat('torchrun', one) ?? '')
      .replace(/torch\.cuda\.set_device.*\n/, '')
      .replace('"nccl"', '"gloo", store=torch.distributed.HashStore(), rank=0, world_size=1');
    const small = 'n_layer=3, n_embd=8, n_head=2, vocab_size=16, n_positions=8';
    const program = [
      'from transformers import GPT2Config, GPT2LMHeadModel',
      `model = GPT2LMHeadModel(GPT2Config(${small}))`,
      code,
      'print(*(type(layer).__name__ for layer in model.transformer.h), type(model).__name__)',
    ].join('\n');
    expect(inPython(program).trim().split('\n').at(-1)).toBe(
      'FSDPGPT2Block FSDPGPT2Block FSDPGPT2Block FSDPGPT2LMHeadModel',
    );
  });

  it('is read by accelerate, and by TrainingArguments', { ...needsTorch, tags: 'rest' }, () => {
    const files = [shared, copies].map((one) => shardingFormat('accelerate', one));
    const seen = 'print(args.fsdp_plugin_args["reshard_after_forward"], args.fsdp_config)';
    const args = (shardingFormat('trainer', shared) ?? '').replace('    bf16=True,\n', '');
    const program = [launched, args, seen].join('\n');
    const lines = inPython(program, JSON.stringify({ files })).trim().split('\n');
    expect(lines.slice(0, 2)).toEqual([
      '16 2 HOST:29500 true 2 false true bf16',
      '4 1 None None None None None bf16',
    ]);
    expect(lines[2]).toMatch(/^False .*'activation_checkpointing': True/);
  });
});

describe('the framework of a project', () => {
  it.each([
    ['train.py', 'import lightning as L\n', 'lightning'],
    ['train.py', 'from pytorch_lightning import Trainer\n', 'lightning'],
    [
      'train.py',
      'from transformers import (\n    AutoModel,\n    TrainingArguments,\n)\n',
      'trainer',
    ],
    ['train.py', 'from accelerate import Accelerator\n', 'accelerate'],
    ['train.py', 'import deepspeed\n', 'deepspeed'],
    ['go.sh', 'torchrun --nproc-per-node 2 train.py\n', 'torchrun'],
    ['requirements.txt', 'numpy\nlightning==2.5  # new\n', 'lightning'],
    ['requirements-dev.txt', '# lightning\ntransformers>=5\n', 'trainer'],
    ['pyproject.toml', 'dependencies = ["torch>=2", "accelerate>=1.0"]\n', 'accelerate'],
    ['pyproject.toml', '[tool.poetry.dependencies]\npeft = "^0.12"\n', 'peft'],
  ])('%s with %j is %s', (name, text, framework) => {
    expect(recogniseFramework([{ name, text }])).toEqual({ framework, file: name });
  });

  it('is what programs import before what is required, and nothing where nothing is seen', () => {
    const files = [
      { name: 'requirements.txt', text: 'lightning\n' },
      { name: 'train.py', text: 'from accelerate import Accelerator\n' },
    ];
    expect(recogniseFramework(files)).toEqual({ framework: 'accelerate', file: 'train.py' });
    expect(
      recogniseFramework([{ name: 'a.py', text: '# import lightning\nx = 1' }]),
    ).toBeUndefined();
    expect(recogniseFramework([])).toBeUndefined();
  });

  it('takes any text', () => {
    fc.assert(
      fc.property(fc.string(), fc.constantFrom('a.py', 'requirements.txt'), (text, name) => {
        const found = recogniseFramework([{ name, text }]);
        expect(found === undefined || frameworks.includes(found.framework)).toBe(true);
      }),
    );
  });
});
