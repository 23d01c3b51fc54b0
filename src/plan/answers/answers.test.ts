import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { Failure } from '../../failure.js';
import { formatBytes, GiB } from '../../units/bytes.js';
import { sureBytes } from '../fit/fit.js';
import { answerEstimate, prepareEstimate } from './answer-estimate.js';
import { answerPlan } from './answer-plan.js';
import { estimateAssumptions, knownNames, planAssumptions } from './assumptions.js';
import type { AnswerMachine } from './machine.js';
import { checkRequest } from './read-workload.js';
import { fieldWording, formWording } from './wording.js';

const gpt2 = join(root, 'bench/truth/configs/gpt2.json');
const machine: AnswerMachine = {
  environment: {},
  folder: root,
  hostBytes: 64 * GiB,
  wording: fieldWording,
  gpusHere: async () => [{ id: 'gpu:0', name: 'Tesla T4', totalBytes: 15 * GiB }],
};
const withoutGpu: AnswerMachine = { ...machine, gpusHere: async () => [] };
const job = { model: gpt2, batch: 8, seq: 512, method: 'formula' };

async function failure(asked: Promise<unknown>): Promise<Failure> {
  const error: unknown = await asked.then(
    () => 'an answer',
    (reason: unknown) => reason,
  );
  if (error instanceof Failure) return error;
  throw new Error(`no Failure but ${String(error)}`);
}

describe('answerEstimate', () => {
  it('answers as the contract says, for the card that is here', async () => {
    const answer = await answerEstimate(job, machine);
    expect(Object.keys(answer)).toEqual([
      'method',
      'peak',
      'interval',
      'breakdown',
      'spill',
      'notes',
      'savings',
      'gpu',
      'recommendedQuantization',
    ]);
    expect(answer.gpu).toMatchObject({ name: 'Tesla T4', capacityBytes: 15 * GiB });
    expect(answer.gpu.context.highBytes).toBeGreaterThan(answer.gpu.context.lowBytes);
    expect(answer.notes[0]).toBe('This is for gpu:0, which was found here.');
    const larger = await answerEstimate({ ...job, batch: 16 }, machine);
    expect(larger.peak.allocatedBytes).toBeGreaterThan(answer.peak.allocatedBytes);
  });

  it('recommends a quantization for the same batch and card, by the figures beside it', async () => {
    const model = join(root, 'bench/truth/configs/llama-2-7b.json');
    const asked = {
      model,
      mode: 'infer',
      seq: 4096,
      precision: 'bf16',
      method: 'formula',
    } as const;
    const ask = (batch: number, more = {}) =>
      answerEstimate({ ...asked, batch, gpu: '4090', ...more }, machine);
    const small = await ask(1);
    expect(small.recommendedQuantization).toEqual({
      preset: 'fp16',
      training: 'none',
      reason: `It is the most precise preset: it needs ${formatBytes(small.peak.leastCapacityBytes)} of the 24.0 GiB of this card (estimated).`,
    });
    const larger = await ask(4);
    const eight = larger.savings?.find(({ settings }) => settings.quantization === 'int8');
    expect(larger.peak.leastCapacityBytes).toBeGreaterThan(24 * GiB);
    expect(larger.recommendedQuantization?.preset).toBe('int8');
    expect(larger.recommendedQuantization?.reason).toContain(
      `it needs ${formatBytes(eight?.leastCapacityBytes ?? 0)} of the 24.0 GiB`,
    );
    const largest = (await ask(256)).recommendedQuantization;
    expect(largest?.preset).toBe('none');
    expect(largest?.reason).toContain('No preset makes this workload surely fit the 24.0 GiB');
    expect(await ask(1, { quantization: 'int4' })).not.toHaveProperty('recommendedQuantization');
  });

  it('takes cards of the configuration, and null as left out', async () => {
    const gpus = [{ name: 'Lab card', capacityBytes: 10 * GiB }];
    const request = { ...job, gpu: 'Lab card', precision: null, lora: undefined };
    // As it comes from JSON.
    const parsed = JSON.parse(JSON.stringify(request));
    const { method, gpu } = await answerEstimate(parsed, { ...machine, gpus });
    expect(method).toBe('formula');
    expect(gpu).toMatchObject({ name: 'Lab card', capacityBytes: 10 * GiB });
  });

  it.each([
    [{ ...job, batch: 0 }, 'bad-field', '"batch" cannot be "0".'],
    [{ ...job, batch: 1.5 }, 'bad-field', '"batch" cannot be "1.5".'],
    [{ ...job, batch: '8' }, 'bad-field', '"batch" cannot be "8".'],
    [{ ...job, batch: 2 ** 40 }, 'bad-field', '"batch" cannot be "1099511627776".'],
    [{ ...job, precision: 'fp8' }, 'bad-field', '"precision" cannot be "fp8".'],
    [{ ...job, optimizer: 'lion' }, 'bad-field', '"optimizer" cannot be "lion".'],
    [{ ...job, mode: ['train'] }, 'bad-field', '"mode" cannot be "["train"]".'],
    [{ ...job, quantization: 'int2' }, 'bad-field', '"quantization" cannot be "int2".'],
    [{ ...job, method: 'guess' }, 'bad-field', '"method" cannot be "guess".'],
    [{ ...job, checkpointing: 'yes' }, 'bad-field', '"checkpointing" cannot be "yes".'],
    [{ ...job, model: '' }, 'bad-field', '"model" cannot be "".'],
    [{ ...job, model: 'a\0b' }, 'bad-field', '"model" cannot be'],
    [
      { ...job, model: 'gpt2.json' },
      'bad-usage',
      '"model" is "gpt2.json", which is not an absolute',
    ],
    [{ ...job, precison: 'bf16' }, 'unknown-field', 'A workload has no "precison".'],
    [{ ...job, memoryBytes: GiB }, 'unknown-field', 'A workload has no "memoryBytes".'],
    [{ ...job, gpu: 'nonsense' }, 'unknown-gpu', 'nonsense'],
    [{ ...job, model: 'bananas' }, 'unknown-model', 'bananas'],
    [{ ...job, parameters: 0 }, 'bad-field', '"parameters" cannot be "0".'],
    [{ ...job, parameters: 7e9 }, 'bad-usage', 'Both "model" and "parameters" were given.'],
    [{}, 'bad-usage', 'No model was given.'],
    [{ ...job, script: '/a.py' }, 'bad-usage', 'Both "model" and "script" were given.'],
    [{ ...job, args: { a: '1' } }, 'bad-usage', '"args" is for a "script"'],
    [{ ...job, args: { 'a b': '1' } }, 'bad-field', '"args" cannot be'],
    [{ script: '/a.py', args: { a: 1 } }, 'bad-field', '"args" cannot be'],
    [{ script: '/a.py', batch: 8 }, 'bad-usage', '"batch" does not reach a script.'],
    [{ type: 'cnn', batch: 8 }, 'bad-usage', '"type" and "size" go together.'],
    [{ type: 'tree', size: 'small' }, 'bad-field', '"type" cannot be "tree".'],
    [{ ...job, model: '/nowhere/at/all' }, 'no-file', '/nowhere/at/all'],
  ])('refuses %j', async (request, code, fact) => {
    // As it comes from JSON: the types of TypeScript hold nothing there.
    const error = await failure(answerEstimate(Object(request), machine));
    expect(error).toMatchObject({ code, kind: 'input' });
    expect(error.fact).toContain(fact);
    expect(error.next).not.toBe('');
  });

  it('suggests the field that was meant', async () => {
    const error = await failure(answerEstimate(Object({ ...job, sequ: 1 }), machine));
    expect(error.next).toBe('Did you mean "seq"?');
  });
});

