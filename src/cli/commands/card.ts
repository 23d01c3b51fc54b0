import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadSettings } from '../../config/load.js';
import { onOtherCard } from '../../estimate/assemble.js';
import { findGpu } from '../../estimate/cards/gpus.js';
import { estimate } from '../../estimate/estimate.js';
import type { Estimate } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { prepareEstimate } from '../../plan/answers/answer-estimate.js';
import type { AnswerMachine } from '../../plan/answers/machine.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import { verdictOf } from '../../report/estimate-words.js';
import { formatBytes } from '../../units/bytes.js';
import type { Known } from '../../units/known.js';
import { type CliIo, type CommandModule, printJson } from '../io.js';
import { countArgument } from '../options/arguments.js';
import { workloadMachine } from '../options/workload-options.js';

interface CardArguments {
  readonly seq?: number;
  readonly batch?: number;
  readonly gpus?: readonly string[];
  readonly json?: boolean;
}

/** The ways to use a model that people ask about, the largest first. */
const methods: readonly (readonly [name: string, request: Partial<WorkloadRequest>])[] = [
  ['full training, fp32', { mode: 'train', precision: 'fp32' }],
  ['full training, mixed bf16', { mode: 'train', precision: 'amp-bf16' }],
  [
    'full training, mixed bf16, checkpointing',
    { mode: 'train', precision: 'amp-bf16', checkpointing: true },
  ],
  [
    'LoRA 16, bf16, checkpointing',
    { mode: 'train', precision: 'bf16', lora: 16, checkpointing: true },
  ],
  [
    'QLoRA 16, 4 bits, checkpointing',
    { mode: 'train', precision: 'bf16', lora: 16, quantization: 'int4', checkpointing: true },
  ],
  ['inference, bf16', { mode: 'infer', precision: 'bf16' }],
  ['inference, 8 bits', { mode: 'infer', precision: 'bf16', quantization: 'int8' }],
  ['inference, 4 bits', { mode: 'infer', precision: 'bf16', quantization: 'int4' }],
];
const usualCards = ['t4', '4090', 'l40s', 'a100-80gb', 'h200'];

/** A table for the README of a model: the memory of each method, and the cards that have it. */
export const cardCommand: CommandModule = {
  define(command, { io, action }) {
    command
      .argument('<model>', 'a name, a config.json, a folder')
      .option('--batch <n>', 'samples in a batch', countArgument('--batch'), 1)
      .option('--seq <n>', 'sequence length in tokens', countArgument('--seq'), 2048)
      .option('--gpus <names...>', `cards to show (${usualCards.join(' ')})`)
      .option('--json', 'print one JSON document on stdout')
      .addHelpText(
        'after',
        `
The table is Markdown, estimated by formula: no Python is needed.

Examples:
  plimsoll card llama-3-8b
  plimsoll card qwen2.5-7b --seq 4096 --gpus 4090 h100 >> README.md`,
      )
      .action(action((model: string, given: CardArguments) => card(model, given, io)));
  },
};

async function card(model: string, given: CardArguments, io: CliIo): Promise<number> {
  const settings = await loadSettings({ folder: io.folder, environment: io.environment });
  const machine = workloadMachine(settings, io, {});
  const cards = (given.gpus ?? usualCards).map((name) => findGpu(name, settings.gpus));
  const { batch = 1, seq = 2048 } = given;
  const [first = findGpu('h200')] = cards;
  const named = existsSync(resolve(io.folder, model)) ? resolve(io.folder, model) : model;
  const rows: {
    method: string;
    peakBytes: Known<number>;
    cards: { name: string; fits: string }[];
  }[] = [];
  for (const [method, request] of methods) {
    const asked = { model: named, batch, seq, method: 'formula', optimizer: 'adamw', ...request };
    const found = await estimateOrUnknown({ ...asked, gpu: first.name }, machine);
    const fits = cards.map((gpu) => ({
      name: gpu.name,
      fits: found ? verdictOf(onOtherCard(found, first, gpu), gpu).fits : 'unknown',
    }));
    rows.push({ method, peakBytes: found ? found.peak.deviceBytes : 'unknown', cards: fits });
  }
  if (given.json) printJson(io, { model, batch, seq, methods: rows });
  else io.stdout.write(cardMarkdown(model, batch, seq, cards, rows));
  return 0;
}

async function estimateOrUnknown(
  request: WorkloadRequest,
  machine: AnswerMachine,
): Promise<Estimate | undefined> {
  try {
    return await estimate(await prepareEstimate(request, machine), machine);
  } catch (error) {
    // A method that a model does not have is no error of the table; a name that is unknown is.
    if (error instanceof Failure && error.code !== 'unknown-model') return undefined;
    throw error;
  }
}

const marks: Readonly<Record<string, string>> = {
  yes: 'yes',
  barely: 'tight',
  no: 'no',
  unknown: '?',
};

function cardMarkdown(
  model: string,
  batch: number,
  seq: number,
  cards: readonly { readonly name: string; readonly capacityBytes: number }[],
  rows: readonly { method: string; peakBytes: Known<number>; cards: readonly { fits: string }[] }[],
): string {
  const heads = cards.map(
    ({ name, capacityBytes }) =>
      `${name.replace(/^(?:NVIDIA|AMD) (?:GeForce )?/, '')}, ${formatBytes(capacityBytes)}`,
  );
  return [
    `Memory of ${model}, batch ${batch}, ${seq} tokens, AdamW (estimated by plimsoll):`,
    '',
    `| method | peak | ${heads.join(' | ')} |`,
    `| --- | ---: |${' :---: |'.repeat(heads.length)}`,
    ...rows.map(
      ({ method, peakBytes, cards: fits }) =>
        `| ${method} | ${peakBytes === 'unknown' ? 'unknown' : formatBytes(peakBytes)} | ${fits.map((one) => marks[one.fits] ?? one.fits).join(' | ')} |`,
    ),
    '',
  ].join('\n');
}
