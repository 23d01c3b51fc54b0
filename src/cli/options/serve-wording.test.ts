import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { root } from '../../../test/support/project-files.js';
import { defaultSettings } from '../../config/settings.js';
import { Failure } from '../../failure.js';
import { gguf, ggufFile } from '../../model/files-for-tests.js';
import { answerEstimate } from '../../plan/answers/answer-estimate.js';
import { answerPlan } from '../../plan/answers/answer-plan.js';
import { startTestServer, type TestServer } from '../../server/server-for-tests.js';
import { serveAnswers } from '../../server/service/serve-answers.js';
import { GiB } from '../../units/bytes.js';
import { optionWording } from './workload-options.js';

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-wording-'));
const python = join(folder, 'no-python');
const gpt2 = join(root, 'bench/truth/configs/gpt2.json');
const inFolder = (name: string, content: string | Buffer) => {
  writeFileSync(join(folder, name), content);
  return join(folder, name);
};
const unknown = inFolder('unknown.json', '{"model_type":"rwkv9"}');
const odd = inFolder('odd.json', '{"model_type":"gpt2","activation_function":"odd"}');
const headless = inFolder('base.json', '{"model_type":"vit","architectures":["ViTModel"]}');
const wave = inFolder('wave.json', '{"model_type":"wav2vec2"}');
const packed = inFolder(
  'packed.gguf',
  ggufFile({
    keys: {
      'general.architecture': gguf.text('llama'),
      'llama.context_length': gguf.u32(256),
      'llama.block_count': gguf.u32(1),
      'llama.embedding_length': gguf.u32(64),
      'llama.feed_forward_length': gguf.u32(128),
      'llama.attention.head_count': gguf.u32(2),
      'llama.vocab_size': gguf.u32(32),
    },
    tensors: [{ name: 'token_embd.weight', sizes: [64, 32], type: 0, offset: 0 }],
    dataBytes: 64 * 32 * 4,
  }),
);
const job = { model: gpt2, batch: 8, seq: 64, method: 'formula' };
const plan = { ...job, memoryBytes: 8 * GiB };
const serving = { ...plan, mode: 'infer' };

/** What is asked, and what is said of it to those who send JSON and to those who type options. */
const estimates: readonly (readonly [request: object, fields: string, options: string])[] = [
  [
    { ...job, seq: undefined },
    'No "seq" was given: 1024 is assumed',
    'No --seq was given: 1024 is assumed',
  ],
  [
    { ...job, model: wave, seq: undefined },
    'No "seq" was given: 160000 is assumed',
    'No --seq was given: 160000 is assumed',
  ],
  [
    { ...job, model: unknown, seq: undefined, method: 'auto' },
    'Neither "seq" nor "image" was given.',
    'Neither --seq nor --image was given.',
  ],
  [
    { ...job, mode: 'infer', quantization: 'cpu' },
    'leave "quantization" out.',
    'leave --quantization out.',
  ],
  [{ ...job, quantization: 'int4' }, 'add "lora": 16.', 'add --lora 16.'],
  [{ model: 'torchvision:resnet50', batch: 1, method: 'formula' }, '"method"', '--method'],
  [{ script: '/a.py', method: 'formula' }, 'Leave "method" out.', 'Leave --method out.'],
  [{ script: '/a.py', batch: 8 }, '"args": {"batch":"8"}', '--arg batch=8'],
  [
    { ...job, model: unknown },
    'trace the model: "method": "trace", where',
    '--method trace, where',
  ],
  [{ ...job, model: odd }, 'Trace the model instead: "method": "trace", where', '--method trace, '],
  [{ ...job, model: headless }, 'instead: "method": "trace", where', '--method trace, where'],
  [{ ...job, model: packed }, 'or use "mode": "infer".', 'or use --mode infer.'],
  [
    { ...job, model: packed, mode: 'infer', method: 'trace' },
    '"method": "formula" takes it.',
    '--method formula takes it.',
  ],
  [
    { ...job, method: 'trace' },
    'or have the server started with another.',
    'or name another with --python.',
  ],
  // These have an answer, with notes.
  [job, 'another is named with "gpu".', 'another is named with --gpu.'],
  [{ ...job, method: 'auto' }, 'have the server started with', 'name another with --python.'],
];