describe('assumedPrecision', () => {
  const decoder = { model_type: 'llama', hidden_size: 64, num_hidden_layers: 2, vocab_size: 256 };
  const sizes = { num_attention_heads: 4, intermediate_size: 128, max_position_embeddings: 512 };
  const cards = { old: 'Tesla T4', new: 'NVIDIA H200' };

  it.each([
    ['a family published in bf16', { ...decoder }, {}, 'amp-bf16'],
    ['its inference', { ...decoder }, { mode: 'infer' }, 'bf16'],
    ['its adapters', { ...decoder }, { lora: 8 }, 'bf16'],
    ['a type in the config', { ...decoder, dtype: 'float16' }, { mode: 'infer' }, 'fp16'],
    ['32 bits in the config', { ...decoder, torch_dtype: 'float32' }, {}, 'undefined'],
    ['a card without bf16', { ...decoder }, { gpu: cards.old }, 'amp-fp16'],
    ['adapters on such a card', { ...decoder }, { gpu: cards.old, lora: 8 }, 'fp16'],
    ['a family of 32 bits', { model_type: 'gpt2' }, {}, 'undefined'],
    ['a precision that was given', { ...decoder }, { precision: 'fp32' }, 'fp32'],
  ])('is for %s what people take', async (_, config, asked, expected) => {
    const model = join(mkdtempSync(join(tmpdir(), 'plimsoll-precision-')), 'config.json');
    writeFileSync(model, JSON.stringify({ ...config, ...sizes }));
    onTestFinished(() => rmSync(dirname(model), { recursive: true }));
    const request = { gpu: cards.new, ...asked, model, method: 'formula' };
    const { workload, notes } = await prepareEstimate(request, machine);
    expect(workload.precision).toBe(expected === 'undefined' ? 'fp32' : expected);
    const isAssumed = expected !== 'undefined' && !('precision' in asked);
    const note = `No "precision" was given: ${expected} is assumed;`;
    expect(notes.some((one) => one.startsWith(note))).toBe(isAssumed);
    // The largest batch is searched with the same settings.
    const limits = { ...request, memoryBytes: 4 * GiB, maxBatch: true };
    const plan = await answerPlan(limits, machine);
    expect(plan.settings.precision).toBe(workload.precision);
  });
});