const plans: typeof estimates = [
  [job, 'Give "memoryBytes": 25769803776,', 'Give --memory 24GiB,'],
  [
    { ...plan, gpus: 3 },
    'Use a "batch" that is a multiple of 3.',
    'Use a --batch that is a multiple of 3.',
  ],
  [
    { ...serving, quantization: 'cpu' },
    'With "quantization": "cpu" no GPU',
    'With --quantization cpu no GPU',
  ],
  [{ ...serving, gpus: 2 }, 'Leave "gpus" out.', 'Leave --gpus out.'],
  [
    { script: '/a.py', memoryBytes: GiB, maxBatch: true },
    '"maxBatch" does not reach',
    '--max-batch does not reach',
  ],
  // These have an answer, with notes.
  [{ ...serving, batch: undefined }, 'No "batch" was given', 'No --batch was given'],
  [{ ...serving, seq: undefined }, 'No "seq" was given', 'No --seq was given'],
  [{ ...serving, offload: 'optimizer' }, 'Leave "offload" out.', 'Leave --offload out.'],
  [
    { ...serving, offload: 'weights' },
    'with "quantization": "int4_offload" only. Take that, with "mode": "infer".',
    'with --quantization int4_offload only. Take that, with --mode infer.',
  ],
  [{ ...plan, zero: 1 }, 'Say how many with "gpus".', 'Say how many with --gpus.'],
];

/** All that people read of an answer, or of an error. */
const read = z.union([
  z.object({ error: z.object({ fact: z.string(), next: z.string() }) }),
  z.object({
    notes: z.array(z.string()),
    estimate: z.object({ notes: z.array(z.string()) }).optional(),
  }),
]);

function textOf(answer: unknown): string {
  const found = read.parse(answer);
  if ('error' in found) return `${found.error.fact} ${found.error.next}`;
  return [...found.notes, ...(found.estimate?.notes ?? [])].join('\n');
}

async function said(answer: Promise<unknown>): Promise<string> {
  try {
    return textOf(await answer);
  } catch (error) {
    if (error instanceof Failure) return `${error.fact} ${error.next}`;
    throw error;
  }
}

const discovery = {
  devices: [],
  notes: [],
  rescan: async () => ({ appeared: [], vanished: [] }),
  close: () => undefined,
};
const answers = serveAnswers(
  defaultSettings,
  discovery,
  { environment: {}, folder, home: folder, version: '1' },
  python,
);
let server: TestServer;
beforeAll(async () => {
  server = await startTestServer({ answers });
});
afterAll(async () => {
  await server.close();
  rmSync(folder, { recursive: true });
});

describe('the server names fields, and never an option', () => {
  it.each(estimates)('of an estimate of %j', async (request, fields) => {
    const text = textOf(await (await server.send('POST', '/estimate', request)).json());
    expect(text).toContain(fields);
    expect(text).not.toContain('--');
  });

  it.each(plans)('of a plan of %j', async (request, fields) => {
    const text = textOf(await (await server.send('POST', '/plan', request)).json());
    expect(text).toContain(fields);
    expect(text).not.toContain('--');
  });
});

describe('the command names options, and never a field', () => {
  const machine = {
    environment: {},
    folder,
    python,
    gpusHere: async () => [],
    hostBytes: 64 * GiB,
    wording: optionWording,
  };

  it.each(estimates)('of an estimate of %j', async (request, _, options) => {
    const text = await said(answerEstimate(request, machine));
    expect(text).toContain(options);
    expect(text).not.toMatch(/"(batch|seq|image|mode|method|lora|quantization|gpu)"/);
  });

  it.each(plans)('of a plan of %j', async (request, _, options) => {
    const text = await said(answerPlan(request, machine));
    expect(text).toContain(options);
    expect(text).not.toMatch(/"(batch|seq|image|mode|offload|quantization|gpus?|memoryBytes)"/);
  });
});