describe('answerPlan', () => {
  it('answers as the contract says', async () => {
    const plan = await answerPlan({ ...job, batch: 64, memoryBytes: 8 * GiB }, machine);
    expect(Object.keys(plan).slice(0, 4)).toEqual(['fits', 'settings', 'estimate', 'alternatives']);
    expect(plan.fits).toBe(true);
    expect(plan.settings.batch * plan.settings.accumulation).toBe(64);
    expect(plan.budget.memoryBytes).toBe(8 * GiB);
  });

  it('says no where nothing fits', async () => {
    const fixed = { ...job, precision: 'fp32', optimizer: 'adamw', offload: 'none', batch: 1 };
    const { fits } = await answerPlan({ ...fixed, memoryBytes: GiB / 4, maxBatch: true }, machine);
    expect(fits).toBe(false);
  });

  it('plans for the card that is here, where neither memory nor a card is given', async () => {
    const { budget, notes } = await answerPlan(job, machine);
    expect(budget.memoryBytes).toBe(15 * GiB);
    expect(notes).toContain('This is for gpu:0, which was found here.');
    const more = await answerPlan({ ...job, memoryBytes: 40 * GiB }, machine);
    expect(more.budget.memoryBytes).toBe(40 * GiB);
  });

  it('counts the context into "memoryBytes", and not into "allocatorMemoryBytes"', async () => {
    const asked = { ...job, batch: 64, method: 'formula' } as const;
    const device = await answerPlan({ ...asked, memoryBytes: 8 * GiB }, withoutGpu);
    const { contextBytes } = device.budget;
    expect(contextBytes).toBeGreaterThan(256 * 1024 ** 2);
    expect(device.budget).toEqual({
      memoryBytes: 8 * GiB,
      contextBytes,
      allocatorMemoryBytes: 8 * GiB - contextBytes,
    });
    expect(sureBytes(device.estimate)).toBeLessThanOrEqual(8 * GiB);
    const allocator = await answerPlan({ ...asked, allocatorMemoryBytes: 8 * GiB }, withoutGpu);
    expect(allocator.budget).toMatchObject({
      memoryBytes: 8 * GiB + contextBytes,
      allocatorMemoryBytes: 8 * GiB,
    });
    expect(allocator.notes.join()).toContain("PyTorch's allocator may hold 8.0 GiB");
    const same = { ...asked, memoryBytes: 8 * GiB + contextBytes };
    expect((await answerPlan(same, withoutGpu)).settings).toEqual(allocator.settings);
    const tiny = await answerPlan({ ...asked, memoryBytes: 64 * 1024 ** 2 }, withoutGpu);
    expect([tiny.fits, tiny.budget.allocatorMemoryBytes]).toEqual([false, 0]);
  });

  it('says how to load weights that are rounded', async () => {
    const model = join(root, 'bench/truth/configs/llama-2-7b.json');
    const request = { model, mode: 'infer', batch: 1, seq: 1024, method: 'formula' };
    const plan = await answerPlan({ ...request, memoryBytes: 10 * GiB }, machine);
    expect(plan.loading).toMatchObject({ device_map: 'auto' });
    expect(plan.settings.quantization).toBe('int8');
  });

  it.each([
    [{ ...job }, 'The memory budget is missing.'],
    [{ ...job, memoryBytes: '8GiB' }, '"memoryBytes" cannot be "8GiB".'],
    [{ ...job, memoryBytes: 0 }, '"memoryBytes" cannot be "0".'],
    [{ ...job, allocatorMemoryBytes: 0 }, '"allocatorMemoryBytes" cannot be "0".'],
    [
      { ...job, memoryBytes: GiB, allocatorMemoryBytes: GiB },
      'Both "memoryBytes" and "allocatorMemoryBytes" were given.',
    ],
    [{ ...job, memoryBytes: GiB, zero: 4 }, '"zero" cannot be "4".'],
    [{ ...job, memoryBytes: GiB, offload: 'all' }, '"offload" cannot be "all".'],
    [{ ...job, memoryBytes: GiB, gpus: 2 ** 20 + 1 }, '1048577 GPUs are more than can be traced.'],
    [{ ...job, memoryBytes: GiB, gpus: 3, batch: 4 }, 'A batch of 4 cannot be'],
    [{ type: 'cnn', size: 'small', memoryBytes: GiB }, 'A plan needs more than a type and a size'],
    [{ script: '/a.py', memoryBytes: GiB, batch: 2 }, '"batch" does not reach the script'],
  ])('refuses %j', async (request, fact) => {
    const error = await failure(answerPlan(Object(request), withoutGpu));
    expect(error.fact).toContain(fact);
  });
});

describe('what is taken for what was left out', () => {
  const open = { model: gpt2, method: 'formula' };
  it('is what the estimate takes, by the names of a request', async () => {
    const assumed = await estimateAssumptions(open, machine);
    expect(assumed).toMatchObject({ mode: 'train', batch: 1, seq: 1024, gpu: 'Tesla T4' });
    const [one, other] = await Promise.all([
      answerEstimate(open, machine),
      answerEstimate({ ...open, ...assumed }, machine),
    ]);
    expect(other.peak).toEqual(one.peak);
    expect(await estimateAssumptions({ ...open, seq: 64 }, machine)).not.toHaveProperty('seq');
  });

  it('is of a plan only what the plan does not choose, with no budget', async () => {
    expect(await planAssumptions(open, withoutGpu)).toEqual({
      mode: 'train',
      seq: 1024,
      keep: 'loss',
    });
  });

  it('is of a server of requests what follows from its model', async () => {
    const assumed = await estimateAssumptions({ mode: 'serve', model: gpt2 }, machine);
    expect(assumed).toMatchObject({ engine: 'vllm', maxModelLen: 1024, gpuMemoryUtilization: 0.9 });
  });

  it('is refused as the estimate is', async () => {
    const error = await failure(estimateAssumptions({ model: '/nowhere' }, machine));
    expect(error.code).toBe('no-file');
  });

  it('lists the names of models and cards, and the card of a request that names none', async () => {
    const { models, gpus, gpu } = await knownNames(machine);
    expect(models).toContain('openai-community/gpt2');
    expect(gpus).toContainEqual(expect.objectContaining({ name: 'NVIDIA H200' }));
    expect(gpu).toEqual({ name: 'Tesla T4', isHere: true });
    expect((await knownNames(withoutGpu)).gpu).toEqual({ name: 'NVIDIA H200', isHere: false });
  });
});

describe('errors and notes for those who fill in a form', () => {
  const form: AnswerMachine = { ...withoutGpu, wording: formWording };
  const withParallel = { ...job, parallel: 'fsdp2', gpus: 1 };
  it.each([
    ['plan', job, 'Give "Memory": 24GiB, or name the card with "Card".', 'memoryBytes'],
    ['estimate', { ...job, model: 'nothere' }, 'Name a folder with its config.json.', 'model'],
    ['estimate', { ...job, gpu: 'nothere' }, 'Known are h200, h100,', 'gpu'],
    ['estimate', withParallel, 'Say how many, such as "Devices": 8.', undefined],
    ['plan', { ...job, memoryBytes: GiB, quantization: 'cpu', mode: 'train' }, '', undefined],
  ] as const)('a %s of %j', async (kind, request, next, field) => {
    const asked = kind === 'plan' ? answerPlan(request, form) : answerEstimate(request, form);
    const error = await failure(asked);
    expect(error.next).toContain(next);
    expect(error.field).toBe(field);
    expect(error.message).not.toMatch(/--[a-z]|"[a-z]\w*":|JSON/);
  });

  it('name no field of a request, and no option', async () => {
    const { notes } = await answerEstimate({ model: gpt2, method: 'formula' }, form);
    expect(notes.join('\n')).toContain('No "Tokens of a sequence" was given: 1024 is assumed');
    expect(notes.join('\n')).toContain('"Kept until the next step": outputs');
    expect(notes.join('\n')).not.toMatch(/--[a-z]|"[a-z]\w*":|"(?:seq|batch|gpu)"/);
  });
});

describe('checkRequest', () => {
  it('answers or throws a Failure, whatever comes', () => {
    const fields = ['model', 'script', 'args', 'batch', 'gpu', 'mode', 'zero', 'memoryBytes', 'x'];
    const request = fc.dictionary(fc.constantFrom(...fields), fc.jsonValue());
    fc.assert(
      fc.property(request, fc.constantFrom('estimate', 'plan'), (given, purpose) => {
        try {
          const checked = checkRequest(Object(given), fieldWording, purpose);
          for (const [field, value] of Object.entries(checked)) {
            if (value !== undefined) expect(given).toHaveProperty(field);
          }
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});
